"""Q: the right mask over all users' columns; user i works with its rows Q_i (section 3.2 of the paper).

Q is block-diagonal over *windows* of columns, and which columns share a window is a matter of privacy. A haar mask has
one window with everybody's columns. A mixing window takes the same fraction of *every* user's columns, columns
``floor(w n_i / W) .. floor((w+1) n_i / W)``, so that no window belongs to one user: a window inside one user's columns
would show the CSP that user's tile spectra. The paper's blocks are cut from the concatenation, whoever the columns
belong to (C3); a block may straddle users, who then hold slices of it.

Inside a window users stand in order, and a user multiplies as if zeros stood in the others' places.
"""

from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from fedsvd.errors import ConfigError
from fedsvd.linalg.backend import namespace
from fedsvd.linalg.block_diagonal import Orthogonal
from fedsvd.masks.left import WINDOW_LIMIT, window_count
from fedsvd.masks.orthogonal import MIXING_BLOCK, PAPER_BLOCK, Form, block_sizes, draw_form
from fedsvd.randomness.seed import Seed
from fedsvd.types import Array, expect_shape

HAAR_LIMIT = 16_384


@dataclass(frozen=True)
class Window:
    """Which columns meet in one window: a slice of each user's, and the slice of Y's columns they become."""

    columns: tuple[slice, ...]
    outputs: slice

    @property
    def width(self) -> int:
        return int(self.outputs.stop - self.outputs.start)

    def place(self, i: int) -> slice:
        """Where user i's columns stand inside the window."""
        start = sum(own.stop - own.start for own in self.columns[:i])
        return slice(start, start + self.columns[i].stop - self.columns[i].start)


@dataclass(frozen=True, repr=False)
class RightMask:
    """Q of a given form for users of these widths."""

    form: Form
    widths: tuple[int, ...]
    seed: Seed
    b: int = 0  # block width; 0 for the form's own
    limit: int = WINDOW_LIMIT
    on: Array | None = None
    keep: bool = False
    windows: tuple[Window, ...] = field(init=False)
    _drawn: dict[int, Orthogonal] = field(init=False, default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        if not self.widths or min(self.widths) < 1:
            raise ConfigError(f"every user needs at least one column, got widths {self.widths}")
        b = self.b or (PAPER_BLOCK if self.form is Form.BLOCKS else MIXING_BLOCK)
        object.__setattr__(self, "b", b)
        if self.form is Form.BLOCKS:
            windows = _cut_blocks(self.widths, b)
        else:
            count = 1 if self.form is Form.HAAR else window_count(self.n, self.limit)
            windows = _cut_fractions(self.widths, count)
        object.__setattr__(self, "windows", windows)

    def __repr__(self) -> str:
        return f"RightMask({self.form}, n={self.n}, users={len(self.widths)}, windows={len(self.windows)})"

    @property
    def n(self) -> int:
        return sum(self.widths)

    def window(self, w: int) -> Orthogonal:
        """The orthogonal matrix of window ``w``."""
        if w in self._drawn:
            return self._drawn[w]
        drawn = draw_form(self.form, self.windows[w].width, self.b, self.seed.derive("window", w), self.on)
        if self.keep:
            self._drawn[w] = drawn
        return drawn

    def right(self, w: int, i: int, A_iw: Array) -> Array:
        """``A_iw Q_iw``: user i's columns of window w, times its rows of Q."""
        window = self.windows[w]
        place = window.place(i)
        expect_shape("A_iw", A_iw, A_iw.shape[0], place.stop - place.start)
        xp = namespace(A_iw)
        spread = xp.zeros((A_iw.shape[0], window.width), dtype=A_iw.dtype, device=A_iw.device)
        if place.stop == place.start:
            return spread
        spread[:, place] = A_iw
        return self.window(w).right(spread)

    def right_t(self, w: int, i: int, V: Array) -> Array:
        """``V Q_iw^T``: columns of Y's kind in window w, back to user i's own columns."""
        expect_shape("V", V, V.shape[0], self.windows[w].width)
        return self.window(w).right_t(V)[:, self.windows[w].place(i)]

    def rows(self, w: int, i: int) -> Array:
        """``Q_iw`` itself: user i's slice of a window, (own columns, window width)."""
        return self.window(w).explicit()[self.windows[w].place(i), :]


def _cut_fractions(widths: tuple[int, ...], count: int) -> tuple[Window, ...]:
    windows, start = [], 0
    for w in range(count):
        columns = tuple(slice(w * n_i // count, (w + 1) * n_i // count) for n_i in widths)
        stop = start + sum(own.stop - own.start for own in columns)
        if stop > start:
            windows.append(Window(columns, slice(start, stop)))
        start = stop
    return tuple(windows)


def _cut_blocks(widths: tuple[int, ...], b: int) -> tuple[Window, ...]:
    offsets = list(accumulate(widths, initial=0))
    ends = list(accumulate(block_sizes(offsets[-1], b), initial=0))
    windows = []
    for start, stop in pairwise(ends):
        columns = tuple(
            slice(min(max(start - o, 0), n_i), min(max(stop - o, 0), n_i))
            for o, n_i in zip(offsets[:-1], widths, strict=True)
        )
        windows.append(Window(columns, slice(start, stop)))
    return tuple(windows)
