"""Compression in parts that are computed apart and merged in a tree (``engine = "dask"``).

Each part is the factor of some columns, as the bytes of its checkpoint, which carry a digest; two of them merge into
one. Nothing here knows what runs the parts or where: workers import this file and call these functions.
"""

from collections.abc import Sequence

import numpy as np

from fedsvd.data.checks import to_float
from fedsvd.data.source import Reopen
from fedsvd.linalg.streaming_factor import StreamingFactor
from fedsvd.types import Float


def part_of_source(reopen: Reopen, start: int, stop: int, panel: int, shift: Float | None) -> bytes:
    """The factor of columns ``start .. stop-1``, read here in panels."""
    source = reopen()
    factor = StreamingFactor(source.shape[0] + (shift is not None))
    for first in range(start, stop, panel):
        factor.update_columns(_less(source.columns(first, min(first + panel, stop)), shift))
    return factor.to_bytes()


def part_of_array(X: Float, shift: Float | None) -> bytes:
    """The factor of columns that are here already."""
    X = to_float(X, lambda i, j: "a block of a Dask array")
    factor = StreamingFactor(X.shape[0] + (shift is not None))
    factor.update_columns(_less(X, shift))
    return factor.to_bytes()


def merged(parts: Sequence[bytes]) -> bytes:
    """The factor of all columns of these parts."""
    first, *rest = (StreamingFactor.from_bytes(part) for part in parts)
    for other in rest:
        first.merge(other)
    return first.to_bytes()


def _less(X: Float, shift: Float | None) -> Float:
    """The columns less the shift, under a row of ones, where there is one: centring rides along (``centre.py``)."""
    return X if shift is None else np.concatenate((np.ones((1, X.shape[1])), X - shift[:, None]))
