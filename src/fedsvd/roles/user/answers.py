"""What a user accepts from the CSP: answers of the kind, shape and structure that the plan says (step 7).

Structure needs no data: columns of U' are orthonormal, S' descends, both end in exact zeros where the rank is lost.
What does not fit ends the session (``AnswerRefused``) before anything is computed from it. Whether an answer is *right*
is checked by sums afterwards (``checks.py``).
"""

import math

import numpy as np

from fedsvd.errors import AnswerRefused
from fedsvd.linalg.answers import expect_structure
from fedsvd.protocol.messages import FactorRows, Factors, Product, Solution
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.shared import challenge_columns
from fedsvd.protocol.tasks import Item, Scheme, Task
from fedsvd.roles.user.requests import Fetch
from fedsvd.types import Float

_MOST_COEFFICIENT = 2.0**256  # rows are scaled to about 1: the condition of a problem is far below
_FIX = "nothing is taken from it; ask the operator of the CSP"


def expect_answer(plan: SessionPlan, message: Factors | Solution) -> None:
    """Refuse an answer that is not one to this plan's upload."""
    if isinstance(message, Solution) != (plan.task is Task.LR):
        raise AnswerRefused(f"{type(message).__name__} in answer to the upload of a {plan.task}", _FIX)
    if isinstance(message, Solution):
        features = plan.N if plan.stacks_labels else plan.m
        _expect(0 <= message.rank <= features, "a rank that no problem of this size has")
        _expect_array("w'", message.w_masked, features, plan.targets)
        largest = float(np.abs(message.w_masked).max(initial=0.0))
        _expect(largest <= _MOST_COEFFICIENT, "w' beyond any scaled problem")
        _expect_array("the null space", message.null_masked, features, features - message.rank)
        null = message.null_masked
        _expect(float(np.abs(null).max(initial=0.0)) <= 2.0, "a null space whose basis is not orthonormal")
        off = np.abs(null.T @ null - np.eye(null.shape[1])).max(initial=0.0)
        _expect(bool(off <= 1e-12 * math.sqrt(features)), "a null space whose basis is not orthonormal")
        _expect_quality(message.residual)
        return
    _expect_factors(plan, message)


def _expect_factors(plan: SessionPlan, message: Factors) -> None:
    spectrum = message.sigma_scaled
    _expect_quality(message.residual)
    _expect_quality(message.orthogonality)
    _expect((spectrum is not None) == plan.releases(Item.SPECTRUM), "a spectrum that was not asked for, or none")
    if plan.tall:  # rows of a long U' come panel by panel
        _expect_array("U'", message.U_masked, 0, plan.planned_rank)
        if spectrum is not None:
            _expect_array("S'", spectrum, plan.planned_rank)
            _expect(bool((spectrum >= 0).all() and (np.diff(spectrum) <= 0).all()), "singular values out of order")
        return
    if spectrum is not None and spectrum.ndim == 1 and len(spectrum):
        below = (spectrum > 0.0) & (spectrum <= 2.0**-53 * spectrum[0])
        _expect(not bool(below.any()), "a singular value below rounding that is not zero")
    # In the mask family S' is in units of B, which may lie below the joint norm.
    most = 0.25 if plan.scheme is Scheme.SUM else math.inf
    expect_structure(message.U_masked, spectrum, plan.M, plan.planned_rank, most)


def expect_rows(plan: SessionPlan, asked: Fetch, message: FactorRows) -> None:
    """Refuse rows of U' that are not those of the panel that was asked for."""
    window = plan.row_panels[asked.panel]
    _expect(message.panel == asked.panel, "rows of U' that were not asked for")
    _expect_array("a panel of U'", message.U_masked, window.stop - window.start, asked.r)
    _expect(float(np.abs(message.U_masked).max(initial=0.0)) <= 2.0, "vectors that are not orthonormal")


def accepted_products(plan: SessionPlan, message: Product) -> Float:
    """The products of all pairs of columns; any other number of them is refused."""
    _expect_array("products", message.products, challenge_columns(plan) ** 2)
    return message.products


def _expect_array(name: str, array: Float, *shape: int) -> None:
    _expect(array.shape == shape, f"{name} of another shape than the plan says")
    _expect(bool(np.isfinite(array).all()), f"{name} with numbers that are not finite")


def _expect_quality(reported: float) -> None:
    """What the CSP reports of its own work is its word alone; it is a number all the same."""
    _expect(math.isfinite(reported) and reported >= 0.0, "a residual that is no number of 0 or more")


def _expect(right: bool, what: str) -> None:
    if not right:
        raise AnswerRefused(f"the CSP answered with {what}", _FIX)
