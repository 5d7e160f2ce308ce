"""Cox regression on split rows: a user's own partial likelihood in the iteration that models by few digits have.

A risk set is of this user's records alone, so all of its rows are taken at once, in the order of their times; what is
sent are its score, information and deviance. Before each share the user tests the point, as for other models: its own
deviance, and the part of each record in its own information (leverage), over the whole time that the record was at
risk. A user without events sends zeros and noise, and passes all tests.
"""

import math

import numpy as np

from fedsvd.errors import LocalProtocolError
from fedsvd.protocol.model import ModelPlan
from fedsvd.roles.user.digits import DigitsSession
from fedsvd.roles.user.glm import GLMResult
from fedsvd.roles.user.home import FEW, GROWN, MOST_DEVIANCE, MOST_LEVERAGE, SLACK, OwnParts
from fedsvd.roles.user.models import panels_of, shape_of, split_labels
from fedsvd.roles.user.requests import Local, Script
from fedsvd.roles.user.work import Work
from fedsvd.statistics.cox import Cohort, fit_by_digits
from fedsvd.statistics.newton_requests import Asked, Evaluation, Point, Sizes
from fedsvd.types import Float


def script(work: Work) -> Script:
    """The one model of the plan."""
    about = work.plan.glm
    if work.labels is None or about is None:
        raise LocalProtocolError("a Cox model needs this party's times and events", "name their columns")
    session = DigitsSession(work)
    home: CoxHome = yield Local("evaluate", lambda: CoxHome(work, about))
    found = yield from session.fit(home, fit_by_digits(about.ties, shape_of(work.plan, about), alpha=work.plan.alpha))
    w = found.solution[None, :]
    return GLMResult((found,), w, np.zeros(1), found.rank, session.residual, session.bits)


def cohort(about: ModelPlan, X: Float, labels: Float) -> Cohort:
    """A user's records, from rows and labels in the plan's order."""
    time, offset, weights = split_labels(about, labels)
    entry = labels[:, 2] if about.entry else None
    strata = labels[:, about.offset_at - 1] if about.strata else None
    settings = {"entry": entry, "strata": strata, "offset": offset, "weights": weights}
    return Cohort(X, time, labels[:, 1], **settings, efron=about.ties == "efron")


class CoxHome(OwnParts):
    """One user's own parts of the sums of a Cox model."""

    def __init__(self, work: Work, about: ModelPlan) -> None:
        super().__init__(work)
        X = np.concatenate([panel for _, panel in panels_of(work, False, 1)])
        self._cohort = cohort(about, X, self._labels)
        event = self._labels[:, 1]
        self._events = float(event.sum())
        self._weight = float(event @ self._labels[:, -1]) if about.weighted else self._events
        self._spread = self._cohort.spread
        self._scale = np.where(self._spread > 0.0, self._spread, 1.0)

    def stands_out(self, at: Point) -> bool:
        own = self._evaluated(at)
        finite = np.isfinite(own.score).all() and math.isfinite(own.deviance)
        return not (finite and self._leverage(at) <= self._least_leverage)

    def beyond(self, at: Point, dispersion: float) -> bool:
        limit = MOST_DEVIANCE * self._weight + GROWN * (self._start_deviance or 0.0)
        return not self._evaluated(at).deviance <= limit

    def _evaluated(self, at: Point) -> Evaluation:
        held = self._at
        known = self._own is not None and held is not None and np.array_equal(held.beta, at.beta)
        if self._own is None or not known or (at.information and self._own.information is None):
            with np.errstate(all="ignore"):  # what is not finite is refused
                self._at, self._own = at, self._cohort.evaluate(at.beta, at.information)
        return self._own

    def _leverage(self, at: Point) -> float:
        """The largest part of a record in the own information, on the directions that it has."""
        own = self._evaluated(Point(at.beta, at.centre, True))
        assert own.information is not None
        scaled = own.information / np.multiply.outer(self._scale, self._scale)
        if not np.isfinite(scaled).all():
            return math.inf
        values, vectors = np.linalg.eigh(scaled)
        kept = values > FEW * max(values[-1], 0.0)
        root = vectors[:, kept] / np.sqrt(values[kept]) / self._scale[:, None]
        with np.errstate(all="ignore"):
            return self._cohort.leverage(at.beta, root)

    def _columns(self) -> Float:
        """The events; totals of weights, offset and columns are not asked for."""
        return np.concatenate(((0.0, 0.0, self._events), np.zeros(self._work.plan.m)))

    def _column_sizes(self) -> Float:
        return np.zeros(3 + self._work.plan.m)

    def _start(self, at: Point) -> Float:
        own = self._evaluated(at)
        assert own.information is not None
        self._start_deviance = own.deviance
        self._least_leverage = max(MOST_LEVERAGE, self._leverage(at) * SLACK)
        bound = float((own.information.diagonal() / np.square(self._scale)).max())
        return np.concatenate(((bound, own.deviance, 0.0), self._spread))

    def _end(self, asked: Sizes | Asked) -> Float:
        assert asked.at is not None
        concordant, pairs = self._cohort.pairs(asked.at.beta)
        return np.array([self._cohort.deviance(asked.at.beta), pairs if asked.of == "null" else concordant])
