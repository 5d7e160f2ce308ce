"""Cox regression on split rows: a user's own partial likelihood in the iteration that models by few digits have.

A risk set is of this user's records alone, so all of its rows are taken at once, in the order of their times. The part
of a record in the own information, which is tested before each share (``records.py``), is over the whole time that the
record was at risk. A user without events sends zeros and noise, and passes all tests.
"""

from fedsvd.protocol.hazards import bins_of
from fedsvd.protocol.model import ModelPlan
from fedsvd.roles.user import hazard_bins
from fedsvd.roles.user.fit_records import Fitted, fitted
from fedsvd.roles.user.hazards import OwnTimes, after_fit
from fedsvd.roles.user.models import split_labels
from fedsvd.roles.user.records import RecordsHome, own_table
from fedsvd.roles.user.requests import Script
from fedsvd.roles.user.work import Work
from fedsvd.statistics.cox import Cohort, fit_by_digits
from fedsvd.types import Float


def script(work: Work) -> Script:
    """The one model of the plan."""
    edges = bins_of(work.plan)
    if edges is not None:
        return (yield from hazard_bins.script(work, edges))
    fit: Fitted = yield from fitted(
        work,
        lambda about, labels: CoxHome(work, about),
        lambda about, shape: fit_by_digits(about.ties, shape, alpha=work.plan.alpha),
    )
    w = fit.model.solution
    more = yield from after_fit(work, fit.session, fit.home.times, fit.model)
    return fit.result(w, fit.model.rank, {"baseline": fit.home.baseline(w), **more})


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
