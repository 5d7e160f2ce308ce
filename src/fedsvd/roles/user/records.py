"""A user's own parts of a model whose records it holds in memory, and the tests before they are sent.

The same for every such model (``statistics/records.py``): what is sent are its score, information and deviance at a
point. Before each share the user tests the point: its own deviance, and the part of each record in its own
information (leverage). A user whose records say nothing sends zeros and noise, and passes all tests.
"""

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from fedsvd.roles.user.home import MOST_LEVERAGE, OwnParts
from fedsvd.roles.user.models import panels_of
from fedsvd.roles.user.work import Work
from fedsvd.statistics.newton_requests import Asked, Evaluation, Point, Sizes
from fedsvd.statistics.records import OwnRecords, largest_share
from fedsvd.statistics.robust import Scores
from fedsvd.types import Float

_ROUNDED = 1.0 + 2.0**-30


def own_table(work: Work) -> Float:
    """All own rows, samples first."""
    return np.concatenate([panel for _, panel in panels_of(work, False, 1)])


class RecordsHome(OwnParts):
    """One user's own parts of the sums of a model of records."""

    def __init__(self, work: Work, records: OwnRecords) -> None:
        super().__init__(work)
        self.records = records
        records.of_person = work.persons
        self._spread = np.ones(work.plan.m)
        self._searched = False  # whether the limit is that of a fit of own records

    def stands_out(self, at: Point) -> bool:
        own = self._evaluated(at)
        if not (np.isfinite(own.score).all() and math.isfinite(own.deviance)):
            return True
        found = self._leverage(at)
        if found > self._least_leverage and not self._searched:
            self._searched = True
            ways = [self._leverage(replace(at, beta=beta)) for beta in self.records.on_the_way()]
            self._least_leverage = max(self._least_leverage, halfway(max(ways, default=0.0)))
        return not found <= self._least_leverage

    def beyond(self, at: Point, dispersion: float) -> bool:
        return not self._evaluated(at).deviance <= self.records.most_deviance(self._start_deviance or 0.0)

    def scores(self, at: Point) -> Iterable[tuple[slice, Scores]]:
        return ((slice(None), self.records.scores(at)),)

    def _evaluated(self, at: Point) -> Evaluation:
        if self._own is None or self._at is None or not _serves(self._at, at, self._own):
            with np.errstate(all="ignore"):  # what is not finite is refused
                self._at, self._own = at, self.records.part(at)
        return self._own

    def _scales(self, parameters: int) -> Float:
        """Of each parameter: the spread of its column; 1 of an intercept, and of those that are of no column."""
        scale = np.ones(parameters)
        first = int(self._work.plan.centre)
        scale[first : first + len(self._spread)] = np.where(self._spread > 0.0, self._spread, 1.0)
        return scale

    def _leverage(self, at: Point) -> float:
        """The largest part of a record in the own information, on the directions that it has."""
        tested = self.records.tested
        at = replace(at, information=True, expected=at.expected or self.records.by_expected, final=False)
        own = self._evaluated(at)
        assert own.information is not None
        scale = self._scales(len(own.score))[tested]
        return largest_share(self.records, at, own.information[tested, tested], scale)

    def _columns(self) -> Float:
        return np.concatenate((self.records.moments(), self.records.columns()[0]))

    def _column_sizes(self) -> Float:
        return np.concatenate((self.records.moments(), self.records.columns()[1]))

    def _start(self, at: Point) -> Float:
        self._spread = self.records.spread(at)
        own = self._evaluated(at)
        assert own.information is not None
        self._start_deviance = own.deviance
        # Both are sent on the way: of a few records the curvature has more of one than what is expected of it.
        kinds = (True, False) if self.records.concave else (at.expected,)
        known = max(self._leverage(replace(at, expected=kind)) for kind in kinds)
        self._least_leverage = max(MOST_LEVERAGE, halfway(known))
        bound = float((own.information.diagonal() / np.square(self._scales(len(own.score)))).max())
        return np.concatenate(((bound, own.deviance, 0.0), self._spread))

    def _end(self, asked: Sizes | Asked) -> Float:
        assert asked.at is not None
        return self.records.end(asked.of, asked.at, asked.scale)


def halfway(known: float) -> float:
    """The limit where records of an honest fit have parts up to ``known``: half of the way from there to all.

    A user's only group is all of what it sends, but for rounding; whether it may be is asked of its owner.
    """
    return (1.0 + known) / 2.0 * _ROUNDED


def _serves(held: Point, at: Point, own: Evaluation) -> bool:
    """Whether what was computed at a point has all that is asked for at another one."""
    same = held.constant_only == at.constant_only and np.array_equal(held.beta, at.beta)
    same = same and np.array_equal(held.centre, at.centre) and held.tilt is at.tilt
    if not same or (at.information and own.information is None):
        return False
    return (held.expected, held.final) == (at.expected, at.final) or not at.information
