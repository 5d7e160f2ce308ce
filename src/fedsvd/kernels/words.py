"""Words of the ring: fixed point with its last bits filled, sums, and the uniforms behind normals.

Each function is one pass by ``passes.c``, or the same in NumPy, bit for bit. Nothing here knows keys or parties.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.kernels.library import at, compiled, lines_of, lying

Float = NDArray[np.float64]
Ring = NDArray[np.uint64]
_EXPONENT = 0x7FF << 52  # where a float64 has its power of two
_WORD = np.dtype(np.uint64).char
_CHUNK = 1 << 14  # numbers that stay in a cache while NumPy passes over them some times


def encode_filled(Y: Float, scale: float, most: float, least: int, bits: NDArray[np.int16], out: Ring) -> int:
    """``round(scale Y)`` plus random last bits, mod 2^64, into ``out``; how many entries are beyond ``most``, or NaN.

    Filled are the digits that no float64 has: those below the unit in the last place of each scaled entry, and the last
    ``least`` in any case. Sixteen bits are taken for each entry. ``out`` may be ``Y.view(np.uint64)``; where entries
    are beyond, its contents are of no use.
    """
    library = compiled()
    if library is not None and lying(Y) and lying(out, _WORD) and bits.flags.c_contiguous:
        power, step = 2.0 ** (52 + least), out.strides[0] // 8
        return int(library.encode_filled(*lines_of(Y), scale, most, power, at(bits), at(out), step))
    return sum(
        _encoded(Y[rows], scale, most, least, bits.reshape(Y.shape)[rows], out.view(np.int64)[rows])
        for rows in _pieces(Y.shape)
    )


def decode(words: Ring, scale: float, most: int, out: Float) -> int:
    """Words read as signed numbers, times ``scale``; how many are beyond ``most``. ``out`` may be the words."""
    library = compiled()
    if library is not None and _in_one_piece(_WORD, words) and _in_one_piece("d", out):
        return int(library.decode(at(words), words.size, scale, most, at(out)))
    beyond = 0
    for rows in _pieces(words.shape):
        part = words[rows].view(np.int64)
        if part.size and (part.max() > most or part.min() < -most):
            beyond += int(np.count_nonzero((part > most) | (part < -most)))
        np.copyto(out[rows], part)
        np.multiply(out[rows], scale, out=out[rows])
    return beyond


def add(onto: Ring, words: Ring) -> None:
    """``onto + words`` mod 2^64, in place."""
    _combine("add_words", np.add, onto, words)


def subtract(onto: Ring, words: Ring) -> None:
    """``onto - words`` mod 2^64, in place."""
    _combine("subtract_words", np.subtract, onto, words)


def uniforms(words: Ring) -> Float:
    """Numbers between 0 and 1, in 2^52 steps, from the first 52 bits of each word; written over the words."""
    numbers: Float = words.view(np.float64)
    library = compiled()
    if library is not None and _in_one_piece(_WORD, words):
        library.uniforms(at(words), words.size)
        return numbers
    np.right_shift(words, np.uint64(12), out=words)
    np.add(words, 0.5, out=numbers, casting="unsafe")
    np.multiply(numbers, 2.0**-52, out=numbers)
    return numbers


def _encoded(Y: Float, scale: float, most: float, least: int, bits: NDArray[np.int16], out: NDArray[np.int64]) -> int:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        entries = Y * scale
        beyond = entries.size - int(np.count_nonzero(np.abs(entries) <= most))
        if beyond:
            return beyond
    # The unit in the last place of each entry, a power of two, times 2^52; where it is one there is no place to fill.
    powers = (entries.view(np.int64) & _EXPONENT).view(np.float64)
    np.maximum(powers, 2.0 ** (52 + least), out=powers)
    if least == 0:
        powers[powers <= 2.0**52] = 0.0
    filled = np.floor(bits * 2.0**-68 * powers)
    np.copyto(out, np.rint(entries), casting="unsafe")
    np.add(out, filled.astype(np.int64), out=out)
    return 0


def _combine(name: str, otherwise: np.ufunc, onto: Ring, words: Ring) -> None:
    library = compiled()
    if library is not None and _in_one_piece(_WORD, onto, words):
        getattr(library, name)(at(onto), at(words), onto.size)
    else:
        otherwise(onto, words, out=onto)


def _in_one_piece(kind: str, *arrays: NDArray[Any]) -> bool:
    return all(array.dtype.char == kind and array.flags.c_contiguous and array.flags.aligned for array in arrays)


def _pieces(shape: tuple[int, ...]) -> list[Any]:
    if not shape:
        return [...]
    step = max(1, _CHUNK * shape[0] // max(1, int(np.prod(shape))))
    return [slice(start, start + step) for start in range(0, shape[0], step)]
