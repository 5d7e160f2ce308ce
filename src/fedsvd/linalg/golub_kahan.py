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
from typing import Any

import numpy as np

from fedsvd.errors import VerificationFailed
from fedsvd.linalg.backend import EPS, matmul
from fedsvd.linalg.columns import Columns
from fedsvd.linalg.leading import leading
from fedsvd.linalg.tall import chosen, combined, inner, lengths, scaled, tall_qr, tall_svd
from fedsvd.types import Array, Float

TOLERANCE = 5e-14
"""Residual of a wanted Ritz vector, relative to s_1, at which the iteration ends."""

_EXACT = 1e-12  # by how much what the leader sends may differ from what another computes
SLACK = 4.0
"""Between two parties' view of the same number next to a threshold."""

_CLEAN, _ONCE = 4.0 * EPS, 1e-6  # products with what is known that stay, and that one pass takes off
_FAR = 1e4  # times the tolerance: the search has steps to go
_OVER = 8  # Ritz values beyond the wanted ones, which show what is equal to the last of these


def start_block(normals: Float) -> Float:
    """An orthonormal basis of the range of normals, (m, b): with positive diagonal of R, a continuous function."""
    return np.asarray(tall_qr(normals)[0])


def least_direction(s1: float, m: int) -> float:
    """Directions of Z outside of what is known that are below this size are rounding."""
    return 16.0 * EPS * s1 * math.sqrt(m)


def refused() -> VerificationFailed:
    """The one refusal of what the leader sent; a detail would show how far its next attempt may go."""
    return VerificationFailed(
        "what party 1 sent to all is not what the opened sums give",
        "nothing was released; run again, and ask party 1 if it repeats",
    )


# --- what all parties hold --------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Ritz:
    """Ritz values s with their vectors ``K y`` and ``W p``, and what ``X W p - K y s`` leaves of the wanted ones."""

    p: Float
    s: Float
    y: Float
    left: Array  # (m, wanted), or the last of them where these have not converged
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
        self._found = 0  # directions that the last image had outside of all known
        self._image: Array = start[:, :0]  # of the last block
        self._cache: dict[str, Any] = {}  # what is asked for more than once
        self.seen = 0  # directions multiplied so far, those of earlier bases too

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

    @property
    def has_outside(self) -> bool:
        """Whether there are directions outside of all that is known."""
        return self._known.count < int(self._block.shape[0])

    def _copy(self) -> "Space":
        found = copy(self)
        found._cache = {}
        return found

    def before(self) -> Float:
        """``H``: what ``X^T Q`` of the next block has of earlier columns of W."""
        if "before" not in self._cache:
            self._cache["before"] = inner(self.Z, self._block)
        found: Float = self._cache["before"]
        return found

    def added(self, Z: Array) -> "Space":
        """With the images of the block in hand, which has become (m, kept)."""
        found, new = self._copy(), self._block
        right = np.concatenate((self._products, self.before()), axis=1)
        below = np.concatenate((inner(Z, self.K), inner(Z, new)), axis=1)
        found._K, found._Z = self._K.with_more(new), self._Z.with_more(Z)
        found._products = np.concatenate((right, below))
        found._image = Z
        found.seen = self.seen + new.shape[1]
        return found

    def ritz(self, r: int, n: int, count: int = 0, last: int = 0, tolerance: float = 0.0) -> Ritz:
        """Ritz values, at least the first ``count``, and the residuals of the first r.

        Where residuals among the ``last`` of these are far above the tolerance, others are not computed.
        """
        m = self.K.shape[0]
        if 0 in self._products.shape:
            d, e = self._products.shape
            return Ritz(np.zeros((d, 0)), np.zeros(0), np.zeros((e, 0)), np.zeros((m, 0)), 0.0)
        p, s, y = leading(self._products, max(count, r + _OVER))
        cut = 8.0 * EPS * float(s[0]) * math.sqrt(max(m, n))
        wanted = min(r, int(np.count_nonzero(s > cut)))
        if last and wanted > last:
            some = slice(wanted - last, wanted)
            left = self._left(p[:, some], s[some], y[:, some], last)
            if lengths(left).max() >= _FAR * tolerance * s[0]:
                return Ritz(p, s, y, left, cut)
        return Ritz(p, s, y, self._left(p, s, y, wanted), cut)

    def left_of(self, ritz: Ritz, count: int) -> Array:
        """What is left of the first ``count`` vectors, of more than are wanted."""
        return self._left(ritz.p, ritz.s, ritz.y, count)

    def _left(self, p: Float, s: Float, y: Float, count: int) -> Array:
        """What ``X W p - K y s`` leaves of the first ``count`` vectors."""
        left = combined(self.Z, p[:, :count])
        left -= combined(self.K, y[:, :count] * s[:count])
        return left

    # --- directions outside of what is known ------------------------------------------------------------------------

    def _outside(self, A: Array) -> Array:
        """A less all that is known, but for rounding of A."""
        known = self._known.all
        return A - matmul(known, matmul(known.T, A))

    def _orthonormal(self, A: Array) -> Array:
        """Orthonormal columns with the range of A, itself nearly so, outside of all that is known."""
        known = self._known.all
        for _ in range(3):
            rest = inner(known, A)
            most = float(np.abs(rest).max(initial=0.0))
            if most <= _CLEAN:
                break
            A = A - combined(known, rest)
            if most <= _ONCE:
                break
        return tall_qr(A)[0] if A.shape[1] else A

    def _image_outside(self) -> tuple[Array, Array, Float]:
        """What the last image has outside of all that is known, and its left singular vectors and values."""
        if "outside" not in self._cache:
            P = self._outside(self._image)
            self._cache["outside"] = (P, *tall_svd(P))
        found: tuple[Array, Array, Float] = self._cache["outside"]
        return found

    def propose_directions(self, s1: float) -> Array:
        """The leader's N, (m, c): what the last image has outside of all that is known, orthonormal."""
        _, basis, s = self._image_outside()
        q = basis[:, : int(np.count_nonzero(s > least_direction(s1, basis.shape[0])))]
        return self._orthonormal(q)

    def expect_directions(self, N: Array, s1: float) -> None:
        """Refuse directions that the last image does not have outside of all known, a column more or one less."""
        m, c = N.shape
        least = least_direction(s1, m)
        P, u, s = self._image_outside()
        large, within = (int(np.count_nonzero(s > limit)) for limit in (SLACK * least, least / SLACK))
        if not large <= c <= within:
            raise refused()
        if c == 0:
            return
        # Numbers that are not finite make these products so, which no comparison lets pass.
        off = np.abs(inner(N, N) - np.eye(c)).max(), np.abs(inner(self._known.all, N)).max(initial=0.0)
        if not max(off) <= _EXACT:
            raise refused()
        a, held, _ = np.linalg.svd(inner(N, P))
        if len(held) < c or held[c - 1] < least / SLACK:
            raise refused()
        rounding = least_direction(s1, m)  # of Z - K K^T Z; a direction of size sigma is off by this over sigma
        own, N_a, u = u[:, :within], combined(N, a), u[:, :large]
        outside = lengths(N_a - matmul(own, matmul(own.T, N_a)))
        missing = lengths(u - matmul(N, matmul(N.T, u)))
        if np.any(outside > _EXACT + rounding / held[:c]) or np.any(missing > _EXACT + rounding / s[:large]):
            raise refused()

    def kept(self, N: Array) -> "Space":
        """With these directions in the reservoir."""
        last: tuple[Array, Space] | None = self._cache.get("kept")
        if last is not None and _same(last[0], N):
            return last[1]
        found = self._copy()
        found._known, found._found = self._known.with_more(N), N.shape[1]
        found._used = np.concatenate((self._used, np.zeros((N.shape[1], self._used.shape[1]))))
        self._cache["kept"] = N, found
        return found

    # --- the next block ---------------------------------------------------------------------------------------------

    def propose_mixture(self, ritz: Ritz | None, r: int, tolerance: float, most: int) -> Float:
        """The leader's c, (reservoir, q): what the wanted Ritz vectors that have not converged lack, q at most most.

        Without Ritz values: the directions that were found last.
        """
        used, most = self._used, min(most, self.unused)
        c, wanted = self._new, most
        if ritz is not None:
            G = inner(self.reservoir, chosen(ritz.left, ritz.residuals > tolerance / 2.0))
            for _ in range(2):
                G = G - used @ (used.T @ G)
            c, s, _ = np.linalg.svd(G, full_matrices=False)
            c = c[:, s > tolerance * ritz.top / 100.0]
            wanted = most if ritz.rank(r) < r else min(most, max(1, c.shape[1]))
        if c.shape[1] < (wanted if ritz is not None else 1):  # nothing points to where the rest is: any direction left
            rest = np.linalg.qr(np.concatenate((used, c), axis=1), mode="complete")[0]
            c = np.concatenate((c, rest[:, used.shape[1] + c.shape[1] :]), axis=1)
        c = c[:, :wanted]
        for _ in range(2):
            c = np.linalg.qr(c - used @ (used.T @ c))[0]
        return c

    @property
    def _new(self) -> Float:
        """The directions that were found last, in the reservoir."""
        e = len(self._used)
        return np.eye(e)[:, e - self._found :]

    def expect_mixture(self, c: Float, most: int) -> None:
        """Refuse a combination that is not of directions which are left. Any other is as good as the leader's."""
        if c.shape[0] != len(self._used) or not 1 <= c.shape[1] <= min(most, self.unused) or not np.isfinite(c).all():
            raise refused()
        off = np.abs(c.T @ c - np.eye(c.shape[1])).max(), np.abs(self._used.T @ c).max(initial=0.0)
        if max(off) > _EXACT:
            raise refused()

    def onward(self, c: Float) -> "Space":
        """With the next block in hand."""
        found = self._copy()
        found._block = combined(self.reservoir, c)
        found._used = np.concatenate((self._used, c), axis=1)
        return found

    def afresh(self, normals: Array) -> "Space":
        """With the next block from random directions outside of all that is known."""
        Q = tall_qr(normals[:, : normals.shape[0] - self._known.count])[0]
        Q = self._orthonormal(tall_qr(self._outside(Q))[0])
        found = self.kept(Q)._copy()
        found._used = np.concatenate((found._used, found._new), axis=1)
        found._block = Q
        return found

    # --- a basis that is full ---------------------------------------------------------------------------------------

    def propose_restart(self, ritz: Ritz, most: int) -> tuple[Float, Float, Float]:
        """The leader's p and y of at most ``most`` leading vectors, and a basis g of what is left in the reservoir."""
        count = min(most, int(np.count_nonzero(ritz.s > ritz.cut)))
        e, q = self._used.shape
        g = np.linalg.qr(self._used, mode="complete")[0][:, q:] if q else np.eye(e)
        return ritz.p[:, :count], ritz.y[:, :count], g

    def expect_restart(self, p: Float, y: Float, g: Float, ritz: Ritz, most: int) -> None:
        """Refuse what is not the leading part of all that is there, or leaves something of the reservoir out."""
        R, top, count = self._products, ritz.top, p.shape[1]
        if g.shape != (len(self._used), self.unused) or not all(np.isfinite(A).all() for A in (p, y, g)):
            raise refused()
        least, above = (int(np.count_nonzero(ritz.s > slack * ritz.cut)) for slack in (SLACK, 1.0 / SLACK))
        if not min(most, least) <= count <= min(most, above) or y.shape[1] != count:
            raise refused()
        s = np.einsum("ij,ij->j", p, matmul(R, y))
        off = [np.abs(A.T @ A - np.eye(A.shape[1])).max(initial=0.0) for A in (p, y, g)]
        off += [np.abs(self._used.T @ g).max(initial=0.0)]
        off += [np.linalg.norm(matmul(R, y) - p * s, axis=0).max(initial=0.0) / top]
        off += [np.linalg.norm(matmul(R.T, p) - y * s, axis=0).max(initial=0.0) / top]
        off += [np.abs(s - ritz.s[:count]).max(initial=0.0) / top]
        if not max(off) <= _EXACT:
            raise refused()

    def restarted(self, p: Float, y: Float, g: Float) -> "Space":
        """The leading part alone, with the block in hand: what vectors lack is in the reservoir, and stays there."""
        found, q = self._copy(), self._block.shape[1]
        K = combined(self.K, y)
        found._K, found._Z = Columns.of(K), Columns.of(combined(self.Z, p))
        found._products = matmul(p.T, matmul(self._products, y))
        rest = combined(self.reservoir, g)
        found._known = Columns.of(K).with_more(self._block).with_more(rest)
        found._first, found._found = K.shape[1], 0
        found._used = np.eye(q + rest.shape[1])[:, :q]
        return found

    # --- the end ----------------------------------------------------------------------------------------------------

    def answer(self, ritz: Ritz, r: int) -> tuple[Array, Float, Float]:
        """The leader's singular vectors V, (m, rank), values and p, (d, rank)."""
        rank = ritz.rank(r)
        V = combined(self.K, ritz.y[:, :rank])
        if rank:
            V = tall_qr(V)[0]
        return V, ritz.s[:rank].copy(), ritz.p[:, :rank].copy()

    def expect_answer(self, V: Array, s: Float, p: Float, ritz: Ritz, r: int, tolerance: float = math.inf) -> None:
        """Refuse vectors and values that are not leading Ritz vectors and values, or have not converged."""
        rank = len(s)
        if not ritz.rank(r, SLACK) <= rank <= ritz.rank(r, 1.0 / SLACK):
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


def _same(A: Array, B: Array) -> bool:
    return A is B or (isinstance(A, np.ndarray) and isinstance(B, np.ndarray) and np.array_equal(A, B))
