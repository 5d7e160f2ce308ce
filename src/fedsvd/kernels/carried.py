"""Words of two halves by ``passes.c``: sums with carries, numbers as words and back, tags.

Where nothing is compiled, or arrays do not lie in one piece, a function does nothing and says so: its caller computes
the same in NumPy, bit for bit.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.kernels.library import at, compiled, lying

Float = NDArray[np.float64]
Ring = NDArray[np.uint64]
_MOST_POWER = 900  # of a scale: numbers of 128 bits times it stay in the range of float64


def combine(onto: Ring, words: Ring, minus: bool) -> bool:
    """``onto + words``, or ``onto - words``, in place, modulo 2^128; both of shape (count, 2)."""
    library = _library(onto, words) if onto.shape[1] == 2 else None
    if library is None:
        return False
    library.combine_halves(at(onto), at(words), len(onto), int(minus))
    return True


def combine_rows(onto: Ring, rows: Ring, plus: int) -> bool:
    """``onto`` plus the first ``plus`` of ``rows``, minus the others, in place, modulo 2^(64 halves).

    ``onto`` is of shape (count, halves); a row holds as many words, one after the other.
    """
    library = _library(onto) if lying(rows, "L") and rows.dtype.isnative else None
    if library is None:
        return False
    library.combine_rows(at(onto), at(rows), plus, len(rows), rows.strides[0] // 8, *onto.shape)
    return True


def to_words(values: Float, power: int, most: float, noise: NDArray[np.int64] | None, out: Ring) -> int | None:
    """``round(2^power values) + noise`` into ``out``, (count, 2): how many are beyond ``most``, or not finite."""
    library = _library(values, out) if noise is None else _library(values, out, noise)
    if library is None or abs(power) > _MOST_POWER:
        return None
    beyond: int = library.to_halves(
        at(values), len(values), 2.0**power, most, None if noise is None else at(noise), at(out)
    )
    return beyond


def to_numbers(words: Ring, power: int, out: Float) -> bool:
    """``2^power words`` into ``out``, each rounded once."""
    library = _library(words, out)
    if library is None or abs(power) > _MOST_POWER:
        return False
    library.from_halves(at(words), len(words), 2.0**power, at(out))
    return True


def tag(words: Ring, keys: Ring) -> Ring | None:
    """``sum_j keys_j words_j``, words signed and of one half or two, modulo 2^192: three halves."""
    library = _library(words, keys)
    if library is None or words.shape[1] > 2:
        return None
    found = np.empty(3, np.uint64)
    library.tag(at(words), *words.shape, at(keys), at(found))
    return found


def _library(*arrays: NDArray[Any]) -> Any:
    """The compiled functions, for arrays that they can read."""
    fit = all(array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative for array in arrays)
    return compiled() if fit else None
