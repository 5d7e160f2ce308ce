"""What leaves each party in a session: every step of its plan has its line, whichever task declares it.

Sums that the parties open are named by what they open, and by their own names where nothing is written of that, so that
no step is left out of what an owner reads before agreeing. Other steps have sentences of their own.
"""

from collections.abc import Iterator
from itertools import groupby

from fedsvd.policy.foreign import amount, declared_sums
from fedsvd.protocol.directions import CHECKPOINT, CROSS, HELD, ROOT
from fedsvd.protocol.matching import BLINDED_SETS, PLACES
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import SIGNS, SUMS, PlannedStep, StepKind, What
from fedsvd.protocol.tasks import Align, Mode
from fedsvd.protocol.upload import upload_bytes
from fedsvd.types import byte_size

_PADDED = "under pads that only the total survives"

_SUMMED = {
    What.UNIT: "the power of two above its numbers",
    What.SIZES: "the power of two above each number",
    What.COUNT: "how many clusters it has",
    What.CAPPED: "how many of its records have each level, gap or rare value, up to five, and which are too few",
    What.WITHIN: "what its own records say of groups when they are compared with each other alone",
    What.TIMED: "how the score and information of its events change with time",
    What.EXPOSURE: "how long its records were at risk between two times, weighed by their hazards",
    What.TABLE: "how many of its records are in each group and have each level there, and miss each column",
    What.RANKS: "sums of ranks of each group among its own records, and their covariance",
    What.FIVES: "how many of its records are at or below each edge, rounded at home",
    What.CELLS: "how many of its records are at or below each edge",
    What.MEAN: "totals of columns",
    What.ENERGY: "sums of squares of columns",
    What.NORM: "the sum of squares of all entries",
    What.WEIGHTS: "its weights, and their logarithms",
    What.LABELS: "totals of labels",
    What.REFINED: "products of columns and of residuals in more digits",
    What.PRODUCTS: "products of its columns with a few directions, with noise in the last digits",
    What.PERMUTED: "Gram matrices of its columns, each permuted among its records",
    What.LEFT_OUT: "squared errors of rows left out, for each penalty",
    What.SQUARED_SCORES: "squared scores",
    What.BALANCE: "sums of its weights, and of its covariates by treatment, without and with these",
    What.QUALITY: "ordered pairs of its own cases and controls, and squared errors of probabilities",
    What.ROC: "how many of its cases and controls are at or below each value of the linear predictor",
    What.NULL_SPACE: "products that find the solution of least norm",
    What.INTERCEPT: "its part of the intercept",
    What.DEVIANCE: "deviance, counts of the outcome and sums of squares",
    What.MOMENTS: "totals of columns and of the outcome",
    What.SCORE: "the gradient",
    What.INFORMATION: "the information, or the Gram matrix",
    What.RESIDUALS: "squares of residuals",
    What.ORDER: "products of its columns outside of U",
    What.COMPONENTS: "products of its labels with the components",
}
"""What a sum is of, where the parties open it."""

_CHECKS = {
    "orthogonality": f"its part of the sum that corrects the right singular vectors, {_PADDED}",
    "reconstruction": f"its part of the sum that verifies all singular vectors together, {_PADDED}",
    "verified": f"its part of the sum that verifies the right singular vectors, {_PADDED}",
    **dict.fromkeys(
        ("energies", *CROSS), f"for each step products of its records' scores on these directions, {_PADDED}"
    ),
    HELD: f"whether it lacks a step that an earlier session of the job found, {_PADDED}",
    **dict.fromkeys(("images", "remainders"), f"its part of the sums that certify the vectors, {_PADDED}"),
}
"""Sums that check what parties made themselves; all others check an answer of the CSP."""

_SEALED = {
    SIGNS: "from party 1, the signs of the vectors, sealed to the parties",
    "right mask": "from party 1, a rotation that hides what the CSP splits among the parties, sealed to the parties",
    "comparing": "digests of the CSP's answer, sealed to the other parties",
    "commitment": "a commitment to its set of ids, sealed to the other parties",
    CHECKPOINT: "from party 1, digests of what an earlier session of the job found, sealed to the parties",
    **dict.fromkeys(ROOT, "from party 1, for each step what makes these scores orthonormal, sealed to the parties"),
    "verdict": "from party 1, for each step which directions follow, sealed to the parties",
}

_Placed = tuple[PlannedStep, PlannedStep | None]  # a step, and the repetition that it is in


def leaves_each_site(plan: SessionPlan) -> list[str]:
    """Everything a party sends, in the order in which it goes."""
    lines = ["a session key, signed", "a salted commitment to its data, and a signed digest of what it received"]
    if plan.foreign is not None:
        parts = [f"its part of the sum {step.name!r} ({amount(step, times)})" for step, times in declared_sums(plan)]
        return [*lines, *(f"{part}, {_PADDED}; the parties open it" for part in parts)]
    if plan.check_ids:
        lines.append("one keyed hash of all its row ids; the key stays among the parties")
    for opened, group in groupby(_placed(plan.steps), key=lambda placed: _is_opened(placed[0])):
        steps = [*group]
        lines += _sums(steps) if opened else [line for step, _ in steps for line in _line(plan, step)]
    return list(dict.fromkeys(lines))


def _placed(steps: tuple[PlannedStep, ...], repeats: PlannedStep | None = None) -> Iterator[_Placed]:
    """Every step once, in order."""
    for step in steps:
        if step.body:
            yield from _placed(step.body, step if step.kind is StepKind.REPEAT else repeats)
        else:
            yield step, repeats


# --- sums that the parties open ---------------------------------------------------------------------------------------


def _is_opened(step: PlannedStep) -> bool:
    other = step.kind in (StepKind.GRAM, StepKind.SHARED) or step.what is What.CHECK
    return step.kind in SUMS and not other and not step.to


def _sums(placed: list[_Placed]) -> Iterator[str]:
    """A line for all sums that stand together, and one for those whose numbers are rounded at home first."""
    for rounded in (False, True):
        chosen = [each for each in placed if (each[0].kind is StepKind.DIGITS) is rounded]
        found: dict[str, list[PlannedStep]] = {}
        for step, _ in chosen:
            found.setdefault(_summed(step), []).append(step)
        if not found:
            continue
        repeats = chosen[0][1]
        often = "" if repeats is None else f"for each {repeats.name}, {repeats.times} at most, "
        digits = "rounded to a few digits with noise in the last of them, " if rounded else ""
        listed = ", ".join(f"{words}{_count(steps)}" for words, steps in found.items())
        sums = "a sum" if len(chosen) == 1 else "sums"
        yield f"{often}its part of {sums} that the parties open, {digits}{_PADDED}: {listed}"


def _summed(step: PlannedStep) -> str:
    return _SUMMED.get(step.what) or repr(_plain(step))


def _count(steps: list[PlannedStep]) -> str:
    """How many numbers; an OR over powers of two is one answer."""
    if steps[0].what in (What.UNIT, What.SIZES):
        return ""
    most = max(step.size for step in steps)
    numbers = "1 number" if most == 1 else f"{most:,} numbers"
    upto = "up to " if any(step.upto or step.size < most for step in steps) else ""
    times = f", {len(steps)} times" if len(steps) > 1 else ""
    return f" ({upto}{numbers}{times})"


# --- other steps ------------------------------------------------------------------------------------------------------


def _line(plan: SessionPlan, step: PlannedStep) -> Iterator[str]:
    match step.kind:
        case StepKind.GRAM:
            often = "for each iteration " if plan.glm is not None else ""
            yield f"{often}{_gram(plan)}, {_PADDED}; the parties open the total"
        case StepKind.UPLOAD if plan.mode is Mode.B:
            yield f"{_gram(plan)}, under a rotation that the CSP does not know, and padded; the CSP opens the total"
        case StepKind.UPLOAD:
            share = f"its share of {plan.M} x {plan.N} numbers ({byte_size(upload_bytes(plan))})"
            yield f"{share}, masked by rotations that the CSP does not know, and padded"
        case StepKind.FROM_USER_1 if step.what is What.ITERATES:
            yield "from party 1, the coefficients of each iteration, sealed to the parties"
        case StepKind.FROM_USER_1 if step.what:
            yield "from party 1, the joint result, sealed to the parties"
        case StepKind.FROM_USER_1:
            yield _SEALED.get(_plain(step), f"from party 1, {step.name!r}, sealed to the parties")
        case StepKind.FROM_EACH:
            yield _SEALED.get(step.name, f"{step.name!r}, sealed to the other parties")
        case StepKind.SHARED:
            own = "means" if step.name == "inverse" else "coefficients"
            yield f"random words that hide what the CSP splits among the parties, and its {own} under such words"
        case StepKind.EXCHANGE | StepKind.COMPARE:
            yield from _of_ids(plan, step)
        case StepKind.FETCH:
            return  # panels of an answer are asked for, and nothing is sent
        case _ if step.what is What.SCORES:
            yield "the partial scores of its columns, under pads that only the label holder can take off the total"
        case _:
            check = f"its part of the sums that check the CSP's answer, {_PADDED}"
            yield _CHECKS.get(_plain(step), check)


def _plain(step: PlannedStep) -> str:
    """The name of a step without the number of its round."""
    return step.name.rstrip("0123456789").rstrip()


def _gram(plan: SessionPlan) -> str:
    size = byte_size(upload_bytes(plan))
    return f"its Gram matrix of {plan.M} x {plan.M}, with noise in the last digits, as exact integers ({size})"


def _of_ids(plan: SessionPlan, step: PlannedStep) -> Iterator[str]:
    """What a party sends of its ids to have them matched, and what it seals to single parties."""
    if step.kind is StepKind.COMPARE and plan.align is Align.SERVER:
        yield "a keyed hash of every id, sorted, to the CSP; the key stays among the parties"
    elif step.kind is StepKind.COMPARE:
        yield "the points of one other party's ids, which all have blinded, shuffled, to the CSP"
    elif step.name == BLINDED_SETS:
        yield "a blinded point for every id, and those of others once it has blinded them, sealed from party to party"
    elif step.name == PLACES:
        yield "the places of common ids in the sets that it had, sealed from party to party"
    else:
        yield "for each other party, sealed to it, its part of what that party alone is to have"
