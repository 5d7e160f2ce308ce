"""How a side of a matrix is cut into windows: shapes only, so that every role may know them.

A mask is block-diagonal over windows. Which form a side has and where its windows lie is public; what stands in a
window is not, and is drawn in ``masks``.
"""

from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, pairwise

from fedsvd.errors import ConfigError

WINDOW_LIMIT = 65_536
PAPER_BLOCK = 1000
MIXING_BLOCK = 256
HAAR_LEFT_LIMIT = 4096
HAAR_RIGHT_LIMIT = 16_384


class Form(StrEnum):
    """How a mask is made: one dense Haar matrix, mixing, or the paper's bare blocks."""

    HAAR = "haar"
    MIXING = "mixing"
    BLOCKS = "blocks"


@dataclass(frozen=True)
class Window:
    """Which columns meet in one window: a slice of each user's, and the slice of Y's columns they become."""

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
    """Cut ``n`` into near-equal blocks, none narrower than ``min(b, n)``.

    Algorithm 2 lets the last block be ``n mod b`` wide. At width 1 that block is the scalar +1 or -1, and one row
    passes this mask unchanged but for its sign (C2, ADR 0003).
    """
    if n < 1 or b < 1:
        raise ConfigError(f"need n >= 1 and b >= 1, got n={n}, b={b}")
    count = max(1, n // b)
    width, wider = divmod(n, count)
    return (width + 1,) * wider + (width,) * (count - wider)


def window_count(n: int, limit: int) -> int:
    """The fewest near-equal windows of at most ``limit``."""
    if n < 1 or limit < 1:
        raise ConfigError(f"need n >= 1 and a window limit >= 1, got n={n}, limit={limit}")
    return -(-n // limit)


def cut_side(form: Form, n: int, b: int = 0, limit: int = WINDOW_LIMIT) -> tuple[slice, ...]:
    """The windows of a side that belongs to nobody in particular: the rows."""
    if form is Form.BLOCKS:
        sizes = block_sizes(n, block_width(form, b))
    else:
        count = 1 if form is Form.HAAR else window_count(n, limit)
        sizes = tuple((w + 1) * n // count - w * n // count for w in range(count))
    return tuple(slice(start, stop) for start, stop in pairwise(accumulate(sizes, initial=0)))


def cut_columns(form: Form, widths: tuple[int, ...], b: int = 0, limit: int = WINDOW_LIMIT) -> tuple[Window, ...]:
    """The windows of the users' columns.

    A haar side is one window. A mixing window takes the same fraction of *every* user's columns, columns
    ``floor(w n_i / W) .. floor((w+1) n_i / W)``, so that no window belongs to one user as long
    as every user has a column for each window: a window inside one user's columns would show the CSP that user's tile
    spectra. The paper's blocks are cut from the concatenation, whoever
    the columns belong to (C3); a block may straddle users, who then hold slices of it.
    """
    if not widths or min(widths) < 1:
        raise ConfigError(f"every user needs at least one column, got widths {widths}")
    if form is Form.BLOCKS:
        return _cut_blocks(widths, block_width(form, b))
    return _cut_fractions(widths, 1) if form is Form.HAAR else _cut_to_limit(widths, limit)


def _cut_to_limit(widths: tuple[int, ...], limit: int) -> tuple[Window, ...]:
    """The fewest windows of equal fractions, none wider than the limit; with more users than that, as few as fit n."""
    n, k = sum(widths), len(widths)
    # Fractions are rounded for each user, so n / limit windows may be too wide by a column for each; this many are not.
    fewest, enough = window_count(n, limit), window_count(n, max(limit - k, 1))
    for count in range(fewest, enough + 1) if limit > k else ():
        windows = _cut_fractions(widths, count)
        if max(window.width for window in windows) <= limit:
            return windows
    return _cut_fractions(widths, fewest)


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
    windows = []
    for start, stop in pairwise(accumulate(block_sizes(offsets[-1], b), initial=0)):
        columns = tuple(
            slice(min(max(start - o, 0), n_i), min(max(stop - o, 0), n_i))
            for o, n_i in zip(offsets[:-1], widths, strict=True)
        )
        windows.append(Window(columns, slice(start, stop)))
    return tuple(windows)
