"""The covariance matrix at a user: the joint factor R of the centred table, then R^T R / (n - 1)."""

import math

import numpy as np

from fedsvd.errors import ConstantData
from fedsvd.linalg.backend import to_numpy
from fedsvd.protocol.outputs import Named
from fedsvd.roles.user.opening import joint_factor
from fedsvd.roles.user.requests import Local, Script
from fedsvd.roles.user.statistics import Prepared, centred, in_common_unit, with_norm
from fedsvd.roles.user.work import Work
from fedsvd.types import Float


def script(work: Work) -> Script:
    """Centre, open the joint Gram matrix, divide."""
    prepared: Prepared = yield from in_common_unit(work, (yield from centred(work)))
    if prepared.zero:
        raise ConstantData("no column of the joint table varies", "leave constant columns out")
    prepared = yield from with_norm(work, prepared)
    joint, unit = yield from joint_factor(work, prepared)

    def made() -> Float:
        R = to_numpy(joint.R) * math.ldexp(unit.F, prepared.E)
        found: Float = R.T @ R / (work.plan.n - 1)
        return found

    covariance: Float = yield Local("covariance", made)
    return Named({"mean": np.asarray(prepared.mean), "covariance": covariance})
