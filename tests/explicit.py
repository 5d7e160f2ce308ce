"""Masks written out as dense matrices, the slow way the paper writes them, for tests to compare with.

Only single windows are asked of the code under test; how windows make up P and Q, and which rows of Q belong to whom,
is written here a second time.
"""

from collections.abc import Iterator

import numpy as np
import scipy.linalg

from fedsvd.linalg.backend import to_numpy
from fedsvd.linalg.windows import Form
from fedsvd.masks.apply import mask_right
from fedsvd.masks.left import LeftMask
from fedsvd.masks.right import RightMask
from fedsvd.randomness.seed import Seed
from fedsvd.types import Array, Float

FORMS = tuple(Form)


def seed(number: int = 0) -> Seed:
    """One of many fixed seeds."""
    return Seed(number.to_bytes(32, "big"))


def left(P: LeftMask) -> Float:
    """P, (m, m): its windows down the diagonal."""
    dense: Float = scipy.linalg.block_diag(*(to_numpy(P.window(w).explicit()) for w in range(len(P.windows))))
    return dense


def right(Q: RightMask) -> Float:
    """Q, (n, n): rows in the order of the joint matrix's columns, columns in the order of Y's."""
    dense = np.zeros((sum(Q.widths), sum(Q.widths)))
    first = np.cumsum([0, *Q.widths])
    column = 0
    for w, window in enumerate(Q.windows):
        E = to_numpy(Q.window(w).explicit())
        rows = np.concatenate([first[i] + np.arange(own.start, own.stop) for i, own in enumerate(window.columns)])
        dense[rows, column : column + E.shape[1]] = E
        column += E.shape[1]
    return dense


def split(X: Float, widths: tuple[int, ...]) -> list[Float]:
    """The users' shares X_i of the joint matrix."""
    return np.split(X, np.cumsum(widths)[:-1], axis=1)


def masked_columns(A_i: Array, P: LeftMask, Q: RightMask, c: float, i: int) -> Iterator[tuple[slice, Array]]:
    """Y_i by column windows, as a user masks them: which columns of Y, and their values."""
    for w, window in enumerate(Q.windows):
        yield window.outputs, c * Q.right(w, i, P.left(A_i[:, window.columns[i]]))


def masked_rows(A_i: Array, P: LeftMask, Q: RightMask, c: float, i: int) -> Iterator[tuple[slice, Array]]:
    """Y_i by row windows, as a user masks them: which rows of Y, and their values."""
    for w, rows in enumerate(P.windows):
        yield rows, mask_right(P.window(w).left(A_i[rows, :]), Q, i, c)
