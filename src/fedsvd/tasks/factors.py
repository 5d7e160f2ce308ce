"""What SVD, LSA and CCA share: statistics, an opening by the users or by the CSP, checks of its answer, own vectors.

The opening is shared with PCA, and all of PCA with regression on its components by steps.
"""

import math

from fedsvd.protocol.directions import means_in_a_unit
from fedsvd.protocol.outputs import COMPONENT, FEATURE, RECORD, To, array, column, fact
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import (
    COMPARED,
    FACTORS,
    SIGNS,
    PlannedStep,
    StepKind,
    What,
    bound,
    flags,
    folded,
    from_user_1,
    maybe,
    total,
    triangle,
    upload,
    wide,
)
from fedsvd.protocol.sums import (
    CHECK_NUMBERS,
    EIGEN_VECTORS,
    ORDER,
    ORDER_BITS,
    ORDER_BLOCK,
    ORDER_CLASSES,
    ORDER_FACTOR,
    ORDER_HELD,
    ORDER_OUTSIDE,
    ORDER_SLACK,
    ORDER_UNIT,
    order_left,
    order_step,
)
from fedsvd.protocol.tasks import Check, Item, Mode, Scheme
from fedsvd.tasks.by_steps import found_by_steps

OUTPUTS = (
    array(
        "components",
        COMPONENT,
        FEATURE,
        by_columns=To.OWN,
        attribute="components_",
        padded=True,
        draws=("loadings", "features"),
    ),
    array(
        "left_vectors",
        RECORD,
        COMPONENT,
        to=To.OWN,
        by_columns=To.ALL,
        attribute="U_",
        padded=True,
        draws=("scores", "biplot"),
    ),
    column(
        "singular_values",
        COMPONENT,
        "spectrum",
        "singular_value",
        attribute="singular_values_",
        padded=True,
        draws=("scree", "cumulative"),
    ),
    fact("verified", to=To.OWN),
    fact("found"),
)
"""What an SVD or an LSA gives: all share one factor, and of the other each party has the part of its own data."""


def factorised(plan: SessionPlan, what: What = What.VECTORS) -> tuple[PlannedStep, ...]:
    """Every step of an SVD, an LSA or a CCA."""
    own = () if plan.scheme is Scheme.STEPS else own_vectors(plan)  # by steps they are orthonormal as they are found
    opened = (total("norm", 1, What.NORM), *opening(plan, what), *own)
    # Nothing to compute: in mode A of the sum family the rest is played in zeros, so that the CSP sees no difference.
    zeros = plan.mode is Mode.A and plan.scheme is Scheme.SUM
    return (bound("bound"), *(opened if zeros else (maybe("entries that are not zero", *opened),)))


def components_found(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    """Every step to the principal components of a table."""
    found = _means(plan) if plan.centre else []
    found.append(bound("bound"))
    if plan.unit_variance:
        found.append(wide("energy", plan.m, What.ENERGY))
    return (*found, total("norm", 1, What.NORM), *opening(plan, What.VECTORS))


def _means(plan: SessionPlan) -> list[PlannedStep]:
    """The mean of every feature, without a unit, or in the unit of the joint norm."""
    if means_in_a_unit(plan):
        return [bound("range"), total("mean", plan.m, What.MEAN)]
    return [wide("mean", plan.M, What.MEAN)]


def opening(plan: SessionPlan, what: What) -> tuple[PlannedStep, ...]:
    """Steps 5 to 7: U and S, by steps, from the users' own factorisation, or from the CSP, whose answer is checked."""
    if plan.scheme is Scheme.STEPS:
        return found_by_steps(plan)
    if plan.mode is Mode.A:
        return triangle("gram", plan.M), from_user_1("answer", 8 * (plan.m + 1) * plan.planned_rank, what=what)
    columns = plan.planned_rank  # with zeros beyond the rank
    answer, panels = upload(FACTORS, columns, what), PlannedStep("panels", StepKind.FETCH, columns)
    signs = from_user_1(SIGNS, -(-columns // 8), upto=True)
    return answer, COMPARED, *((panels, COMPARED) if plan.tall else ()), *checks(plan), signs


def checks(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    """Step 7: what is summed to check an answer of the CSP, before anything that depends on it is sent."""
    found = [folded("eigen", CHECK_NUMBERS)]
    if plan.releases(Item.SPECTRUM):
        found += [folded("diag", EIGEN_VECTORS), total("trace", 1, What.NORM)]
        if plan.scheme is Scheme.SUM:
            found.append(maybe("a rank that is not zero", folded("C", CHECK_NUMBERS)))
    order = _order(plan)
    return (*found, *((maybe(ORDER, *order),) if order else ()))


def _order(plan: SessionPlan) -> list[PlannedStep]:
    """The sums that bound what an answer leaves out; they are sent unless the trace has shown it already."""
    if not order_left(plan):
        return []
    steps = _lanczos_steps(plan)
    found = [total(order_step(j), ORDER_BLOCK * plan.m, What.ORDER, step=0) for j in range(1, steps + 1)]
    if plan.releases(Item.SPECTRUM):
        return found
    if not steps:
        return [total(ORDER_OUTSIDE, 1, What.ORDER), flags(ORDER_HELD, plan.planned_rank, What.ORDER)]
    return [flags(ORDER_UNIT, ORDER_CLASSES, What.UNIT), *found, flags(ORDER_HELD, plan.planned_rank, What.ORDER)]


def _lanczos_steps(plan: SessionPlan) -> int:
    """Steps of Lanczos' method outside of U; 0 where these and U would be more than half of all directions.

    Kuczynski and Wozniakowski (1992): from a random direction in dimension d, q steps miss the largest eigenvalue by
    more than a part eps of it with probability at most 1.648 sqrt(d) exp(-sqrt(eps) (2 q - 1)). Several directions miss
    it all with the product of these.
    """
    eps = 1.0 - (1.0 + ORDER_SLACK) ** 2 / ORDER_FACTOR
    needed = math.log(1.648 * math.sqrt(plan.m - plan.planned_rank)) + ORDER_BITS * math.log(2.0) / ORDER_BLOCK
    steps = math.ceil((needed / math.sqrt(eps) + 1.0) / 2.0)
    return steps if 2 * (plan.planned_rank + ORDER_BLOCK * steps) <= min(plan.m, plan.n) else 0


def own_vectors(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    """Step 8: sums that put right singular vectors at home right, and verify them."""
    if not plan.own_vectors:
        return ()
    found, products = [], plan.planned_rank * (plan.planned_rank + 1) // 2
    if plan.reads_rows or plan.check is not Check.SAMPLE:
        found.append(total("orthogonality", products, What.CHECK))
    if plan.check is not Check.NONE and plan.components is None:
        found.append(total("reconstruction", 1, What.CHECK))
    if plan.check is Check.ALL:
        found.append(total("verified", products, What.CHECK))
    return tuple(found)
