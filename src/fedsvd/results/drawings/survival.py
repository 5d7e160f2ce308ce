"""Survival curves as drawings: steps with their bands, and numbers at risk below.

Censoring is not marked: a mark would be a person. Between two times of the grid a curve is level, as nothing is known
of when in a bin its events were.
"""

from collections.abc import Iterator

import numpy as np

from fedsvd.results.drawings.picture import USUAL, Band, Below, Line, Picture, Plane, Wish, points
from fedsvd.results.report.sections import Grid, grid
from fedsvd.results.report.svg import ticks
from fedsvd.results.result import PartyResult
from fedsvd.results.survival_tables import ALL, Curves
from fedsvd.statistics.life_table import Curve
from fedsvd.types import Float

_SHOWN, _FEW = 8, 3  # times at which numbers at risk are listed, and round ones that are too few for that


def survival(result: PartyResult, wish: Wish = USUAL) -> Iterator[Picture]:
    """The curves of all groups in one plane; of causes that compete the incidence of each."""
    found, time = Curves.in_result(result), result.features[0] if result.features else "time"
    about, causes = found.about, found.causes
    marks: list[Line | Band] = []
    for place, (group, name) in enumerate(zip(found.groups, found.names, strict=True)):
        curve, first = group.curve, place * max(1, len(causes)) + 1
        if not causes:
            marks += _lines(curve.time, curve.survival, curve.low, curve.high, name, first, begin=1.0)
        for number, (cause, of) in enumerate(zip(causes, group.causes, strict=True), start=first):
            label = cause if name == ALL else f"{name}: {cause}"
            marks += _lines(curve.time, of.share, of.low, of.high, label, number, begin=0.0)
    level = f"{100.0 * about.level:g} %"
    title, axis, caption = (
        "Survival",
        "survival",
        f"Share of records without an event up to each time, with intervals of {level} (shaded, {about.interval}). "
        "Censoring is not marked.",
    )
    if causes:
        title, axis, caption = (
            "Cumulative incidence",
            "cumulative incidence",
            f"Share of records that had each event first, up to each time, with intervals of {level} (shaded, "
            f"{about.interval}); an event of another cause is no censoring.",
        )
    below = tuple(_below(curve, name, 1 if causes else n) for n, (curve, name) in enumerate(_named(found), start=1))
    body = Plane(time, axis, tuple(marks), (0.0, float(about.edges[-1])), (0.0, 1.0), below=below)
    yield Picture("survival", title, caption, body, at_risk(found))


def at_risk(found: Curves) -> Grid:
    """Numbers at risk at a few times, a row for each group."""
    rows = [_below(curve, name, 1) for curve, name in _named(found)]
    times = [f"{time:g}" for time in rows[0].places]
    return grid("Numbers at risk", ("group", *times), [(row.name, *row.texts) for row in rows])


def _named(found: Curves) -> Iterator[tuple[Curve, str]]:
    return zip(found.drawn, found.names, strict=True)


def _below(curve: Curve, name: str, series: int) -> Below:
    """How many are at risk when each of a few bins begins: those that begin at round times, where some do."""
    begin = np.concatenate(([0.0], curve.time[:-1]))
    chosen = np.flatnonzero(np.isin(begin, ticks(0.0, float(curve.time[-1]), _SHOWN)))
    if len(chosen) < _FEW:
        chosen = np.arange(0, len(begin), -(-len(begin) // _SHOWN))
    return Below(name, series, tuple(begin[chosen].tolist()), tuple(f"{curve.at_risk[j]:.0f}" for j in chosen))


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
