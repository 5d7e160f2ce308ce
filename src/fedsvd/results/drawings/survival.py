"""Survival curves as drawings: steps with their bands, and numbers at risk below.

Censoring is not marked: a mark would be a person. Between two times of the grid a curve is level, as nothing is known
of when in a bin its events were.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from fedsvd.protocol.counted import CurvesPlan
from fedsvd.results.drawings.picture import USUAL, Band, Below, Line, Picture, Plane, Wish, points
from fedsvd.results.report.sections import Grid, grid
from fedsvd.results.result import PartyResult
from fedsvd.results.survival_tables import ALL, group_names, stored_curves
from fedsvd.statistics.life_table import Curve
from fedsvd.types import Float

_SHOWN = 8  # times at which numbers at risk are listed


def survival(result: PartyResult, wish: Wish = USUAL) -> Iterator[Picture]:
    """The curves of all groups in one plane."""
    about = CurvesPlan.of(result.plan)
    drawn, names = stored_curves(about, result.arrays["counts"]), group_names(about)
    marks = [mark for number, curve in enumerate(drawn, start=1) for mark in _marks(curve, names[number - 1], number)]
    level = f"{100.0 * about.level:g} %"
    caption = (
        f"Share of records without an event up to each time, with intervals of {level} (shaded, {about.interval}). "
        "Censoring is not marked."
    )
    below = tuple(_below(curve, names[number - 1], number) for number, curve in enumerate(drawn, start=1))
    body = Plane("time", "survival", tuple(marks), (0.0, float(about.edges[-1])), (0.0, 1.0), below=below)
    yield Picture("survival", "Survival", caption, body, at_risk(drawn, names))


def at_risk(drawn: Sequence[Curve], names: Sequence[str]) -> Grid:
    """Numbers at risk at a few times, a row for each group."""
    rows = [_below(curve, name, 1) for name, curve in zip(names, drawn, strict=True)]
    return grid(
        "Numbers at risk",
        ("group", *(f"{time:g}" for time in rows[0].places)),
        [(row.name, *row.texts) for row in rows],
    )


def _below(curve: Curve, name: str, series: int) -> Below:
    """How many are at risk when each of a few bins begins."""
    chosen = np.arange(0, len(curve.time), -(-len(curve.time) // _SHOWN))
    begin = np.concatenate(([0.0], curve.time))[chosen]
    return Below(name, series, tuple(begin.tolist()), tuple(f"{curve.at_risk[j]:.0f}" for j in chosen))


def _marks(curve: Curve, name: str, series: int) -> Iterator[Line | Band]:
    says = tuple(f"{name}, {t:g}: {s:.4f}" for t, s in zip(curve.time, curve.survival, strict=True))
    known = np.isfinite(curve.low) & np.isfinite(curve.high)
    if known.any():
        low, high = (_steps(curve.time[known], band[known]) for band in (curve.low, curve.high))
        yield Band(low, high, series)
    yield Line(_steps(curve.time, curve.survival), series=series, says=says, label="" if name == ALL else name)


def _steps(time: Float, values: Float) -> Float:
    """Level up to each time, from 1 at the beginning."""
    at = np.repeat(np.concatenate(([0.0], time)), 2)[1:]
    height = np.repeat(np.concatenate(([1.0], values)), 2)[:-1]
    return points(at, height)
