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

All that was opened lies in the range of one orthonormal basis, (m, e), the first block and the reservoir. K and Z are
held as coordinates in it, a few hundred rows, and so are products, residuals and rotations. Matrices of m rows, the
basis, a block and its image, are where the start block is, on a device or in host memory; others are NumPy's
(``tall.py``).
"""

import math
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fedsvd.errors import VerificationFailed
from fedsvd.linalg import backend
from fedsvd.linalg.backend import EPS, matmul
from fedsvd.linalg.columns import Columns
from fedsvd.linalg.leading import Ritz, ritz_values
from fedsvd.linalg.tall import combined, inner, lengths, less, same, tall_qr
from fedsvd.types import Array, Float

TOLERANCE = 5e-14
"""Residual of a wanted Ritz vector, relative to s_1, at which the iteration ends."""

_EXACT = 1e-12  # by how much what the leader sends may differ from what another computes
SLACK = 4.0
"""Between two parties' view of the same number next to a threshold."""

_CLEAN, _ONCE = 4.0 * EPS, 1e-6  # products with what is known that stay, and that one pass takes off
_AS_LONG = 1e-9  # of a vector: taken off at a right angle, it changes no length
_EVEN = 32.0  # between the sizes of directions that two passes have made orthogonal to all known
_NEARLY = 1e-10  # of a direction: rounding that is below in its range is so in its products with others
_ROUGH = 1e4  # times the tolerance: a residual above it shows that a search goes on, whatever last digits values have
_OVER = 8  # Ritz values beyond the wanted ones, which show what is equal to the last of these


def start_block(normals: Float) -> Float:
    """An orthonormal basis of the range of normals, (m, b): with positive diagonal of R, a continuous function."""
    return np.asarray(tall_qr(normals)[0])


def least_direction(s1: float, m: int, tolerance: float = TOLERANCE) -> float:
    """Directions of Z outside of what is known that are below this size are rounding, or far within the tolerance."""
    return s1 * max(16.0 * EPS * math.sqrt(m), tolerance / 256.0)


def refused() -> VerificationFailed:
    """The one refusal of what the leader sent; a detail would show how far its next attempt may go."""
    return VerificationFailed(
        "what party 1 sent to all is not what the opened sums give",
        "nothing was released; run again, and ask party 1 if it repeats",
    )


# --- what all parties hold --------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class _Outside:
    """What an image has outside of all that is known: ``Q R``."""

    Q: Array
    R: Float
    rest: float  # the largest product with a known direction that the second pass took off

    @cached_property
    def parts(self) -> tuple[Array, Float, Float, Float]:
        """Q, and u, s, v with ``R = u s v``."""
        return self.Q, *backend.svd(self.R)

    @property
    def even(self) -> bool:
        """Whether two passes have made Q orthogonal to all that is known."""
        return bool(max(self.parts[2][0], self.rest) <= _EVEN * self.parts[2][-1])


class Space:
    """Directions, their images, and the reservoir: functions of what was opened and of what the leader sent.

    A space does not change: what follows from it is another one, which shares its memory.
    """

    def __init__(self, start: Array, tolerance: float = TOLERANCE) -> None:
        self._known = Columns.of(start)  # the first block and the reservoir, orthonormal: the range of all opened
        self._first, self._block, self._tolerance = start.shape[1], start, tolerance
        self._used = np.zeros((0, 0))  # combinations of the reservoir that were multiplied, or are the block in hand
        self._images = np.zeros((self._first, 0))  # Z: the coordinates of each image in the basis
        self._lost = np.zeros((0, 0))  # what images have outside of it, as coordinates: rounding, new in each step
        self._products = np.zeros((0, 0))  # Z^T K
        self._found = 0  # directions that the last image had outside of all known
        self._outside: _Outside | None = None  # of the last image, until directions of it are known
        self._cache: dict[str, Any] = {}  # what is asked for more than once
        self.seen = 0  # directions multiplied so far, those of earlier bases too

    @property
    def count(self) -> int:
        """Directions that were multiplied: columns of K and of W."""
        return int(self._products.shape[1])

    @property
    def images(self) -> int:
        """Columns of Z, one for each of W that a block kept."""
        return int(self._products.shape[0])

    @property
    def block(self) -> Array:
        """The directions to multiply next."""
        return self._block

    @property
    def reservoir(self) -> Array:
        """E."""
        return self._known.all[:, self._first :]

    @property
    def products(self) -> Float:
        """``Z^T K``, (images, directions)."""
        return self._products

    @property
    def unused(self) -> int:
        """Directions in the reservoir that were not multiplied."""
        return len(self._used) - int(self._used.shape[1])

    @property
    def has_outside(self) -> bool:
        """Whether there are directions outside of all that is known."""
        return self._known.count < int(self._block.shape[0])

    def _copy(self) -> "Space":
        found = copy(self)
        found._cache = {}
        return found

    # --- coordinates in the basis -----------------------------------------------------------------------------------

    def _of_directions(self, y: Float) -> Float:
        """The coordinates of ``K y``."""
        first = self._first
        return np.concatenate((y[:first], matmul(self._used[:, : self.count - first], y[first:])))

    def _with_directions(self, A: Float) -> Float:
        """``A^T K`` for coordinates A."""
        first = self._first
        return np.concatenate((A[:first].T, matmul(A[first:].T, self._used[:, : self.count - first])), axis=1)

    def combination(self, y: Float) -> Array:
        """``K y``."""
        return combined(self._known.all, self._of_directions(y))

    def before(self) -> Float:
        """``H``: what ``X^T Q`` of the next block has of earlier columns of W."""
        if not self.images:
            return np.zeros((0, self._block.shape[1]))
        found: Float = matmul(self._images[self._first :].T, self._used[:, self.count - self._first :])
        return found

    def added(self, Z: Array) -> "Space":
        """With the images of the block in hand, which has become (m, kept)."""
        found = self._copy()
        along = np.zeros((self._known.count, 0))
        if Z.shape[1]:
            found._outside, along = self._less_known(Z)
        found._images = np.concatenate((self._images, along), axis=1)
        found._lost = np.concatenate((self._lost, np.zeros((len(self._lost), Z.shape[1]))), axis=1)
        right = np.concatenate((self._products, self.before()), axis=1)
        found._products = np.concatenate((right, np.zeros((Z.shape[1], right.shape[1]))))
        found._products[self.images :] = found._with_directions(along)
        found.seen = self.seen + self._block.shape[1]
        return found

    def _less_known(self, Z: Array) -> tuple[_Outside, Float]:
        """What an image has outside of all that is known, by two passes, and its coordinates inside.

        W is orthonormal, and spans what X^T gives of every direction that was multiplied: an image has nothing of these
        but of its own block. Where no other direction is left, the first pass takes that off alone.
        """
        known, q = self._known.all, self._block.shape[1]
        if self.unused or not self.images:
            along = inner(known, Z)
            Z = less(Z, known, along)
        else:
            own = inner(self._block, Z)
            Z = less(Z, self._block, own)
            along = np.concatenate((np.zeros((self._first, Z.shape[1])), self._used[:, -q:] @ own))
        rest = inner(known, Z)
        outside = _Outside(*tall_qr(less(Z, known, rest)), float(np.abs(rest).max()))
        return outside, along + rest

    def ritz(self, r: int, n: int, count: int = 0) -> Ritz:
        """Ritz values, at least the first ``count``, and residuals of the first r; without a count as they matter."""
        R, far = self._products, math.inf if count else _ROUGH * self._tolerance
        if 0 in R.shape:
            return Ritz.none(*R.shape)
        return ritz_values(R, max(count, r + _OVER), far, lambda p, s, y: self._judged(p, s, y, r, n))

    def _judged(self, p: Float, s: Float, y: Float, r: int, n: int) -> Ritz:
        cut = float(s[0]) * max(8.0 * EPS * math.sqrt(max(self._block.shape[0], n)), self._tolerance / 1000.0)
        wanted = min(r, int(np.count_nonzero(s > cut)))
        return Ritz(p, s, y, self.left_of(p, s, y, wanted) / (float(s[0]) or 1.0), cut)

    def left_of(self, p: Float, s: Float, y: Float, count: int) -> Float:
        """The length of ``X W p - K y s`` of the first ``count`` vectors, with what no direction shows."""
        p, left = p[:, :count], np.linalg.norm(self._left(p, s, y, slice(count)), axis=0)
        if self._outside is not None:
            R = self._outside.R
            left = np.hypot(left, np.linalg.norm(R @ p[len(p) - R.shape[1] :], axis=0))
        found: Float = np.hypot(left, np.linalg.norm(self._lost @ p, axis=0))
        return found

    def _left(self, p: Float, s: Float, y: Float, which: Any) -> Float:
        """What ``X W p - K y s`` leaves in the basis of some vectors."""
        found: Float = matmul(self._images, p[:, which]) - self._of_directions(y[:, which] * s[which])
        return found

    # --- directions outside of what is known ------------------------------------------------------------------------

    def _orthonormal(self, A: Array) -> Array:
        """Orthonormal columns with the range of A, which are so already, outside of all that is known."""
        known = self._known.all
        for _ in range(3):
            rest = inner(known, A)
            most = float(np.abs(rest).max(initial=0.0))
            if most <= _CLEAN:
                break
            A = less(A, known, rest)
            if most > _AS_LONG:
                A = tall_qr(A)[0]
            if most <= _ONCE:
                break
        return A

    def propose_directions(self, s1: float) -> Array:
        """The leader's N, (m, c): what the last image has outside of all that is known, orthonormal."""
        if self._outside is None:
            return self._block[:, :0]
        Q, u, s, _ = self._outside.parts
        count = int(np.count_nonzero(s > least_direction(s1, Q.shape[0], self._tolerance)))
        if count == Q.shape[1]:
            return Q if self._outside.even else self._orthonormal(Q)
        return self._orthonormal(combined(Q, u[:, :count]))

    def expect_directions(self, N: Array, s1: float) -> None:
        """Refuse directions that the last image does not have outside of all known, a column more or one less."""
        m, c = N.shape
        least = least_direction(s1, m, self._tolerance)
        if self._outside is None:
            if c:
                raise refused()
            return
        Q, u, s, _ = self._outside.parts
        large, within = (int(np.count_nonzero(s > limit)) for limit in (SLACK * least, least / SLACK))
        if not large <= c <= within:
            raise refused()
        if c == 0 or (large == Q.shape[1] and self._outside.even and same(N, Q)):  # what this party would send
            return
        # Numbers that are not finite make these products so, which no comparison lets pass.
        if not np.abs(inner(N, N) - np.eye(c)).max() <= _EXACT:
            raise refused()
        shared = self._shared(N)
        a, held, _ = np.linalg.svd(shared @ self._outside.R)
        if len(held) < c or held[c - 1] < least / SLACK:
            raise refused()
        # Large directions that are in the own range are outside of all that is known, as that is.
        if least > _NEARLY * held[c - 1] and not np.abs(inner(self._known.all, N)).max(initial=0.0) <= _EXACT:
            raise refused()
        # Of Z - K K^T Z the rounding is ``least``; a direction of size sigma is off by this over sigma.
        own = u[:, :within]
        outside = lengths(combined(N, a) - combined(Q, own @ (own.T @ (shared.T @ a))))
        missing = lengths(combined(Q, u[:, :large]) - combined(N, shared @ u[:, :large]))
        if np.any(outside > _EXACT + least / held[:c]) or np.any(missing > _EXACT + least / s[:large]):
            raise refused()

    def _shared(self, N: Array) -> Float:
        """Products of these directions with the basis of what the last image has outside of all known."""
        assert self._outside is not None
        last: tuple[Array, Float] | None = self._cache.get("shared")
        if last is None or not same(last[0], N):
            last = self._cache["shared"] = N, inner(N, self._outside.Q)
        return last[1]

    def kept(self, N: Array) -> "Space":
        """With these directions in the reservoir."""
        last: tuple[Array, Space] | None = self._cache.get("kept")
        if last is not None and same(last[0], N):
            return last[1]
        found, c = self._copy(), N.shape[1]
        found._known, found._found, found._outside = self._known.with_more(N), c, None
        found._used = np.concatenate((self._used, np.zeros((c, self._used.shape[1]))))
        along = np.zeros((c, self.images))
        if self._outside is not None:
            _, _, s, v = self._outside.parts
            last_ones = slice(self.images - v.shape[1], None)
            along[:, last_ones] = self._shared(N) @ self._outside.R
            below = np.zeros((len(s) - c, self.images))
            below[:, last_ones] = s[c:, None] * v[c:]
            found._lost = np.concatenate((self._lost, below))
        found._images = np.concatenate((self._images, along))
        self._cache["kept"] = N, found
        return found

    # --- the next block ---------------------------------------------------------------------------------------------

    def propose_mixture(self, ritz: Ritz | None, r: int, tolerance: float, most: int) -> Float:
        """The leader's c, (reservoir, q): what the wanted Ritz vectors that have not converged lack, q at most most.

        Without Ritz values, or where all that is left is asked for: the directions that were found last.
        """
        used, most = self._used, min(most, self.unused)
        c, wanted = self._new, most
        if ritz is not None:
            open_ones = np.flatnonzero(ritz.residuals[:r] > tolerance / 2.0)
            G = self._left(ritz.p, ritz.s, ritz.y, open_ones)[self._first :]
            for _ in range(2):
                G = G - used @ (used.T @ G)
            c, s, _ = np.linalg.svd(G, full_matrices=False)
            c = c[:, s > tolerance * ritz.top / 100.0]
            wanted = most if ritz.rank(r) < r else min(most, max(1, c.shape[1]))
        if wanted == self._found == self.unused:
            return self._new
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
        if max(np.abs(c.T @ c - np.eye(c.shape[1])).max(), np.abs(self._used.T @ c).max(initial=0.0)) > _EXACT:
            raise refused()

    def onward(self, c: Float) -> "Space":
        """With the next block in hand."""
        found, (e, q) = self._copy(), c.shape
        last = self.reservoir[:, e - q :]
        found._block = last if np.array_equal(c, np.eye(e)[:, e - q :]) else combined(self.reservoir, c)
        found._used = np.concatenate((self._used, c), axis=1)
        return found

    def afresh(self, normals: Array) -> "Space":
        """With the next block from random directions outside of all that is known."""
        known = self._known.all
        Q = tall_qr(normals[:, : normals.shape[0] - self._known.count])[0]
        Q = self._orthonormal(tall_qr(less(Q, known, inner(known, Q)))[0])
        found = self.kept(Q)._copy()
        found._used = np.concatenate((found._used, found._new), axis=1)
        found._block = Q
        return found

    # --- a basis that is full ---------------------------------------------------------------------------------------

    def propose_restart(self, ritz: Ritz, most: int) -> tuple[Float, Float, Float]:
        """The leader's p and y of at most ``most`` leading vectors, and a basis g of what is left in the reservoir."""
        count = min(most, int(np.count_nonzero(ritz.s > ritz.cut)))
        e, q = self._used.shape
        g = np.linalg.qr(self._used, mode="complete")[0][:, q:] if q < e else np.zeros((e, 0))
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
        leads, rest = self._of_directions(y), combined(self.reservoir, g)
        found._known = Columns.of(combined(self._known.all, leads)).with_more(self._block).with_more(rest)
        left = np.concatenate((self._used[:, self._used.shape[1] - q :], g), axis=1)
        turn = np.concatenate((leads, np.concatenate((np.zeros((self._first, left.shape[1])), left))), axis=1)
        images = matmul(self._images, p)
        found._images = matmul(turn.T, images)
        rest_of = images - matmul(turn, found._images)
        found._lost = np.linalg.qr(np.concatenate((matmul(self._lost, p), rest_of)))[1]  # a sum of lengths would grow
        found._products = matmul(p.T, matmul(self._products, y))
        found._first, found._found = y.shape[1], 0
        found._used = np.eye(left.shape[1])[:, :q]
        return found

    # --- the end ----------------------------------------------------------------------------------------------------

    def answer(self, ritz: Ritz, r: int) -> tuple[Array, Float, Float]:
        """The leader's singular vectors V, (m, rank), values and p, (d, rank)."""
        rank = ritz.rank(r)
        V = self.combination(ritz.y[:, :rank])
        if rank:
            V = tall_qr(V)[0]
        return V, ritz.s[:rank].copy(), ritz.p[:, :rank].copy()

    def expect_answer(
        self, V: Array, s: Float, p: Float, ritz: Ritz, wanted: tuple[int, int], tolerance: float = math.inf
    ) -> None:
        """Refuse other than leading Ritz vectors and values, ``wanted`` at least and at most, and unconverged ones."""
        rank = len(s)
        if not ritz.rank(wanted[0], SLACK) <= rank <= ritz.rank(wanted[1], 1.0 / SLACK):
            raise refused()
        if not all(np.isfinite(A).all() for A in (s, p)):
            raise refused()
        if rank == 0:
            return
        top, R, along = ritz.top, self._products, inner(self._known.all, V)
        y, beyond = self._with_directions(along).T, lengths(less(V, self._known.all, along))
        found = (
            np.abs(inner(V, V) - np.eye(rank)).max(),
            np.abs(p.T @ p - np.eye(rank)).max(),
            (np.linalg.norm(self._of_directions(y) - along, axis=0) + beyond).max(),
            np.abs(s - ritz.s[:rank]).max() / top,
            np.linalg.norm(R @ y - p * s, axis=0).max() / top,
            np.linalg.norm(R.T @ p - y * s, axis=0).max() / top,
        )
        residual = (self.left_of(p, s, y, rank) + s * beyond).max() / top
        if not max(found) <= _EXACT or not residual <= 2.0 * tolerance or np.any(np.diff(s) > 0.0) or not s[-1] > 0.0:
            raise refused()
