"""What a column of ones and bare masked labels give away under the paper's masks (C8, C10).

A column of ones has the same norm in every row block, and P preserves norms: with ``q`` the direction of that column
among the window's, ``|Y_a q|^2`` is the size of block a for every a, which is linear in ``q q^T``. Labels as ``P y``
have their norm in every block: for labels 0 and 1 that is the number of ones.
"""

from collections.abc import Sequence

import numpy as np

from fedsvd.types import Float


def constant_direction(Y: Float, blocks: Sequence[slice]) -> Float:
    """P 1 up to sign and scale, from the columns of Y, (rows, width), among which it is mixed."""
    width = Y.shape[1]
    upper = np.triu_indices(width)
    twice = np.where(upper[0] == upper[1], 1.0, 2.0)
    equations = np.array([(Y[rows].T @ Y[rows])[upper] * twice for rows in blocks])
    answers = np.array([float(rows.stop - rows.start) for rows in blocks])
    outer = np.zeros((width, width))
    outer[upper] = np.linalg.lstsq(equations, answers, rcond=None)[0]
    strengths, directions = np.linalg.eigh(outer + np.triu(outer, 1).T)
    found: Float = Y @ directions[:, np.argmax(np.abs(strengths))]
    return found


def cosine(found: Float, true: Float) -> float:
    """|cos| of the angle between two vectors."""
    return abs(float(found @ true)) / float(np.linalg.norm(found) * np.linalg.norm(true))


def label_counts(y_masked: Float, blocks: Sequence[slice]) -> Float:
    """How many labels of 0 and 1 are 1 in every row block, from ``c P y``, but for one factor common to all blocks."""
    return np.array([float(np.sum(y_masked[rows] ** 2)) for rows in blocks])
