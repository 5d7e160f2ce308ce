"""Matrices that are nowhere: made panel by panel from a seed, so that sizes beyond the disk can be run.

    synthetic://1000x50000000?seed=7                       independent standard normals
    synthetic://1000x50000000?alpha=0.01&seed=7            a power law: X = U diag(j^-alpha) G, G standard normal
    synthetic://1000x50000000?seed=7&columns=0:25000000    one party's columns of it; rows=... likewise
    synthetic://1000000x1000?seed=7&label=y&noise=1        with a last column y = X w + noise, w standard normal

U is orthogonal, of the shorter side, and cheap to apply: a DCT-II followed by random signs. The authors' data has a U
from a QR factorisation, and is divided by sqrt(n - 1) and by its largest row norm (section 5 of the paper); ours keeps
entries of unit size, which needs no pass. The matrix is a sheaf of lines along its shorter side, each made by itself,
and every entry is a function of seed and place (``hashed_normals.py``). It is made of no person's records.
"""

import hashlib
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from fedsvd.data.address import Address
from fedsvd.data.hashed_normals import normals, normals_on, stream_key
from fedsvd.data.source import Index, MatrixSource
from fedsvd.errors import ConfigError
from fedsvd.types import Array, Digest, Float

SCHEME = "synthetic://"
_KEYS = ("seed", "alpha", "rows", "columns", "label", "noise")
_CHUNK = 1 << 16  # numbers made at a time; they stay in the second-level cache


class SyntheticSource(MatrixSource):
    """The matrix of one ``synthetic://`` address."""

    def __init__(self, text: str) -> None:
        address = Address(text, SCHEME, _KEYS)
        self.rows_in_all, self.columns_in_all = address.shape
        self._address = address
        self._tall = self.rows_in_all > self.columns_in_all
        self._lines, self._length = max(address.shape), min(address.shape)
        self._seed, self._alpha = address.whole("seed", 0), address.number("alpha", 0.0)
        self._noise, self._label = address.number("noise", 1.0), address.text("label")
        self._rows = address.run("rows", self.rows_in_all)
        self._columns = address.run("columns", self.columns_in_all)
        if self._label is not None and not self._tall:
            raise ConfigError(f"{text} has a label and no more rows than columns", "make it taller than wide")
        width = self._columns[1] - self._columns[0]
        names = None
        if self._label is not None:
            names = [*(f"x{j}" for j in range(*self._columns)), self._label]
            width += 1
        super().__init__((self._rows[1] - self._rows[0], width), np.dtype(np.float64), names)

    def __repr__(self) -> str:
        return f"SyntheticSource({self.description})"

    @property
    def made_up(self) -> bool:
        return True

    @property
    def description(self) -> str:
        """The address with every choice spelt out: equal descriptions, equal matrices."""
        return self._address.canonical()

    def fingerprint(self) -> Digest:
        """SHA-256 of the description; the matrix itself may be too long to be read for it."""
        return Digest(hashlib.sha256(b"fedsvd/synthetic/1\x00" + self.description.encode()).hexdigest())

    def inspect(self) -> None:
        """Nothing to find: every entry is a finite number."""

    def columns_on(self, xp: Any, device: Any, start: int, stop: int) -> Array | None:
        """Columns of a wide matrix made by another array library on its device; None for a tall one."""
        if self._tall:
            return None
        first, own = self._columns[0], slice(*self._rows)
        return self._lines_on(xp, device, first + start, first + stop)[:, own].T

    def rows_on(self, xp: Any, device: Any, start: int, stop: int) -> Array | None:
        """Rows of a tall matrix made by another array library on its device; None for a wide one, or with labels."""
        if not self._tall or self._label is not None:
            return None
        first, own = self._rows[0], slice(*self._columns)
        return self._lines_on(xp, device, first + start, first + stop)[:, own]

    def _lines_on(self, xp: Any, device: Any, first: int, last: int) -> Array:
        G = normals_on(xp, device, self._entries, (first, last), self._length)
        if self._alpha:
            G = G @ xp.asarray((self._signs[:, None] * _cosines(self._length)).T * self._decay[:, None], device=device)
        return G

    # --- lines ----------------------------------------------------------------------------------------------------

    @cached_property
    def _entries(self) -> int:
        return stream_key(self._seed, "entries")

    @cached_property
    def _decay(self) -> Float:
        """j^-alpha, j = 1, 2, ..."""
        decay: Float = np.arange(1, self._length + 1, dtype=np.float64) ** -self._alpha
        return decay

    @cached_property
    def _signs(self) -> Float:
        """The random signs of U."""
        return np.sign(self._drawn("signs"))

    @cached_property
    def _weights(self) -> Float:
        """w behind the labels, over all columns of the whole matrix."""
        return self._drawn("weights")

    def _drawn(self, purpose: str) -> Float:
        """One line of normals for another purpose than entries."""
        line: Float = normals(stream_key(self._seed, purpose), (0, 1), (0, self._length), self._length)[0]
        return line

    def _made(self, first: int, last: int, span: tuple[int, int], out: Float | None = None) -> Float:
        """Entries ``span`` of these lines, shape (lines, span), in ``out`` where it is given."""
        out = np.empty((last - first, span[1] - span[0])) if out is None else out
        if not self._alpha:
            return normals(self._entries, (first, last), span, self._length, out)
        whole = (0, self._length)
        G = normals(self._entries, (first, last), whole, self._length, out if span == whole else None)
        G *= self._decay
        mixed = scipy.fft.dct(G, type=2, axis=1, norm="ortho")
        np.multiply(mixed[:, slice(*span)], self._signs[slice(*span)], out=out)
        return out

    def _labels(self, first: int, last: int) -> Float:
        """y of these rows of a tall matrix: all of its columns count, also those of other parties."""
        noise = normals(stream_key(self._seed, "noise"), (first, last), (0, 1), 1)[:, 0]
        labels: Float = self._made(first, last, (0, self._length)) @ self._weights + self._noise * noise
        return labels

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        across, along = (rows, columns) if self._tall else (columns, rows)  # which lines, and what of them
        lines = _positions(across) + (self._rows if self._tall else self._columns)[0]
        places = _positions(along)
        out = np.empty((len(lines), len(places)))
        step = max(1, _CHUNK // self._length)
        for start in range(0, len(lines), step):
            part = lines[start : start + step]
            self._fill(out[start : start + step], part, places)
        return out if self._tall else out.T

    def _fill(self, out: Float, lines: NDArray[np.intp], places: NDArray[np.intp]) -> None:
        """These places of these lines; lines in any order, made in runs."""
        offset = (self._columns if self._tall else self._rows)[0]
        own = self.shape[1 if self._tall else 0] - (self._label is not None)
        for first, last, at in _runs(lines):
            target = out[at]
            wanted = places[places < own]
            if wanted.size:
                low, high = int(wanted.min()) + offset, int(wanted.max()) + offset + 1
                if wanted.size == places.size == high - low and bool(np.all(np.diff(wanted) == 1)):
                    # The panel itself is where they are made: fresh memory costs more than the numbers in it.
                    self._made(first, last, (low, high), target)
                    continue
                target[:, places < own] = self._made(first, last, (low, high))[:, wanted + offset - low]
            if wanted.size < places.size:
                target[:, places >= own] = self._labels(first, last)[:, None]


def _positions(index: Index) -> NDArray[np.intp]:
    return np.arange(index.start, index.stop) if isinstance(index, slice) else index


def _runs(lines: NDArray[np.intp]) -> list[tuple[int, int, slice]]:
    """Runs of lines that follow one another: first, last, and where they stand among the lines asked for."""
    cuts = [0, *(np.flatnonzero(np.diff(lines) != 1) + 1).tolist(), len(lines)]
    return [(int(lines[a]), int(lines[b - 1]) + 1, slice(a, b)) for a, b in pairwise(cuts)]


def _cosines(n: int) -> Float:
    """The orthonormal DCT-II as a matrix."""
    matrix: Float = scipy.fft.dct(np.eye(n), type=2, axis=0, norm="ortho")
    return matrix
