"""Lanczos' method outside of given vectors: how much of a matrix is left there (specification, step 7).

Products ``G V`` come from elsewhere, rounded coarsely. A new block is made orthogonal to U and to all earlier ones, and
once more, so that rounding of the products moves the space that is searched, and no direction is met a second time. The
largest Ritz value is a lower bound on the largest eigenvalue of G outside of U, but for ``V^T E``, E what was rounded.
"""

from collections.abc import Callable

import numpy as np

from fedsvd.types import Float

_BARELY = 2.0**-40  # of a direction: what is left of one that lies in the others is rounding


class Outside:
    """Directions outside of U, block by block, and the compression of G to them."""

    def __init__(self, U: Float, start: Float, blocks: int, allocate: Callable[[tuple[int, int]], Float]) -> None:
        (m, b) = start.shape
        self._U = U
        self._lines, self._done = allocate((b * blocks, m)), 0  # as rows: they may lie on disk
        self._T = np.zeros((b * blocks, b * blocks))
        self._next = self._orthonormal(start)

    @property
    def directions(self) -> Float:
        """The next block, (m, b), orthonormal; zero columns where nothing is left to search."""
        return self._next

    def add(self, product: Float) -> float:
        """The largest Ritz value so far, with ``G V`` of the block in hand; the next block follows from it."""
        first, self._done = self._done, self._done + self._next.shape[1]
        self._lines[first : self._done] = self._next.T
        new = slice(first, self._done)
        self._T[: self._done, new] = self._lines[: self._done] @ product
        self._T[new, new] = (self._T[new, new] + self._T[new, new].T) / 2.0
        if self._done < len(self._T):
            self._next = self._orthonormal(product)
        known = self._T[: self._done, : self._done]
        return float(np.linalg.eigvalsh(known, UPLO="U")[-1])

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
