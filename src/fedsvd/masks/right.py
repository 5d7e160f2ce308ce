"""Q: the right mask over all users' columns; user i works with its rows Q_i (section 3.2 of the paper).

It is one matrix over all columns, in which users stand in order; a user multiplies as if zeros stood in the others'
places.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from fedsvd.errors import ConfigError
from fedsvd.linalg.backend import like, namespace
from fedsvd.linalg.block_diagonal import Orthogonal
from fedsvd.linalg.windows import Form, block_width
from fedsvd.masks.left import of_side
from fedsvd.masks.orthogonal import STORED, draw_form
from fedsvd.randomness.keystream import Each
from fedsvd.randomness.seed import Seed
from fedsvd.types import Array, expect_shape

SLAB = 1 << 22  # numbers, 32 MiB: large enough for BLAS, small compared with a panel
LEAST_ROWS = 1024  # rows, or putting blocks of reflectors together would take longer than the products


@dataclass(frozen=True, repr=False)
class RightMask:
    """Q of a given form for users of these widths."""

    form: Form
    widths: tuple[int, ...]
    seed: Seed
    b: int = 0  # block width; 0 for the usual one
    on: Array | None = None
    keep: bool = False
    each: Each | None = None  # ``map`` over several threads, for the words behind the masks
    stored: int = STORED  # bytes that the blocks of a mixing mask may take
    _drawn: list[Orthogonal] = field(init=False, default_factory=list, compare=False)

    def __post_init__(self) -> None:
        if not self.widths or min(self.widths) < 1:
            raise ConfigError(f"every user needs at least one column, got widths {self.widths}")
        object.__setattr__(self, "b", block_width(self.b))

    def __repr__(self) -> str:
        return f"RightMask({self.form}, n={self.n}, users={len(self.widths)})"

    @property
    def n(self) -> int:
        return sum(self.widths)

    @property
    def matrix(self) -> Orthogonal:
        """Q itself."""
        if self._drawn:
            return self._drawn[0]
        drawn = draw_form(self.form, self.n, self.b, of_side(self.seed), self.on, self.each, self.stored)
        if self.keep:
            self._drawn.append(drawn)
        return drawn

    def place(self, i: int) -> slice:
        """Where the columns of the user at position i stand."""
        start = sum(self.widths[:i])
        return slice(start, start + self.widths[i])

    def right(self, i: int, A_i: Array) -> Array:
        """``A_i Q_i``: user i's columns, times its rows of Q."""
        expect_shape("A_i", A_i, A_i.shape[0], self.widths[i])
        xp, Q = namespace(A_i), self.matrix
        out = xp.zeros((A_i.shape[0], self.n), dtype=xp.float64, device=A_i.device)
        for rows in self._slabs(A_i.shape[0]):
            spread = xp.zeros((rows.stop - rows.start, self.n), dtype=xp.float64, device=A_i.device)
            spread[:, self.place(i)] = A_i[rows, :]
            out[rows, :] = Q.right(spread)
        return out

    def _slabs(self, rows: int) -> Iterator[slice]:
        """Rows that pass together: Q is applied to each by itself, and mixing makes three copies of what it is given.

        A haar mask passes them all at once: its reflectors are put together anew for every product.
        """
        in_slabs = self.form is Form.MIXING and self.on is None
        height = max(SLAB // self.n, LEAST_ROWS) if in_slabs else max(rows, 1)
        return (slice(start, min(start + height, rows)) for start in range(0, rows, height))

    def right_t(self, i: int, V: Array) -> Array:
        """``V Q_i^T``: columns of Y's kind, back to user i's own columns."""
        expect_shape("V", V, V.shape[0], self.n)
        return self.matrix.right_t(V)[:, self.place(i)]

    def rows(self, i: int) -> Array:
        """``Q_i`` itself: user i's rows of Q, (own columns, n)."""
        own = self.widths[i]
        if own == self.n:
            return self.matrix.explicit()
        # This user's rows alone: all of Q may be gigabytes.
        return self.right(i, np.eye(own) if self.on is None else like(np.eye(own), self.on))
