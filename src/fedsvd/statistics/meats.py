"""Matrices that are opened in pieces of twelve bits, and with them the middle matrix of robust errors.

The covariance of robust errors is ``A (sum of M^T M) A^T`` (``robust.py``). A model by few digits opens the sum in the
coordinates of A, the root of its table, once: in pieces of what is left at home, until rounding is far below the
variance of every coefficient.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fedsvd.statistics.newton import DEVIATION, MOST_BITS, PIECES, TWELVE, Fitting, opened, power, powers
from fedsvd.statistics.newton_requests import Asked, Found, Point, Shape, Sizes
from fedsvd.types import Float

UNDEFINED = 64
"""The size of a party's squared scores where a record of it has leverage 1: beyond all others."""

_SURE = 8.0  # deviations of rounding in a variance
_FEWER = 1  # bits that a variance has fewer than the table: its root is what is printed


def in_pieces(of: str, at: Point | None, P: int, bounds: Float, wanted: Callable[[Float, Float, int], int]) -> Fitting:
    """Symmetric matrices of P columns below these bounds, in twelves until as many bits as are wanted are there."""
    rows, columns = np.triu_indices(P)
    off = rows != columns
    found, bits, least = np.zeros((len(bounds), P, P)), 0, TWELVE
    for piece in range(PIECES):
        bits = min(bits + TWELVE, least, MOST_BITS)
        units = bounds * 2.0**-bits
        asked = Asked(of, np.repeat(units, len(rows)), at, piece=piece)
        values = (yield from opened(asked)).reshape(len(bounds), -1)
        found[:, rows, columns] += values
        found[:, columns[off], rows[off]] += values[:, off]
        least = wanted(found, units, bits)
        if bits >= min(least, MOST_BITS):
            break
    return found


def opened_squares(root: Float, users: int, table: int, at: Point | None = None) -> Fitting:
    """Sums of squared scores in the coordinates of ``root``, (targets, P, P); None where a party has it undefined."""
    found = yield Sizes("squares", at)
    assert isinstance(found, np.ndarray)
    if (found >= UNDEFINED).any():
        return None
    least = 2.0 ** -(table - _FEWER)
    lengths = np.square(root).sum(axis=1)

    def wanted(S: Float, units: Float, bits: int) -> int:
        """The bits with which rounding is far below any coefficient's variance, at most a piece more."""
        more = 0
        for matrix, unit in zip(S, units.tolist(), strict=True):
            variance = np.array([_quadratic(matrix, row) for row in root])
            rounding = _SURE * DEVIATION * math.sqrt(users) * unit * lengths
            if not (rounding <= least * variance).all():
                sure = least * (variance - rounding)  # what the variance has in any case
                short = float((rounding / sure).max()) if (sure > 0.0).all() else math.inf
                more = max(more, math.frexp(short)[1] if short < 2.0**TWELVE else TWELVE)
        return bits + more

    return (yield from in_pieces("squares", at, len(root), powers(found) * power(users), wanted))


def meat(found: Found, shape: Shape) -> Fitting:
    """The sum of squared scores of a fitted model, in the coordinates of its root; None where errors are not robust."""
    if not shape.errors.robust:
        return None
    root = found.root[: shape.scored, : shape.scored]
    total: Float = yield from opened_squares(root, shape.users, shape.table, replace(found.at, turn=root))
    return total[0]


def _quadratic(A: Float, row: Float) -> float:
    """``row A row^T``, equal at every party."""
    return math.fsum((np.multiply.outer(row, row) * A).ravel().tolist())
