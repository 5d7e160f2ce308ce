"""The mixing mask: an orthogonal matrix that spreads every row over the whole window before blocks hide it.

    Q = B Pi (C D_2) (C D_1)

D are random signs, C the orthonormal DCT-II, Pi a secret permutation and B block-diagonal Haar. Bare blocks leave
tile spectra, empty tiles and order in plain sight (C4); after two rounds of signs and DCT every tile holds a bit of
every row. Unlike ``haar`` this is a heuristic: not distinguished from Haar in the tests of ``tests/adversary``,
and said so. Cost O(n log n + n b) per column.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsvd.linalg.backend import dct, like, namespace
from fedsvd.linalg.block_diagonal import Orthogonal
from fedsvd.types import Array, Float, expect_shape


@dataclass(frozen=True, repr=False)
class Mixing:
    """``Q = B Pi (C D_2) (C D_1)``, orthogonal, n x n."""

    signs: tuple[Array, Array]  # the diagonals of D_1, D_2, as columns
    order: Array
    inverse_order: Array
    blocks: Orthogonal

    @classmethod
    def of(
        cls, rounds: tuple[Float, Float], order: NDArray[np.intp], blocks: Orthogonal, on: Array | None = None
    ) -> "Mixing":
        """The mask of these parts, in the library and on the device of ``on``."""
        first, second = rounds[0][:, None], rounds[1][:, None]
        inverse = np.argsort(order)
        if on is None:
            return cls((first, second), order, inverse, blocks)
        return cls((like(first, on), like(second, on)), like(order, on), like(inverse, on), blocks)

    def __repr__(self) -> str:
        return f"Mixing(n={self.n})"

    @property
    def n(self) -> int:
        return self.blocks.n

    def left(self, X: Array) -> Array:
        """``Q X``."""
        expect_shape("X", X, self.n, X.shape[1])
        first, second = self.signs
        # What was made here is worked on in place: a panel is as large as the memory allows, and counts once less.
        X = dct(first * X, spent=True)
        X *= second
        X = dct(X, spent=True)
        X = namespace(X).take(X, self.order, axis=0)
        return self.blocks.left(X)

    def left_t(self, X: Array) -> Array:
        """``Q^T X``: the same steps backwards."""
        expect_shape("X", X, self.n, X.shape[1])
        X = self.blocks.left_t(X)
        X = namespace(X).take(X, self.inverse_order, axis=0)
        for signs in reversed(self.signs):
            X = dct(X, inverse=True, spent=True)
            X *= signs
        return X

    def right(self, X: Array) -> Array:
        """``X Q``."""
        xp = namespace(X)
        return xp.matrix_transpose(self.left_t(xp.matrix_transpose(X)))

    def right_t(self, X: Array) -> Array:
        """``X Q^T``."""
        xp = namespace(X)
        return xp.matrix_transpose(self.left(xp.matrix_transpose(X)))

    def explicit(self) -> Array:
        """The matrix itself, for tests and small sizes."""
        xp = namespace(self.signs[0])
        return self.left(xp.eye(self.n, dtype=self.signs[0].dtype, device=self.signs[0].device))
