"""Lanczos' method outside of given vectors: how much of a matrix is left there (specification, step 7).

Products ``G V`` come from elsewhere, rounded coarsely. A new block is made orthogonal to U and to all earlier ones, and
once more, so that rounding of the products moves the space that is searched, and no direction is met a second time. The
largest Ritz value is a lower bound on the largest eigenvalue of G outside of U, but for ``V^T E``, E what was rounded.
"""

from collections.abc import Callable
from copy import copy

import numpy as np

from fedsvd.types import Float

_BARELY = 2.0**-40  # of a direction: what is left of one that lies in the others is rounding


class Outside:
    """Directions outside of U, block by block, and the compression of G to them; a value, which ``added`` follows."""

    def __init__(self, U: Float, start: Float, blocks: int, allocate: Callable[[tuple[int, int]], Float]) -> None:
        (m, b) = start.shape
        self._U = U
        self._lines, self._done = allocate((b * blocks, m)), 0  # as rows: they may lie on disk
        self._T = np.zeros((b * blocks, b * blocks))
        self._next = self._orthonormal(start)
        self.largest = 0.0  # Ritz value so far

    @property
    def directions(self) -> Float:
        """The next block, (m, b), orthonormal; zero columns where nothing is left to search."""
        return self._next

    def added(self, product: Float) -> "Outside":
        """What is known with ``G V`` of the block in hand; the next block follows from it."""
        grown = copy(self)  # lines are shared: the one that follows adds its own behind those of this one
        first, grown._done = self._done, self._done + self._next.shape[1]
        grown._lines[first : grown._done] = self._next.T
        new, T = slice(first, grown._done), self._T.copy()
        T[: grown._done, new] = grown._lines[: grown._done] @ product
        T[new, new] = (T[new, new] + T[new, new].T) / 2.0
        grown._T = T
        if grown._done < len(T):
            grown._next = grown._orthonormal(product)
        grown.largest = float(np.linalg.eigvalsh(T[: grown._done, : grown._done], UPLO="U")[-1])
        return grown

    def _orthonormal(self, block: Float) -> Float:
        """An orthonormal basis of what lies in these columns and neither in U nor in an earlier direction."""
        sizes = np.linalg.norm(block, axis=0)
        for _ in range(2):
            block = self._without(block)
            block, R = np.linalg.qr(block)
            lengths = np.abs(np.diag(R))
            block[:, ~(lengths > _BARELY * sizes)] = 0.0
            sizes = np.linalg.norm(block, axis=0)
        return block

    def _without(self, block: Float) -> Float:
        lines = self._lines[: self._done]
        block = block - self._U @ (self._U.T @ block)
        return block - lines.T @ (lines @ block)
