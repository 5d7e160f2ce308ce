"""Masks written out as dense matrices, the slow way the paper writes them, for tests to compare with.

Of the paper's block masks only single blocks are asked of the code under test; how they make up P and Q, and which rows
of Q belong to whom, is written here a second time.
"""

import numpy as np
import scipy.linalg

from fedsvd.linalg.backend import to_numpy
from fedsvd.linalg.windows import Form
from fedsvd.masks.left import LeftMask
from fedsvd.masks.right import RightMask
from fedsvd.randomness.seed import Seed
from fedsvd.types import Array, Float
from fedsvd_lab.published.block_masks import LeftBlocks, RightBlocks

FORMS = tuple(Form)
BLOCKS = "blocks"
WITH_BLOCKS = (*FORMS, BLOCKS)
"""The forms of a mask, and the paper's."""


def seed(number: int = 0) -> Seed:
    """One of many fixed seeds."""
    return Seed(number.to_bytes(32, "big"))


def left_mask(form: str, m: int, seed: Seed, b: int) -> LeftMask | LeftBlocks:
    """P of one of these forms."""
    return LeftBlocks(m, seed, b) if form == BLOCKS else LeftMask(Form(form), m, seed, b=b)


def right_mask(form: str, widths: tuple[int, ...], seed: Seed, b: int) -> RightMask | RightBlocks:
    """Q of one of these forms."""
    return RightBlocks(widths, seed, b) if form == BLOCKS else RightMask(Form(form), widths, seed, b=b)


def left(P: LeftMask | LeftBlocks) -> Float:
    """P, (m, m)."""
    blocks = [P.window(w) for w in range(len(P.windows))] if isinstance(P, LeftBlocks) else [P.matrix]
    dense: Float = scipy.linalg.block_diag(*(to_numpy(block.explicit()) for block in blocks))
    return dense


def right(Q: RightMask | RightBlocks) -> Float:
    """Q, (n, n): rows in the order of the joint matrix's columns, columns in the order of Y's."""
    if isinstance(Q, RightMask):
        return to_numpy(Q.matrix.explicit())
    dense = np.zeros((sum(Q.widths), sum(Q.widths)))
    first = np.cumsum([0, *Q.widths])
    column = 0
    for w, window in enumerate(Q.windows):
        E = to_numpy(Q.window(w).explicit())
        rows = np.concatenate([first[i] + np.arange(own.start, own.stop) for i, own in enumerate(window.columns)])
        dense[rows, column : column + E.shape[1]] = E
        column += E.shape[1]
    return dense


def masked(A_i: Array, P: LeftMask | LeftBlocks, Q: RightMask | RightBlocks, c: float, i: int) -> Array:
    """``c P A_i Q_i``, as a user masks its columns."""
    under_p = P.left(A_i)
    if isinstance(Q, RightMask):
        return c * Q.right(i, under_p)
    parts = [under_p[:, window.columns[i]] @ Q.rows(w, i) for w, window in enumerate(Q.windows)]
    return c * np.concatenate(parts, axis=1)


def split(X: Float, widths: tuple[int, ...]) -> list[Float]:
    """The users' shares X_i of the joint matrix."""
    return np.split(X, np.cumsum(widths)[:-1], axis=1)
