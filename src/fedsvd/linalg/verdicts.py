"""What follows after a step of block Golub-Kahan: when Ritz values are computed, when to go on, when to stop.

A block of b random directions finds as many copies of an equal singular value as there are, up to b. Blocks narrower
than the number of wanted vectors open half as many directions, and would miss copies without any residual showing it.
So where b of the values found are equal, or no direction is left, the search is done once more from new random ones, on
top of what is known, until no more copies than there were searches times b are left to find.
"""

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from fedsvd.linalg.golub_kahan import SLACK, TOLERANCE, Space, refused
from fedsvd.linalg.leading import Ritz
from fedsvd.types import Float

_EQUAL = 1e-11  # of s_1: values that differ by less are copies; others come apart, since what is left is normalised
_EDGE = 1e-12  # of a share: what two parties' sums of the same squares may differ by
_NEAR = 0.01  # of s_1: values so near to the last wanted one may be taken in its place by another LAPACK
_EACH = 160  # directions up to which Ritz values are computed after each step
_GROWTH = 1.12  # of the directions, from one computation to the next
_RARELY = 1.3  # the same where a block holds some of the wanted vectors: no choice of directions depends on values
_SOONER = 0.8  # of the steps that a residual would take if it went on falling as it did: it falls faster


class Verdict(IntEnum):
    """What the leader says after a step."""

    GO_ON = 0
    FOUND = 1  # all wanted Ritz vectors have converged
    INVARIANT = 2  # no direction is left: the rank of X is reached
    AFRESH = 3  # other random directions: copies of a value may be left


@dataclass(frozen=True)
class Wanted:
    """What is searched for: a number of vectors, or as many as hold a share of all squares, to a tolerance."""

    most: int
    energy: float = 0.0  # of squares, which the first vectors together exceed; 0: ``most`` vectors are wanted
    tolerance: float = TOLERANCE

    @property
    def least(self) -> int:
        """Directions without which they cannot be there."""
        return 0 if self.energy else self.most

    def count(self, s: Float, slack: float = 0.0) -> int:
        """How many that are of these values, descending; more than there are, or may be, where they hold too little."""
        if not self.energy:
            return self.most
        held = np.cumsum(np.square(s[: self.most]))
        return 1 + int(np.searchsorted(held, (1.0 + slack) * self.energy, side="right"))

    def range(self, s: Float) -> tuple[int, int]:
        """The same at least and at most, as another party may count."""
        return self.count(s, -_EDGE), self.count(s, _EDGE)


@dataclass(frozen=True)
class Search:
    """How often and for how long was searched: the same at all parties, from counts alone."""

    width: int  # random directions of one search
    wanted: int
    starts: int = 1  # searches begun
    length: int = 0  # steps of the first one
    until: int = 0  # the step at which the one in hand has had as many
    lost: bool = False  # whether a random block lacked rank: then X has no more
    computed: int = 0  # directions when Ritz values were computed last

    def due(self, directions: int, wanted: int = 0) -> bool:
        """Whether all compute Ritz values now: fewer directions than wanted vectors hold no more than a first s_1."""
        if 2 * self.width < directions < wanted:
            return False
        if self.width < wanted:
            return directions >= _RARELY * self.computed
        return directions <= _EACH or directions >= _GROWTH * self.computed

    def at(self, directions: int) -> "Search":
        """After Ritz values were computed of this number of directions."""
        return replace(self, computed=directions)

    def seen(self, block: int, kept: int) -> "Search":
        """After a block of random directions of which this number was kept."""
        return replace(self, lost=self.lost or kept < block)

    def afresh(self, step: int) -> "Search":
        """After new random directions were taken at this step."""
        length = self.length or step + 1
        return replace(self, starts=self.starts + 1, length=length, until=step + length)

    @property
    def incomplete(self) -> bool:
        """Whether there may be more copies of a value than were searched for."""
        return self.starts * self.width < self.wanted and not self.lost

    def crowded(self, s: Float, slack: float = 1.0) -> bool:
        """Whether as many of these values, descending, are equal as all searches could find copies."""
        reach = self.starts * self.width
        if not self.incomplete or len(s) < reach:
            return False
        return bool(np.any(s[: len(s) - reach + 1] - s[reach - 1 :] <= slack * _EQUAL * s[0]))


@dataclass(frozen=True)
class Outlook:
    """When the leader looks for an end between two steps at which all do: residuals of the last two looks."""

    looks: tuple[tuple[int, float], ...] = ()  # steps and residuals

    def after(self, step: int, residual: float) -> "Outlook":
        """With the residual that was found at this step."""
        return Outlook((*self.looks[-1:], (step, residual)))

    def ends(self, step: int, tolerance: float) -> bool:
        """Whether the residual may be within the tolerance at this step."""
        if len(self.looks) < 2:
            return False
        (before, first), (last, second) = self.looks
        if not tolerance < second < first:
            return False
        left = (last - before) * np.log(second / tolerance) / np.log(first / second)
        return bool(step >= last + max(1.0, _SOONER * left))


def decided(search: Search, step: int, space: Space, ritz: Ritz | None, wanted: Wanted) -> Verdict:
    """What the leader says once the images of a block, and the directions found in them, are there."""
    if ritz is not None and step >= search.until and _found(ritz, wanted):
        crowded = search.crowded(ritz.s[: wanted.count(ritz.s)]) and space.has_outside
        return Verdict.AFRESH if crowded else Verdict.FOUND
    if space.unused:
        return Verdict.GO_ON
    return Verdict.AFRESH if search.incomplete and space.has_outside else Verdict.INVARIANT


def _found(ritz: Ritz, wanted: Wanted) -> bool:
    """Whether all that are wanted are there and have converged."""
    r = wanted.count(ritz.s)
    return ritz.rank(r) == r <= wanted.most and ritz.residual(r) < wanted.tolerance


def expect_verdict(said: Verdict, search: Search, step: int, space: Space, ritz: Ritz | None, wanted: Wanted) -> None:
    """Refuse a verdict that does not follow from what was opened.

    Of equal values each LAPACK takes other vectors, some converged and some not. So an end is judged by the vectors
    that the leader then sends (``expect_answer``), and going on is refused where all that it can have taken have
    converged.
    """
    over = ritz is not None and step >= search.until
    least, most = (0, 0) if ritz is None else wanted.range(ritz.s)
    if said is Verdict.FOUND:
        fits = over and ritz is not None and least <= wanted.most and ritz.rank(least, 1.0 / SLACK) == least
        fits = fits and not (ritz is not None and search.crowded(ritz.s[:least], 1.0 / SLACK) and space.has_outside)
    elif said is Verdict.AFRESH:
        crowded = over and ritz is not None and ritz.rank(least, 1.0 / SLACK) == least <= wanted.most
        crowded = crowded and ritz is not None and search.crowded(ritz.s[:most], SLACK)
        fits = space.has_outside and search.incomplete and (crowded or space.unused == 0)
    else:
        fits = (space.unused == 0) == (said is Verdict.INVARIANT)
        fits = fits and not (said is Verdict.INVARIANT and search.incomplete and space.has_outside)
        converged = (
            most <= wanted.most and ritz is not None and _all_converged(space, ritz, most, wanted.tolerance / 2.0)
        )
        fits = fits and not (over and converged)
    if not fits:
        raise refused()


def _all_converged(space: Space, ritz: Ritz, r: int, tolerance: float) -> bool:
    """Whether all vectors have converged that another LAPACK may have taken for one of the wanted ones."""
    if ritz.rank(r, SLACK) < r or ritz.residual(r) > tolerance:
        return False
    near = int(np.count_nonzero(ritz.s > ritz.s[r - 1] - _NEAR * ritz.top))
    if near == len(ritz.s) < space.images:  # others as near were not computed
        return False
    return float(space.left_of(ritz.p, ritz.s, ritz.y, near).max()) <= tolerance * ritz.top
