"""Gram matrices of many columns, a piece for each thread; and the columns that were solved for one, kept.

Columns x of a long matrix enter a Gram matrix as they are, or as ``z = R^-T x`` (``streaming_factor``), centred on the
way where that is asked for: each piece is copied, centred, solved and multiplied while a cache holds it. Where the
caller brings threads (``Each``) every thread has a sum of its own, and the sums are added at the end: products of a
piece are long enough to run side by side, and no thread waits for another, as the threads of one BLAS call do.

**SolvedColumns.** For ``X = R^T Q`` with R the factor of all columns, Q = R^-T X has orthonormal rows, but a solve with
the final R would lose them like eps kappa(R). The parts Z_k that were solved on the way to R do not: the update

    Z_k = P_k^-T X_k,    S_k^T S_k = I + Z_k Z_k^T,    P_(k+1) = S_k P_k,    R = S_K ... S_k P_k

makes ``Q_k = R^-T P_k^T Z_k = S_K^-T ... S_k^-T Z_k``, a product of well-conditioned triangles with what was solved.
Rounding in a solve is a change of X_k, ``P_k^T Z_k = X_k + dX_k`` with dX_k a few eps of X_k, and R is the factor of
the very matrix X + dX to a few eps *in the scale of R*, because S_k is made of the numbers of Z_k. So the Q_k
together are orthonormal to rounding at any condition number, and vectors ``B Q`` are made of them by one product,
without a Gram matrix and without a correction.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from fedsvd.linalg import backend
from fedsvd.linalg.pools import available
from fedsvd.types import Each, Float

IN_CACHE = 1 << 19
"""Numbers of a chunk that are solved and multiplied at once by all BLAS threads."""
IN_THREAD = 1 << 20  # and by one thread
_CENTRED, _FEW_ROWS = 1 << 18, 64  # and where each is used for a few products only
_LEAST_PIECE = 256  # columns: with fewer a solve is mostly the reading of R
_NARROW, _NARROW_SUMS = 512, 32  # number of sums for narrow matrices, whatever the threads: the result is the same


class SolvedColumns:
    """Z_k and S_k of ``count`` columns, in the order in which they came, until one comes that was not solved."""

    def __init__(self, width: int, count: int) -> None:
        self.width, self.count = width, count
        self.R: Float = np.zeros((0, width))
        self._Z: Float | None = None
        self._parts: list[tuple[int, Float]] = []  # where each part ends, and its S
        self._lost = False

    def __repr__(self) -> str:
        return f"SolvedColumns(width={self.width}, count={self.count})"

    def of(self, R: Float) -> "SolvedColumns | None":
        """These, which all belong to the factor R; None where some are missing."""
        self.R = R
        return self if not self._lost and self._done == self.count else None

    @property
    def _done(self) -> int:
        return self._parts[-1][0] if self._parts else 0

    def place(self, columns: int) -> Float | None:
        """Where the next ``columns`` solved columns are written; None where they are not wanted any more."""
        if self._lost or self._done + columns > self.count:
            self.drop()
            return None
        if self._Z is None:
            self._Z = np.empty((self.count, self.width)).T
        return self._Z[:, self._done : self._done + columns]

    def append(self, columns: int, S: Float) -> None:
        """The columns that were written last belong to this S."""
        if not self._lost:
            self._parts.append((self._done + columns, S))

    def drop(self) -> None:
        """Forget all of them: some columns came another way."""
        self._Z, self._lost = None, True
        self._parts.clear()

    def times(self, B: Float, each: Each | None = None) -> Float:
        """``B Q`` for B (r, width), (r, count), where Z was: nothing is left here."""
        Z, parts = self._Z, self._parts.copy()
        assert Z is not None
        out = Z if len(B) == self.width else np.empty((self.count, len(B))).T
        starts = [0, *(end for end, _ in parts)]
        for (end, S), start in zip(reversed(parts), reversed(starts[:-1]), strict=True):
            B = backend.solve_triangular(S, B.T).T
            multiply(B, Z[:, start:end], out[:, start:end], each)
        self.drop()
        return out


def multiply(W: Float, X: Float, out: Float, each: Each | None, shift: Float | None = None) -> None:
    """``W X``, or ``W (X - shift)``, into ``out``, which may be X itself."""
    width, columns = X.shape
    same = np.may_share_memory(X, out)
    threads = 1 if each is None else sums_at_once(width, columns, available())
    if threads == 1 and shift is None and not same:
        backend.matmul(W, X, out)
        return
    # What is copied first is multiplied while the second-level cache holds it, unless there is much to multiply.
    most = IN_THREAD if shift is None or len(W) > _FEW_ROWS else _CENTRED
    pieces = _pieces(columns, threads, max(1, most // width))

    def part(thread: int) -> None:
        for place in pieces[thread::threads]:
            if same:
                out[:, place] = backend.matmul(W, X[:, place])
            else:
                backend.matmul(W, X[:, place] if shift is None else X[:, place] - shift, out[:, place])

    _over(each if threads > 1 else None, part, range(threads))


def gram_of_columns(
    X: Float,
    each: Each | None = None,
    *,
    shift: Float | None = None,
    R: Float | None = None,
    Z: Float | None = None,
    W: Float | None = None,
    scratch: int | None = None,
) -> Float:
    """``sum z z^T`` over columns x of X, its upper triangle: ``z = R^-T x``, or x where there is no R.

    With ``shift`` x is ``[1, x - shift]``. With W, (features, labels), the last of its numbers, which are labels, are
    taken less ``W^T`` times the others. Into ``Z``, where it is given, the z are written. Threads have no more than
    ``scratch`` numbers for their sums and pieces together.
    """
    columns = X.shape[1]
    width = X.shape[0] + (shift is not None)
    threads = 1 if each is None else sums_at_once(width, columns, available(), scratch)
    plain = shift is None and R is None and Z is None and W is None
    if threads == 1 and plain:
        plain_sum: Float = backend.add_gram(None, X)
        return plain_sum
    most = max(2 * width, IN_CACHE // width) if threads == 1 else piece_of_thread(width)
    pieces = _pieces(columns, threads, most)
    sums = np.zeros((threads, width, width))
    longest = max(place.stop - place.start for place in pieces)

    def part(thread: int) -> None:
        scratch = np.empty((0 if plain or Z is not None else longest, width)).T
        for place in pieces[thread::threads]:
            z = X[:, place]
            if not plain:
                z = scratch[:, : place.stop - place.start] if Z is None else Z[:, place]
                _prepare(X[:, place], shift, z)
                if W is not None:
                    z[len(W) :] -= W.T @ z[: len(W)]
                if R is not None:
                    backend.solve_triangular(R, z, transposed=True, out=z)
            total = sums[thread].T
            found = backend.add_gram(total, z, spent=True)
            if found is not total:
                total[...] = found

    _over(each if threads > 1 else None, part, range(threads))
    return _added(sums, each)


def prepared(X: Float, shift: Float | None) -> Float:
    """The columns as they are, or less the shift under a row of ones."""
    if shift is None:
        return X
    out = np.empty((X.shape[1], X.shape[0] + 1)).T if X.flags.f_contiguous else np.empty((len(X) + 1, X.shape[1]))
    _prepare(X, shift, out)
    return out


def _prepare(X: Float, shift: Float | None, out: Float) -> None:
    if shift is None:
        np.copyto(out, X)
        return
    out[0] = 1.0
    np.subtract(X, shift, out=out[1:])


def sums_at_once(width: int, columns: int, threads: int, scratch: int | None = None) -> int:
    """How many sums there are: one for each thread, with no more memory for them than the columns take."""
    if threads <= 1:
        return 1
    count = min(_NARROW_SUMS if width < _NARROW else threads, columns // max(width, _LEAST_PIECE))
    if scratch is not None:
        count = min(count, scratch // (width * (width + piece_of_thread(width))))
    return max(1, count)


def piece_of_thread(width: int) -> int:
    """Columns that one thread solves and multiplies at once."""
    return max(_LEAST_PIECE, IN_THREAD // width)


def _pieces(columns: int, threads: int, most: int) -> Sequence[slice]:
    """The columns in pieces of one size, as many to each thread."""
    count = threads * -(-columns // (threads * most))
    ends = [columns * number // count for number in range(count + 1)]
    return [slice(start, stop) for start, stop in pairwise(ends)]


def _added(sums: Float, each: Each | None) -> Float:
    """The sum of the threads' sums, which are symmetric matrices by their lower triangles, by columns."""
    if len(sums) == 1:
        only: Float = sums[0].T
        return only
    total, width = np.empty(sums.shape[1:]), sums.shape[1]
    ends = [width * number // len(sums) for number in range(len(sums) + 1)]

    def part(number: int) -> None:
        place = slice(ends[number], ends[number + 1])
        np.add.reduce(sums[:, place], axis=0, out=total[place])

    _over(each, part, range(len(sums)))
    return total.T


def _over(each: Each | None, work: Callable[[int], None], numbers: range) -> None:
    for _ in (each or map)(work, numbers):
        pass
