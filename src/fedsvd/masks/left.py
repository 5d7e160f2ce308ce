"""P: the left mask, m x m, shared by all users and never known to the CSP (section 3.2 of the paper).

It is one matrix over the whole side, however long that is.
"""

from dataclasses import dataclass, field

from fedsvd.linalg.block_diagonal import Orthogonal
from fedsvd.linalg.windows import Form, block_width
from fedsvd.masks.orthogonal import STORED, draw_form
from fedsvd.randomness.keystream import Each
from fedsvd.randomness.seed import Seed
from fedsvd.types import Array, expect_shape


@dataclass(frozen=True, repr=False)
class LeftMask:
    """P of a given form for m rows."""

    form: Form
    m: int
    seed: Seed
    b: int = 0  # block width; 0 for the usual one
    on: Array | None = None
    keep: bool = True  # store what was drawn until this mask is dropped
    each: Each | None = None  # ``map`` over several threads, for the words behind the masks
    stored: int = STORED  # bytes that the blocks of a mixing mask may take
    _drawn: list[Orthogonal] = field(init=False, default_factory=list, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", block_width(self.b))

    def __repr__(self) -> str:
        return f"LeftMask({self.form}, m={self.m})"

    @property
    def matrix(self) -> Orthogonal:
        """P itself."""
        if self._drawn:
            return self._drawn[0]
        drawn = draw_form(self.form, self.m, self.b, of_side(self.seed), self.on, self.each, self.stored)
        if self.keep:
            self._drawn.append(drawn)
        return drawn

    def left(self, X: Array) -> Array:
        """``P X``."""
        expect_shape("X", X, self.m, X.shape[1])
        return self.matrix.left(X)

    def left_t(self, X: Array) -> Array:
        """``P^T X``."""
        expect_shape("X", X, self.m, X.shape[1])
        return self.matrix.left_t(X)


def of_side(seed: Seed) -> Seed:
    """The seed of the matrix over a whole side (specification, section 4)."""
    return seed.derive("window", 0)
