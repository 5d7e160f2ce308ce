"""Masks go on in step 4 of the mask family (paper 2), ``Y_i = c P A_i T_i Q_i``, by panels of rows.

P comes from the left, T_i and Q_i from the right, labels next to A_i get P and c alone.

In steps 6 to 8 (paper 4) they come off again, in the same order (Theorem 1 of the paper).

    U = P^T U',    sigma = sigma' / c,    W_i = T_i Q_i W'

Users remove only what is theirs to remove: P from the shared U', their own Q_i from what concerns their columns.
"""

from fedsvd.linalg.backend import namespace
from fedsvd.linalg.block_diagonal import Orthogonal
from fedsvd.masks.left import LeftMask
from fedsvd.masks.right import RightMask
from fedsvd.types import Array


def mask_right(rows: Array, Q: RightMask, i: int, c: float = 1.0, T_i: Orthogonal | None = None) -> Array:
    """``c [A T_i Q_i, y]`` of rows ``[A, y]`` that are under P, (rows, N + targets)."""
    width = Q.widths[i]
    A = rows[:, :width]
    joined = Q.right(i, A if T_i is None else T_i.right(A))
    if rows.shape[1] > width:
        joined = namespace(rows).concat([joined, rows[:, width:]], axis=1)
    if c != 1.0:
        joined *= c  # made here, so changed in place
    return joined


def written_out(Q: RightMask, i: int, c: float, T_i: Orthogonal, targets: int = 0) -> Array:
    """``diag(c T_i Q_i, c I)`` as a matrix, (w_i + targets, N + targets): rows and labels pass in one product."""
    right = c * Q.right(i, T_i.explicit())
    if not targets:
        return right
    (width, N), xp, on = right.shape, namespace(right), right.device
    both = xp.zeros((width + targets, N + targets), dtype=xp.float64, device=on)
    both[:width, :N] = right
    both[width:, N:] = c * xp.eye(targets, dtype=xp.float64, device=on)
    return both


def unmask_left(U_masked: Array, P: LeftMask) -> Array:
    """``P^T U'``."""
    return P.left_t(U_masked)


def unmask_right(W_masked: Array, Q: RightMask, i: int, T_i: Orthogonal | None = None) -> Array:
    """``T_i Q_i W'``: what concerns user i's columns, (N, t) to (n_i, t); V' and the weights of a regression alike."""
    transposed = namespace(W_masked).matrix_transpose
    own = transposed(Q.right_t(i, transposed(W_masked)))
    return own if T_i is None else T_i.left(own)
