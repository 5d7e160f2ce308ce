"""P and Q of the paper: block-diagonal, each block drawn from a seed of its own (Algorithm 2, near-equal blocks: C2).

The blocks are called windows: which rows or columns they hold is public. Those of Q are cut from the concatenation of
all users' columns, without regard to users (C3): a block may straddle users, who then hold slices of it.
"""

from dataclasses import dataclass, field
from itertools import accumulate, pairwise

import numpy as np

from fedsvd.errors import ConfigError
from fedsvd.linalg.block_diagonal import Orthogonal
from fedsvd.linalg.windows import block_sizes
from fedsvd.masks.orthogonal import orthogonal
from fedsvd.randomness.keystream import Keystream
from fedsvd.randomness.seed import Seed
from fedsvd.types import Float, expect_shape

PAPER_BLOCK = 1000


@dataclass(frozen=True)
class Window:
    """Which columns are in one block: a slice of each user's, and the slice of Y's columns they become."""

    columns: tuple[slice, ...]
    outputs: slice

    @property
    def width(self) -> int:
        return int(self.outputs.stop - self.outputs.start)

    def place(self, i: int) -> slice:
        """Where the columns of the user at position i stand inside the block."""
        start = sum(own.stop - own.start for own in self.columns[:i])
        return slice(start, start + self.columns[i].stop - self.columns[i].start)


def cut_rows(m: int, b: int) -> tuple[slice, ...]:
    """The rows that each block of P mixes."""
    return tuple(slice(start, stop) for start, stop in pairwise(accumulate(block_sizes(m, b), initial=0)))


def cut_columns(widths: tuple[int, ...], b: int) -> tuple[Window, ...]:
    """The columns that each block of Q mixes."""
    if not widths or min(widths) < 1:
        raise ConfigError(f"every user needs at least one column, got widths {widths}")
    offsets = list(accumulate(widths, initial=0))
    windows = []
    for start, stop in pairwise(accumulate(block_sizes(offsets[-1], b), initial=0)):
        columns = tuple(
            slice(min(max(start - o, 0), n_i), min(max(stop - o, 0), n_i))
            for o, n_i in zip(offsets[:-1], widths, strict=True)
        )
        windows.append(Window(columns, slice(start, stop)))
    return tuple(windows)


@dataclass(frozen=True, repr=False)
class LeftBlocks:
    """P for m rows, in blocks of about b."""

    m: int
    seed: Seed
    b: int = PAPER_BLOCK
    windows: tuple[slice, ...] = field(init=False)
    _drawn: dict[int, Orthogonal] = field(init=False, default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "windows", cut_rows(self.m, self.b))

    def __repr__(self) -> str:
        return f"LeftBlocks(m={self.m}, windows={len(self.windows)})"

    def window(self, w: int) -> Orthogonal:
        """Block ``w``, which is drawn once."""
        if w not in self._drawn:
            rows = self.windows[w]
            self._drawn[w] = _drawn(self.seed, w, rows.stop - rows.start)
        return self._drawn[w]

    def left(self, X: Float) -> Float:
        """``P X``."""
        expect_shape("X", X, self.m, X.shape[1])
        return np.concatenate([self.window(w).left(X[rows]) for w, rows in enumerate(self.windows)])

    def left_t(self, X: Float) -> Float:
        """``P^T X``."""
        expect_shape("X", X, self.m, X.shape[1])
        return np.concatenate([self.window(w).left_t(X[rows]) for w, rows in enumerate(self.windows)])


@dataclass(frozen=True, repr=False)
class RightBlocks:
    """Q for users of these widths, in blocks of about b; a block is drawn at every use, unless ``keep``."""

    widths: tuple[int, ...]
    seed: Seed
    b: int = PAPER_BLOCK
    keep: bool = False
    windows: tuple[Window, ...] = field(init=False)
    _drawn: dict[int, Orthogonal] = field(init=False, default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "windows", cut_columns(self.widths, self.b))

    def __repr__(self) -> str:
        return f"RightBlocks(n={sum(self.widths)}, users={len(self.widths)}, windows={len(self.windows)})"

    def window(self, w: int) -> Orthogonal:
        """Block ``w``."""
        if w in self._drawn:
            return self._drawn[w]
        drawn = _drawn(self.seed, w, self.windows[w].width)
        if self.keep:
            self._drawn[w] = drawn
        return drawn

    def rows(self, w: int, i: int) -> Float:
        """``Q_iw``: user i's slice of a block, (own columns, width of the block)."""
        place, width = self.windows[w].place(i), self.windows[w].width
        own = np.zeros((place.stop - place.start, width))
        own[:, place] = np.eye(len(own))
        rows: Float = self.window(w).right(own) if len(own) else own
        return rows


def _drawn(seed: Seed, w: int, width: int) -> Orthogonal:
    return orthogonal(width, Keystream(seed.derive("window", w)))
