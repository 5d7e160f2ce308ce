"""Products with a block-diagonal orthogonal matrix that never store a zero (eq. 5 of the paper).

``Q = diag(Q_1, ..., Q_B)`` is a tuple of orthogonal blocks; a product touches each slice of X once, so it costs
O(n b) per column instead of O(n^2).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from fedsvd.linalg.backend import matmul, namespace
from fedsvd.linalg.pools import small_products
from fedsvd.types import Array, expect_shape


class Orthogonal(Protocol):
    """What every mask is: an orthogonal n x n matrix that multiplies from either side."""

    @property
    def n(self) -> int: ...
    def left(self, X: Array) -> Array:
        """``Q X``."""

    def left_t(self, X: Array) -> Array:
        """``Q^T X``."""

    def right(self, X: Array) -> Array:
        """``X Q``."""

    def right_t(self, X: Array) -> Array:
        """``X Q^T``."""

    def explicit(self) -> Array:
        """The matrix itself."""


@dataclass(frozen=True, repr=False)
class Written:
    """An orthogonal matrix written out: what the paper's masks are before they are optimised."""

    matrix: Array

    def __repr__(self) -> str:
        return f"Written(n={self.n})"

    @property
    def n(self) -> int:
        return int(self.matrix.shape[0])

    def left(self, X: Array) -> Array:
        """``Q X``."""
        return matmul(self.matrix, X)

    def left_t(self, X: Array) -> Array:
        """``Q^T X``."""
        return matmul(namespace(X).matrix_transpose(self.matrix), X)

    def right(self, X: Array) -> Array:
        """``X Q``."""
        return matmul(X, self.matrix)

    def right_t(self, X: Array) -> Array:
        """``X Q^T``."""
        return matmul(X, namespace(X).matrix_transpose(self.matrix))

    def explicit(self) -> Array:
        """The matrix itself."""
        return self.matrix


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
