"""The leverage of records: how much of a direction of a Gram matrix one record makes up.

``h_i = x_i^T (X^T X)^+ x_i`` lies between 0 and 1 and says which part of ``y^T X^T X y`` a single row can be, for the
direction ``y`` that shows it best. At 1 a column, or a combination of columns, is this record's alone: sums with it are
the record. A Gram matrix of more rows is larger in every direction, so a row's leverage among all parties' rows is at
most its leverage among its own party's (``x^T A^+ x = sup_y 2 x^T y - y^T A y``, which falls as ``A`` grows).

``leverages`` never forms ``X^T X``: its root comes from QR factorisations of one panel of rows after the other, so that
a column that nearly depends on others is not lost to rounding twice. ``in_each_column`` is one pass less, and bounds
the leverage in all columns together, which is mostly enough.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedsvd.types import Float

Panels = Callable[[], Iterable[Float]]
"""The rows of a matrix, some at a time; called twice."""


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


def leverages(panels: Panels) -> Leverages:
    """The leverages of all rows; columns may depend on each other, and be in any units."""
    R, scale = _root(panels())
    _, s, Vt = np.linalg.svd(R, full_matrices=False)
    kept = s > _lost(s, R.shape[1])
    W = Vt[kept].T / s[kept] / scale[:, None]  # rows of X times W are rows of an orthonormal basis
    if not W.size:
        return Leverages(np.zeros(sum(len(panel) for panel in panels())), 0)
    values = np.concatenate([_squares(panel @ W) for panel in panels()])
    heaviest = _falls(_row(panels(), int(np.argmax(values))), W)
    return Leverages(np.minimum(values, 1.0), int(np.argmax(heaviest)), W)


def in_each_column(panels: Weighted, together: bool = True) -> tuple[Float, float]:
    """The largest leverage of a row in each column alone, with a constant; and a bound of that in all columns together.

    A row's leverage is its weight's share, and its squared length over the least eigenvalue of the correlations at
    most, columns being centred and of length 1. Not ``together``: the bound is 1, and no Gram matrix is formed.
    """
    weight, sums, heaviest = 0.0, np.zeros(0), 0.0
    for X, w in panels():
        sums = w @ X if not sums.size else sums + w @ X
        weight, heaviest = weight + float(w.sum()), max(heaviest, float(np.max(w, initial=0.0)))
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
    alone, longest = np.zeros(len(means)), 0.0
    for X, w in panels():
        shares = np.square(X[:, varies] - means[varies]) * (w[:, None] / np.square(lengths[varies]))
        constant = w / weight
        alone[varies] = np.maximum(alone[varies], np.max(shares + constant[:, None], axis=0, initial=0.0))
        longest = max(longest, float(np.max(shares.sum(axis=1), initial=0.0)))
    if not varies.any():
        return alone, heaviest / weight
    if not together:
        return alone, 1.0
    least = float(np.linalg.eigvalsh(G[np.ix_(varies, varies)] / np.outer(lengths[varies], lengths[varies]))[0])
    rounding = len(means) * 64.0 * np.finfo(np.float64).eps
    return alone, 1.0 if least <= rounding else heaviest / weight + longest / (least - rounding)


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
