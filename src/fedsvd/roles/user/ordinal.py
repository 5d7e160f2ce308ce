"""Ordinal regression on split rows: own records in the iteration that models by few digits have (``records.py``)."""

import numpy as np

from fedsvd.errors import LocalProtocolError
from fedsvd.roles.user.digits import DigitsSession
from fedsvd.roles.user.glm import GLMResult
from fedsvd.roles.user.models import shape_of, split_labels
from fedsvd.roles.user.records import RecordsHome, own_table
from fedsvd.roles.user.requests import Local, Script
from fedsvd.roles.user.squared_scores import errors_of
from fedsvd.roles.user.work import Work
from fedsvd.statistics.ordinal import OrdinalRecords, fit_by_digits


def script(work: Work) -> Script:
    """The one model of the plan."""
    about, m = work.plan.glm, work.plan.m
    if work.labels is None or about is None:
        raise LocalProtocolError("an ordinal model needs this party's classes", "name their column (label)")
    y, _, weights = split_labels(about, work.labels)
    session, errors = DigitsSession(work), (yield from errors_of(work))
    home: RecordsHome = yield Local(
        "evaluate",
        lambda: RecordsHome(work, OrdinalRecords(own_table(work), y, about.classes, about.link, weights)),
    )
    steps = fit_by_digits(about.link, shape_of(work.plan, about, errors), alpha=work.plan.alpha)
    found = yield from session.fit(home, steps)
    w = found.coefficients[None, :m]
    return GLMResult((found,), w, np.zeros(1), m, session.residual, session.bits, means=session.means)
