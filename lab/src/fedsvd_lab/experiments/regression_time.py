"""Figure 5a: the time of regression over m, ours against the SGD peers."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fedsvd_lab.datasets import synthetic
from fedsvd_lab.experiments.context import Context
from fedsvd_lab.experiments.ours import METHODS, dealt, regress
from fedsvd_lab.experiments.peers import measured_peers
from fedsvd_lab.experiments.rows import EXTRAPOLATED, Case, Measurement

TIME = "time"


def cases(settings: Mapping[str, Any], context: Context) -> Iterator[Case]:
    """Ours at every m; the peers measured at one small size and carried to every m."""
    n = settings["n"]
    for m in settings["m"]:
        yield Case({"m": m, "n": n, "of": "FedSVD"}, _ours(m, n, context))
    yield Case({"n": n, "of": "peers", "m": settings["m"][-1]}, _peers(n, settings, context))


def _ours(m: int, n: int, context: Context) -> Callable[[], Iterator[Measurement]]:
    def run() -> Iterator[Measurement]:
        X, y = synthetic.regression(m, n, seed=context.seed)
        parts = dealt(X)
        for method in METHODS:
            ran = regress(parts, y, method)
            yield Measurement(method, TIME, ran.seconds, "s", scheme=ran.scheme)

    return run


def _peers(n: int, settings: Mapping[str, Any], context: Context) -> Callable[[], Iterator[Measurement]]:
    def run() -> Iterator[Measurement]:
        for peer in measured_peers(settings["peers"], context):
            for m in settings["m"]:
                estimated = settings["epochs"] * peer.seconds(m, n)
                yield Measurement(
                    peer.method(settings["epochs"]), TIME, estimated, "s", {"m": m}, EXTRAPOLATED, note=peer.note
                )

    return run
