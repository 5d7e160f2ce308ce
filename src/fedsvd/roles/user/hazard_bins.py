"""Cox regression with one baseline of all users in bins of time: own records in the iteration of few digits.

A user's part are terms of its own records in each bin that they were at risk in (``statistics/hazard_bins.py``); times
inside a bin are in no sum.
"""

from fedsvd.protocol.hazards import HAZARD
from fedsvd.protocol.model import ModelPlan
from fedsvd.roles.user.fit_records import Fitted, fitted
from fedsvd.roles.user.models import split_labels
from fedsvd.roles.user.records import RecordsHome, own_table
from fedsvd.roles.user.requests import Script
from fedsvd.roles.user.work import Work
from fedsvd.statistics.hazard_bins import BinRecords, fit_by_digits
from fedsvd.types import Float


def script(work: Work, edges: Float) -> Script:
    """The one model of the plan."""
    fit: Fitted = yield from fitted(
        work,
        lambda about, labels: RecordsHome(work, records(about, own_table(work), labels, edges)),
        lambda about, shape: fit_by_digits(about.link, edges, shape, alpha=work.plan.alpha),
    )
    return fit.result(fit.model.coefficients[: work.plan.m], work.plan.m, {HAZARD: fit.model.hazard})


def records(about: ModelPlan, X: Float, labels: Float, edges: Float) -> BinRecords:
    """A user's records, from rows and labels in the plan's order."""
    time, _, weights = split_labels(about, labels)
    return BinRecords(X, time, labels[:, about.facts.counted_at], edges, about.link, weights)
