"""SVD time and bytes over n (figures 2b, 4a, 4b): ours against PPD-SVD, measured where it can be, extrapolated beyond.

Both sides run on this machine without a network, so that a ratio is one of work. PPD-SVD's cost is a sum of encryptions
(m n_1), powers (m n_1 n_2) and decryptions (n_1 n_2), divided by the slots of a plaintext; unit costs come from the
largest run, and the sum gives larger sizes. That is how the paper's 15 years came about, too.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fedsvd.types import Float
from fedsvd_lab.baselines.paillier import new_key
from fedsvd_lab.baselines.pool import workers
from fedsvd_lab.baselines.ppd_svd import PpdSvd, ppd_svd
from fedsvd_lab.datasets import synthetic
from fedsvd_lab.experiments.context import Context
from fedsvd_lab.experiments.ours import METHODS, dealt, factorise
from fedsvd_lab.experiments.rows import EXTRAPOLATED, Case, Measurement

TIME, WORK, TRAFFIC = "time", "processor time", "bytes sent"


@dataclass(frozen=True)
class Rival:
    """One way of running PPD-SVD."""

    name: str
    bits: int
    packed: bool


RIVALS = {
    "1024": Rival("PPD-SVD, 1024 bits", 1024, False),
    "1024-packed": Rival("PPD-SVD, 1024 bits, batched", 1024, True),
    "2048-packed": Rival("PPD-SVD, 2048 bits, batched", 2048, True),
}


def cases(settings: Mapping[str, Any], context: Context) -> Iterator[Case]:
    """Ours at every n, then each rival at its own; the last n of a rival carries the extrapolation."""
    m = settings["m"]
    for n in settings["n"]:
        yield Case({"m": m, "n": n, "of": "FedSVD"}, _ours(m, n, context))
    for name, sizes in settings["rivals"].items():
        for n in sizes:
            beyond = settings["beyond"] if n == sizes[-1] else []
            key = {"m": m, "n": n, "of": RIVALS[name].name}
            yield Case(key, _rival(RIVALS[name], m, n, beyond, context))


def _matrix(m: int, n: int, seed: int) -> Float:
    return synthetic.power_law_of_the_code(m, n, seed=seed)


def _ours(m: int, n: int, context: Context) -> Callable[[], Iterator[Measurement]]:
    def run() -> Iterator[Measurement]:
        parts = dealt(_matrix(m, n, context.seed))
        for method in METHODS:
            ran = factorise(parts, method)
            if ran.seconds < 1:  # the first run of a process pays for warming up
                ran = min((ran, factorise(parts, method)), key=lambda one: one.seconds)
            yield Measurement(method, TIME, ran.seconds, "s", scheme=ran.scheme)
            yield Measurement(method, WORK, ran.processor, "s", scheme=ran.scheme)
            yield Measurement(method, TRAFFIC, ran.bytes_total, "bytes", scheme=ran.scheme)

    return run


def _rival(
    rival: Rival, m: int, n: int, beyond: list[list[int]], context: Context
) -> Callable[[], Iterator[Measurement]]:
    def run() -> Iterator[Measurement]:
        X_1, X_2 = dealt(_matrix(m, n, context.seed))
        with workers(context.processes) as spread:
            before = spread.processor()
            found = ppd_svd(X_1, X_2, new_key(rival.bits), packed=rival.packed, spread=spread)
            worked = spread.processor() - before
        note = f"{found.slots} numbers to a plaintext, {context.processes} processes"
        taken = sum(found.seconds.values())
        yield Measurement(rival.name, TIME, taken, "s", note=note)
        yield Measurement(rival.name, WORK, worked, "s", note=note)
        yield Measurement(rival.name, TRAFFIC, found.bytes_sent, "bytes", note=note)
        for rows, columns in beyond:
            case = {"m": rows, "n": columns}
            estimated = extrapolated(found, m, (X_1.shape[1], X_2.shape[1]), rows, columns)
            yield Measurement(rival.name, TIME, estimated, "s", case, EXTRAPOLATED, note=f"from {m} x {n}")

    return run


def extrapolated(found: PpdSvd, m: int, widths: tuple[int, int], rows: int, columns: int) -> float:
    """The seconds of a run of another shape with the same key and packing."""
    old_groups, new_groups = (-(-width // found.slots) for width in (widths[0], columns // 2))
    encryptions = found.seconds["encrypt"] * (rows * new_groups) / (m * old_groups)
    powers = found.seconds["multiply"] * (rows * new_groups * (columns - columns // 2)) / (m * old_groups * widths[1])
    openings = found.seconds["decrypt"] * (new_groups * (columns - columns // 2)) / (old_groups * widths[1])
    return encryptions + powers + openings
