"""Natural cubic splines at given knots, in the basis of R's ``ns(x, knots = inner, Boundary.knots = outer)``.

The first and the last knot are the boundary: between them the columns are cubic between any two knots, with continuous
second derivatives, beyond them straight lines. The basis is that of the B-splines less the first, in coordinates in
which the second derivatives at both boundary knots are the first two (Householder, as R's ``qr``); these are left out.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from fedsvd.types import Float

if TYPE_CHECKING:
    from scipy.interpolate import BSpline

_DEGREE = 3


def spline_columns(knots: Sequence[float]) -> int:
    """How many columns a natural spline at these knots has, besides the constant."""
    return len(knots) - 1


def natural_spline(x: Float, knots: Sequence[float], column: int) -> Float:
    """One column of the basis at every ``x``, from 1."""
    spline = _basis(tuple(knots))[column - 1]
    inside = np.clip(x, knots[0], knots[-1])
    return np.asarray(spline(inside) + spline.derivative()(inside) * (x - inside))


@lru_cache(maxsize=64)
def _basis(knots: tuple[float, ...]) -> "tuple[BSpline, ...]":
    # Imported here: few formulas have splines, and jobs are followed without it.
    from scipy.interpolate import BSpline

    low, *inner, high = knots
    t = np.array([low] * (_DEGREE + 1) + inner + [high] * (_DEGREE + 1))
    count = len(t) - _DEGREE - 1
    bends = BSpline(t, np.eye(count), _DEGREE).derivative(2)(np.array([low, high]))
    Q = np.linalg.qr(bends[:, 1:].T, mode="complete").Q[:, 2:]
    return tuple(BSpline(t, np.append(0.0, column), _DEGREE) for column in Q.T)
