"""One sign rule for singular vectors, decided on U (ADR 0013).

``u_j`` and ``v_j`` may change sign together; a released factorisation must not leave that to the solver. The rule
is scikit-learn's (``svd_flip`` with ``u_based_decision=True``): in every column of U the entry of largest magnitude
is positive, the first one where several share that magnitude. It is decided in one place and sent as signs, because
1-ulp differences between parties can break ties differently (02-protocol, step 6).
"""

from fedsvd.errors import ShapeError
from fedsvd.linalg.backend import namespace
from fedsvd.types import Array


def signs_of(U: Array) -> Array:
    """+1 or -1 for every column of U, such that ``U * signs`` obeys the rule; +1 for a zero column."""
    xp = namespace(U)
    if U.shape[0] == 0 or U.shape[1] == 0:
        return xp.ones(U.shape[1], dtype=U.dtype, device=U.device)
    # Largest and smallest entry rather than the argmax of |U|: no copy of U, and no gather, which the array API
    # standard lacks in its older versions.
    top, bottom = xp.max(U, axis=0), -xp.min(U, axis=0)
    first = xp.argmax(U, axis=0) <= xp.argmin(U, axis=0)
    positive = (top > bottom) | ((top == bottom) & first)
    ones = xp.ones_like(top)
    return xp.where(positive, ones, -ones)


def apply_signs(U: Array, Vt: Array, signs: Array) -> tuple[Array, Array]:
    """``(U diag(signs), diag(signs) Vt)``: the same product, other signs."""
    r = signs.shape[0]
    if U.shape[1] != r or Vt.shape[0] != r:
        raise ShapeError(f"{r} signs for U of shape {tuple(U.shape)} and Vt of shape {tuple(Vt.shape)}")
    return U * signs, Vt * signs[:, None]
