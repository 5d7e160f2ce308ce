"""The leverage of records: how much of a direction of a Gram matrix one record makes up.

``h_i = x_i^T (X^T X)^+ x_i`` lies between 0 and 1 and says which part of ``y^T X^T X y`` a single row can be, for the
direction ``y`` that shows it best. At 1 a column, or a combination of columns, is this record's alone: sums with it are
the record. A Gram matrix of more rows is larger in every direction, so a row's leverage among all parties' rows is at
most its leverage among its own party's (``x^T A^+ x = sup_y 2 x^T y - y^T A y``, which falls as ``A`` grows).

``leverages`` never forms ``X^T X``: its root comes from QR factorisations of one panel of rows after the other, so that
a column that nearly depends on others is not lost to rounding twice. ``in_each_column`` is one pass less, and bounds
the leverage in all columns together, which is mostly enough.

Where a record is a person with several rows, what counts is the block of its rows: the largest part that these can be
of ``y^T X^T X y``, the largest eigenvalue of ``B = X_c^T X_c`` relative to ``X^T X``. It falls as ``X^T X`` grows, too.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedsvd.types import Float

Panels = Callable[[], Iterable[Float]]
"""The rows of a matrix, some at a time; called twice."""


Groups = NDArray[np.intp]
"""Of every row the number of its group, from 0 on: the person that it is a row of."""

SMALL = 0.25
"""Leverage of a group up to which a bound will do: half of what is asked about."""

_MOST_CELLS = 1 << 22  # groups times columns at a time

Weighted = Callable[[], Iterable[tuple[Float, Float]]]
"""The same with the weight of every row; called three times."""


@dataclass(frozen=True, repr=False)
class Leverages:
    """The leverage of every row, and for the row with the largest one the column that adds most to it."""

    values: Float
    column: int
    _basis: Float = field(default_factory=lambda: np.zeros((0, 0)))  # rows times it are rows of an orthonormal basis

    @property
    def largest(self) -> float:
        return float(np.max(self.values, initial=0.0))

    def falls(self, row: Float) -> Float:
        """By how much the leverage of this row falls without each column."""
        return _falls(row, self._basis)


def leverages(panels: Panels, groups: Groups | None = None) -> Leverages:
    """The leverages of all rows; columns may depend on each other, and be in any units. Each row of a group has the
    leverage of all its rows together, or a bound of it below ``SMALL``."""
    R, scale = _root(panels())
    _, s, Vt = np.linalg.svd(R, full_matrices=False)
    kept = s > _lost(s, R.shape[1])
    W = Vt[kept].T / s[kept] / scale[:, None]  # rows of X times W are rows of an orthonormal basis
    if not W.size:
        return Leverages(np.zeros(sum(len(panel) for panel in panels())), 0)
    alone = values = np.concatenate([_squares(panel @ W) for panel in panels()])
    if groups is not None:
        values = _of_groups(panels, W, alone, groups)
    # Of the rows of a group the longest one says which column it is.
    heaviest = _falls(_row(panels(), int(np.argmax(np.where(values == values.max(), alone, -1.0)))), W)
    return Leverages(np.minimum(values, 1.0), int(np.argmax(heaviest)), W)


def _of_groups(panels: Panels, W: Float, alone: Float, groups: Groups) -> Float:
    """Leverages of groups of rows: at most the sum of theirs, which is enough where that is small."""
    of_group = np.bincount(groups, weights=alone)
    looked = np.flatnonzero((of_group > SMALL) & (np.bincount(groups) > 1))
    blocks: dict[int, list[Float]] = {group: [] for group in looked.tolist()}
    start = 0
    for panel in panels():
        here = groups[start : (start := start + len(panel))]
        for row in np.flatnonzero(np.isin(here, looked)).tolist():
            blocks[int(here[row])].append(panel[row] @ W)
    for group, rows in blocks.items():
        of_group[group] = float(np.linalg.norm(np.array(rows), 2)) ** 2
    return np.asarray(of_group[groups])


def in_each_column(panels: Weighted, together: bool = True, groups: Groups | None = None) -> tuple[Float, float]:
    """The largest leverage of a row in each column alone, with a constant; and a bound of that in all columns together.

    A row's leverage is its weight's share, and its squared length over the least eigenvalue of the correlations at
    most, columns being centred and of length 1. Not ``together``: the bound is 1, and no Gram matrix is formed. With
    ``groups`` leverages are those of all rows of a group.
    """
    weight, sums, heaviest = 0.0, np.zeros(0), _Largest(groups)
    for X, w in panels():
        sums = w @ X if not sums.size else sums + w @ X
        weight += float(w.sum())
        heaviest.add(w)
    if not weight > 0:
        return np.zeros_like(sums), 0.0
    means = sums / weight
    G, squares = np.zeros((len(means), len(means)) if together else (0, 0)), np.zeros(len(means))
    for X, w in panels():
        Z = (X - means) * np.sqrt(w)[:, None]
        squares += np.einsum("ij,ij->j", Z, Z)
        if together:
            G += Z.T @ Z
    lengths = np.sqrt(squares)
    # What is left of a constant column after centring is rounding, and no direction.
    varies = lengths > 4.0 * np.finfo(np.float64).eps * np.sqrt(weight) * np.abs(means)
    alone, longest = np.zeros(len(means)), _Largest(groups)
    for X, w in panels():
        shares = np.square(X[:, varies] - means[varies]) * (w[:, None] / np.square(lengths[varies]))
        if groups is None:
            of_both = np.max(shares + (w / weight)[:, None], axis=0, initial=0.0)
            alone[varies] = np.maximum(alone[varies], of_both)
        longest.add(shares.sum(axis=1))
    if not varies.any():
        return alone, heaviest.value / weight
    if groups is not None:
        alone[varies] = _alone(panels, weight, means[varies], lengths[varies], np.flatnonzero(varies), groups)
    if not together:
        return alone, 1.0
    least = float(np.linalg.eigvalsh(G[np.ix_(varies, varies)] / np.outer(lengths[varies], lengths[varies]))[0])
    rounding = len(means) * 64.0 * np.finfo(np.float64).eps
    return alone, 1.0 if least <= rounding else heaviest.value / weight + longest.value / (least - rounding)


class _Largest:
    """The largest of numbers of rows, or of their sums over groups."""

    def __init__(self, groups: Groups | None) -> None:
        self._groups, self._start, self._largest = groups, 0, 0.0
        self._sums = np.zeros(0 if groups is None else 1 + int(groups.max(initial=0)))

    def add(self, values: Float) -> None:
        self._largest = max(self._largest, float(np.max(values, initial=0.0)))
        if self._groups is not None:
            here = self._groups[self._start : (stop := self._start + len(values))]
            self._start = stop
            self._sums += np.bincount(here, weights=values, minlength=len(self._sums))

    @property
    def value(self) -> float:
        return self._largest if self._groups is None else float(np.max(self._sums, initial=0.0))


def _alone(
    panels: Weighted, weight: float, means: Float, lengths: Float, columns: NDArray[np.intp], groups: Groups
) -> Float:
    """The largest leverage of a group in each of these columns with a constant: an eigenvalue of two by two."""
    count, found = 1 + int(groups.max(initial=0)), np.zeros(len(columns))
    width = max(1, _MOST_CELLS // count)
    for first in range(0, len(columns), width):
        some = slice(first, first + width)
        sums, start = np.zeros((3, count, len(columns[some]))), 0  # of the constant, the column, and both
        for X, w in panels():
            here = groups[start : (start := start + len(w))]
            z, one = (X[:, columns[some]] - means[some]) / lengths[some], np.ones((1, len(columns[some])))
            for number, part in enumerate((one / weight, z**2, z / np.sqrt(weight))):
                np.add.at(sums[number], here, w[:, None] * part)
        a, c, b = sums
        found[some] = ((a + c) / 2.0 + np.hypot((a - c) / 2.0, b)).max(axis=0)
    return found


def _root(panels: Iterable[Float]) -> tuple[Float, NDArray[np.float64]]:
    """R with ``R^T R = X^T X``, its columns scaled to length 1, and their lengths."""
    R: Float | None = None
    for panel in panels:
        R = np.asarray(np.linalg.qr(panel if R is None else np.vstack([R, panel]), mode="r"))
    if R is None:
        return np.zeros((0, 0)), np.ones(0)
    lengths = np.linalg.norm(R, axis=0)
    scale = np.where(lengths > 0, lengths, 1.0)
    return R / scale, scale


def _lost(s: Float, columns: int) -> float:
    """Singular values up to this are rounding."""
    return float(np.max(s, initial=0.0)) * 8.0 * max(columns, 4) * float(np.finfo(np.float64).eps)


def _falls(x: Float, W: Float) -> Float:
    """How much a row's leverage falls without each column: ``z_j^2 / d_j``, z and d of ``(X^T X)^+``."""
    z = W @ (x @ W)
    d = np.einsum("ij,ij->i", W, W)
    return np.asarray(np.divide(z**2, d, out=np.zeros_like(z), where=d > 0))


def _row(panels: Iterable[Float], wanted: int) -> Float:
    for panel in panels:
        if wanted < len(panel):
            return np.asarray(panel[wanted])
        wanted -= len(panel)
    raise IndexError(wanted)


def _squares(rows: Float) -> Float:
    return np.asarray(np.einsum("ij,ij->i", rows, rows))
