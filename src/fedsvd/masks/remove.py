"""Step 4 of the paper: masks come off again (Theorem 1).

    U = P^T U',    sigma = sigma' / c,    Vt_i = Vt' Q_i^T,    w_i = Q_i w'

Users remove only what is theirs to remove: P from the shared U', their own Q_i from what concerns their columns.
"""

from fedsvd.linalg.backend import namespace
from fedsvd.masks.left import LeftMask
from fedsvd.masks.right import RightMask
from fedsvd.types import Array


def unmask_left(U_masked: Array, P: LeftMask) -> Array:
    """``P^T U'``."""
    return P.left_t(U_masked)


def unmask_right(Vt_masked: Array, Q: RightMask, i: int) -> Array:
    """``Vt' Q_i^T``: user i's columns of Vt, (r, n_i)."""
    parts = [Q.right_t(w, i, Vt_masked[:, window.outputs]) for w, window in enumerate(Q.windows)]
    return parts[0] if len(parts) == 1 else namespace(Vt_masked).concat(parts, axis=1)


def unmask_weights(w_masked: Array, Q: RightMask, i: int) -> Array:
    """``Q_i w'``, for one or several columns w', (N, targets) to (n_i, targets)."""
    xp = namespace(w_masked)
    return xp.matrix_transpose(unmask_right(xp.matrix_transpose(w_masked), Q, i))


def unscale(sigma_scaled: Array, c: float) -> Array:
    """``sigma' / c``."""
    return sigma_scaled / c
