"""Generalised linear models: as many evaluations as the data needs, each with totals and mostly a Gram matrix."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fedsvd.errors import ConfigError
from fedsvd.protocol.model import (
    BEGINS,
    CONSTANT,
    CURVED,
    ENDING_BITS,
    ENDS,
    ESTIMATED,
    HOME_TESTS,
    MOMENT_BITS,
    ROBUST,
    SCORE_BITS,
    START_SIZES,
    STARTS,
    UNPENALISED,
    ModelPlan,
)
from fedsvd.protocol.outputs import CLASS, FEATURE, RECORD, TERM, Kind, Output, To, array, column, fact, hidden
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.quality import QUALITY, QUALITY_BITS, ROC, ROC_COLUMNS, ROCPlan, quality_numbers
from fedsvd.protocol.reasons import Why
from fedsvd.protocol.steps import (
    PlannedStep,
    What,
    bound,
    counted,
    digits,
    from_user_1,
    maybe,
    repeat,
    sized,
    sizes,
    total,
    triangle,
    wide,
)
from fedsvd.protocol.sums import FELL, STEPPED
from fedsvd.protocol.tasks import Answer, Item, Labels, Robust, Split, Task
from fedsvd.tasks.declared import Declared
from fedsvd.tasks.pieces import pieces


def equations(columns: str = FEATURE, **intercept: Any) -> tuple[Output, ...]:
    """What every model gives: coefficients of these columns, and an intercept, which may be an attribute."""
    found = array("coefficients", CLASS, columns, attribute="coef_", draws=("forest",))
    return found, hidden("intercept", CLASS, **intercept), fact("models"), fact("classes"), fact("columns")


COVARIANCE = array("covariance", CLASS, TERM, TERM)
NAIVE = hidden("naive_covariance", CLASS, TERM, TERM)
"""What the model itself says, where ``covariance`` is robust."""
ERRORS = (hidden("estimates", CLASS, TERM), COVARIANCE, NAIVE)


def own_rows(*draws: str) -> tuple[Output, ...]:
    """What a model gives of each party's own rows."""
    fitted, residuals = (array(name, RECORD, CLASS, to=To.OWN) for name in ("fitted", "residuals"))
    return fitted, replace(residuals, draws=draws), fact("own_rows", to=To.OWN)


OUTPUTS = (
    *equations(attribute="intercept_"),
    fact("quality"),
    hidden("roc", "edge", "count", draws=("roc", "calibration")),
    *(column(f"roc {name}", "edge", "roc", name, kind=Kind.COLUMN) for name in ROC_COLUMNS),
    fact("roc_curve"),
    hidden("contrasts", CLASS, TERM),
    *ERRORS,
    *own_rows("roc", "calibration", "residuals", "qq"),
)
"""What a generalised linear model gives: one equation, or one for each class."""


def steps(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    """Every step of a generalised linear model, and of any other one by sums of few digits."""
    if plan.glm is None:
        raise ConfigError("a plan without a model has no evaluations", "plan it again")
    clusters = (wide("clusters", 1, What.COUNT),) if plan.robust == Robust.CLUSTER else ()
    if plan.glm.few_digits:
        return *clusters, *newton_steps(plan, plan.glm), *_quality(plan)
    evaluation = [
        wide("totals", plan.glm.totals + plan.M, What.DEVIANCE),
        maybe(
            FELL, triangle("gram", plan.M), maybe(STEPPED, from_user_1("answer", 8 * (plan.M + 3), what=What.ITERATES))
        ),
    ]
    if plan.robust:
        P = plan.glm.scored(plan.m, plan.centre)
        squares = total("squared scores", P * (P + 1) // 2, What.SQUARED_SCORES)
        evaluation.append(maybe(ROBUST, bound("scores bound"), squares))
    return *clusters, repeat("evaluation", plan.glm.evaluations, *evaluation), *_quality(plan)


def _quality(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    """How well the model ranks and predicts, by what each party compares among its own rows."""
    numbers, about = quality_numbers(plan), ROCPlan.of(plan)
    if not numbers:
        return ()
    found = sized(QUALITY, numbers, QUALITY_BITS, What.QUALITY)
    return found if about is None else (*found, counted(ROC, about.numbers, about.least, What.ROC))


def newton_steps(
    plan: SessionPlan, about: ModelPlan, *before: PlannedStep, ending: tuple[PlannedStep, ...] | None = None
) -> tuple[PlannedStep, ...]:
    """The evaluations of a model by sums of few digits; ``before`` are steps of its own ahead of each score, and
    ``ending`` those after its table."""
    ends = _ending(about, plan.M - 1) if ending is None else ending
    return (repeat("evaluation", about.evaluations, *_by_digits(plan, about, before, ends)),)


def _ending(about: ModelPlan, P: int) -> tuple[PlannedStep, ...]:
    """Deviance and Pearson's sum, the same of the null model, and the likelihood."""
    bits = ENDING_BITS[about.digits]
    likelihood = maybe(ESTIMATED, *sized("likelihood", 1, bits, What.DEVIANCE))
    null = maybe(CONSTANT, *sized("null", 2, bits, What.DEVIANCE), likelihood)
    return *sized("end", 2, bits, What.DEVIANCE), null, *_effects(about, P)


def _effects(about: ModelPlan, P: int) -> tuple[PlannedStep, ...]:
    """The score test of all effects together: one number, and what the first digits left of the score."""
    if not about.facts.score_test:
        return ()
    return (maybe(UNPENALISED, *sized("all effects", 1 + P, MOMENT_BITS, What.SCORE, runs=2)),)


def _by_digits(
    plan: SessionPlan, about: ModelPlan, before: tuple[PlannedStep, ...], ending: tuple[PlannedStep, ...]
) -> tuple[PlannedStep, ...]:
    """One evaluation of a model whose sums open few digits: what it begins with, its score, what it may ask for then.

    The first words of a score say whether a home test failed; they and the deviance have less bits than are declared.
    """
    m, P = plan.m, plan.M - 1
    return (
        maybe(
            BEGINS,
            sizes("columns", about.moments + m),
            digits("moments", about.moments + m, MOMENT_BITS, What.MOMENTS),
        ),
        maybe(STARTS, sizes("start", START_SIZES + m)),
        *before,
        digits("score", HOME_TESTS + 2 + P, SCORE_BITS, What.SCORE),
        maybe(CURVED, *pieces("information", P)),
        maybe(ENDS, *pieces("table", P), *_squares(plan, about), *ending),
    )


def _squares(plan: SessionPlan, about: ModelPlan) -> tuple[PlannedStep, ...]:
    """The middle matrix of robust errors, once for each model."""
    if not plan.robust:
        return ()
    return sizes("squares sizes", 1), *pieces("squares", about.scored(plan.m, plan.centre), What.SQUARED_SCORES)


def model(
    task: Task,
    steps: Callable[[SessionPlan], tuple[PlannedStep, ...]],
    outputs: tuple[Output, ...],
    *,
    released: tuple[Item, ...] = (Item.COEFFICIENTS, Item.INFERENCE),
    on_request: tuple[Item, ...] = (Item.ROBUST,),
    held: int = 3,  # its rows in an order of their own, and those times the weights of records
    **said: Any,
) -> Declared:
    """What is declared of every model by few digits: split rows, outcomes apart from them, sums that users open."""
    return Declared(
        task,
        Answer.GRAM,
        (Split.HORIZONTAL,),
        released,
        on_request,
        {Split.HORIZONTAL: Labels.APART},
        c=224,
        held=held,
        opened_by_users=Why.ITERATIONS,
        steps=steps,
        outputs=outputs,
        **said,
    )


TASK = model(
    Task.GLM,
    steps,
    OUTPUTS,
    released=(Item.COEFFICIENTS, Item.INTERCEPT, Item.INFERENCE),
    on_request=(Item.QUALITY, Item.ROC, Item.ROBUST),
    held=0,  # it reads panels
    centred=True,
    first_lines=(
        ('family = "binomial"', "or gaussian, poisson, gamma, multinomial, negative-binomial, quasi..."),
        ('# classes = ["no", "yes"]', "of a label that is not 0 or 1; the first is the reference"),
        ('# offset = "log_time"', "added to the linear predictor"),
        ('# weights = "w"', "prior weights"),
        ("# alpha = 0.1", "a ridge; there are no standard errors then"),
    ),
)
