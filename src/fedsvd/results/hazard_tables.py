"""What a Cox model has beyond its fit, as tables: the test of proportional hazards, and a common baseline hazard."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from fedsvd.protocol.hazards import HAZARD, HAZARD_COLUMNS, SCHOENFELD, ZPH_COLUMNS, HazardsPlan
from fedsvd.protocol.tasks import Clock
from fedsvd.results.report.sections import Grid, grid
from fedsvd.results.result import PartyResult
from fedsvd.statistics.schoenfeld import Proportional, Schoenfeld
from fedsvd.types import Float

_TITLES = {
    Clock.KM: "the share that is left, of each site's own records",
    Clock.RANK: "the place among each site's own event times",
    Clock.IDENTITY: "time",
    Clock.LOG: "the logarithm of time",
}
_SHOWN = 12  # times of a baseline hazard


def beyond_fit(to: PartyResult, found: dict[str, Float]) -> dict[str, Any]:
    """Columns of both tables, of what was asked for."""
    arrays: dict[str, Any] = {}
    if SCHOENFELD in found:
        tests = _tests(to, found[SCHOENFELD])
        cells = zip(*((test.name, test.chisq, float(test.df), test.p) for test in tests), strict=True)
        arrays |= {f"zph {name}": np.array(column) for name, column in zip(ZPH_COLUMNS, cells, strict=True)}
    if HAZARD in found:
        columns = zip(HAZARD_COLUMNS, found[HAZARD].T, strict=True)
        arrays |= {f"hazard {name}": column for name, column in columns}
    return arrays


def tables_beyond_fit(result: PartyResult) -> Iterator[Grid]:
    """The same for a person."""
    about = HazardsPlan.of(result.plan)
    if about is None:
        return
    if SCHOENFELD in result.arrays:
        tests = _tests(result, result.arrays[SCHOENFELD])
        tested = [(test.name, f"{test.chisq:.4g}", str(test.df), f"{test.p:.3g}") for test in tests]
        yield grid(f"Proportional hazards: do effects change with {_TITLES[about.clock]}?", ZPH_COLUMNS, tested)
    if HAZARD in result.arrays:
        found = result.arrays[HAZARD]
        chosen = np.unique(np.linspace(0, len(found) - 1, min(_SHOWN, len(found))).round().astype(int))
        rows = [tuple(f"{value:.4g}" for value in found[place]) for place in chosen]
        yield grid("Baseline hazard of all parties, of a record of zeros", HAZARD_COLUMNS, rows)


def _tests(to: PartyResult, found: Float) -> tuple[Proportional, ...]:
    names = to.feature_names(len(found))
    return Schoenfeld(found[:, 0], found[:, 1:]).tests({name: [place] for place, name in enumerate(names)})
