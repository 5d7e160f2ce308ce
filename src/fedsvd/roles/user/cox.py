"""Cox regression on split rows: a user's own partial likelihood in the iteration that models by few digits have.

A risk set is of this user's records alone, so all of its rows are taken at once, in the order of their times. The part
of a record in the own information, which is tested before each share (``records.py``), is over the whole time that the
record was at risk. A user without events sends zeros and noise, and passes all tests.
"""

import numpy as np

from fedsvd.errors import LocalProtocolError
from fedsvd.protocol.hazards import bins_of
from fedsvd.protocol.model import ModelPlan
from fedsvd.roles.user import hazard_bins
from fedsvd.roles.user.digits import DigitsSession
from fedsvd.roles.user.glm import GLMResult
from fedsvd.roles.user.hazards import OwnTimes, after_fit
from fedsvd.roles.user.models import shape_of, split_labels
from fedsvd.roles.user.records import RecordsHome, own_table
from fedsvd.roles.user.requests import Local, Script
from fedsvd.roles.user.squared_scores import errors_of
from fedsvd.roles.user.work import Work
from fedsvd.statistics.cox import Cohort, fit_by_digits
from fedsvd.types import Float


def script(work: Work) -> Script:
    """The one model of the plan."""
    about = work.plan.glm
    if work.labels is None or about is None:
        raise LocalProtocolError("a Cox model needs this party's times and events", "name their columns (label, event)")
    edges = bins_of(work.plan)
    if edges is not None:
        return (yield from hazard_bins.script(work, about, edges, work.labels))
    session, errors = DigitsSession(work), (yield from errors_of(work))
    home: CoxHome = yield Local("evaluate", lambda: CoxHome(work, about))
    steps = fit_by_digits(about.ties, shape_of(work.plan, about, errors), alpha=work.plan.alpha)
    found = yield from session.fit(home, steps)
    w = found.solution[None, :]
    more = yield from after_fit(work, session, home.times, found)
    own = {"baseline": home.baseline(w[0]), **more}
    return GLMResult((found,), w, np.zeros(1), found.rank, session.residual, session.bits, own=own)


def cohort(about: ModelPlan, X: Float, labels: Float) -> Cohort:
    """A user's records, from rows and labels in the plan's order."""
    time, offset, weights = split_labels(about, labels)
    places = {name: about.column(name) for name in ("entry", "strata")}
    beside = {name: None if place is None else labels[:, place] for name, place in places.items()}
    settings = {**beside, "offset": offset, "weights": weights}
    return Cohort(X, time, labels[:, 1], **settings, efron=about.ties == "efron")


class CoxHome(RecordsHome):
    """One user's own parts of the sums of a Cox model."""

    def __init__(self, work: Work, about: ModelPlan) -> None:
        assert work.labels is not None
        self._cohort = cohort(about, own_table(work), work.labels)
        super().__init__(work, self._cohort)
        entry = about.column("entry")
        left, event = work.labels[:, 0], work.labels[:, about.facts.counted_at]
        self.times = OwnTimes(self._cohort, left, event, None if entry is None else work.labels[:, entry])

    def baseline(self, beta: Float) -> Float:
        """This user's own cumulative hazards, which no other user has."""
        return self._cohort.baseline(beta)
