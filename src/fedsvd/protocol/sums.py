"""The sums of a plan (specification, section 2): names, kinds, lengths, order; all known before the session begins.

The CSP adds up these and no others, and a user opens them in this order. ``wide`` sums hold numbers of any magnitude,
``total`` sums hold words of 128 bits in a public unit, ``bound`` is the OR that finds the common unit. The sum ``gram``
comes in batches of rows of the upper triangle. A sum with a receiver is opened by that user alone.
"""

from functools import lru_cache

from fedsvd.errors import ConfigError
from fedsvd.linalg.exact_gram import row_panels
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import StepKind
from fedsvd.protocol.tasks import PERMUTED_TABLES, Check, Item, Mode, Scheme, Task
from fedsvd.secagg.sums import PlannedSum, SumKind, even_batches

EIGEN_VECTORS = 3
"""Secret vectors g of the eigen-check (specification, step 7)."""

CLASSES = 133
"""Powers of two among which ``bound`` finds the common unit (specification, section 2)."""

GRAM_STEP, FINE_STEP, CHECK_STEP = 126, 100, 70
"""A last digit counts 2^-126 of F^2 in the Gram matrix, 2^-100 of its unit in most totals, 2^-70 in checks."""


@lru_cache(maxsize=8)
def planned_sums(plan: SessionPlan) -> tuple[PlannedSum, ...]:
    """Every sum of a session on this plan, in order."""
    if plan.task is Task.PREPARE:
        kinds = {StepKind.WIDE: _wide, StepKind.WHOLE: _whole}
        return tuple(kinds[step.kind](step.name, step.size) for step in plan.steps)
    return (*sums_before(plan), *sums_after(plan))


def sums_before(plan: SessionPlan) -> tuple[PlannedSum, ...]:
    """The sums up to the opening of a Gram matrix, or the upload (steps 3 and 5)."""
    if plan.opens_nothing:
        return ()
    if plan.glm is not None:
        return tuple(each for number in range(1, plan.glm.evaluations + 1) for each in evaluation_sums(plan, number))
    found = []
    rows = plan.m if plan.stacks_labels else plan.M
    statistics = plan.task is Task.PCA or plan.joins_labels
    if plan.weighted and not plan.stacks_labels:
        found.append(_wide("weights", 2))
    if statistics and plan.centre:
        found.append(_wide("mean", rows))
    found.append(PlannedSum("bound", SumKind.BOUND, (CLASSES,), 0))
    if plan.unit_variance or plan.joins_labels:
        found.append(_wide("energy", rows))
    if plan.stacks_labels:
        found.append(_wide("labels", 1 + plan.targets))
    found.append(_total("norm", 1))
    if plan.mode is Mode.A:
        found.append(PlannedSum("gram", SumKind.TOTAL, gram_batches(plan.M), GRAM_STEP))
    if plan.alphas and plan.chosen_by == "loo":
        found.append(_wide("left out", len(plan.alphas) * plan.targets))
    return tuple(found)


def sums_after(plan: SessionPlan) -> tuple[PlannedSum, ...]:
    """The sums after the answer: its checks (step 7), then the local endings (step 8)."""
    found = [*_checks(plan), *_inference(plan)]
    own_vectors = plan.own_vectors and not plan.published
    triangle = plan.planned_rank * (plan.planned_rank + 1) // 2
    if own_vectors and (plan.reads_rows or plan.check is not Check.SAMPLE):
        found.append(_total("orthogonality", triangle))
    if own_vectors and plan.check is not Check.NONE and plan.components is None:
        found.append(_total("reconstruction", 1))
    if own_vectors and plan.check is Check.ALL:
        found.append(_total("verified", triangle))
    if plan.permutes:
        found.append(_total("permuted", PERMUTED_TABLES * plan.m * (plan.m + 1) // 2))
    if plan.stacks_labels and plan.centre:
        found.append(_wide("intercept", plan.targets))
    if plan.task is Task.PREDICT or (plan.stacks_labels and plan.releases(Item.SCORE) and not plan.biased):
        found.append(PlannedSum("score bound", SumKind.BOUND, (CLASSES,), 0))
        found.append(_total("scores", plan.m * plan.targets, receiver=plan.label_user))
    return tuple(found)


def evaluation_sums(plan: SessionPlan, number: int) -> tuple[PlannedSum, PlannedSum]:
    """The two sums of one evaluation of a generalised linear model; a session asks for as many as it needs."""
    if plan.glm is None:
        raise ConfigError("a plan without a model has no evaluations")
    totals = _wide(f"totals {number}", plan.glm.totals + plan.M)
    return totals, PlannedSum(f"gram {number}", SumKind.TOTAL, gram_batches(plan.M), GRAM_STEP)


def null_space_sum(plan: SessionPlan, rank: int) -> PlannedSum | None:
    """The sum that finds the solution of least norm on split columns: its length follows from the CSP's own answer."""
    lost = plan.N - rank
    return _wide("null space", lost * (2 * lost + plan.targets)) if plan.stacks_labels and lost else None


def _checks(plan: SessionPlan) -> list[PlannedSum]:
    """Step 7: what is summed to check an answer of the CSP, before anything that depends on it is sent."""
    if plan.mode is Mode.A or plan.opens_nothing:
        return []
    if plan.published:
        # Nothing is checked there; the total variance that shares are taken of is all the same an exact sum.
        return [_total("trace", 1)] if plan.task is Task.PCA and plan.releases(Item.SPECTRUM) else []
    if plan.challenges:
        return [_total("challenge", plan.targets, receiver=plan.label_user)]
    if plan.task is Task.LR:
        return [] if plan.mode is not Mode.B else [_total("residual", plan.m * plan.targets, CHECK_STEP)]
    r = plan.planned_rank
    found = [_total("eigen", EIGEN_VECTORS * plan.m + 1, CHECK_STEP)]
    if plan.releases(Item.SPECTRUM):
        found += [_total("diag", r), _total("trace", 1)]
        if plan.scheme is Scheme.SUM:
            found.append(_total("C", r * (r + 1) // 2))
    return found


def _inference(plan: SessionPlan) -> list[PlannedSum]:
    """What a regression table on split rows asks for beyond the joint Gram matrix (step 8)."""
    found, terms = [], plan.m + int(plan.centre)
    triangle = terms * (terms + 1) // 2
    if plan.refines:
        found += [_total("refined gram", triangle), _wide("gradient", (terms + 1) * plan.targets)]
    if plan.robust == "cluster":
        found.append(_wide("clusters", 1))
    if plan.robust:
        found.append(PlannedSum("scores bound", SumKind.BOUND, (CLASSES,), 0))
        found.append(_total("squared scores", triangle * plan.targets))
    return found


def gram_batches(M: int) -> tuple[int, ...]:
    """Words in each batch of the upper triangle of an M x M matrix, rows from the top."""
    return tuple((stop - start) * (2 * M - start - stop + 1) // 2 for start, stop in row_panels(M))


def _wide(name: str, numbers: int) -> PlannedSum:
    return PlannedSum(name, SumKind.WIDE, even_batches(SumKind.WIDE, numbers), 1074)


def _whole(name: str, numbers: int) -> PlannedSum:
    return _total(name, numbers, step=0)


def _total(name: str, numbers: int, step: int = FINE_STEP, receiver: int | None = None) -> PlannedSum:
    return PlannedSum(name, SumKind.TOTAL, even_batches(SumKind.TOTAL, numbers), step, receiver)
