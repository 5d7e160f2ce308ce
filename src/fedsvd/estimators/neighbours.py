"""Nearest neighbours by cosine among points in a latent space: exact, by matrix products.

A vector with no part in the latent space has no direction in it, but rounding leaves it one; it counts as zero.
"""

import numpy as np
from numpy.typing import NDArray

from fedsvd.types import Float

_BLOCK_ENTRIES = 1 << 23
_VECTORS_GOOD_TO = 1e-12  # the bar of the specification, section 6


def nearest(queries: Float, points: Float, k: int) -> tuple[Float, NDArray[np.intp]]:
    """The k points of largest cosine for each query, falling: cosines (q, k) and indices (q, k).

    Points of equal cosine stand in their own order. A zero vector has no direction; its cosines count as zero.
    """
    queries, points = _directions(queries), _directions(points)
    cosines, indices = np.empty((len(queries), k)), np.empty((len(queries), k), dtype=np.intp)
    height = max(1, _BLOCK_ENTRIES // max(1, len(points)))
    for start in range(0, len(queries), height):
        part = slice(start, start + height)
        similar = queries[part] @ points.T
        indices[part] = np.argsort(-similar, axis=1, kind="stable")[:, :k]
        cosines[part] = np.take_along_axis(similar, indices[part], axis=1)
    return cosines, indices


def without_rounding(folded: Float, size: Float | float) -> Float:
    """Projections of vectors of this size; zero where singular vectors that are good to 1e-12 leave rounding alone."""
    lengths = np.linalg.norm(folded, axis=1)
    kept: Float = folded * (lengths > _VECTORS_GOOD_TO * size)[:, None]
    return kept


def _directions(points: Float) -> Float:
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    return points / np.where(lengths > 0, lengths, 1.0)
