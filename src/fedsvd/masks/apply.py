"""Step 2 of the paper: ``Y_i = c P A_i Q_i``, panel by panel.

A panel is one window of Q (columns) or one window of P (rows), so neither Y_i nor a zero of Q is ever stored whole.
What is applied here is removed in ``remove.py``, in the same order.
"""

from collections.abc import Iterator

from fedsvd.linalg.backend import namespace
from fedsvd.masks.left import LeftMask
from fedsvd.masks.right import RightMask
from fedsvd.types import Array, expect_shape


def mask_columns(A_iw: Array, P: LeftMask, Q: RightMask, c: float, i: int, w: int) -> Array:
    """``c P A_iw Q_iw``: column window w of Y_i, (m, width of the window)."""
    return Q.right(w, i, c * P.left(A_iw))


def mask_rows(A_i_rows: Array, P: LeftMask, Q: RightMask, c: float, i: int, w: int) -> Array:
    """Row window w of Y_i, (rows of the window, N), from the same rows of A_i."""
    rows = c * P.window(w).left(A_i_rows)
    parts = [Q.right(v, i, rows[:, window.columns[i]]) for v, window in enumerate(Q.windows)]
    return parts[0] if len(parts) == 1 else namespace(rows).concat(parts, axis=1)


def masked_columns(A_i: Array, P: LeftMask, Q: RightMask, c: float, i: int) -> Iterator[tuple[slice, Array]]:
    """Y_i by column windows: which columns of Y, and their values."""
    expect_shape("A_i", A_i, P.m, Q.widths[i])
    for w, window in enumerate(Q.windows):
        yield window.outputs, mask_columns(A_i[:, window.columns[i]], P, Q, c, i, w)


def masked_rows(A_i: Array, P: LeftMask, Q: RightMask, c: float, i: int) -> Iterator[tuple[slice, Array]]:
    """Y_i by row windows: which rows of Y, and their values."""
    expect_shape("A_i", A_i, P.m, Q.widths[i])
    for w, rows in enumerate(P.windows):
        yield rows, mask_rows(A_i[rows, :], P, Q, c, i, w)
