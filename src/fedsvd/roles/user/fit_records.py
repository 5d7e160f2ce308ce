"""The one model of a plan whose records a user holds in memory (``records.py``): its fit, and what the user ends with.

A script of such a model says what its records are and how it is fitted; everything else is here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsvd.errors import LocalProtocolError
from fedsvd.protocol.model import ModelPlan
from fedsvd.roles.user.digits import DigitsSession
from fedsvd.roles.user.glm import GLMResult
from fedsvd.roles.user.models import shape_of
from fedsvd.roles.user.records import RecordsHome
from fedsvd.roles.user.requests import Local, Script
from fedsvd.roles.user.squared_scores import errors_of
from fedsvd.roles.user.work import Work
from fedsvd.statistics.glm import GLMInference
from fedsvd.statistics.newton import Fitting
from fedsvd.statistics.newton_requests import Shape
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class Fitted:
    """A model, the own records that it is of, and the session that found it."""

    session: DigitsSession
    home: Any  # of the kind that the script asked for
    model: Any

    def result(self, w: Float, rank: int, own: Mapping[str, Float] | None = None) -> GLMResult:
        """What every user holds; ``w`` are the coefficients of the columns, after an intercept where there is one."""
        first, session, model = int(self.model.intercept), self.session, self.model
        intercept = w[:first] if first else np.zeros(1)
        numbers = session.residual, session.bits
        return GLMResult((model,), w[None, first:], intercept, rank, *numbers, means=session.means, own=own or {})


def fitted(
    work: Work, home: Callable[[ModelPlan, Float], RecordsHome], steps: Callable[[ModelPlan, Shape], Fitting]
) -> Script:
    """The fit by ``steps`` of own records, which ``home`` makes of the plan's model and own labels."""
    about = work.plan.glm
    if about is None or work.labels is None:
        named = ", ".join(("label", *(about.facts.needs if about is not None else ())))
        raise LocalProtocolError("a model needs this party's outcomes, and what stands next to them", f"name {named}")
    labels, session = work.labels, DigitsSession(work)
    errors = yield from errors_of(work)
    own: RecordsHome = yield Local("evaluate", lambda: home(about, labels))
    model: GLMInference = yield from session.fit(own, steps(about, shape_of(work.plan, about, errors)))
    return Fitted(session, own, model)
