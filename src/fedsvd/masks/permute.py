"""The mixing mask: an orthogonal matrix over a side of any length, that spreads every row over all of it.

    P = (B_2 Pi_2) (B_1 Pi_1) (C D_2) (C D_1)

D are random signs, C the orthonormal DCT-II, Pi secret permutations of *all* rows, and B block-diagonal Haar
(specification, section 4). The DCT has a length of small prime factors; the first takes the first rows, the second
the last ones, and every row is in one of them at least. Bare blocks leave tile spectra, empty tiles and order in plain
sight (C4). Unlike ``haar`` this is a heuristic: not distinguished from Haar by the attacks of ``tests/adversary``.

A matrix that memory does not hold passes in stages: ``before`` a round takes whole columns, its ``blocks`` take rows
(``in_passes.py``). Whatever memory there is, the words are the same.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from fedsvd.errors import ShapeError
from fedsvd.kernels import lines as kernel
from fedsvd.kernels.lines import Blocks
from fedsvd.linalg.backend import dct, dct_of_lines, like, namespace
from fedsvd.linalg.block_diagonal import BatchedBlocks, draw_blocks, normals_needed
from fedsvd.linalg.householder import FromTheLeft
from fedsvd.linalg.uniform_words import normals_of, pinned_words, signed_order
from fedsvd.linalg.windows import block_sizes, smooth_length
from fedsvd.randomness.keystream import Each, Keystream, fill_words
from fedsvd.randomness.seed import Seed
from fedsvd.types import Array, Float, expect_shape

ROUNDS = 2
TOGETHER = 1024  # blocks that a device draws and multiplies at once
_PASSING = 1 << 18  # numbers of lines that pass together, where a line is shorter: they stay in a cache
_GROUP = 8  # blocks that one thread draws and turns at once


@dataclass(frozen=True, repr=False)
class HaarBlocks:
    """``B``: Haar blocks along a side, drawn once where ``keep`` says that they are stored, else at every use.

    On the host they are reflectors (``kernels.lines.Blocks``), drawn and turned by as many threads as ``each`` brings.
    """

    widths: tuple[int, ...]
    seed: Seed
    on: Array | None = None
    each: Each | None = None
    keep: bool = True
    drawn: dict[int, Any] = field(init=False, default_factory=dict, compare=False)
    _starts: tuple[int, ...] = field(init=False, compare=False)
    _words: tuple[int, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_starts", tuple(accumulate(self.widths, initial=0)))
        counts = (width * (width + 1) // 2 for width in self.widths)
        object.__setattr__(self, "_words", tuple(accumulate(counts, initial=0)))

    def __repr__(self) -> str:
        return f"HaarBlocks(n={self._starts[-1]}, blocks={len(self.widths)})"

    @property
    def starts(self) -> tuple[int, ...]:
        """The first row of every block, and the end."""
        return self._starts

    def left(self, X: Array, first: int = 0) -> Array:
        """``B X`` for the rows of whole blocks, from block ``first`` on."""
        return self._applied(X, first, transposed=False)

    def left_t(self, X: Array, first: int = 0) -> Array:
        """``B^T X`` for the same."""
        return self._applied(X, first, transposed=True)

    def turn(self, lines: Float, first: int = 0, *, transposed: bool = False, alone: bool = False) -> None:
        """``B X``, or ``B^T X``, on the host, over X, whose columns are lines: (columns, rows of whole blocks).

        ``alone`` in the calling thread, which may be one of several that turn other rows of ``ready`` blocks.
        """
        last, offset = self._last(first, lines.shape[1]), self._starts[first]
        if not alone:
            self.ready()

        def turned(block: int) -> None:
            stop = min(block + _GROUP, last)
            part = lines[:, self._starts[block] - offset : self._starts[stop] - offset]
            self._blocks(block, stop).turn(part, transposed=transposed)

        for _ in (map if alone else self.each or map)(turned, range(first, last, _GROUP)):
            pass

    def ready(self) -> None:
        """Have all blocks that are stored, before several threads ask for them."""
        if not self.keep or self.drawn:
            return
        packed, by_row = np.empty(self._words[-1]), np.empty((3, self._starts[-1]))

        def draw(block: int) -> None:
            stop = min(block + _GROUP, len(self.widths))
            rows, words = (slice(places[block], places[stop]) for places in (self._starts, self._words))
            Keystream(self.seed, words.start).normals_into(packed[words])
            Blocks.of(self._places[block : stop + 1], packed[words], by_row[:, rows])

        for _ in (self.each or map)(draw, range(0, len(self.widths), _GROUP)):
            pass
        self.drawn[0] = packed, by_row

    def _blocks(self, start: int, stop: int) -> Blocks:
        """These blocks: a part of those that are stored, or drawn for this once."""
        rows, words = (slice(places[start], places[stop]) for places in (self._starts, self._words))
        if self.keep:
            packed, by_row = self.drawn[0]
            return Blocks(self._places[start : stop + 1], packed[words], by_row[:, rows])
        normals = Keystream(self.seed, words.start).normal(words.stop - words.start)
        return Blocks.of(self._places[start : stop + 1], normals, np.empty((3, rows.stop - rows.start)))

    @cached_property
    def _places(self) -> Any:
        return np.array(self._starts)

    def _applied(self, X: Array, first: int, transposed: bool) -> Array:
        if self.on is None:
            lines = np.array(X.T, dtype=np.float64, order="C")
            self.turn(lines, first, transposed=transposed)
            return lines.T
        out, offset = namespace(X).empty_like(X, dtype=namespace(X).float64), self._starts[first]
        last, start = self._last(first, X.shape[0]), first
        while start < last:
            stop = min(start - start % TOGETHER + TOGETHER, last)
            B, rows = self._group(start, stop), slice(self._starts[start] - offset, self._starts[stop] - offset)
            out[rows, :] = B.left_t(X[rows, :]) if transposed else B.left(X[rows, :])
            start = stop
        return out

    def _last(self, first: int, rows: int) -> int:
        """The block after the last one of this many rows."""
        end = self._starts[first] + rows
        last = bisect_left(self._starts, end)
        if last == len(self._starts) or self._starts[last] != end:
            raise ShapeError(f"rows up to {end} are not whole blocks of {self!r}")
        return last

    def _group(self, start: int, stop: int) -> BatchedBlocks:
        """Blocks that a device multiplies at once; where they are stored, a part of all that were drawn together."""
        first = start - start % TOGETHER if self.keep else start
        end = min(first + TOGETHER, len(self.widths)) if self.keep else stop
        found: BatchedBlocks | None = self.drawn.get(first) if self.keep else None
        if found is None:
            words = pinned_words(normals_needed(self.widths[first:end]), self.on)
            fill_words(self.seed, words, self.each or map, self._words[first])
            found = draw_blocks(self.widths[first:end], normals_of(words, self.on))
            if self.keep:
                self.drawn[first] = found
        return found.part(start - first, stop - first)


@dataclass(frozen=True, repr=False)
class Mixing(FromTheLeft):
    """``P = (B_2 Pi_2) (B_1 Pi_1) (C D_2) (C D_1)``, orthogonal, n x n; all of it follows from ``seed``."""

    n: int
    b: int
    seed: Seed
    on: Array | None = None
    each: Each | None = None
    keep: bool = True  # store what was drawn; without it, it is drawn again at every use
    blocks: tuple[HaarBlocks, ...] = field(init=False, compare=False)
    drawn: dict[tuple[str, int], Array] = field(init=False, default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        widths = block_sizes(self.n, self.b)
        blocks = (
            HaarBlocks(widths, self.seed.derive("blocks", t), self.on, self.each, self.keep) for t in range(ROUNDS)
        )
        object.__setattr__(self, "blocks", tuple(blocks))

    def __repr__(self) -> str:
        return f"Mixing(n={self.n})"

    def left(self, X: Array) -> Array:
        """``P X``."""
        expect_shape("X", X, self.n, X.shape[1])
        if self.on is None:
            return self._through_lines(X, transposed=False)
        for t in range(ROUNDS):
            X = self.blocks[t].left(self.before(t, X))
        return X

    def left_t(self, X: Array) -> Array:
        """``P^T X``: the same steps backwards."""
        expect_shape("X", X, self.n, X.shape[1])
        if self.on is None:
            return self._through_lines(X, transposed=True)
        for t in reversed(range(ROUNDS)):
            X = self.before_t(t, self.blocks[t].left_t(X))
        return X

    def _through_lines(self, X: Float, transposed: bool) -> Float:
        lines = np.empty((X.shape[1], self.n))
        step = max(1, _PASSING // max(1, len(lines)))

        def filled(start: int) -> None:
            kernel.transpose(X[start : start + step], lines[:, start : start + step])

        for _ in (self.each or map)(filled, range(0, self.n, step)):
            pass
        for t in reversed(range(ROUNDS)) if transposed else range(ROUNDS):
            if transposed:
                self.blocks[t].turn(lines, transposed=True)
            self.mix(t, lines, transposed=transposed)
            if not transposed:
                self.blocks[t].turn(lines)
        return lines.T

    def explicit(self) -> Array:
        """The matrix itself, for tests and small sizes."""
        if self.on is None:
            return self.left(np.eye(self.n))
        return self.left(namespace(self.on).eye(self.n, dtype=self.on.dtype, device=self.on.device))

    def before(self, t: int, X: Array) -> Array:
        """What stands before the blocks of round t, on whole columns: ``Pi_t``, and before round 0 signs and DCTs."""
        if t == 0:
            X = self._signs(0) * X
            for number, rows in enumerate(self._rows()):
                if number:
                    X *= self._signs(number)
                X = _transformed(X, rows, inverse=False)
        return namespace(X).take(X, self._order(t), axis=0)

    def before_t(self, t: int, X: Array) -> Array:
        """The same backwards."""
        X = _scattered(X, self._order(t))
        if t == 0:
            for number, rows in reversed(list(enumerate(self._rows()))):
                X = _transformed(X, rows, inverse=True)
                X *= self._signs(number)
        return X

    def mix(self, t: int, lines: Float, *, transposed: bool = False) -> None:
        """What ``before``, or ``before_t``, does, on the host, over columns that are these lines, (columns, n).

        Some lines pass all steps while they are in a cache, in each of as many threads as ``each`` brings.
        """
        order = self._order(t)
        steps = [(self._signs(number)[:, 0], rows) for number, rows in enumerate(self._rows())] if t == 0 else []
        together = max(1, _PASSING // self.n)

        def mixed(first: int) -> None:
            part = lines[first : first + together]
            passing = np.empty(part.shape)
            if transposed:
                kernel.put(part, order, passing)
                for signs, rows in reversed(steps):
                    dct_of_lines(passing[:, rows], inverse=True)
                    kernel.sign(passing, signs)
                part[...] = passing
                return
            passing[...] = part
            for signs, rows in steps:
                kernel.sign(passing, signs)
                dct_of_lines(passing[:, rows])
            kernel.take(passing, order, part)

        for _ in (self.each or map)(mixed, range(0, len(lines), together)):
            pass

    def _rows(self) -> tuple[slice, slice]:
        """The rows of both DCTs: as many as have small prime factors, the first ones and the last ones."""
        length = smooth_length(self.n)
        return slice(0, length), slice(self.n - length, self.n)

    def _signs(self, number: int) -> Array:
        """The diagonal of D, as a column: bytes on the host, where it is as long as a column of the data."""
        key = "signs", number
        if key in self.drawn:
            return self.drawn[key]
        signs = Keystream(self.seed.derive("signs", number)).signs(self.n)[:, None]
        return self._stored(key, signs.astype(np.int8) if self.on is None else like(signs, self.on))

    def _order(self, t: int) -> Array:
        """``Pi_t`` as the places its rows are taken from."""
        key = "order", t
        if key in self.drawn:
            return self.drawn[key]
        stream = Keystream(self.seed.derive("order", t))
        if self.on is None:
            return self._stored(key, stream.permutation(self.n))
        return self._stored(key, namespace(self.on).argsort(signed_order(stream.words(self.n), self.on)))

    def _stored(self, key: tuple[str, int], drawn: Array) -> Array:
        if self.keep:
            self.drawn[key] = drawn
        return drawn


def groups_of_blocks(starts: tuple[int, ...], rows: int) -> list[tuple[int, slice]]:
    """Runs of whole blocks of at most this many rows, one block at least: the first block, and the rows."""
    found, first = [], 0
    for number, (_, stop) in enumerate(pairwise(starts)):
        last = number + 2 == len(starts)
        if last or starts[number + 2] - starts[first] > rows:
            found.append((first, slice(starts[first], stop)))
            first = number + 1
    return found


def _transformed(X: Array, rows: slice, inverse: bool) -> Array:
    """X, made here, with the DCT of these rows in their place."""
    if rows.stop - rows.start == X.shape[0]:
        return dct(X, inverse=inverse, spent=True)
    X[rows, :] = dct(X[rows, :], inverse=inverse, spent=True)
    return X


def _scattered(X: Array, order: Array) -> Array:
    """The rows of X back at the places they were taken from."""
    if isinstance(X, np.ndarray):
        out = np.empty_like(X)
        out[order, :] = X
        return out
    xp = namespace(X)
    return xp.take(X, xp.argsort(order), axis=0)
