"""The compiled passes, loaded; none where they were not made, or were made of another version of ``passes.c``.

A call gives up Python's lock, so that several threads compute at once; each should be long, because sixteen threads
that ask for the lock every ten microseconds wait for it instead.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

VERSION = 7
_address: Callable[[Any], int] = ctypes.addressof
_from_buffer: Callable[[Any], Any] = ctypes.c_char.from_buffer
_AT, _COUNT, _REAL = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
_LINES = (_AT, _COUNT, _COUNT, _COUNT)
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "encode_filled": (*_LINES, _REAL, _REAL, _REAL, _AT, _AT, _COUNT),
    "decode": (_AT, _COUNT, _REAL, _COUNT, _AT),
    "add_words": (_AT, _AT, _COUNT),
    "subtract_words": (_AT, _AT, _COUNT),
    "uniforms": (_AT, _COUNT),
    "combine_halves": (_AT, _AT, _COUNT, _COUNT),
    "combine_rows": (_AT, _AT, _COUNT, _COUNT, _COUNT, _COUNT, _COUNT),
    "to_halves": (_AT, _COUNT, _REAL, _REAL, _AT, _AT),
    "from_halves": (_AT, _COUNT, _REAL, _AT),
    "tag": (_AT, _COUNT, _COUNT, _AT, _AT),
    "add_whole": (_AT, _AT, _COUNT),
    "gram_words": (_AT, _COUNT, _COUNT, _AT, _AT, _AT),
    "gram_left": (_AT, _COUNT, _COUNT, _AT, _COUNT, _AT, _AT, _AT, _COUNT),
    "sign": (*_LINES, _AT),
    "take": (*_LINES, _AT, _AT, _COUNT),
    "put": (*_LINES, _AT, _AT, _COUNT),
    "transpose": (*_LINES, _AT, _COUNT),
    "inner": (*_LINES, _AT, _COUNT, _COUNT, _AT, _COUNT, _AT, _COUNT, _COUNT),
    "combine": (*_LINES, _AT, _COUNT, _COUNT, _AT, _COUNT, _AT, _COUNT, _COUNT, _AT, _COUNT, _COUNT),
    "sparse": (_AT, _AT, _AT, _AT, _COUNT, _AT, _AT, _COUNT, _COUNT),
    "reflectors": (_AT, _AT, _COUNT, _AT, _AT, _AT),
    "reflect": (_AT, _AT, _AT, _AT, _AT, _COUNT, _AT, _COUNT, _COUNT, _COUNT),
}
_COUNTING = ("encode_filled", "decode", "to_halves", "has_narrow", "passes_version")


@cache
def compiled() -> Any:
    """The functions of ``passes.c``, or None."""
    try:
        library = ctypes.CDLL(str(Path(__file__).parent / "passes.so"))
        for name in _COUNTING:
            getattr(library, name).restype = ctypes.c_int64
        if library.passes_version() != VERSION:
            return None
        for name, signature in SIGNATURES.items():
            getattr(library, name).argtypes = signature
    except (OSError, AttributeError):
        return None
    return library


def at(array: NDArray[Any]) -> int:
    """Where an array lies."""
    try:
        return _address(_from_buffer(array))  # a quarter of the time of what NumPy tells
    except (TypeError, ValueError):  # read-only, in several pieces, or empty
        pass
    address: int = array.__array_interface__["data"][0]
    return address


def lying(lines: NDArray[Any], kind: str = "d") -> bool:
    """Whether these are aligned numbers of this kind whose rows are each in one piece, one after the other."""
    if lines.dtype.char != kind or not lines.flags.aligned:
        return False
    across, step = lines.strides
    return (lines.shape[1] <= 1 or step == 8) and across % 8 == 0 and across >= 0


def lines_of(lines: NDArray[Any]) -> tuple[int, int, int, int]:
    """An array as the compiled functions take it: where it lies, its sides, and the distance of its rows in numbers."""
    return at(lines), lines.shape[0], lines.shape[1], lines.strides[0] // 8
