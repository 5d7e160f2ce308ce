"""How a side of a matrix is cut into blocks and panels: shapes only, so that every role may know them.

A mask stands over the whole side, whatever its length; what stands in it is drawn in ``masks``.
"""

from bisect import bisect_right
from enum import StrEnum
from itertools import pairwise

from fedsvd.errors import ConfigError

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
MOST_PANELS = 1 << 18
"""Panels of rows, at most: how many there are is counted before any is listed."""
PANEL_HEIGHT = 4
"""Rows of a panel for each of its columns, at least, where memory allows: factors are updated by products of panels."""


class Form(StrEnum):
    """How a mask is made: one dense Haar matrix, or mixing."""

    HAAR = "haar"
    MIXING = "mixing"


def block_width(b: int) -> int:
    """The width of a mixing mask's blocks: ``b``, or the usual one where b is 0."""
    return b or MIXING_BLOCK


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


def panels_of_rows(n: int, b: int, width: int, memory: int) -> tuple[slice, ...]:
    """n rows in panels of whole blocks of about b, as many as memory allows at this width.

    Where memory allows more, a panel is still no larger than what masks, words, pads and sums pass through in a cache,
    and no lower than a factorisation can use.
    """
    in_cache = max(PANEL_WORDS // width, PANEL_HEIGHT * width)
    blocks = block_widths(n, b)
    most = max(min(memory // (PANELS * 8 * width), in_cache), max(blocks))
    count, all_blocks = -(-n // most), sum(blocks.values())
    if count > MOST_PANELS:
        fix = f"at most {MOST_PANELS:,}: allow more memory, or take fewer records"
        raise ConfigError(f"{count:,} panels of rows", fix)
    least, wider = divmod(n, all_blocks)
    ends = (all_blocks * number // count for number in range(count + 1))  # in blocks, the wider of which come first
    cuts = sorted({least * end + min(end, wider) for end in ends})
    return tuple(slice(start, stop) for start, stop in pairwise(cuts))
