"""Counts in fives: own cumulative counts on a public grid, rounded at home to multiples of the least count.

    fives(c) = least * round(c / least)

Multiples of ``least`` are closed under sums and differences, so every step of a staircase, every total and every
difference of two tables, groups or views of the same rows is 0 or at least ``least`` of each party: an opened cell of 1
to 4 records does not exist, and no cell has to be suppressed next to its total. That is true of the words, not of what
several of them leave possible: four groups of 0 next to a total of 10 are groups of two, and their owner is asked
(``isolated.py``). It is rounding, not noise: a count that is read twice is the same, and two row sets that differ in
one person may differ in a word (threat model).

A record is a person. Where persons have several rows, counts are of persons (``of_person``): five visits of one patient
are one.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import ConfigError, DataError
from fedsvd.types import Float

LEAST_COUNT = 5
"""Records that an opened count is a multiple of, where nothing else is agreed."""

MOST_EDGES = 200
"""Edges of a grid, at most."""

SCORE_EDGES = 64
"""Edges of a grid of a model's linear predictor, without thresholds."""

MOST_THRESHOLDS = 20
"""Further ones, at most."""


_ABOUT = 40  # edges of a grid that is made of the data, where all of it is here


def fives(counts: Float, least: int = LEAST_COUNT) -> Float:
    """The nearest multiples of ``least``; half of it goes to the even multiple."""
    found: Float = least * np.rint(np.asarray(counts, dtype=np.float64) / least)
    return found


def most_off(least: int, parties: int) -> int:
    """Records that a joint count in fives is off by at most: half of a step at each party."""
    return parties * (least // 2)


def deviation(least: int, parties: int) -> float:
    """The standard deviation of that error where own remainders are evenly spread: sqrt(2 k) for fives."""
    return math.sqrt(parties * (least * least - 1) / 12.0)


def even_edges(last: float) -> tuple[float, ...]:
    """About forty edges up to a time, a round number apart."""
    if not last > 0.0:
        raise DataError("no record leaves after time 0", "give the times at which counts are opened")
    rough = last / _ABOUT
    power = 10.0 ** math.floor(math.log10(rough))
    width = next(step * power for step in (1.0, 2.0, 5.0, 10.0) if step * power >= rough)
    return tuple((width * np.arange(1, math.ceil(last / width) + 1)).tolist())


def expect_grid(edges: Float) -> None:
    """Raise ``ConfigError`` unless these are the edges of a grid."""
    if not 1 <= len(edges) <= MOST_EDGES:
        raise ConfigError(f"counts are to be opened at {len(edges)} times", f"name 1 to {MOST_EDGES} (times)")
    if not np.isfinite(edges).all() or (np.diff(edges) <= 0.0).any():
        raise ConfigError("the times at which counts are opened do not rise", "name each above the one before (times)")


def cumulative(values: Float, edges: Float, of_person: NDArray[np.intp] | None = None) -> Float:
    """How many records are at or below each edge; persons by the least of their rows, where they have several."""
    if of_person is not None and len(values):
        least = np.full(int(of_person.max()) + 1, np.inf)
        np.minimum.at(least, of_person, values)
        values = least[np.unique(of_person)]
    return np.searchsorted(np.sort(values), edges, side="right").astype(np.float64)


def in_cells(values: Float, edges: Float, of_person: NDArray[np.intp] | None = None) -> Float:
    """How many records lie in each cell that ends at an edge; persons, where they have several rows, once in each."""
    cells = np.searchsorted(edges, values, side="left")
    if of_person is not None:
        cells = np.unique(np.column_stack((cells, of_person)), axis=0)[:, 0]
    return np.bincount(cells, minlength=len(edges) + 1)[: len(edges)].astype(np.float64)


def few_cells(staircase: Float, least: int = LEAST_COUNT) -> int:
    """Cells between two edges that hold some records and fewer than ``least``; rows of a matrix are staircases."""
    cells = np.diff(np.atleast_2d(staircase), axis=1, prepend=0.0)
    return int(np.count_nonzero((cells > 0) & (cells < least)))
