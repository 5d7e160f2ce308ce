"""A seed unrolled into words, normals, signs and permutations.

The stream is AES-256 in counter mode over zeros (NIST SP 800-38A), counter from zero, read as little-endian
64-bit words. The key is a derived seed used for this stream alone, so the all-zero nonce is never repeated
under one key. AES rather than ChaCha20, whose counter semantics changed between versions of the library
underneath (ADR 0004).

Normals, method 1: the top 52 bits of a word plus one half, times 2^-52, is a uniform that is never 0 or 1;
the inverse normal CDF makes it a normal. One word gives one normal, so positions can be skipped to. Parties
with another libm may differ in the last bit, which is harmless: masks need not be bit-identical.
"""

from collections.abc import Iterator, Sequence
from typing import NoReturn

import numpy as np
import scipy
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from fedsvd.errors import ConfigError
from fedsvd.kernels.words import uniforms
from fedsvd.randomness.seed import Seed
from fedsvd.types import Each as Each
from fedsvd.types import Float, Ring

_CHUNK = 1 << 16  # normals made at once: they stay in a cache, and a call is long where several threads call
_LONG = 1 << 17  # words a call of the cipher makes
_MANY_ZEROS = bytes(8 * _LONG)
_PIECE = 1 << 16  # words; with what they are added to they stay in the second-level cache


_FROM_ZERO = modes.CTR(bytes(16))
START = 12  # bytes of a block that say which of many short streams it is of; the last four count its blocks
MOST_SHORT = _LONG
"""Words of a short stream: far below what four bytes count."""
_COUNTER = bytes(16 - START)
_ZEROS = memoryview(_MANY_ZEROS)
_SEGMENT = 1 << 20  # words that one thread makes at a time
_NORMALS = 1 << 17  # normals that one thread makes at a time


class Keystream:
    """The words that follow from ``seed``, from position ``word`` on."""

    def __init__(self, seed: Seed, word: int = 0) -> None:
        block, odd = divmod(word, 2)
        start = modes.CTR(block.to_bytes(16, "big")) if block else _FROM_ZERO
        self._cipher = Cipher(algorithms.AES(seed.reveal()), start).encryptor()
        if odd:
            self._cipher.update(bytes(8))

    @classmethod
    def of(cls, seed: Seed, *labels: str | int) -> "Keystream":
        """The stream for one purpose: of the seed that these labels derive."""
        return cls(seed.derive(*labels))

    def __repr__(self) -> str:
        return "Keystream(<redacted>)"

    def into(self, out: Ring) -> None:
        """The next words into ``out``, one-dimensional and contiguous."""
        view, size = out.view(np.uint8).data, 8 * out.size
        if out.size < 2:
            out[:] = self.words(out.size)
            return
        # update_into needs space for one more cipher block than it writes: the last words go through a buffer.
        for start in range(0, size - 16, 8 * _LONG):
            end = min(start + 8 * _LONG, size - 16)
            self._cipher.update_into(_ZEROS[: end - start], view[start:])
        out[-2:] = self.words(2)

    def pieces(self, count: int) -> Iterator[Ring]:
        """The next ``count`` words in pieces that stay in a cache; each is overwritten by the following one."""
        buffer = np.empty(_PIECE + 2, np.uint64)  # update_into needs space for one more cipher block than it writes
        view, words = buffer.view(np.uint8).data, buffer[:_PIECE]
        update, whole = self._cipher.update_into, _ZEROS[: 8 * _PIECE]
        for _ in range(count // _PIECE):
            update(whole, view)
            yield words
        if rest := count % _PIECE:
            update(_ZEROS[: 8 * rest], view)
            yield words[:rest]

    def words(self, count: int) -> Ring:
        """The next ``count`` words, uniform on 0 .. 2^64 - 1."""
        # update_into needs space for one more cipher block than it writes.
        buffer = np.empty(8 * count + 16, np.uint8)
        view = buffer.data
        for start in range(0, 8 * count, 8 * _LONG):
            size = min(8 * _LONG, 8 * count - start)
            self._cipher.update_into(_ZEROS[:size], view[start:])
        words: Ring = buffer[: 8 * count].view("<u8")
        return words

    def bytes_into(self, count: int, out: memoryview) -> None:
        """The next ``count`` words as bytes at the beginning of ``out``, which has space for one more cipher block."""
        self._cipher.update_into(_ZEROS[: 8 * count], out)

    def normal(self, shape: tuple[int, ...] | int) -> Float:
        """Independent standard normals in C order, one word each (method 1)."""
        normals = np.empty(shape)
        self.normals_into(normals.reshape(-1))
        return normals

    def normals_into(self, out: Float) -> None:
        """The same into ``out``, one-dimensional and contiguous."""
        for start in range(0, out.size, _CHUNK):
            part = out[start : start + _CHUNK]
            words = part.view(np.uint64)
            self.into(words)
            scipy.special.ndtri(uniforms(words), out=part)

    def signs(self, count: int) -> Float:
        """Independent fair signs, +1.0 or -1.0; 64 to a word, low bit first."""
        words = self.words(-(-count // 64))
        bits = np.unpackbits(words.astype("<u8").view(np.uint8), count=count, bitorder="little")
        signs: Float = 1.0 - 2.0 * bits.astype(np.float64)
        return signs

    def permutation(self, count: int) -> NDArray[np.intp]:
        """A uniform permutation of ``0 .. count-1``: the order of ``count`` words."""
        return np.argsort(self.words(count), kind="stable")

    def uniform(self, low: float, high: float) -> float:
        """One number, uniform on low <= x < high, in 2^52 steps."""
        return low + (high - low) * float(self.words(1)[0] >> np.uint64(12)) * 2.0**-52


class ShortStreams:
    """Many short streams of one seed: AES-256 in counter mode under one key, each from a block of its own.

    A stream begins at the block of its ``start``, 12 bytes, and a counter of 4 bytes from zero. The caller gives every
    start once: two streams from one start are the same stream. A key of its own for each would cost five times the
    cipher of some thousand bytes.
    """

    def __init__(self, seed: Seed) -> None:
        self._cipher = Cipher(algorithms.AES(seed.reveal()), _FROM_ZERO).encryptor()

    def __repr__(self) -> str:
        return "ShortStreams(<redacted>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("streams are never copied")

    @staticmethod
    def rows(streams: "Sequence[ShortStreams]", start: bytes, count: int) -> Ring:
        """The first ``count`` words from ``start`` of each of these, one row each."""
        if len(start) != START or count > MOST_SHORT:
            raise ConfigError(f"a start of {len(start)} bytes, {count} words; expected {START}, at most {MOST_SHORT}")
        rows = np.empty((len(streams) + 1, max(count, 2)), np.uint64)  # the cipher needs space for one more block
        out, first, zeros, step = (
            rows.reshape(-1).view(np.uint8).data,
            start + _COUNTER,
            _ZEROS[: 8 * count],
            rows.strides[0],
        )
        for at, stream in enumerate(streams):
            cipher = stream._cipher
            cipher.reset_nonce(first)
            cipher.update_into(zeros, out[at * step :])
        return rows[:-1, :count]


def fill_words(seed: Seed, out: Ring, each: Each, first: int = 0, segment: int = _SEGMENT) -> None:
    """The words of the seed's stream from ``first`` on into ``out``, contiguous, segment by segment."""

    def some(start: int) -> None:
        Keystream(seed, first + start).into(out[start : start + segment])

    for _ in each(some, range(0, out.size, segment)):
        pass


class ThreadedNormals:
    """The normals of a seed's stream, one call after the other, each made by as many threads as ``each`` brings.

    The same numbers as those of ``Keystream.normal``.
    """

    def __init__(self, seed: Seed, each: Each | None) -> None:
        self._seed, self._each, self._next = seed, each, 0

    def __repr__(self) -> str:
        return f"ThreadedNormals(next={self._next})"

    def normal(self, shape: tuple[int, ...] | int) -> Float:
        """The next ones, in this shape."""
        out = np.empty(shape)
        flat, first = out.reshape(-1), self._next
        self._next += flat.size

        def segment(start: int) -> None:
            part = flat[start : start + _NORMALS]
            Keystream(self._seed, first + start).normals_into(part)

        for _ in (self._each or map)(segment, range(0, flat.size, _NORMALS)):
            pass
        return out
