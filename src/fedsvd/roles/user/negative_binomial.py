"""Negative binomial counts on split rows: own records in the iteration that models by few digits have."""

from fedsvd.protocol.model import ModelPlan
from fedsvd.roles.user.digits import DigitsSession
from fedsvd.roles.user.models import shape_of, split_labels
from fedsvd.roles.user.records import RecordsHome, own_table
from fedsvd.roles.user.requests import Local, Script
from fedsvd.roles.user.work import Work
from fedsvd.statistics.negative_binomial import CountRecords, fit_by_digits
from fedsvd.statistics.robust import Errors
from fedsvd.types import Float


def fit(work: Work, session: DigitsSession, about: ModelPlan, labels: Float, errors: Errors) -> Script:
    """The one model of the plan."""
    y, offset, weights = split_labels(about, labels)
    home: RecordsHome = yield Local(
        "evaluate", lambda: RecordsHome(work, CountRecords(own_table(work), y, work.plan.centre, weights, offset))
    )
    steps = fit_by_digits(shape_of(work.plan, about, errors), offset=about.offset, alpha=work.plan.alpha)
    return (yield from session.fit(home, steps))
