"""Bandwidth and round-trip sweeps of SVD and regression (figures 4c, 4d, 5b, 5c): processes behind a slow line.

For regression the peers are put next to ours: their work is measured for one gradient step without a network, and
rounds and bytes of a step go over a line of the same rate and round trip by arithmetic; so their rows are extrapolated.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fedsvd.types import Float
from fedsvd_lab.datasets import synthetic
from fedsvd_lab.experiments.context import Context
from fedsvd_lab.experiments.ours import METHODS, dealt
from fedsvd_lab.experiments.peers import Peer, measured_peers
from fedsvd_lab.experiments.rows import EXTRAPOLATED, Case, Measurement
from fedsvd_lab.experiments.wired import Condition, wired

TIME, TRAFFIC = "time", "bytes sent"


def cases(settings: Mapping[str, Any], context: Context) -> Iterator[Case]:
    """One case to each condition of the network; the peers are measured once, in a case of their own."""
    task, (m, n) = settings["task"], settings["shape"]
    conditions = [Condition(1e6 * rate, 1e-3 * ms) for rate in settings["mbit"] for ms in settings["rtt_ms"]]
    for condition in conditions:
        yield Case({"task": task, "m": m, "n": n, **_case(condition)}, _ours(task, m, n, condition, context))
    if task == "lr":
        yield Case({"task": task, "m": m, "n": n, "of": "peers"}, _peers(m, n, conditions, settings, context))


def _case(condition: Condition) -> dict[str, float]:
    return {"mbit": condition.rate / 1e6, "rtt_ms": round(1e3 * condition.round_trip, 6)}


def _data(task: str, m: int, n: int, seed: int) -> tuple[Float, Float | None]:
    if task == "lr":
        return synthetic.regression(m, n, seed=seed)
    return synthetic.power_law_of_the_code(m, n, seed=seed), None


def _ours(task: str, m: int, n: int, condition: Condition, context: Context) -> Callable[[], Iterator[Measurement]]:
    def run() -> Iterator[Measurement]:
        X, y = _data(task, m, n, context.seed)
        with wired(condition, task, dealt(X), y, context.scratch) as line:
            for method in METHODS:
                done = line.run(method)
                for metric, value, unit in ((TIME, done.seconds, "s"), (TRAFFIC, done.bytes_total, "bytes")):
                    yield Measurement(method, metric, value, unit, scheme=done.scheme, network=line.network)

    return run


def _peers(
    m: int, n: int, conditions: list[Condition], settings: Mapping[str, Any], context: Context
) -> Callable[[], Iterator[Measurement]]:
    def run() -> Iterator[Measurement]:
        for peer in measured_peers(settings["peers"], context):
            for condition in conditions:
                estimated = _over(peer, m, n, settings["epochs"], condition)
                yield Measurement(
                    peer.method(settings["epochs"]),
                    TIME,
                    estimated,
                    "s",
                    _case(condition),
                    EXTRAPOLATED,
                    network="by arithmetic on rounds and bytes",
                    note=peer.note,
                )

    return run


def _over(peer: Peer, m: int, n: int, epochs: int, condition: Condition) -> float:
    step = peer.seconds(m, n) + peer.rounds * condition.round_trip + 8 * peer.bytes(m, n) / condition.rate
    return epochs * step
