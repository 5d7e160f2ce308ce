"""Block Golub-Kahan bidiagonalisation whose products come from elsewhere: the top of a matrix of which no one has all.

``X`` is (m, n). ``K``, (m, d), is an orthonormal basis of directions; ``W`` spans what ``X^T K`` spans, (n, d), its
columns orthonormal; ``Z = X W``. Ritz values are the singular values of ``Z^T K = W^T X^T K``: right to eps s_1 and not
to sqrt(eps) s_1, because nothing is squared. Who has ``Z`` and ``K`` needs neither X nor W to go on.

Several parties hold the same K and Z, and one of them, the leader, decides what is not a continuous function of these:
roots, which directions follow, how many, and whether to stop. Parties that each computed their own, by another LAPACK,
would not stay together. The others test what the leader sends. Tests have slack both ways: an honest leader is never
refused for rounding, and what it sends lies in the range of what was computed, no column more and none less.

Directions found in Z and not yet multiplied stay in a reservoir ``E``. A next block is a combination of its columns:
what the wanted Ritz vectors lack.

Matrices of m rows are where the start block is, on a device or in host memory; those of d rows are NumPy's
(``tall.py``).
"""

import math
from copy import copy
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import VerificationFailed
from fedsvd.linalg.backend import EPS, matmul, svd
from fedsvd.linalg.columns import Columns
from fedsvd.linalg.tall import chosen, combined, inner, lengths, scaled, tall_qr, tall_svd
from fedsvd.types import Array, Float

TOLERANCE = 5e-14
"""Residual of a wanted Ritz vector, relative to s_1, at which the iteration ends."""

_EXACT = 1e-12  # by how much what the leader sends may differ from what another computes
_ORTHONORMAL = 1e-13  # of joint products of a block with itself and with earlier ones, at which it is done
_LEAST = 1e-12  # of the largest eigenvalue, below which a root does not divide: a second pass does the rest
_NEAR = 0.01  # of s_1: values so near to the last wanted one may be taken in its place by another LAPACK
_SLACK = 4.0  # between two parties' view of the same number next to a threshold
PASSES = 4
"""How often a block is orthogonalised at most: twice is usual, and singular values over 16 decades took four."""


class Verdict(IntEnum):
    """What the leader says after a step."""

    GO_ON = 0
    FOUND = 1  # all wanted Ritz vectors have converged
    INVARIANT = 2  # no direction is left: the rank of X is reached


def start_block(normals: Float) -> Float:
    """An orthonormal basis of the range of normals, (m, b): with positive diagonal of R, a continuous function."""
    return np.asarray(tall_qr(normals)[0])


def least_column(s1: float, b: int) -> float:
    """Columns of a block below this size are rank that X lacks."""
    return 8.0 * EPS * s1 * math.sqrt(b)


def least_direction(s1: float, m: int) -> float:
    """Directions of Z outside of what is known that are below this size are rounding."""
    return 16.0 * EPS * s1 * math.sqrt(m)


def refused() -> VerificationFailed:
    """The one refusal of what the leader sent; a detail would show how far its next attempt may go."""
    return VerificationFailed(
        "what party 1 sent to all is not what the opened sums give",
        "nothing was released; run again, and ask party 1 if it repeats",
    )


# --- a block, made orthonormal by sums of products --------------------------------------------------------------------


class Block:
    """One block on its way to orthonormal columns: which combination of the original columns each one is now.

    ``C`` is ``[W_before W]^T W`` of all parties together, (d + b, b). A pass takes off what W has of the d columns
    before it and multiplies by a root, (b, kept).
    """

    def __init__(self, energies: Float, least: float) -> None:
        _, powers = np.frexp(np.maximum(energies, 2.0**-1000))
        # Powers of two from numbers that all parties hold bit for bit.
        self.scale: Float = np.ldexp(1.0, -((powers + 1) // 2))
        self._T, self._least = np.diag(self.scale), least

    @property
    def width(self) -> int:
        """Columns that are left."""
        return int(self._T.shape[1])

    @property
    def _size(self) -> Float:
        """What each column would be in the original units."""
        found: Float = 1.0 / np.maximum(np.linalg.norm(self._T, axis=0), 2.0**-1000)
        return found

    def done(self, C: Float, slack: float = 1.0) -> bool:
        """Whether the block is orthonormal, and at right angles to what was before it."""
        off = C.copy()
        d = len(off) - self.width
        off[d:] -= np.eye(self.width)
        return bool(np.abs(off).max(initial=0.0) <= slack * _ORTHONORMAL)

    def propose(self, C: Float) -> Float:
        """The leader's root; of a block that is done, the columns that are not rounding."""
        size = self._size
        if self.done(C):
            return np.eye(self.width)[:, size > self._least]
        D, g = self._outside(C)
        ok = g * size > self._least
        root = np.zeros((self.width, int(ok.sum())))
        if ok.any():
            w, v = np.linalg.eigh(D[np.ix_(ok, ok)] / np.outer(g[ok], g[ok]))
            root[ok] = (v / np.sqrt(np.maximum(w, _LEAST * w.max()))) / g[ok, None]
        return root

    def expect(self, C: Float, root: Float, done: bool) -> None:
        """Refuse a root that does not follow from C."""
        if root.shape[0] != self.width or not np.isfinite(root).all():
            raise refused()
        size, rows = self._size, np.any(root != 0.0, axis=1)
        if done:
            if not self.done(C, _SLACK) or not np.array_equal(root, np.eye(self.width)[:, rows]):
                raise refused()
            self._expect_kept(rows, size)
            return
        _, g = self._outside(C)
        self._expect_kept(rows, g * size)
        # As many columns as rows, and none longer than the least eigenvalue allows. Were it singular, the block could
        # not become orthonormal with this number of columns, which all parties see in the last C.
        if root.shape[1] != int(rows.sum()) or np.linalg.norm(root * g[:, None]) > _SLACK * self.width / _LEAST**0.5:
            raise refused()

    def take(self, root: Float) -> None:
        """Go on with the columns that a root makes."""
        self._T = self._T @ root

    def _outside(self, C: Float) -> tuple[Float, Float]:
        """Products of the block less what earlier columns have of it, and the size of each column."""
        before, own = C[: len(C) - self.width], C[len(C) - self.width :]
        D = own - before.T @ before
        D = (D + D.T) / 2.0
        return D, np.sqrt(np.maximum(np.diagonal(D), 0.0))

    def _expect_kept(self, rows: NDArray[np.bool_], size: Float) -> None:
        if np.any(rows & (size <= self._least / _SLACK)) or np.any(~rows & (size > self._least * _SLACK)):
            raise refused()


# --- what all parties hold --------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Ritz:
    """Ritz values s with their vectors ``K y`` and ``W p``, and what ``X W p - K y s`` leaves of the wanted ones."""

    p: Float
    s: Float
    y: Float
    left: Array  # (m, wanted)
    cut: float  # of singular values: those below are rounding

    @property
    def top(self) -> float:
        return float(self.s[0]) if len(self.s) else 0.0

    @property
    def residuals(self) -> Float:
        """Of each wanted vector, relative to s_1."""
        return lengths(self.left) / (self.top or 1.0)

    @property
    def residual(self) -> float:
        return float(self.residuals.max(initial=0.0))

    def rank(self, r: int, slack: float = 1.0) -> int:
        """Values above rounding, at most r."""
        return min(r, int(np.count_nonzero(self.s > slack * self.cut)))


class Space:
    """Directions, their images, and the reservoir: functions of what was opened and of what the leader sent.

    A space does not change: what follows from it is another one, which shares its memory.
    """

    def __init__(self, start: Array) -> None:
        m = start.shape[0]
        self._K, self._Z = Columns(m, start), Columns(m, start)
        self._known = Columns.of(start)  # the first block and the reservoir, orthonormal: the range of all opened
        self._first, self._block = start.shape[1], start
        self._used = np.zeros((0, 0))  # combinations of the reservoir that were multiplied
        self._products = np.zeros((0, 0))  # Z^T K

    @property
    def K(self) -> Array:
        """The directions."""
        return self._K.all

    @property
    def Z(self) -> Array:
        """Their images."""
        return self._Z.all

    @property
    def block(self) -> Array:
        """The directions to multiply next."""
        return self._block

    @property
    def reservoir(self) -> Array:
        """E."""
        return self._known.all[:, self._first :]

    @property
    def unused(self) -> int:
        """Directions in the reservoir that were not multiplied."""
        return int(self.reservoir.shape[1] - self._used.shape[1])

    def before(self) -> Float:
        """``H``: what ``X^T Q`` of the next block has of earlier columns of W."""
        return inner(self.Z, self._block)

    def added(self, Z: Array) -> "Space":
        """With the images of the block in hand, which has become (m, kept)."""
        found, new = copy(self), self._block
        right = np.concatenate((self._products, inner(self.Z, new)), axis=1)
        below = np.concatenate((inner(Z, self.K), inner(Z, new)), axis=1)
        found._K, found._Z = self._K.with_more(new), self._Z.with_more(Z)
        found._products = np.concatenate((right, below))
        return found

    def ritz(self, r: int, n: int) -> Ritz:
        """Ritz values, and the residuals of the first r."""
        m = self.K.shape[0]
        if 0 in self._products.shape:
            d, e = self._products.shape
            return Ritz(np.zeros((d, 0)), np.zeros(0), np.zeros((e, 0)), np.zeros((m, 0)), 0.0)
        p, s, y_t = svd(self._products)
        cut = 8.0 * EPS * float(s[0]) * math.sqrt(max(m, n))
        wanted = min(r, int(np.count_nonzero(s > cut)))
        return Ritz(p, s, y_t.T, self._left(p, s, y_t.T, wanted), cut)

    def _left(self, p: Float, s: Float, y: Float, count: int) -> Array:
        """What ``X W p - K y s`` leaves of the first ``count`` vectors."""
        left = combined(self.Z, p[:, :count])
        left -= combined(self.K, y[:, :count] * s[:count])
        return left

    # --- directions outside of what is known ------------------------------------------------------------------------

    def _outside(self, A: Array) -> Array:
        known = self._known.all
        for _ in range(2):
            A = A - matmul(known, matmul(known.T, A))
        return A

    def propose_directions(self, Z: Array, s1: float) -> Array:
        """The leader's N, (m, c): what Z has outside of all that is known, orthonormal."""
        basis, s = tall_svd(self._outside(Z))
        q = basis[:, : int(np.count_nonzero(s > least_direction(s1, Z.shape[0])))]
        known = self._known.all
        for _ in range(2):
            q = q - matmul(known, matmul(known.T, q))
            if q.shape[1]:
                q = tall_qr(q)[0]
        return q

    def expect_directions(self, N: Array, Z: Array, s1: float) -> None:
        """Refuse directions that Z does not have outside of all that is known, a column more or one less."""
        m, c = N.shape
        least = least_direction(s1, m)
        P = self._outside(Z)
        u, s = tall_svd(P)
        large, within = (int(np.count_nonzero(s > limit)) for limit in (_SLACK * least, least / _SLACK))
        if not large <= c <= within:
            raise refused()
        if c == 0:
            return
        # Numbers that are not finite make these products so, which no comparison lets pass.
        off = np.abs(inner(N, N) - np.eye(c)).max(), np.abs(inner(self._known.all, N)).max(initial=0.0)
        if not max(off) <= _EXACT:
            raise refused()
        a, held, _ = np.linalg.svd(inner(N, P))
        if len(held) < c or held[c - 1] < least / _SLACK:
            raise refused()
        rounding = least_direction(s1, m)  # of Z - K K^T Z; a direction of size sigma is off by this over sigma
        own, N_a, u = u[:, :within], combined(N, a), u[:, :large]
        outside = lengths(N_a - matmul(own, matmul(own.T, N_a)))
        missing = lengths(u - matmul(N, matmul(N.T, u)))
        if np.any(outside > _EXACT + rounding / held[:c]) or np.any(missing > _EXACT + rounding / s[:large]):
            raise refused()

    def kept(self, N: Array) -> "Space":
        """With these directions in the reservoir."""
        found = copy(self)
        found._known = self._known.with_more(N)
        found._used = np.concatenate((self._used, np.zeros((N.shape[1], self._used.shape[1]))))
        return found

    # --- the next block ---------------------------------------------------------------------------------------------

    def propose_mixture(self, ritz: Ritz, r: int, tolerance: float) -> Float:
        """The leader's c, (reservoir, q): what the wanted Ritz vectors that have not converged lack, q at most r."""
        E, used = self.reservoir, self._used
        short = ritz.rank(r) < r
        G = inner(E, chosen(ritz.left, ritz.residuals > tolerance / 2.0))
        for _ in range(2):
            G = G - used @ (used.T @ G)
        c, s, _ = np.linalg.svd(G, full_matrices=False)
        c = c[:, s > tolerance * ritz.top / 100.0]
        most = min(r, self.unused)
        wanted = most if short else min(most, max(1, c.shape[1]))
        if c.shape[1] < wanted:  # nothing points to where the rest is: any direction that is left
            rest = np.linalg.qr(np.concatenate((used, c), axis=1), mode="complete")[0]
            c = np.concatenate((c, rest[:, used.shape[1] + c.shape[1] :]), axis=1)
        c = c[:, :wanted]
        for _ in range(2):
            c = np.linalg.qr(c - used @ (used.T @ c))[0]
        return c

    def expect_mixture(self, c: Float, r: int) -> None:
        """Refuse a combination that is not of directions which are left. Any other is as good as the leader's."""
        if c.shape[0] != len(self._used) or not 1 <= c.shape[1] <= min(r, self.unused) or not np.isfinite(c).all():
            raise refused()
        off = np.abs(c.T @ c - np.eye(c.shape[1])).max(), np.abs(self._used.T @ c).max(initial=0.0)
        if max(off) > _EXACT:
            raise refused()

    def onward(self, c: Float) -> "Space":
        """With the next block in hand."""
        found = copy(self)
        found._block = combined(self.reservoir, c)
        found._used = np.concatenate((self._used, c), axis=1)
        return found

    # --- the end ----------------------------------------------------------------------------------------------------

    def answer(self, ritz: Ritz, r: int) -> tuple[Array, Float, Float]:
        """The leader's singular vectors V, (m, rank), values and p, (d, rank)."""
        rank = ritz.rank(r)
        V = combined(self.K, ritz.y[:, :rank])
        if rank:
            V = tall_qr(V)[0]
        return V, ritz.s[:rank].copy(), ritz.p[:, :rank].copy()

    def expect_verdict(self, said: Verdict, ritz: Ritz, r: int, tolerance: float) -> None:
        """Refuse a verdict that does not follow from what was opened.

        Of equal values each LAPACK takes other vectors, some converged and some not. So an end is judged by the vectors
        that the leader then sends (``expect_answer``), and going on is refused where all that it can have taken have
        converged.
        """
        if said is Verdict.FOUND:
            fits = ritz.rank(r, 1.0 / _SLACK) == r
        else:
            fits = (self.unused == 0) == (said is Verdict.INVARIANT)
            fits = fits and (ritz.rank(r, _SLACK) < r or not self._all_converged(ritz, r, tolerance / 2.0))
        if not fits:
            raise refused()

    def _all_converged(self, ritz: Ritz, r: int, tolerance: float) -> bool:
        if ritz.residual > tolerance:
            return False
        near = int(np.count_nonzero(ritz.s > ritz.s[r - 1] - _NEAR * ritz.top))
        left = self._left(ritz.p, ritz.s, ritz.y, near)
        return float(lengths(left).max()) <= tolerance * ritz.top

    def expect_answer(self, V: Array, s: Float, p: Float, ritz: Ritz, r: int, tolerance: float = math.inf) -> None:
        """Refuse vectors and values that are not leading Ritz vectors and values, or have not converged."""
        rank = len(s)
        if not ritz.rank(r, _SLACK) <= rank <= ritz.rank(r, 1.0 / _SLACK):
            raise refused()
        if not all(np.isfinite(A).all() for A in (s, p)):
            raise refused()
        if rank == 0:
            return
        y, top, R = inner(self.K, V), ritz.top, self._products
        found = (
            np.abs(inner(V, V) - np.eye(rank)).max(),
            np.abs(p.T @ p - np.eye(rank)).max(),
            lengths(combined(self.K, y) - V).max(),
            np.abs(s - ritz.s[:rank]).max() / top,
            np.linalg.norm(R @ y - p * s, axis=0).max() / top,
            np.linalg.norm(R.T @ p - y * s, axis=0).max() / top,
        )
        residual = lengths(combined(self.Z, p) - scaled(V, s)).max() / top
        if not max(found) <= _EXACT or not residual <= 2.0 * tolerance or np.any(np.diff(s) > 0.0) or not s[-1] > 0.0:
            raise refused()


def decided(ritz: Ritz, r: int, unused: int, tolerance: float) -> Verdict:
    """What the leader says once the images of a block, and the directions found in them, are there."""
    if ritz.rank(r) == r and ritz.residual < tolerance:
        return Verdict.FOUND
    return Verdict.GO_ON if unused else Verdict.INVARIANT
