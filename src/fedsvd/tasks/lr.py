"""Linear regression on split rows and on split columns, with a ridge by cross-validation."""

from dataclasses import replace

from fedsvd.protocol.model import ENDING_BITS, MEAN_BITS, MOST_SCORES, SCORE_BITS
from fedsvd.protocol.outputs import FEATURE, PENALTY, RECORD, TARGET, TERM, To, array, column, fact, hidden
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.shared import INVERSE, VECTORS, challenge_numbers, shared_words, shares_inverse, shares_vectors
from fedsvd.protocol.steps import (
    COMPARED,
    SOLUTION,
    PlannedStep,
    StepKind,
    What,
    bound,
    digits,
    flags,
    folded,
    from_user_1,
    maybe,
    repeat,
    sizes,
    total,
    triangle,
    upload,
    wide,
)
from fedsvd.protocol.sums import CHECK_NUMBERS, IMPLAUSIBLE, LOST, NULL_SPACE, PROBE
from fedsvd.protocol.tasks import Answer, ChosenBy, Item, Labels, Mode, Robust, Split, Task
from fedsvd.tasks.declared import Declared
from fedsvd.tasks.pieces import pieces
from fedsvd.tasks.predict import scores_of

OUTPUTS = (
    column("intercept", TARGET, "intercept", "intercept", attribute="intercept_"),
    array("coefficients", TARGET, FEATURE, by_columns=To.OWN, attribute="coef_", draws=("forest", "coefficients")),
    fact("constant_columns", by_columns=To.OWN),
    array("covariance", TARGET, TERM, TERM, by_columns=To.OWN),
    hidden("estimates", TARGET, TERM, by_columns=To.OWN),
    array("vif", FEATURE, by_columns=To.OWN),
    fact("inference", by_columns=To.OWN),
    array("ridge_path", PENALTY, TARGET, FEATURE, by_columns=To.OWN, attribute="coef_path_"),
    hidden("ridge_errors", PENALTY, by_columns=To.OWN, attribute="cv_errors_", draws=("ridge",)),
    fact("ridge", by_columns=To.OWN),
    array("fitted", RECORD, TARGET, to=To.OWN, by_columns=To.HOLDER),
    array("residuals", RECORD, TARGET, to=To.OWN, by_columns=To.HOLDER, draws=("residuals", "qq")),
    fact("score", to=To.OWN, by_columns=To.HOLDER),
    fact("fit", to=To.HOLDER),
    hidden("leverage", RECORD, to=To.OWN, draws=("leverage",)),
    hidden("standardised_residuals", RECORD, TARGET, to=To.OWN),
)
"""What a linear regression gives: on split columns each party has the coefficients of its own columns."""


def steps(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    """Every step of a linear regression."""
    return _columns(plan) if plan.stacks_labels else _rows(plan)


# --- split rows -------------------------------------------------------------------------------------------------------


def _rows(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    before = [wide("weights", 2, What.WEIGHTS)] if plan.weighted else []
    if plan.few_digits:
        return *before, *_by_digits(plan)
    before += [wide("mean", plan.M, What.MEAN)] if plan.centre else []
    before.append(bound("bound"))
    energy, after = wide("energy", plan.M, What.ENERGY), (total("norm", 1, What.NORM), *_opened_rows(plan))
    if plan.mode is Mode.A:
        return *before, energy, *after
    # What the CSP opens would be zeros: it may see that there is nothing to compute.
    return *before, maybe("entries that are not zero", energy, maybe("entries that vary", *after))


def _opened_rows(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    """Steps 5 to 8 on split rows."""
    if plan.mode is not Mode.A:
        opened = upload(SOLUTION, plan.m, What.COEFFICIENTS)
        return opened, COMPARED, folded("residual", CHECK_NUMBERS)
    found, terms = [triangle("gram", plan.M)], plan.m + int(plan.centre)
    products = terms * (terms + 1) // 2
    if plan.alphas and plan.chosen_by == ChosenBy.LOO:
        found.append(wide("left out", len(plan.alphas) * plan.targets, What.LEFT_OUT))
    found.append(from_user_1("answer", 8 * plan.answer_numbers, what=What.COEFFICIENTS))
    if plan.refines:
        found += [
            total("refined gram", products, What.REFINED),
            wide("gradient", (terms + 1) * plan.targets, What.REFINED),
        ]
    if plan.robust == Robust.CLUSTER:
        found.append(wide("clusters", 1, What.COUNT))
    if plan.robust:
        found += [bound("scores bound"), total("squared scores", products * plan.targets, What.SQUARED_SCORES)]
    return tuple(found)


def _by_digits(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    """A table whose sums open few digits: units, the Gram matrix once, as many scores as coefficients have digits."""
    P, t, ending = plan.m + int(plan.centre), plan.targets, ENDING_BITS[plan.digits]
    found = [sizes("columns", plan.M)]
    if plan.centre:
        found += [digits("moments", plan.M, MEAN_BITS, What.MOMENTS), sizes("start", plan.M)]
    found += pieces("table", P)
    found.append(repeat("evaluation", MOST_SCORES, digits("score", P * t, SCORE_BITS, What.SCORE)))
    found += [sizes("end sizes", t), digits("end", t, ending, What.RESIDUALS)]
    if plan.robust == Robust.CLUSTER:
        found.append(wide("clusters", 1, What.COUNT))
    if plan.robust:
        squares = pieces("squares", P, What.SQUARED_SCORES, t)
        found += [sizes("squares sizes", t), maybe("leverages below 1", *squares)]
    return tuple(found)


# --- split columns ----------------------------------------------------------------------------------------------------


def _columns(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    found = [
        bound("bound"),
        wide("labels", 1 + plan.targets, What.LABELS),
        maybe("entries that are not zero", total("norm", 1, What.NORM)),
    ]
    found += [upload(SOLUTION, plan.N, What.OWN_COEFFICIENTS), COMPARED]
    # What the CSP splits is checked together with its solution.
    found += _split(plan)
    if plan.challenges:
        found.append(PlannedStep("challenge", StepKind.CHALLENGE))
        found.append(total("challenge", challenge_numbers(plan), What.CHECK, to=plan.label_user))
    if not plan.alphas:
        most = plan.N * (2 * plan.N + plan.targets)
        found.append(maybe(LOST, replace(wide(NULL_SPACE, most, What.NULL_SPACE), upto=True)))
    if plan.centre:
        found.append(wide("intercept", plan.targets, What.INTERCEPT))
    if shares_inverse(plan):
        found.append(wide("totals", 2 * plan.targets, What.LABELS))
    if plan.releases(Item.SCORE):
        found += scores_of(plan)
    return tuple(found)


def _split(plan: SessionPlan) -> list[PlannedStep]:
    """A matrix that the CSP splits among the users, products of masks that they exchange, how long probes are."""
    what = INVERSE if shares_inverse(plan) else VECTORS if shares_vectors(plan) else ""
    if not what:
        return []
    opened = What.INVERSE if what == INVERSE else What.PATH
    mask = from_user_1("right mask", 8 * plan.N**2)
    shared = [bound("vector bound"), PlannedStep(what, StepKind.SHARED, shared_words(plan)), COMPARED]
    exchanged, probe = PlannedStep(what, StepKind.EXCHANGE, what=opened), wide(PROBE, 2, What.CHECK)
    if what == INVERSE:
        return [mask, *shared, exchanged, flags(IMPLAUSIBLE, 1, What.CHECK), probe]
    return [*shared, mask, exchanged, probe]


TASK = Declared(
    Task.LR,
    Answer.SOLUTION,
    tuple(Split),
    released=(Item.COEFFICIENTS, Item.INTERCEPT),
    on_request=(Item.SCORE, Item.INFERENCE, Item.ROBUST, Item.RIDGE_PATH),
    labels={Split.HORIZONTAL: Labels.JOINED, Split.VERTICAL: Labels.STACKED},
    centred=True,
    c=104,
    steps=steps,
    outputs=OUTPUTS,
    first_lines=(
        ("# inference = true", "standard errors; on split rows all parties then hold the joint Gram matrix"),
        ("# alpha = 0.1", "a ridge"),
    ),
)
