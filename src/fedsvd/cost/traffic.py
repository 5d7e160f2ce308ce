"""What a plan will make the parties send, before anything is sent: bytes and messages on every link.

The messages follow from the steps of the plan (``protocol/step_messages.py``), and ``messages.size`` counts them as the
metered transport does, so the count is exact. What the data decides is an argument (``Expected``): the rank, how often
a model iterates, whether the trace shows the order. A session that starts again after an overflow is not foreseen.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fedsvd.protocol.certificate import Link
from fedsvd.protocol.directions import (
    ANSWERS,
    CERTIFICATES,
    FULL,
    ILL,
    STEPS,
    USUAL_PASSES,
    restarts_after,
    rounds_of_basis,
)
from fedsvd.protocol.messages import Message, size
from fedsvd.protocol.model import (
    BEGINS,
    CONSTANT,
    CURVED,
    ENDS,
    ESTIMATED,
    ROBUST,
    STARTS,
    UNPENALISED,
    ModelPlan,
    more_digits,
)
from fedsvd.protocol.parties import Party
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.propensity import stage_of
from fedsvd.protocol.step_messages import Sent, Session, messages_of_steps
from fedsvd.protocol.steps import SIGNS, SUMS, PlannedStep, StepKind, in_round
from fedsvd.protocol.sums import FELL, LOST, NULL_SPACE, ORDER, STEPPED, null_space_numbers, summed
from fedsvd.protocol.tasks import Scheme
from fedsvd.secagg.sums import PlannedSum

USUAL_STEPS = 12
"""Steps of the family ``steps`` where nothing else is said: two to seventy were seen."""

_HEADERS = 1 << 20  # bytes: more than names, shapes and lengths of any message take


@dataclass(frozen=True)
class Expected:
    """What the data decides, and how its owner stores results.

    A plan cannot know how ill-conditioned data is: half of that work is counted where nothing else is said.
    """

    rank: int
    ill: float = 0.5  # how much of the additional work of ill-conditioned data is counted
    in_memory: bool = True  # whether users hold their own part whole, rather than panel by panel
    iterations: int = 6  # of each model, where the data decides how many; scores of a regression table
    passes: tuple[int, ...] = (USUAL_PASSES,) * USUAL_STEPS  # of each block of the family `steps`
    answers: int = 1  # blocks of an answer of the same family, where a share of the variance is asked for
    stored: tuple[float, ...] = ()  # of each user's entries, the share that is stored; 1 where its table is dense
    searched: bool = True  # whether the space outside of U is: not where the trace shows that little is there


def full_rank(plan: SessionPlan) -> int:
    """The most the rank can be: the shorter side, less one where centring takes the mean out of the longer one."""
    features, samples = (plan.N, plan.m) if plan.stacks_labels else (plan.m, plan.n)
    return features if plan.alpha > 0 else min(features, samples - int(plan.centre))


def released_columns(plan: SessionPlan, expected: Expected) -> int:
    """The columns of U that are released."""
    return min(expected.rank, plan.planned_rank)


def traffic(plan: SessionPlan, expected: Expected) -> tuple[Counter[Link], Counter[Link], dict[Link, int]]:
    """Content bytes and messages by link (from, to), and the bytes of the longest message of each."""
    sent, messages, longest = Counter[Link](), Counter[Link](), dict[Link, int]()
    for origin, to, _, times, one in _measured(messages_of(plan, expected)):
        sent[origin, to] += times * one
        messages[origin, to] += times
        longest[origin, to] = max(longest.get((origin, to), 0), one)
    return sent, messages, longest


def longest_message(plan: SessionPlan) -> int:
    """More bytes than any message of this session has; one that claims more is not read."""
    rounds = 2 + rounds_of_basis(plan)[0] if plan.scheme is Scheme.STEPS else 0  # a restart is sent after these
    passes = (USUAL_PASSES,) * max(USUAL_STEPS, rounds)
    expected = [Expected(rank, passes=passes) for rank in {1, full_rank(plan)}]
    longest = max(one for each in expected for *_, one in _measured(messages_of(plan, each, longest=True)))
    return 2 * longest + _HEADERS


def _measured(messages: Iterator[Sent]) -> Iterator[tuple[Party, Party, Message, int, int]]:
    """Messages with their bytes; what goes to several parties in a row is one object, and counted once."""
    before: Message | None = None
    one = 0
    for origin, to, message, times in messages:
        if message is not before:
            before, one = message, size(message)
        yield origin, to, message, times, one


def messages_of(plan: SessionPlan, expected: Expected, longest: bool = False) -> Iterator[Sent]:
    """Every message of a session without faults; the order between links is free.

    With ``longest``, of the batches of a sum the longest alone: a sum may have thousands.
    """
    yield from messages_of_steps(Session(plan, expected.rank, longest), expected_steps(plan, expected))


# --- what is played ---------------------------------------------------------------------------------------------------


def sums_of(plan: SessionPlan, expected: Expected) -> tuple[PlannedSum, ...]:
    """Every sum that is expected, in order."""
    return tuple(summed(step) for step in expected_steps(plan, expected) if step.kind in SUMS)


def expected_steps(plan: SessionPlan, expected: Expected) -> Iterator[PlannedStep]:
    """The steps as they are expected to be played, in order: rounds and lengths as the data would decide."""
    left_out = {*(() if expected.searched else (ORDER,)), *(() if expected.rank < plan.N else (LOST,))}
    left_out |= _not_needed(expected.passes[0])
    if plan.few_digits and plan.glm is None:
        left_out.add(more_digits(2))  # of a table of columns that do not nearly depend on each other
    yield from _played(plan, expected, plan.steps, left_out)


def _played(
    plan: SessionPlan, expected: Expected, steps: tuple[PlannedStep, ...], left_out: set[str], round: str = ""
) -> Iterator[PlannedStep]:
    for step in steps:
        if step.kind is StepKind.REPEAT:
            for number, without in enumerate(_rounds(plan, expected, step), start=1):
                yield from _played(plan, expected, step.body, (left_out - set(ILL)) | without, f" {number}")
        elif step.kind is StepKind.MAYBE:
            if step.name not in left_out:
                yield from _played(plan, expected, step.body, left_out, round)
        else:
            yield in_round(replace(step, size=_size(plan, expected, step)) if step.upto else step, round)


def _size(plan: SessionPlan, expected: Expected, step: PlannedStep) -> int:
    """What the rank makes of a size that the data decides."""
    if step.name == NULL_SPACE:
        return null_space_numbers(plan, expected.rank)
    if step.name == SIGNS:
        return -(-released_columns(plan, expected) // 8)
    return min(expected.rank, step.size)


def _rounds(plan: SessionPlan, expected: Expected, step: PlannedStep) -> Iterator[set[str]]:
    """What each expected round of a repetition leaves out; all are played in full where the data does not decide it."""
    if step.name == STEPS:
        for number, passes in enumerate(expected.passes[1 : 1 + step.times], start=1):
            full = restarts_after(plan, number) and number + 1 < len(expected.passes)
            yield _not_needed(passes) | (set() if full else {FULL})
        return
    if step.name in (ANSWERS, CERTIFICATES):
        yield from (set() for _ in range(expected.answers))
        return
    if plan.glm is None:
        yield from (set() for _ in range(expected.iterations if plan.few_digits else step.times))
        return
    stage = stage_of(plan, step.name)
    assert stage.glm is not None
    yield from evaluations_of(stage, stage.glm, expected)


def _not_needed(passes: int) -> set[str]:
    """Names of the further passes that a block leaves out when it takes this number of them."""
    return set(ILL[passes - USUAL_PASSES :])


def evaluations_of(plan: SessionPlan, about: ModelPlan, expected: Expected) -> Iterator[set[str]]:
    """What each evaluation of a generalised linear model leaves out: the Gram matrix, the next coefficients.

    Each model begins with one, has one per iteration and one more at the coefficients where it ends; then follow
    the null model and, where a dispersion is estimated, the likelihood; robust errors come last. Steps that are halved,
    and the iterations of a null model with an offset, are not foreseen.
    """
    if about.few_digits:
        yield from _by_digits(plan, about, expected)
        return
    estimated = about.facts.dispersion and about.facts.likelihood_sum and plan.alpha == 0.0
    endings = int(about.facts.null_sums) + int(estimated)
    iterations = min(about.max_iterations, expected.iterations)
    each = [*(set() for _ in range(iterations + 1)), {STEPPED}, *({FELL} for _ in range(endings))]
    for _ in range(about.fits):
        yield from (left_out | {ROBUST} for left_out in each[:-1])
        yield each[-1]


def _by_digits(plan: SessionPlan, about: ModelPlan, expected: Expected) -> Iterator[set[str]]:
    """The same of a model by few digits: a score at the null model, and one after each iteration.

    Information in twelve bits comes with each but the last two; a table in twice as many with the last. A score that is
    asked for again in more digits is not foreseen.
    """
    between = {BEGINS, STARTS, ENDS}
    iterations = min(about.max_iterations, expected.iterations)
    ends = {CONSTANT} if not about.facts.null_sums else set() if about.facts.likelihood_sum else {ESTIMATED}
    ends |= {UNPENALISED} if plan.alpha > 0.0 else set()
    for _ in range(about.fits * about.null_fits):
        yield {ENDS, more_digits(1)}
        yield from (between | {more_digits(1)} for _ in range(iterations - 2))
        yield from (between | {CURVED} for _ in range(min(iterations - 1, 1)))
        yield {BEGINS, STARTS, CURVED, more_digits(2), *ends}
