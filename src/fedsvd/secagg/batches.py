"""How a payload is cut: into mini-batches that fit a memory budget, and into chunks that fit a cache.

Mini-batch secure aggregation is in section 3.2 of the paper. Batches are public (they stand in the plan, and
all parties cut alike); chunks are internal to the loop. A chunk follows C order whatever the
memory layout, so that word number j of a pad is added to entry j of the payload at every user.
"""

import itertools
from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

from fedsvd.errors import ConfigError, ShapeError

CHUNK = 1 << 14  # words; a chunk and its scratch stay in the second-level cache
WORD = 8
_SCRATCH = 3  # chunks: scaled floats, pad words, and the comparison that counts overflows
_MOST_ENTRIES = (1 << 31) - 1  # 32-bit counters in BLAS, LAPACK and codecs end here


def batch_rows(rows: int, width: int, budget_bytes: int, *, held: int = 2) -> tuple[slice, ...]:
    """The fewest near-equal row batches of a rows x width payload whose working set fits the budget.

    ``held`` counts the arrays of a batch's size that are alive at once: two at a user (masked floats, padded
    payload) and two at the CSP (running sum, arriving share; later the sum and its decoded floats). Scratch
    chunks come on top. For column batches exchange ``rows`` and ``width``.
    """
    if rows < 1 or width < 1 or held < 1:
        raise ConfigError(f"need rows, width and held >= 1, got {rows}, {width} and {held}")
    most = min(_entries_that_fit(budget_bytes, held), _MOST_ENTRIES) // width
    if most < 1:
        raise ConfigError(
            f"a memory budget of {budget_bytes} bytes does not hold one row of {width} entries",
            _smallest_budget(width, held),
        )
    count = -(-rows // most)
    least, longer = divmod(rows, count)
    starts = [least * i + min(i, longer) for i in range(count + 1)]
    return tuple(slice(start, stop) for start, stop in itertools.pairwise(starts))


def working_set(entries: int, held: int = 2) -> int:
    """The bytes alive while a batch of this many entries is handled."""
    return WORD * (held * entries + _SCRATCH * min(CHUNK, entries))


def _entries_that_fit(budget_bytes: int, held: int) -> int:
    words = max(0, budget_bytes) // WORD
    if words <= (held + _SCRATCH) * CHUNK:
        return words // (held + _SCRATCH)
    return (words - _SCRATCH * CHUNK) // held


def _smallest_budget(width: int, held: int) -> str:
    if width > _MOST_ENTRIES:
        return f"cut the columns first: a row of a batch has at most {_MOST_ENTRIES} entries"
    return f"allow at least {working_set(width, held)} bytes"


def chunks(*arrays: NDArray[Any], most: int = CHUNK) -> Iterator[tuple[NDArray[Any], ...]]:
    """Matching views of equally shaped arrays, at most ``most`` entries each, in C order."""
    first = arrays[0]
    if any(array.shape != first.shape for array in arrays):
        raise ShapeError(f"shapes differ: {[array.shape for array in arrays]}")
    if first.size and all(array.flags.c_contiguous for array in arrays):
        arrays = tuple(array.reshape(-1) for array in arrays)
    yield from _cut(arrays, most)


def _cut(arrays: tuple[NDArray[Any], ...], most: int) -> Iterator[tuple[NDArray[Any], ...]]:
    shape = arrays[0].shape
    per_row = arrays[0].size // shape[0] if shape and shape[0] else 0
    if not per_row:
        return
    if per_row > most:
        for row in zip(*arrays, strict=True):
            yield from _cut(row, most)
        return
    step = most // per_row
    for start in range(0, shape[0], step):
        yield tuple(array[start : start + step] for array in arrays)
