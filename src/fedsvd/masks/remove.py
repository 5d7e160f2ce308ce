"""Steps 6 to 8 of the mask family (paper 4): masks come off again (Theorem 1 of the paper).

    U = P^T U',    sigma = sigma' / c,    W_i = T_i Q_i W'

Users remove only what is theirs to remove: P from the shared U', their own Q_i from what concerns their columns.
"""

from fedsvd.linalg.backend import namespace
from fedsvd.linalg.block_diagonal import Orthogonal
from fedsvd.masks.left import LeftMask
from fedsvd.masks.right import DealtRightMask, RightMask
from fedsvd.types import Array


def unmask_left(U_masked: Array, P: LeftMask) -> Array:
    """``P^T U'``."""
    return P.left_t(U_masked)


def unmask_right(W_masked: Array, Q: RightMask | DealtRightMask, i: int, T_i: Orthogonal | None = None) -> Array:
    """``T_i Q_i W'``: what concerns user i's columns, (N, t) to (n_i, t); V' and the weights of a regression alike."""
    xp = namespace(W_masked)
    parts = []
    for w, window in enumerate(Q.windows):
        block = W_masked[window.outputs, :]
        parts.append(xp.matrix_transpose(Q.right_t(w, i, xp.matrix_transpose(block))))
    joined = parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)
    return joined if T_i is None else T_i.left(joined)
