"""A cursor over a peer's bytes that cannot run past their end, and arrays as bytes.

Law of this file: every malformed byte is the one error ``MalformedFrame``, with one text. An error that said what was
wrong would answer questions a peer has no business asking.

An array is a small header (dtype, order, shape), then the numbers, little-endian. Only float64 and uint64 of at most
two dimensions are ever sent, so only they can be read. A header that promises more than the bytes behind it, or than
the limit, is malformed before anything is allocated.
"""

import math
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import MalformedFrame


def malformed() -> MalformedFrame:
    """The one answer to anything that is not well-formed."""
    return MalformedFrame("a message is not well-formed", "check that all parties run the same version")


class Reader:
    """Takes bytes from the front; never copies, never writes, never reads past the end."""

    def __init__(self, body: bytes | memoryview) -> None:
        self._view = memoryview(body).cast("B").toreadonly()
        self._place = 0

    @property
    def left(self) -> int:
        return len(self._view) - self._place

    def take(self, count: int) -> memoryview:
        """The next ``count`` bytes."""
        if not 0 <= count <= self.left:
            raise malformed()
        start, self._place = self._place, self._place + count
        return self._view[start : self._place]

    def end(self) -> None:
        """There must be nothing left."""
        if self.left:
            raise malformed()


_DTYPES = {b"f": np.dtype("<f8"), b"u": np.dtype("<u8")}
_CODES = {np.dtype(np.float64): b"f", np.dtype(np.uint64): b"u"}
_HEADER = struct.Struct("<ccB")  # dtype, order, dimensions
_MOST_DIMENSIONS = 2


def encode_array(array: NDArray[np.float64] | NDArray[np.uint64]) -> list[bytes | memoryview]:
    """Header and numbers; the numbers are a view wherever the array is contiguous."""
    order = b"F" if array.ndim == 2 and array.flags.f_contiguous and not array.flags.c_contiguous else b"C"
    rows: NDArray[Any] = array.T if order == b"F" else array
    rows = np.ascontiguousarray(rows, dtype=_DTYPES[_CODES[array.dtype]])
    header = _HEADER.pack(_CODES[array.dtype], order, array.ndim) + struct.pack(f"<{array.ndim}Q", *array.shape)
    return [header, rows.reshape(-1).view(np.uint8).data]


def decode_array(reader: Reader) -> NDArray[np.float64] | NDArray[np.uint64]:
    """The array at the reader's place, a read-only view of its bytes."""
    code, order, dimensions = _HEADER.unpack(reader.take(_HEADER.size))
    if code not in _DTYPES or order not in (b"C", b"F") or dimensions > _MOST_DIMENSIONS:
        raise malformed()
    shape = struct.unpack(f"<{dimensions}Q", reader.take(8 * dimensions))
    if order == b"F" and dimensions != 2:
        raise malformed()
    # Python's integers do not wrap, so an absurd shape asks for absurdly many bytes and is refused by take.
    flat = np.frombuffer(reader.take(8 * math.prod(shape)), dtype=_DTYPES[code])
    array = flat.reshape(shape[::-1]).T if order == b"F" else flat.reshape(shape)
    return array.astype(array.dtype.newbyteorder("="), copy=False)
