"""Columns that depend on those before them: R's rule for a table of dependent columns (ADR 0058).

Columns are taken in their order, the intercept first. One that depends on those before it is *aliased*: its row of the
table is NaN, and all others are those of the model without it (``Triangle.aliased``).
"""

import numpy as np

from fedsvd.statistics.triangle import Triangle
from fedsvd.statistics.undefined import RANK_LOST, Numbers
from fedsvd.types import Float


def without_aliased(plain: Triangle, n: int, w: Float) -> tuple[tuple[int, ...], Float, Numbers]:
    """The aliased columns, the coefficients of the others (0 for them), and a root with zeros in their rows."""
    q = len(plain.scale)
    aliased = plain.aliased()
    others = np.delete(np.arange(q), aliased)
    left = plain.without(aliased, n) if len(others) else None
    if left is None or not left.full:
        return (), w, RANK_LOST
    found, root = np.zeros_like(w), np.zeros((q, q))
    found[others] = left.solve()
    root[np.ix_(others, np.arange(len(others)))] = left.inverse()
    return aliased, found, root


def not_of(values: Float, aliased: tuple[int, ...]) -> Float:
    """A vector, or a covariance, with NaN where a coefficient is aliased."""
    if not aliased:
        return values
    found: Float = values.copy()
    found[list(aliased)] = np.nan
    if values.ndim == 2:
        found[:, list(aliased)] = np.nan
    return found
