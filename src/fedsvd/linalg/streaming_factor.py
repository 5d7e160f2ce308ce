"""The running triangular factor of a matrix that arrives in panels.

The tall matrix B (rows x width) arrives as chunks of rows, or its transpose as panels of columns, and is
forgotten; what stays is the upper triangular R with ``R^T R = B^T B``, hence the same singular values and right
singular vectors as B. Memory is O(width^2 + panel).

The update is Cholesky, preconditioned by the factor so far. For a chunk with transpose X (width x c)

    Z = R^-T X,    S^T S = I + Z Z^T,    R <- S R,

all BLAS-3, at two to three times the speed of Householder QR of the stacked chunk. Unlike the Gram matrix of the
data, ``I + Z Z^T`` is well conditioned whenever the chunk resembles what came before, so nothing is squared: the
error stays at a few eps of the largest singular value at any condition number. Where the chunk does not resemble
it (a column not seen before, a jump in scale), the diagonal of S says so, and that chunk takes the Householder
route instead.

Data that is well conditioned anyway needs no preconditioner. As long as every eigenvalue of the running Gram matrix
is proved to lie between a sixteenth and four times their mean, the condition number is at most 8, the Gram matrix
loses a factor 8 of eps and no more, and a chunk costs one symmetric product: half the work. The proof is two Cholesky
factorisations after every chunk, before the chunk is forgotten, and the first chunk is long where some of the
features, which cost little to look at, are even; when it fails, the chunk takes the update above and
the Gram matrix is given up (ADR 0018).

Labels in the last columns mostly follow from the features, so that the two together are not well conditioned however
even the features are. While a Gram matrix is added up a label is therefore taken less its regression on the features,
with the coefficients W of the first chunk: ``[X, y - X W] = [X, y] E`` with E unit triangular, and ``R E^-1`` is the
factor that is asked for. What is left of a label has few digits to lose, and its own rounding is that of the label.

Z and S of every chunk may be kept (``solved_columns``): they are the rows of the orthonormal factor of B^T in parts.

On a device the factor comes from the Gram matrix alone, where that is proved to lose three bits and no more
(``even_factor``). Two Cholesky factorisations after every chunk would take, at tens of thousands of features, as long
as the chunk's own product. There the proof is made early, whenever the columns have grown fourfold, and at the end.
Where one of them fails nothing can be said of what was added since: there is no factor then, and the caller reads the
data again for another route. The Gram matrix is added up in its place, so that the largest features fit.
"""

import hashlib
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from fedsvd.errors import ConfigError, ShapeError, StorageError
from fedsvd.linalg import backend, foreign
from fedsvd.linalg.backend import EPS, namespace
from fedsvd.linalg.dense_svd import EVEN_SHARES
from fedsvd.linalg.even_gram import is_even, less_regression, looks_even
from fedsvd.linalg.solved_columns import SolvedColumns, gram_of_columns, prepared
from fedsvd.types import Array, Each, Float

# The update's error grows like the square of S's diagonal: 6^2 eps is still below the bar of 45 eps.
LARGEST_DIAGONAL = 6.0
# Of homogeneous data, chunks of this many times (s - width)^2 / s rows, s those seen so far, have S's diagonal near 3:
# 1 / (s - width) is the variance of what s rows say of the last direction, and s / (s - width) that of its own errors.
_GROWTH = 8
# The Gram matrix of Z of a chunk that was factored by reflections is I, but for what rounding does to it.
_NEAR_ONE = 0.25
_MAGIC = b"FSVD-SF1"
WIDE = 512  # features from which on a proof costs what a first chunk does


@dataclass(frozen=True)
class Route:
    """How many chunks each update took; for benchmarks and reports."""

    cholesky: int = 0
    householder: int = 0
    gram: int = 0


class StreamingFactor:
    """The factor R of all rows absorbed so far; ``factor()`` is upper triangular, min(rows, width) x width.

    ``each`` brings threads for NumPy arrays. With ``shift``, (width - 1, 1), a row b of B counts as ``[1, b - shift]``.
    In ``solved`` the solved columns are kept, where all are solved; threads have ``scratch`` numbers at most. The last
    ``labels`` columns are labels of the others.
    """

    def __init__(
        self,
        width: int,
        each: Each | None = None,
        *,
        shift: Float | None = None,
        solved: SolvedColumns | None = None,
        scratch: int | None = None,
        labels: int = 0,
    ) -> None:
        if width < 1:
            raise ConfigError(f"a factor needs width >= 1, got {width}")
        self.width = width
        self._shift, self._solved = shift, solved
        self._gram = partial(gram_of_columns, each=each, scratch=scratch)
        self.rows = 0
        self.route = Route()
        self._R: Array | None = None
        self._K: Array | None = None  # instead of _R, while the data is well conditioned: R^T R, its upper triangle
        self._features = width - labels
        self._W: Float | None = None  # (features, labels): K is that of labels less this regression on the features
        self._uneven = False  # whether the first columns were tried in vain
        self._seen = 0  # rows inside _R or _K; the rest waits in _pending
        self._pending: list[Array] = []

    def update(self, B: Array) -> None:
        """Absorb a chunk of rows, (c, width)."""
        self.update_columns(namespace(B).matrix_transpose(B))

    def update_columns(self, X: Array) -> None:
        """Absorb a panel of columns, (width, c): the transpose of a chunk of rows."""
        height = self.width - (self._shift is not None)
        if len(X.shape) != 2 or X.shape[0] != height:
            raise ShapeError(f"panel has shape {tuple(X.shape)}, expected ({height}, any)")
        self.rows += X.shape[1]
        if X.shape[1] >= 2 * self.width:
            self._absorb(X)
        elif X.shape[1]:
            # Narrow panels wait until together they are worth a BLAS-3 update; the caller keeps its own memory.
            self._pending.append(namespace(X).asarray(X, copy=True))
            if self.rows - self._seen >= 2 * self.width:
                self._flush()

    def merge(self, other: "StreamingFactor") -> None:
        """Absorb another factor, so that factors of parts combine in a tree."""
        if other.width != self.width:
            raise ShapeError(f"factors of widths {self.width} and {other.width} do not combine")
        R = other.factor()
        self._flush()
        self._give_up_gram()
        self._lose_solved()
        if R.shape[0]:
            self._stack(namespace(R).matrix_transpose(R))
        self.rows += other.rows
        self._seen += other._seen

    def factor(self) -> Array:
        """R, upper triangular with ``R^T R`` equal to the Gram matrix of all rows absorbed."""
        self._flush()
        if self._K is not None:
            return self._factor_of_gram()
        return np.zeros((0, self.width)) if self._R is None else self._R

    def to_bytes(self) -> bytes:
        """A checkpoint: rows and factor, with a digest over both."""
        R = np.ascontiguousarray(backend.to_numpy(self.factor()), dtype="<f8")
        body = _MAGIC + struct.pack("<QQQ", self.width, self.rows, R.shape[0]) + R.tobytes()
        return body + hashlib.sha256(body).digest()

    @classmethod
    def from_bytes(cls, blob: bytes, on: Array | None = None) -> "StreamingFactor":
        """The factor a checkpoint was made of, in the library and on the device of ``on``."""
        body, digest = blob[:-32], blob[-32:]
        if body[:8] != _MAGIC or hashlib.sha256(body).digest() != digest:
            raise StorageError("the checkpoint of a factor is damaged", "delete it; the pass starts again")
        width, rows, height = struct.unpack_from("<QQQ", body, 8)
        self = cls(width)
        self.rows = self._seen = rows
        if height:
            R = np.frombuffer(body, "<f8", offset=32).reshape(height, width)
            R = np.asfortranarray(R, dtype=np.float64)
            self._R = R if on is None else backend.like(R, on)
        return self

    def _flush(self) -> None:
        if self._pending:
            xp = namespace(*self._pending)
            X = self._pending[0] if len(self._pending) == 1 else xp.concat(self._pending, axis=1)
            self._pending = []
            self._absorb(X)

    def _absorb(self, X: Array) -> None:
        start = self._long_first_chunk(X)
        while start < X.shape[1]:
            stop = min(X.shape[1], start + min(longest_chunk(self._seen, self.width), self._longest(X)))
            self._absorb_chunk(X[:, start:stop], self._shift)
            self._seen += stop - start
            start = stop

    def _long_first_chunk(self, X: Array) -> int:
        """How many columns have been absorbed as one chunk: many, where nothing was seen and they look even."""
        count = min(int(X.shape[1]), self._longest(X))
        first = self._seen == 0 and self.width >= WIDE and isinstance(X, np.ndarray) and count > 2 * self.width
        if not first:
            return 0
        if not looks_even(X[:, : 2 * self.width], self._shift):
            self._uneven = True  # a part is not even: the whole is not, and its product would be in vain
            return 0
        if not self._add_gram(X[:, :count], self._shift):
            return 0
        self._lose_solved()
        self._seen = count
        return count

    def _absorb_chunk(self, X: Array, shift: Float | None) -> None:
        if self._K is None and not self._square():  # small, and looked at several times
            X, shift = prepared(X, shift), None
        if self._add_gram(X, shift):
            self._lose_solved()
            return
        if self._K is not None:
            self._lose_solved()
            self._give_up_gram()
        if not self._update(X, shift):
            self._stack(prepared(X, shift))

    def _longest(self, X: Array) -> int:
        """Columns absorbed at once, in host memory or where a device is to be kept busy."""
        return most_at_once(self.width) if isinstance(X, np.ndarray) else int(X.shape[1])

    def _add_gram(self, X: Array, shift: Float | None) -> bool:
        """The Gram route; False, and nothing changed, where the sum is not proved to be well conditioned."""
        in_vain = self._uneven and self._seen == 0
        if self._K is None and (in_vain or not self.may_be_even(X)):
            return False
        K = self._K
        with np.errstate(over="ignore", invalid="ignore"):  # squares that overflow are not even
            if K is None and self._R is not None:
                K = backend.add_gram(None, namespace(X).matrix_transpose(self._R))
            more = self._gram(X, shift=shift, W=self._W) if isinstance(X, np.ndarray) else backend.gram(X)
            W = self._W
            if K is None and self._features < self.width and isinstance(X, np.ndarray):
                more, W = less_regression(more, X, shift, self._features)
            K = more if K is None else K + more
            if not is_even(K):
                self._uneven = True
                return False
        self._K, self._R, self._W = K, None, W
        self.route = Route(self.route.cholesky, self.route.householder, self.route.gram + 1)
        return True

    def may_be_even(self, X: Array) -> bool:
        """A cheap look before the product: the smallest diagonal entry of R bounds its smallest singular value."""
        if X.shape[1] < self.width:
            return False
        xp = namespace(X)
        if self._R is None:
            high = backend.column_norms(xp.matrix_transpose(X))
            low = high
        elif self._square():
            low, high = xp.abs(xp.linalg.diagonal(self._R)), backend.column_norms(self._R)
        else:
            return False
        most = (EVEN_SHARES[1] / EVEN_SHARES[0]) ** 0.5
        # In host memory columns of different lengths are no matter (``is_even``): twice, for powers of two.
        return (
            bool(low.min() > 0 and (high <= 2.0 * most * low).all())
            if xp is np
            else bool(xp.max(high) <= most * xp.min(low))
        )

    def _give_up_gram(self) -> None:
        if self._K is not None:
            self._R, self._K, self._W = self._factor_of_gram(), None, None

    def _factor_of_gram(self) -> Array:
        R, f = backend.cholesky(self._K), self._features
        if R is not None and self._W is not None:
            R[:f, f:] += np.triu(R[:f, :f]) @ self._W
        return R

    def _square(self) -> bool:
        return self._R is not None and bool(self._R.shape[0] == self.width)

    def _stack(self, X: Array) -> None:
        """The Householder route: the factor of R on top of the chunk."""
        xp = namespace(X)
        rows = xp.matrix_transpose(X)
        first = self._R is None
        R = backend.qr_r(rows if first else xp.concat((self._R, rows), axis=0))
        self._R = self._solved_too(R, X) if first else R
        if not first:
            self._lose_solved()
        self.route = Route(self.route.cholesky, self.route.householder + 1, self.route.gram)

    def _solved_too(self, R: Array, X: Array) -> Array:
        """R of the first chunk X, to a few eps in its own scale where the chunk is solved for ``solved``."""
        Z = None if self._solved is None else self._solved.place(X.shape[1])
        if Z is None or len(R) < self.width or _lifted(np, R, backend.column_norms(R)) is not R:
            self._lose_solved()
            return R
        G = self._gram(X, R=R, Z=Z)
        S = backend.cholesky(G) if bool(np.max(np.abs(np.diagonal(G) - 1.0)) <= _NEAR_ONE) else None
        if self._solved is None or S is None:
            self._lose_solved()
            return R
        self._solved.append(X.shape[1], S)
        return backend.multiply_triangular(S, R)

    def _lose_solved(self) -> None:
        if self._solved is not None:
            self._solved.drop()
            self._solved = None

    def _update(self, X: Array, shift: Float | None) -> bool:
        """The Cholesky route; False, and nothing changed, when the chunk is too unlike R."""
        if not self._square() or X.shape[1] < self.width // 4:
            return False
        R, xp = self._R, namespace(X)
        lengths = backend.column_norms(R)
        if not bool(xp.all(lengths > 0)):
            self._lose_solved()
            return self._update_seen_columns(prepared(X, shift), lengths > 0)
        preconditioner = _lifted(xp, R, lengths)
        if preconditioner is not R:
            self._lose_solved()
        Z = None if self._solved is None else self._solved.place(X.shape[1])
        if xp is np:
            G = self._gram(X, shift=shift, R=preconditioner, Z=Z)
            G[np.diag_indices_from(G)] += 1.0
        else:
            G = backend.gram_plus_identity(backend.solve_triangular(preconditioner, X, transposed=True))
        # The largest column of S is the root of G's diagonal; comparing this way round refuses NaN as well.
        small = bool(xp.max(xp.linalg.diagonal(G)) <= LARGEST_DIAGONAL**2)
        S = backend.cholesky(G) if small else None
        if S is None:
            return False
        if self._solved is not None:
            self._solved.append(X.shape[1], S)
        self._R = backend.multiply_triangular(S, preconditioner)
        self.route = Route(self.route.cholesky + 1, self.route.householder, self.route.gram)
        return True

    def _update_seen_columns(self, X: Array, seen: Array) -> bool:
        """The update without the columns that are zero in R, as long as they stay zero."""
        xp = namespace(X)
        unseen = xp.nonzero(~seen)[0]
        if bool(xp.any(xp.take(X, unseen, axis=0) != 0)):
            return False
        kept = xp.nonzero(seen)[0]
        if kept.shape[0] == 0:
            return True
        inner = StreamingFactor(int(kept.shape[0]))
        inner._R = xp.take(self._R, kept, axis=1)
        if bool(xp.any(xp.take(inner._R, unseen, axis=0) != 0)):
            inner._R = backend.qr_r(inner._R)  # rows next to a zero column may still hold others' data
        else:
            inner._R = xp.take(inner._R, kept, axis=0)
        if not inner._update(xp.take(X, kept, axis=0), None):
            return False
        back = xp.argsort(xp.concat((kept, unseen)))
        grown = xp.zeros_like(self._R)
        grown[: inner.width, : inner.width] = inner._R
        self._R = xp.take(xp.take(grown, back, axis=0), back, axis=1)
        self.route = Route(self.route.cholesky + 1, self.route.householder, self.route.gram)
        return True


def longest_chunk(seen: int, width: int) -> int:
    """Columns of the next chunk, of data like the columns that were seen."""
    more = max(seen - width, 0)
    return max(2 * width, _GROWTH * more * more // max(seen, 1))


def most_at_once(width: int) -> int:
    """Columns of a chunk in host memory at most."""
    return max(8 * width, 1 << 15)


def _lifted(xp: Array, R: Array, lengths: Array) -> Array:
    """R with every diagonal entry at least 2 eps of its column, so that it can precondition.

    A change of 2 eps in a column is what rounding does to it anyway; it happens once, because a diagonal never
    shrinks. Without it every chunk of rank-deficient data would take the slow route.
    """
    diagonal = xp.linalg.diagonal(R)
    least = 2 * EPS * lengths
    lift = xp.where(xp.abs(diagonal) < least, least - diagonal, xp.zeros_like(diagonal))
    if not bool(xp.any(lift != 0)):
        return R
    return R + lift[:, None] * xp.eye(R.shape[0], dtype=R.dtype, device=R.device)


_FIRST = 4  # columns for each row in the first piece, at most: data that is not even is found soon
_LEAST = 2  # columns for each row before a proof is tried
_GROWN = 4


def even_factor(panels: Iterable[Array], width: int) -> Array | None:
    """R, upper triangular, of all columns of these panels, (width, any); None where they are not proved to be even."""
    K: Array = None
    seen = proved = 0
    for X in _pieces(panels, width):
        K = foreign.add_gram(namespace(X), K, X)
        seen += X.shape[1]
        del X  # as large as the memory allows
        if seen >= max(_LEAST * width, _GROWN * proved):
            if not is_even(foreign.mirrored(namespace(K), K)):
                return None
            proved = seen
    if seen < width or (proved < seen and not is_even(foreign.mirrored(namespace(K), K))):
        return None
    return backend.cholesky(K)


def _pieces(panels: Iterable[Array], width: int) -> Iterator[Array]:
    first = True
    for X in panels:
        cut = min(X.shape[1], _FIRST * width) if first else X.shape[1]
        first = False
        yield X[:, :cut]
        if cut < X.shape[1]:
            yield X[:, cut:]
        del X  # before the next is made
