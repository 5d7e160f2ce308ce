"""P: the left mask, m x m, shared by all users and never known to the CSP (section 3.2 of the paper).

P is block-diagonal over *windows* of rows. A haar mask has one window, the whole side. Mixing masks have windows of
at most 65,536 rows, so that they stream. In the paper's form each block is a window. A window is drawn from a seed
of its own, so any window can be made without the others.
"""

from dataclasses import dataclass, field

from fedsvd.errors import ConfigError
from fedsvd.linalg.backend import namespace
from fedsvd.linalg.block_diagonal import Orthogonal
from fedsvd.linalg.windows import WINDOW_LIMIT, Form, block_width, cut_side
from fedsvd.masks.orthogonal import draw_form
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
    limit: int = WINDOW_LIMIT
    on: Array | None = None
    keep: bool = True  # keep drawn windows until this mask is dropped
    cuts: tuple[slice, ...] = ()  # windows other than the form's own: rows of two kinds in equal fractions
    each: Each | None = None  # ``map`` over several threads, for the words behind the masks
    dealt: Orthogonal | None = None  # the one window of a P that was delivered, not drawn
    windows: tuple[slice, ...] = field(init=False)
    _drawn: dict[int, Orthogonal] = field(init=False, default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", block_width(self.form, self.b))
        windows = self.cuts or cut_side(self.form, self.m, self.b, self.limit)
        if [0, *(rows.stop for rows in windows)] != [*(rows.start for rows in windows), self.m]:
            raise ConfigError(f"the windows do not follow one another over all {self.m} rows")
        object.__setattr__(self, "windows", windows)

    def __repr__(self) -> str:
        return f"LeftMask({self.form}, m={self.m}, windows={len(self.windows)})"

    def window(self, w: int) -> Orthogonal:
        """The orthogonal matrix of window ``w``."""
        if self.dealt is not None:
            return self.dealt
        if w in self._drawn:
            return self._drawn[w]
        rows = self.windows[w]
        drawn = draw_form(self.form, rows.stop - rows.start, self.b, self.seed.derive("window", w), self.on, self.each)
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
