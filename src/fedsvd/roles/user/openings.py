"""How the users of a plan come to U and S: by the joint Gram matrix, by steps, or from under masks."""

from collections.abc import Callable

from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Scheme
from fedsvd.roles.user.by_steps import open_by_steps
from fedsvd.roles.user.opening import open_factors
from fedsvd.roles.user.requests import Script
from fedsvd.roles.user.statistics import Prepared
from fedsvd.roles.user.upload import open_masked
from fedsvd.roles.user.work import Work

_OPENINGS: dict[Scheme, Callable[[Work, Prepared], Script]] = {
    Scheme.SUM: open_factors,
    Scheme.STEPS: open_by_steps,
    Scheme.MASK: open_masked,
}


def opening_of(plan: SessionPlan) -> Callable[[Work, Prepared], Script]:
    """The script of steps 4 to 7 in the family of this plan."""
    return _OPENINGS[plan.scheme]
