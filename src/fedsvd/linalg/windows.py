"""How a side of a matrix is cut: shapes only, so that every role may know them.

A mask of a study stands over the whole side. The paper's, for the lab, is block-diagonal, and its blocks are called
windows here: which rows or columns they hold is public, what stands in them is not, and is drawn in ``masks``.
"""

from bisect import bisect_right
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, pairwise

from fedsvd.errors import ConfigError

PAPER_BLOCK = 1000
MIXING_BLOCK = 128
LEAST_BLOCK = 128
"""The narrowest block that a mask of the mask family may be asked to have."""

HAAR_LEFT_LIMIT = 4096
"""P is a Haar matrix up to this number of rows, and mixing beyond (specification, section 4)."""

HAAR_RIGHT_LIMIT = 8192
"""The same for Q and T_i, in columns."""

PANELS = 10
"""Panels of rows that a role has space for in an upload: as read, masked, as words, on its way, and as it is folded."""
PANEL_WORDS = 1 << 21
"""Words of a panel that is no larger than a cache can use, however much memory there is: 16 MiB."""
MOST_WINDOWS = 1 << 18
"""Windows of a side, and panels of rows, at most: how many there are is counted before any is listed."""
PANEL_HEIGHT = 4
"""Rows of a panel for each of its columns, at least, where memory allows: factors are updated by products of panels."""


class Form(StrEnum):
    """How a mask is made: one dense Haar matrix, mixing, or the paper's bare blocks."""

    HAAR = "haar"
    MIXING = "mixing"
    BLOCKS = "blocks"


@dataclass(frozen=True)
class Window:
    """Which columns are in one window: a slice of each user's, and the slice of Y's columns they become."""

    columns: tuple[slice, ...]
    outputs: slice

    @property
    def width(self) -> int:
        return int(self.outputs.stop - self.outputs.start)

    def place(self, i: int) -> slice:
        """Where the columns of the user at position i stand inside the window."""
        start = sum(own.stop - own.start for own in self.columns[:i])
        return slice(start, start + self.columns[i].stop - self.columns[i].start)


def block_width(form: Form, b: int) -> int:
    """The block width, ``b`` or the form's own when b is 0."""
    return b or (PAPER_BLOCK if form is Form.BLOCKS else MIXING_BLOCK)


def block_sizes(n: int, b: int) -> tuple[int, ...]:
    """The widths of the near-equal blocks of a side, in order (``block_widths``)."""
    return tuple(width for width, count in block_widths(n, b).items() for _ in range(count))


def block_widths(n: int, b: int) -> dict[int, int]:
    """``n`` cut into near-equal blocks, none narrower than ``min(b, n)``: their widths in order, how many of each.

    Algorithm 2 lets the last block be ``n mod b`` wide. At width 1 that block is the scalar +1 or -1, and one row
    passes this mask unchanged but for its sign (C2, ADR 0003).
    """
    if n < 1 or b < 1:
        raise ConfigError(f"need n >= 1 and b >= 1, got n={n}, b={b}")
    count = max(1, n // b)
    width, wider = divmod(n, count)
    return ({width + 1: wider} if wider else {}) | {width: count - wider}


def smooth_length(n: int) -> int:
    """The largest length of at most ``n`` with prime factors 2, 3, 5 and 7 alone: an FFT of a prime length is slow."""
    if n < 1:
        raise ConfigError(f"a length is at least 1, got {n}")
    found = [1]
    for prime in (2, 3, 5, 7):
        powers = [prime**e for e in range(n.bit_length()) if prime**e <= n]
        found = sorted(power * other for power in powers for other in found if power * other <= n)
    return found[bisect_right(found, n) - 1]


def cut_side(form: Form, n: int, b: int = 0) -> tuple[slice, ...]:
    """The rows that a mask of this form mixes among themselves: all of them, or the paper's blocks."""
    if form is Form.BLOCKS:
        _expect_few(sum(block_widths(n, block_width(form, b)).values()), "blocks of a mask")
    sizes = block_sizes(n, block_width(form, b)) if form is Form.BLOCKS else (n,)
    return tuple(slice(start, stop) for start, stop in pairwise(accumulate(sizes, initial=0)))


def cut_columns(form: Form, widths: tuple[int, ...], b: int = 0) -> tuple[Window, ...]:
    """The columns that a mask of this form mixes among themselves: all users', or the paper's blocks.

    The paper's blocks are cut from the concatenation (C3), without regard to users; a block may straddle users,
    who then hold slices of it.
    """
    if not widths or min(widths) < 1:
        raise ConfigError(f"every user needs at least one column, got widths {widths}")
    if form is Form.BLOCKS:
        return _cut_blocks(widths, block_width(form, b))
    return (Window(tuple(slice(0, n_i) for n_i in widths), slice(0, sum(widths))),)


def _cut_blocks(widths: tuple[int, ...], b: int) -> tuple[Window, ...]:
    offsets = list(accumulate(widths, initial=0))
    _expect_few(sum(block_widths(offsets[-1], b).values()), "blocks of a mask")
    windows = []
    for start, stop in pairwise(accumulate(block_sizes(offsets[-1], b), initial=0)):
        columns = tuple(
            slice(min(max(start - o, 0), n_i), min(max(stop - o, 0), n_i))
            for o, n_i in zip(offsets[:-1], widths, strict=True)
        )
        windows.append(Window(columns, slice(start, stop)))
    return tuple(windows)


def panels_of_rows(n: int, b: int, width: int, memory: int) -> tuple[slice, ...]:
    """n rows in panels of whole blocks of about b, as many as memory allows at this width.

    Where memory allows more, a panel is still no larger than what masks, words, pads and sums pass through in a cache,
    and no lower than a factorisation can use.
    """
    in_cache = max(PANEL_WORDS // width, PANEL_HEIGHT * width)
    blocks = block_widths(n, b)
    most = max(min(memory // (PANELS * 8 * width), in_cache), max(blocks))
    count, all_blocks = -(-n // most), sum(blocks.values())
    _expect_few(count, "panels of rows")
    least, wider = divmod(n, all_blocks)
    ends = (all_blocks * number // count for number in range(count + 1))  # in blocks, the wider of which come first
    cuts = sorted({least * end + min(end, wider) for end in ends})
    return tuple(slice(start, stop) for start, stop in pairwise(cuts))


def _expect_few(count: int, what: str) -> None:
    if count > MOST_WINDOWS:
        raise ConfigError(f"{count:,} {what}", f"at most {MOST_WINDOWS:,}: allow more memory, or take fewer records")
