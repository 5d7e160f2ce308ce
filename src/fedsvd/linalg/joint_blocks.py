"""Columns whose rows several parties hold, made orthonormal by sums of products: no party has all of a column.

``linalg.golub_kahan`` needs W orthonormal over all parties. One of them, the leader, makes a root of the products of a
block with itself and with earlier ones; the others test it. Two passes are usual.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fedsvd.linalg.backend import EPS
from fedsvd.linalg.golub_kahan import SLACK, refused
from fedsvd.types import Float

_ORTHONORMAL = 5e-14  # of joint products of a block with itself and with earlier ones, at which it is done
_LEAST = 1e-12  # of the largest eigenvalue, below which a root does not divide: a second pass does the rest

_NOISE = 2.0**-46  # of a product that several hundred parties add up, each with noise of 2^-54
_SEEN = 2.0**-22  # size of a column whose square is above that
_CLEAR = 2.0**-14  # and of one whose products with others are

PASSES = 6
"""How often a block is orthogonalised at most: twice is usual, and columns that are noise are shown so by the fifth."""


def least_column(s1: float, b: int) -> float:
    """Columns of a block below this size are rank that X lacks."""
    return 8.0 * EPS * s1 * math.sqrt(b)


class Block:
    """One block on its way to orthonormal columns, and ``original = columns S``: what each is of the original ones.

    ``C`` is ``[W_before W]^T W`` of all parties together, (d + b, b). A pass takes off what W has of the d columns
    before it and multiplies by a root, (b, kept).
    """

    def __init__(self, energies: Float, least: float) -> None:
        _, powers = np.frexp(np.maximum(energies, 2.0**-1000))
        # Powers of two from numbers that all parties hold bit for bit.
        self.scale: Float = np.ldexp(1.0, -((powers + 1) // 2))
        self._S, self._least = np.diag(1.0 / self.scale), least

    @property
    def width(self) -> int:
        """Columns that are left."""
        return len(self._S)

    @property
    def _size(self) -> Float:
        """What the original columns would lack without each column, were it of length one."""
        found: Float = np.linalg.norm(self._S, axis=1)
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
            root[ok] = _whitened(D[np.ix_(ok, ok)], g[ok], self._S[ok])
        return root

    def expect(self, C: Float, root: Float, done: bool) -> None:
        """Refuse a root that does not follow from C."""
        if root.shape[0] != self.width or not np.isfinite(root).all():
            raise refused()
        size, rows = self._size, np.any(root != 0.0, axis=1)
        if done:
            if not self.done(C, SLACK) or not np.array_equal(root, np.eye(self.width)[:, rows]):
                raise refused()
            self._expect_kept(rows, size)
            return
        _, g = self._outside(C)
        self._expect_kept(rows, g * size)
        # As many columns as rows, and none longer than the least eigenvalue allows. Were it singular, the block could
        # not become orthonormal with this number of columns, which all parties see in the last C.
        if root.shape[1] != int(rows.sum()) or np.linalg.norm(root * g[:, None]) > SLACK * self.width / _LEAST**0.5:
            raise refused()

    def take(self, root: Float) -> None:
        """Go on with the columns that a root makes."""
        rows = np.any(root != 0.0, axis=1)
        try:
            self._S = np.linalg.solve(root[rows], self._S[rows])
        except np.linalg.LinAlgError as error:
            raise refused() from error

    def _outside(self, C: Float) -> tuple[Float, Float]:
        """Products of the block less what earlier columns have of it, and the size of each column.

        A column that is smaller than products can show counts as what they can: a root makes it larger, and the next
        products show it. Divided by its own size in these, it would be noise over noise.
        """
        before, own = C[: len(C) - self.width], C[len(C) - self.width :]
        D = own - before.T @ before
        D = (D + D.T) / 2.0
        return D, np.sqrt(np.maximum(np.diagonal(D), _SEEN**2))

    def _expect_kept(self, rows: NDArray[np.bool_], size: Float) -> None:
        if np.any(rows & (size <= self._least / SLACK)) or np.any(~rows & (size > self._least * SLACK)):
            raise refused()


def _whitened(D: Float, g: Float, S: Float) -> Float:
    """A root of D, (b, b), whose columns have the sizes g: columns too small for their products are made larger alone.

    Eigenvalues that may be noise do not divide. A block that exhausts the rank of X has columns that are nothing else.

    Of columns that are nearly orthonormal eigenvectors are any rotation: one that is rounding and one a thousand times
    larger in original units, ``S``, would come out as two of equal size, and be left out together. So the root is
    rotated until each of its columns is, in original units, what one column has outside of all larger ones.
    """
    from scipy.linalg import qr

    clear = g > _CLEAR * g.max()
    scaled = np.where(np.multiply.outer(clear, clear), D / np.multiply.outer(g, g), np.eye(len(g)))
    w, v = np.linalg.eigh(scaled)
    least = max(_LEAST, _NOISE / float(g[clear].min()) ** 2) * w.max()
    halves = np.sqrt(np.maximum(w, least))
    root: Float = v / halves
    for some in (w > least, w <= least):
        if some.any():
            original = ((v[:, some] * halves[some]).T * g) @ S
            root[:, some] = root[:, some] @ qr(original, mode="economic", pivoting=True)[0]
    return root / g[:, None]
