"""P: the left mask, m x m, shared by all users and never known to the CSP (section 3.2 of the paper).

A haar or mixing mask is one matrix over the whole side, however long it is: one window. In the paper's form P is
block-diagonal, and each block is a window, drawn from a seed of its own, so that any can be made without the others.
"""

from dataclasses import dataclass, field

from fedsvd.linalg.backend import namespace
from fedsvd.linalg.block_diagonal import Orthogonal
from fedsvd.linalg.windows import Form, block_width, cut_side
from fedsvd.masks.orthogonal import STORED, draw_form
from fedsvd.randomness.keystream import Each
from fedsvd.randomness.seed import Seed
from fedsvd.types import Array, expect_shape


@dataclass(frozen=True, repr=False)
class LeftMask:
    """P of a given form for m rows; ``windows`` are the slices of rows it mixes among themselves."""

    form: Form
    m: int
    seed: Seed
    b: int = 0  # block width; 0 for the form's own
    on: Array | None = None
    keep: bool = True  # store drawn windows until this mask is dropped
    each: Each | None = None  # ``map`` over several threads, for the words behind the masks
    stored: int = STORED  # bytes that the blocks of a mixing mask may take
    windows: tuple[slice, ...] = field(init=False)
    _drawn: dict[int, Orthogonal] = field(init=False, default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", block_width(self.form, self.b))
        object.__setattr__(self, "windows", cut_side(self.form, self.m, self.b))

    def __repr__(self) -> str:
        return f"LeftMask({self.form}, m={self.m}, windows={len(self.windows)})"

    def window(self, w: int) -> Orthogonal:
        """The orthogonal matrix of window ``w``."""
        if w in self._drawn:
            return self._drawn[w]
        rows = self.windows[w]
        size, seed = rows.stop - rows.start, self.seed.derive("window", w)
        drawn = draw_form(self.form, size, self.b, seed, self.on, self.each, self.stored)
        if self.keep:
            self._drawn[w] = drawn
        return drawn

    def left(self, X: Array) -> Array:
        """``P X``."""
        return self._each(X, transposed=False)

    def left_t(self, X: Array) -> Array:
        """``P^T X``."""
        return self._each(X, transposed=True)

    def _each(self, X: Array, transposed: bool) -> Array:
        expect_shape("X", X, self.m, X.shape[1])
        if len(self.windows) == 1:
            return self.window(0).left_t(X) if transposed else self.window(0).left(X)
        xp = namespace(X)
        out = xp.empty_like(X, dtype=xp.float64)
        for w, rows in enumerate(self.windows):
            P_w = self.window(w)
            out[rows, :] = P_w.left_t(X[rows, :]) if transposed else P_w.left(X[rows, :])
        return out
