"""What all roles of the paper's scheme know: shapes, what is computed, how sides and shares are cut.

``b`` cuts P and Q into blocks (Algorithm 2, near-equal: C2), Q's from the concatenation of all users' columns, so that
a block may straddle users (C3). An SVD goes up by blocks of columns, a regression by blocks of rows with P y next to
them; a block that is too large for a quarter of the memory goes up in mini-batches of rows. ``dense`` takes the first
of the paper's optimisations away (P and Q are one block each, and P is delivered as a matrix), ``whole`` the second
(a user's share is one message).
"""

from dataclasses import dataclass
from functools import cached_property

from fedsvd.secagg.batches import batch_rows
from fedsvd_lab.published.block_masks import PAPER_BLOCK, Window, cut_columns, cut_rows

MEMORY = 1 << 30


@dataclass(frozen=True)
class Batch:
    """Rows ``rows`` of panel ``panel``, which is ``width`` wide; ``last`` where the panel ends with it."""

    panel: int
    rows: slice
    width: int
    last: bool

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.stop - self.rows.start, self.width


@dataclass(frozen=True)
class Setting:
    """A study in the paper's scheme: m rows, ``counts`` columns at the users, the last of whom may append ones."""

    m: int
    counts: tuple[int, ...]
    b: int = PAPER_BLOCK
    components: int | None = None
    targets: int = 0  # columns of y: a regression
    bias: bool = False  # the last user appends a column of ones (section 4)
    own_part: bool = True  # whether users recover V_i by eq. 6
    memory: int = MEMORY
    dense: bool = False
    whole: bool = False

    @property
    def k(self) -> int:
        return len(self.counts)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Columns of every user's A_i."""
        return (*self.counts[:-1], self.counts[-1] + int(self.bias))

    @cached_property
    def N(self) -> int:
        return sum(self.widths)

    @property
    def solves(self) -> bool:
        """Whether coefficients are asked for, and not U, S, V."""
        return self.targets > 0

    @property
    def recovers(self) -> bool:
        """Whether eq. 6 is played."""
        return self.own_part and not self.solves

    @property
    def block(self) -> int:
        return max(self.m, self.N) + 1 if self.dense else self.b

    @cached_property
    def left(self) -> tuple[slice, ...]:
        """The rows that each block of P mixes."""
        return cut_rows(self.m, self.block)

    @cached_property
    def right(self) -> tuple[Window, ...]:
        """The columns that each block of Q mixes."""
        return cut_columns(self.widths, self.block)

    def own(self, i: int, w: int) -> slice:
        """User i's own columns in block w of Q, i from 1."""
        return self.right[w].columns[i - 1]

    def held(self, i: int) -> tuple[int, ...]:
        """The blocks of Q in which user i has columns."""
        return tuple(w for w in range(len(self.right)) if self.own(i, w).stop > self.own(i, w).start)

    @cached_property
    def smallest(self) -> tuple[int, int]:
        """The sides of the smallest tile, from which the bound on an entry follows."""
        return min(rows.stop - rows.start for rows in self.left), min(window.width for window in self.right)

    @cached_property
    def panels(self) -> tuple[tuple[int, int], ...]:
        """The shapes that are added up one after the other."""
        if self.whole:
            return ((self.m, self.N + self.targets),)
        if self.solves:
            return tuple((rows.stop - rows.start, self.N + self.targets) for rows in self.left)
        return tuple((self.m, window.width) for window in self.right)

    @cached_property
    def batches(self) -> tuple[Batch, ...]:
        """Every mini-batch of an upload, in order."""
        found = []
        for panel, (rows, width) in enumerate(self.panels):
            cut = (slice(0, rows),) if self.whole else batch_rows(rows, width, self.memory // 4, held=max(2, self.k))
            found += [Batch(panel, part, width, part.stop == rows) for part in cut]
        return tuple(found)
