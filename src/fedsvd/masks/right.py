"""Q: the right mask over all users' columns; user i works with its rows Q_i (section 3.2 of the paper).

A haar or mixing mask is one matrix over all columns: one window. In the paper's form Q is block-diagonal, and its
blocks, the windows, are cut from the concatenation and may straddle users, who then hold slices (C3).

Inside a window users stand in order, and a user multiplies as if zeros stood in the others' places.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from fedsvd.linalg.backend import like, namespace
from fedsvd.linalg.block_diagonal import Orthogonal
from fedsvd.linalg.windows import Form, Window, block_width, cut_columns
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
    b: int = 0  # block width; 0 for the form's own
    on: Array | None = None
    keep: bool = False
    each: Each | None = None  # ``map`` over several threads, for the words behind the masks
    stored: int = STORED  # bytes that the blocks of a mixing mask may take
    windows: tuple[Window, ...] = field(init=False)
    _drawn: dict[int, Orthogonal] = field(init=False, default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", block_width(self.form, self.b))
        object.__setattr__(self, "windows", cut_columns(self.form, self.widths, self.b))

    def __repr__(self) -> str:
        return f"RightMask({self.form}, n={self.n}, users={len(self.widths)}, windows={len(self.windows)})"

    @property
    def n(self) -> int:
        return sum(self.widths)

    def window(self, w: int) -> Orthogonal:
        """The orthogonal matrix of window ``w``."""
        if w in self._drawn:
            return self._drawn[w]
        width, seed = self.windows[w].width, self.seed.derive("window", w)
        drawn = draw_form(self.form, width, self.b, seed, self.on, self.each, self.stored)
        if self.keep:
            self._drawn[w] = drawn
        return drawn

    def right(self, w: int, i: int, A_iw: Array) -> Array:
        """``A_iw Q_iw``: user i's columns of window w, times its rows of Q."""
        window = self.windows[w]
        place = window.place(i)
        expect_shape("A_iw", A_iw, A_iw.shape[0], place.stop - place.start)
        xp = namespace(A_iw)
        out = xp.zeros((A_iw.shape[0], window.width), dtype=xp.float64, device=A_iw.device)
        if place.stop == place.start:
            return out
        Q_w = self.window(w)
        for rows in self._slabs(*out.shape):
            spread = xp.zeros((rows.stop - rows.start, window.width), dtype=xp.float64, device=A_iw.device)
            spread[:, place] = A_iw[rows, :]
            out[rows, :] = Q_w.right(spread)
        return out

    def _slabs(self, rows: int, width: int) -> Iterator[slice]:
        """Rows that pass together: Q is applied to each by itself, and mixing makes three copies of what it is given.

        A haar mask passes them all at once: its reflectors are put together anew for every product.
        """
        height = max(SLAB // width, LEAST_ROWS) if self.form is Form.MIXING and self.on is None else max(rows, 1)
        return (slice(start, min(start + height, rows)) for start in range(0, rows, height))

    def right_t(self, w: int, i: int, V: Array) -> Array:
        """``V Q_iw^T``: columns of Y's kind in window w, back to user i's own columns."""
        expect_shape("V", V, V.shape[0], self.windows[w].width)
        return self.window(w).right_t(V)[:, self.windows[w].place(i)]

    def rows(self, w: int, i: int) -> Array:
        """``Q_iw`` itself: user i's slice of a window, (own columns, window width)."""
        place = self.windows[w].place(i)
        own = place.stop - place.start
        if own == self.windows[w].width:
            return self.window(w).explicit()
        # This user's rows alone: all of a window that is the whole side may be gigabytes.
        return self.right(w, i, np.eye(own) if self.on is None else like(np.eye(own), self.on))
