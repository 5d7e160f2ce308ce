"""Who can compute what from a foreign task: its declared sentences, with the numbers and bits that the plan counts.

Nothing foreign is imported: the sentences are the declaration's, which the plan holds. What only the source of the task
can say is said to be so.
"""

from collections.abc import Iterator

from fedsvd.protocol.foreign import opened_bits, opened_numbers
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import PlannedStep, listed
from fedsvd.protocol.tasks import Trust

ENFORCED = (
    "An honest party's software sends nothing its plan does not declare, and an honest CSP passes on nothing "
    "undeclared; what the code of an installed task computes from its owner's table, within the declared numbers, is "
    "for the owner to read."
)


def not_named(name: str) -> str:
    """What an owner is shown where its policy does not name a foreign task."""
    return (
        f"the task {name} is not fedsvd's own, and not among those allowed: read its source, which `fedsvd tasks show "
        f'{name}` lists, then write [foreign] "{name}" = "sha256:..." into policy.toml'
    )


def to_allow(name: str) -> str:
    """What lets a foreign task run on one machine: the line of a policy, for no consent to outputs covers code."""
    return (
        f'--policy FILE, whose table [foreign] has the line "{name}" = "sha256:..." with the hash that `fedsvd tasks '
        f"show {name}` prints, once you have read its source; --consent is for data, and allows no code"
    )


def foreign_together(plan: SessionPlan) -> Iterator[str]:
    """What each role learns from a foreign task, step by step."""
    about = plan.foreign
    assert about is not None
    repeated = any(step.body for step in plan.steps)
    rounds = ", how often a repetition was played" if repeated else ""
    yield (
        f"The CSP learns the shapes ({plan.k} parties, {plan.joint_table}), the declaration of {about.name} and its "
        f"options{rounds}, and whether the session was stopped; nothing of the data."
    )
    says = dict(about.says)
    for step, times in declared_sums(plan):
        yield f"Every party learns {says[step.name]}: {amount(step, times)}."
    numbers, bits = opened(plan)
    yield f"In all, every party learns at most {numbers:,} joint numbers of {about.name}, {bits:,} bits."
    if plan.k == 2:
        yield "With two parties, each can compute the other's own of these numbers."
    else:
        yield f"{plan.k - 1} parties that pool what they hold can compute the last one's own of these numbers."
    yield "Two runs whose inputs differ by one record can give that record to every party."
    yield ENFORCED
    if plan.trust is Trust.AUTHORITY:
        yield "The trusted authority sees shapes and keys; it adds nothing to this session."
    yield (
        "The CSP and a party that pool what they see learn what that party learns; lying together, they can alter "
        "totals."
    )


def released(plan: SessionPlan) -> list[str]:
    """What a plan releases to every party, by name: items, or the outputs that a foreign task declares."""
    if plan.foreign is None:
        return [str(item) for item in plan.release]
    return [output.name for output in plan.foreign.outputs]


def declared_sums(plan: SessionPlan) -> Iterator[tuple[PlannedStep, int]]:
    """Every sum of a foreign task, and how often it is played at most."""
    for step in plan.steps:
        for inner in step.body or (step,):
            yield inner, step.times


def amount(step: PlannedStep, times: int) -> str:
    """How much a step opens, in words."""
    numbers, bits = opened_numbers(step), opened_bits(step)
    each = f"1 number of {bits} bits" if numbers == 1 else f"{numbers:,} numbers of {bits} bits"
    return each if times == 1 else f"{each}, up to {times} times"


def opened(plan: SessionPlan) -> tuple[int, int]:
    """Numbers, and bits, that a foreign task opens to every party at most."""
    steps = [*listed(plan.steps)]
    return sum(map(opened_numbers, steps)), sum(opened_numbers(step) * opened_bits(step) for step in steps)
