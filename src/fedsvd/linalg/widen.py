"""From a factor L to the matrix A whose exact Gram matrix is shared: unit, width and dither (specification, step 4).

    A = (c / F) P [L 0] T,    P (m, m) and T (q, q) Haar-random, L (m, p), q = max(p, floor(m / 2) + 32)

``A A^T`` is that of ``(c / F) P L``, whatever q and T are. The zero columns are there because exact integers
``Z Z^T`` of total width up to m + 1 determine Z, by lattice reduction; two shares of this width have at least m + 63.
Of T only the first p rows matter, and only they are drawn. There is no randomness here: normals come from the caller.
"""

import math

from fedsvd.errors import ConfigError, ShapeError
from fedsvd.linalg import householder
from fedsvd.linalg.backend import namespace
from fedsvd.linalg.exact_gram import GRID_BITS
from fedsvd.linalg.householder import Normals, Reflectors
from fedsvd.types import Array, Each

_SPARE_COLUMNS = 32
_SAFETY = 1.001  # the joint norm carries noise; this covers it for up to 500 users
_DITHER_BITS = 52
_LEAST_DITHER = 4.0


def unit(F1: float, c: float = 1.0) -> float:
    """``F = 2^(1 + ceil(log2(1.001 c F1)))``: in this unit entries of a share are below 1/2, of the sum below 1/4."""
    size = _SAFETY * c * F1
    if not 0.0 < size < math.inf:
        raise ConfigError("the unit of a Gram matrix needs a finite norm above zero", "a zero table is not shared")
    mantissa, power = math.frexp(size)
    return math.ldexp(1.0, power if mantissa == 0.5 else power + 1)


def dither_deviation(F1: float, N: int, c: float = 1.0) -> float:
    """The deviation, in steps of the grid, of the normals that dither is rounded from; N is the width of all shares."""
    return max(math.ldexp(c * F1 / unit(F1, c), GRID_BITS - _DITHER_BITS) / math.sqrt(N), _LEAST_DITHER)


def width(m: int, p: int) -> int:
    """q, the columns of the share of an m x p factor."""
    return max(p, m // 2 + _SPARE_COLUMNS)


def draw_rows(p: int, q: int, normals: Normals, on: Array | None = None) -> Reflectors:
    """``T^T`` as reflectors, with the first p rows of T those of a Haar matrix, from p (2 q - p + 1) / 2 normals."""
    return householder.draw(q, normals, on, columns=p)


def widen(L: Array, T_t: Reflectors, each: Each | None = None) -> Array:
    """``[L 0] T``, (m, q), for the ``T_t`` that ``draw_rows`` gave for L's p columns; ``each`` brings threads."""
    xp, (m, p) = namespace(L), L.shape
    if not sum(tau.shape[0] for _, tau in T_t.blocks) == p <= T_t.n:
        raise ShapeError(f"the rows that were drawn are not those for a factor of {p} columns")
    zeros = xp.zeros((m, T_t.n - p), dtype=L.dtype, device=L.device)
    return T_t.right_t(xp.concat((L, zeros), axis=1), each)
