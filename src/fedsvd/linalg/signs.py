"""One sign rule for singular vectors, decided on U (ADR 0013).

``u_j`` and ``v_j`` may change sign together; a released factorisation must not leave that to the solver. The rule
is scikit-learn's (``svd_flip`` with ``u_based_decision=True``): in every column of U the entry of largest magnitude
is positive, the first one where several share that magnitude. Magnitudes within 2^-26 of each other are shared: two
columns at unit variance always have a component of two equal entries, and rounding would choose between them. The rule
is applied in one place and sent as signs, because parties that round differently may stand on both sides of 2^-26.
"""

from collections.abc import Iterator

import numpy as np

from fedsvd.errors import ShapeError
from fedsvd.linalg.backend import namespace
from fedsvd.types import Array, Float

_TOGETHER = 1 << 20  # numbers
_TIED = 2.0**-26  # of the larger of two magnitudes


def signs_of(U: Array) -> Array:
    """+1 or -1 for every column of U, such that ``U * signs`` obeys the rule; +1 for a zero column."""
    xp = namespace(U)
    if U.shape[0] == 0 or U.shape[1] == 0:
        return xp.ones(U.shape[1], dtype=U.dtype, device=U.device)
    if not isinstance(U, np.ndarray) or U.flags.c_contiguous:
        return _signs(U)
    return np.concatenate([_signs(U[:, columns]) for columns in _groups(U.shape[1], U.shape[0])])


def flip(U: Float, signs: Float) -> Float:
    """``U * signs``, in its place unless it is read-only: some at a time in the order it lies in, maybe on disk."""
    if not U.flags.writeable:
        return U * signs
    if U.flags.c_contiguous:
        for rows in _groups(*U.shape):
            U[rows] = U[rows] * signs
        return U
    for columns in _groups(U.shape[1], U.shape[0]):
        U[:, columns] = U[:, columns] * signs[columns]
    return U


def _groups(count: int, length: int) -> Iterator[slice]:
    """So many lines of this length, some together."""
    step = max(1, _TOGETHER // max(length, 1))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def _signs(U: Array) -> Array:
    xp = namespace(U)
    # Largest and smallest entry rather than the argmax of |U|: no copy of U, and no gather, which the array API
    # standard lacks in its older versions.
    top, bottom = xp.max(U, axis=0), -xp.min(U, axis=0)
    ones = xp.ones_like(top)
    signs = xp.where(top > bottom, ones, -ones)
    most = xp.where(top > bottom, top, bottom)
    tied = xp.abs(top - bottom) <= _TIED * most
    for j in range(U.shape[1]) if bool(xp.any(tied)) else ():
        if tied[j]:
            column = U[:, j]
            first = int(xp.argmax(xp.astype(xp.abs(column) >= (1.0 - _TIED) * most[j], xp.int8)))
            signs[j] = 1.0 if column[first] >= 0.0 else -1.0
    return signs


def apply_signs(U: Array, Vt: Array, signs: Array) -> tuple[Array, Array]:
    """``(U diag(signs), diag(signs) Vt)``: the same product, other signs."""
    r = signs.shape[0]
    if U.shape[1] != r or Vt.shape[0] != r:
        raise ShapeError(f"{r} signs for U of shape {tuple(U.shape)} and Vt of shape {tuple(Vt.shape)}")
    return U * signs, Vt * signs[:, None]
