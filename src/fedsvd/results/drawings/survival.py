"""Survival curves as drawings: steps with their bands, and numbers at risk below.

Censoring is not marked: a mark would be a person. Between two times of the grid a curve is level, as nothing is known
of when in a bin its events were.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from fedsvd.protocol.counted import CurvesPlan
from fedsvd.results.drawings.picture import USUAL, Band, Below, Line, Picture, Plane, Wish, points
from fedsvd.results.report.sections import Grid, grid
from fedsvd.results.report.svg import ticks
from fedsvd.results.result import PartyResult
from fedsvd.results.survival_tables import ALL, group_names, stored_groups
from fedsvd.statistics.incidence import Group
from fedsvd.statistics.life_table import Curve
from fedsvd.types import Float

_SHOWN, _FEW = 8, 3  # times at which numbers at risk are listed, and round ones that are too few for that


def survival(result: PartyResult, wish: Wish = USUAL) -> Iterator[Picture]:
    """The curves of all groups in one plane."""
    about = CurvesPlan.of(result.plan)
    groups, names = stored_groups(about, result.arrays["counts"]), group_names(about)
    drawn = [group.curve for group in groups]
    if about.causes:
        yield _incidences(about, groups, names, _time(result))
        return
    marks = [mark for number, curve in enumerate(drawn, start=1) for mark in _marks(curve, names[number - 1], number)]
    level = f"{100.0 * about.level:g} %"
    caption = (
        f"Share of records without an event up to each time, with intervals of {level} (shaded, {about.interval}). "
        "Censoring is not marked."
    )
    below = tuple(_below(curve, names[number - 1], number) for number, curve in enumerate(drawn, start=1))
    body = Plane(_time(result), "survival", tuple(marks), (0.0, float(about.edges[-1])), (0.0, 1.0), below=below)
    yield Picture("survival", "Survival", caption, body, at_risk(drawn, names))


def _time(result: PartyResult) -> str:
    """What the axis of times is called: the column of times, where its name is known."""
    return result.features[0] if result.features else "time"


def _incidences(about: CurvesPlan, groups: Sequence[Group], names: Sequence[str], time: str) -> Picture:
    """The incidence of each cause in each group."""
    marks: list[Line | Band] = []
    for place, (group, name) in enumerate(zip(groups, names, strict=True)):
        for number, (cause, of) in enumerate(zip(about.causes, group.causes, strict=True), start=1):
            label = cause if name == ALL else f"{name}: {cause}"
            series = place * len(about.causes) + number
            marks += _lines(group.curve.time, of.share, of.low, of.high, label, series, begin=0.0)
    caption = (
        f"Share of records that had each event first, up to each time, with intervals of {100.0 * about.level:g} % "
        f"(shaded, {about.interval}); an event of another cause is no censoring."
    )
    below = tuple(_below(group.curve, name, 1) for group, name in zip(groups, names, strict=True))
    body = Plane(time, "cumulative incidence", tuple(marks), (0.0, float(about.edges[-1])), (0.0, 1.0), below=below)
    return Picture("survival", "Cumulative incidence", caption, body, at_risk([g.curve for g in groups], names))


def at_risk(drawn: Sequence[Curve], names: Sequence[str]) -> Grid:
    """Numbers at risk at a few times, a row for each group."""
    rows = [_below(curve, name, 1) for name, curve in zip(names, drawn, strict=True)]
    return grid(
        "Numbers at risk",
        ("group", *(f"{time:g}" for time in rows[0].places)),
        [(row.name, *row.texts) for row in rows],
    )


def _below(curve: Curve, name: str, series: int) -> Below:
    """How many are at risk when each of a few bins begins: those that begin at round times, where some do."""
    begin = np.concatenate(([0.0], curve.time[:-1]))
    chosen = np.flatnonzero(np.isin(begin, ticks(0.0, float(curve.time[-1]), _SHOWN)))
    if len(chosen) < _FEW:
        chosen = np.arange(0, len(begin), -(-len(begin) // _SHOWN))
    return Below(name, series, tuple(begin[chosen].tolist()), tuple(f"{curve.at_risk[j]:.0f}" for j in chosen))


def _marks(curve: Curve, name: str, series: int) -> Iterator[Line | Band]:
    yield from _lines(curve.time, curve.survival, curve.low, curve.high, name, series, begin=1.0)


def _lines(
    time: Float, values: Float, low: Float, high: Float, name: str, series: int, begin: float
) -> Iterator[Line | Band]:
    says = tuple(f"{name}, {t:g}: {s:.4f}" for t, s in zip(time, values, strict=True))
    known = np.isfinite(low) & np.isfinite(high)
    if known.any():
        yield Band(_steps(time[known], low[known], begin), _steps(time[known], high[known], begin), series)
    yield Line(_steps(time, values, begin), series=series, says=says, label="" if name == ALL else name)


def _steps(time: Float, values: Float, begin: float) -> Float:
    """Level up to each time, from what it is at the beginning."""
    at = np.repeat(np.concatenate(([0.0], time)), 2)[1:]
    height = np.repeat(np.concatenate(([begin], values)), 2)[:-1]
    return points(at, height)
