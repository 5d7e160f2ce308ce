"""Cox regression with one baseline of all users in bins of time: own records in the iteration of few digits.

A user's part are terms of its own records in each bin that they were at risk in (``statistics/hazard_bins.py``); times
inside a bin are in no sum.
"""

import numpy as np

from fedsvd.protocol.hazards import HAZARD
from fedsvd.protocol.model import ModelPlan
from fedsvd.roles.user.digits import DigitsSession
from fedsvd.roles.user.glm import GLMResult
from fedsvd.roles.user.models import shape_of, split_labels
from fedsvd.roles.user.records import RecordsHome, own_table
from fedsvd.roles.user.requests import Local, Script
from fedsvd.roles.user.squared_scores import errors_of
from fedsvd.roles.user.work import Work
from fedsvd.statistics.hazard_bins import BinRecords, fit_by_digits
from fedsvd.types import Float


def script(work: Work, about: ModelPlan, edges: Float, labels: Float) -> Script:
    """The one model of the plan."""
    m, session, errors = work.plan.m, DigitsSession(work), (yield from errors_of(work))
    home: RecordsHome = yield Local(
        "evaluate", lambda: RecordsHome(work, records(about, own_table(work), labels, edges))
    )
    steps = fit_by_digits(about.link, edges, shape_of(work.plan, about, errors), alpha=work.plan.alpha)
    found = yield from session.fit(home, steps)
    w, own = found.coefficients[None, :m], {HAZARD: found.hazard}
    return GLMResult((found,), w, np.zeros(1), m, session.residual, session.bits, means=session.means, own=own)


def records(about: ModelPlan, X: Float, labels: Float, edges: Float) -> BinRecords:
    """A user's records, from rows and labels in the plan's order."""
    time, _, weights = split_labels(about, labels)
    return BinRecords(X, time, labels[:, about.facts.counted_at], edges, about.link, weights)
