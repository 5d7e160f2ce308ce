"""Algorithm 2 of the paper: block-diagonal orthogonal matrices, and products that never store a zero (eq. 5).

``Q = diag(Q_1, ..., Q_B)`` is a tuple of orthogonal blocks; a product touches each slice of X once, so it costs
O(n b) per column instead of O(n^2).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from fedsvd.linalg.backend import namespace
from fedsvd.linalg.block_diagonal import Orthogonal
from fedsvd.linalg.pools import small_products
from fedsvd.linalg.windows import block_sizes
from fedsvd.masks.orthogonal import orthogonal
from fedsvd.randomness.keystream import Keystream
from fedsvd.types import Array, expect_shape


@dataclass(frozen=True)
class BlockDiagonal:
    """``diag(Q_1, ..., Q_B)``; each block is itself an orthogonal matrix."""

    blocks: tuple[Orthogonal, ...]

    @property
    def n(self) -> int:
        return sum(block.n for block in self.blocks)

    def left(self, X: Array) -> Array:
        """``Q X``."""
        return self._by_rows(X, lambda block, part: block.left(part))

    def left_t(self, X: Array) -> Array:
        """``Q^T X``."""
        return self._by_rows(X, lambda block, part: block.left_t(part))

    def right(self, X: Array) -> Array:
        """``X Q``."""
        return self._by_columns(X, lambda block, part: block.right(part))

    def right_t(self, X: Array) -> Array:
        """``X Q^T``."""
        return self._by_columns(X, lambda block, part: block.right_t(part))

    def explicit(self) -> Array:
        """The matrix with its zeros, for tests and small sizes."""
        parts = [block.explicit() for block in self.blocks]
        xp = namespace(parts[0])
        dense = xp.zeros((self.n, self.n), dtype=parts[0].dtype, device=parts[0].device)
        for (start, stop), part in zip(self._cuts(), parts, strict=True):
            dense[start:stop, start:stop] = part
        return dense

    def _cuts(self) -> Iterator[tuple[int, int]]:
        ends = [0]
        for block in self.blocks:
            ends.append(ends[-1] + block.n)
        return pairwise(ends)

    def _by_rows(self, X: Array, product: Callable[[Orthogonal, Array], Array]) -> Array:
        expect_shape("X", X, self.n, X.shape[1])
        xp = namespace(X)
        out = xp.empty_like(X, dtype=xp.float64)
        with small_products(X.shape[1]):
            for block, (start, stop) in zip(self.blocks, self._cuts(), strict=True):
                out[start:stop, :] = product(block, X[start:stop, :])
        return out

    def _by_columns(self, X: Array, product: Callable[[Orthogonal, Array], Array]) -> Array:
        expect_shape("X", X, X.shape[0], self.n)
        xp = namespace(X)
        out = xp.empty_like(X, dtype=xp.float64)
        with small_products(X.shape[0]):
            for block, (start, stop) in zip(self.blocks, self._cuts(), strict=True):
                out[:, start:stop] = product(block, X[:, start:stop])
        return out


def efficient_orthogonal(n: int, b: int, stream: Keystream, on: Array | None = None) -> BlockDiagonal:
    """Algorithm 2: ``Q = diag(Q_1, ..., Q_B)`` in O(n b) normals; zeros are never stored."""
    return BlockDiagonal(tuple(orthogonal(width, stream, on) for width in block_sizes(n, b)))
