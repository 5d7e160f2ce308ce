"""Ordinal regression on split rows: own records in the iteration that models by few digits have (``records.py``)."""

from fedsvd.protocol.model import ModelPlan
from fedsvd.roles.user.fit_records import Fitted, fitted
from fedsvd.roles.user.models import split_labels
from fedsvd.roles.user.records import RecordsHome, own_table
from fedsvd.roles.user.requests import Script
from fedsvd.roles.user.work import Work
from fedsvd.statistics.newton import Fitting
from fedsvd.statistics.newton_requests import Shape
from fedsvd.statistics.ordinal import OrdinalRecords, fit_by_digits
from fedsvd.types import Float


def script(work: Work) -> Script:
    """The one model of the plan."""

    def home(about: ModelPlan, labels: Float) -> RecordsHome:
        y, _, weights = split_labels(about, labels)
        return RecordsHome(work, OrdinalRecords(own_table(work), y, about.classes, about.link, weights))

    def steps(about: ModelPlan, shape: Shape) -> Fitting:
        return fit_by_digits(about.link, shape, alpha=work.plan.alpha)

    fit: Fitted = yield from fitted(work, home, steps)
    return fit.result(fit.model.coefficients[: work.plan.m], work.plan.m)
