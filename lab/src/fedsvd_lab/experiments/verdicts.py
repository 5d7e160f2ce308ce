"""What must show, checked on the rows: each line of a check with its two numbers and whether it holds."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fedsvd_lab.experiments.experiment import Check, Experiment
from fedsvd_lab.experiments.rows import Row, matches


@dataclass(frozen=True)
class Verdict:
    """One comparison: what was asked, of which case, the two numbers, and the answer."""

    check: str
    case: str
    method: str
    value: float
    bar: float
    holds: bool


def verdicts(experiment: Experiment, rows: Sequence[Row]) -> list[Verdict]:
    """Every comparison that the rows allow."""
    return [verdict for check in experiment.checks for verdict in _of(check, rows)]


def _of(check: Check, rows: Sequence[Row]) -> Iterator[Verdict]:
    chosen = [row for row in rows if matches(row, check.where)]
    for row in chosen:
        if row["method"] not in check.of:
            continue
        bars = [_partner(row, name, chosen) for name in (check.than, check.or_than) if name]
        known = [bar for bar in bars if bar is not None]
        if known and (bars[0] is not None or not check.or_than):
            yield _verdict(check, row, max(known))


def _partner(row: Row, method: str, rows: Sequence[Row]) -> float | None:
    """The value of another method at the same case; a figure of the paper may know less about the case."""
    for other in rows:
        same = all(row["case"].get(key) == value for key, value in other["case"].items() if key in row["case"])
        if other["method"] == method and other["metric"] == row["metric"] and same:
            return float(other["value"])
    return None


def _verdict(check: Check, row: Row, bar: float) -> Verdict:
    value = float(row["value"])
    case = ", ".join(str(part) for part in (*row["case"].values(), row["metric"]))
    holds = {"at most": _at_most, "within a factor": _within, "digits": _digits}[check.kind](value, bar, check.times)
    return Verdict(check.title, case, row["method"], value, bar, holds)


def _at_most(value: float, bar: float, times: float) -> bool:
    return value <= times * bar


def _within(value: float, bar: float, factor: float) -> bool:
    return bar / factor <= value <= bar * factor


def _digits(value: float, bar: float, digits: float) -> bool:
    """Equal in so many significant digits."""
    return math.isclose(value, bar, rel_tol=0.5 * 10 ** (1 - digits))
