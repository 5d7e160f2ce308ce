"""The steps of SVD, LSA, PCA and PCR where the top of a long common side is found by sums alone (family ``steps``)."""

from dataclasses import replace

from fedsvd.protocol.directions import (
    ANSWERS,
    AT_FIRST,
    CERTIFICATES,
    CHECKPOINT,
    CHECKPOINT_BYTES,
    CROSS,
    FULL,
    HELD,
    ILL,
    ROOT,
    STEPS,
    USUAL_PASSES,
    answer_width,
    blocks_of_answer,
    by_share,
    first_width,
    kept_by_restart,
    later_width,
    left_over,
    most_steps,
    rounds_of_basis,
    spare,
    widest_basis,
    word_step,
)
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import PlannedStep, What, flags, from_user_1, maybe, repeat, short, total, wide


def found_by_steps(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    """Units, steps as far as they are needed, user 1's answer, and the sums that certify it.

    A session that goes on where an earlier one of the job ended plays steps from there on.
    """
    first, later = first_width(plan), later_width(plan)
    found = [total("length", 1, What.NORM), total("trace", 1, What.NORM), from_user_1(CHECKPOINT, CHECKPOINT_BYTES)]
    found += [flags(HELD, 2, What.CHECK), maybe(AT_FIRST, *_block(plan, first, first, " 0"))]
    if most_steps(plan) > 0:
        body = _block(plan, later, first + later, grows=later)
        steps = repeat(STEPS, most_steps(plan), *body, *_restart(plan))
        found.append(replace(steps, resumes=True))
    return (*found, *_answer(plan))


def _answer(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    """User 1's answer, and the sums that certify it: in blocks where the data decides how many components there are."""
    m, r = plan.m, answer_width(plan)
    answer = from_user_1("answer", 8 * (1 + r * (1 + m + widest_basis(plan))), what=What.VECTORS)
    sums = short("images", m * r, What.CHECK, word_step(plan)), wide("remainders", r, What.CHECK)
    if not by_share(plan):
        return answer, *sums
    most = blocks_of_answer(plan, plan.planned_rank)
    return repeat(ANSWERS, most, answer), repeat(CERTIFICATES, most, *sums)


def _restart(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    """Where the basis does not hold all directions: the leading vectors that it goes on from, and what they lack."""
    full, _ = rounds_of_basis(plan)
    if not full:
        return ()
    rows = widest_basis(plan)
    numbers = 2 * rows * kept_by_restart(plan) + (rows + spare(plan) + later_width(plan)) * left_over(plan)
    return (maybe(FULL, from_user_1("restart", 8 * (2 + numbers))),)


def _block(plan: SessionPlan, width: int, reach: int, round: str = "", grows: int = 0) -> tuple[PlannedStep, ...]:
    """One step: a block is made orthonormal, multiplied, and user 1 says what follows.

    ``reach`` counts the columns that a block has products with, itself included, and at most as many directions are in
    the reservoir after it; in a repetition it ``grows`` by a block each round, until the basis is full.
    """
    later, (full, back) = later_width(plan), rounds_of_basis(plan) if grows else (0, 0)

    def orthogonalised(number: int) -> tuple[PlannedStep, PlannedStep]:
        cross = replace(
            total(CROSS[number] + round, reach * width, What.CHECK), grows=grows * width, full=full, back=back
        )
        return cross, from_user_1(ROOT[number] + round, 8 * (2 + width * width))

    more: tuple[PlannedStep, ...] = ()
    for number in reversed(range(USUAL_PASSES, len(CROSS))):
        more = (maybe(ILL[number - USUAL_PASSES], *orthogonalised(number), *more),)
    said = from_user_1(f"verdict{round}", 8 * (3 + plan.m * width + (reach + spare(plan)) * later))
    return (
        wide(f"energies{round}", width, What.CHECK),
        *(step for number in range(USUAL_PASSES) for step in orthogonalised(number)),
        *more,
        short(f"step{round}", plan.m * width, What.PRODUCTS, word_step(plan)),
        replace(said, grows=8 * grows * later, full=full, back=back),
    )
