"""What leaves a party is said for every step of its plan, whichever task declares it."""

import re
from dataclasses import replace

import pytest
from tests.protocol.cases import CASES, predict

from fedsvd.policy.sent import leaves_each_site
from fedsvd.protocol.steps import StepKind, wide

PADDED = "under pads that only the total survives"
OPENED = f"its part of sums that the parties open, {PADDED}: "


def lines_of(plan):
    """Without keys and commitments, which leave in every session."""
    _, _, *lines = leaves_each_site(plan)
    return lines


def uncounted(lines):
    """Without how many numbers there are, which are those of all sums of one kind."""
    return re.sub(r" \([^()]*\)", "", lines)


def leaves(steps):
    for step in steps:
        yield from leaves(step.body) if step.body else (step,)


@pytest.mark.parametrize("name", CASES)
def test_every_step_that_sends_something_has_its_line(name):
    plan = replace(CASES[name](3).assemble().plan, check_ids=False)
    said = uncounted("\n".join(lines_of(plan)))
    for step in leaves(plan.steps):
        alone = lines_of(replace(plan, steps=(step,)))
        assert bool(alone) is (step.kind is not StepKind.FETCH), step
        for line in alone:
            words = uncounted(line).rpartition(": ")[2]
            assert len(words) > 3
            assert words in said, step


def test_what_a_table_with_clusters_sends_is_all_there():
    plan = CASES["lr horizontal with clusters"](3).assemble().plan
    assert lines_of(plan) == [
        f"{OPENED}its weights, and their logarithms (2 numbers), totals of columns (3 numbers), the power of two above "
        "its numbers, sums of squares of columns (3 numbers), the sum of squares of all entries (1 number)",
        f"its Gram matrix of 3 x 3, with noise in the last digits, as exact integers (96 B), {PADDED}; the parties "
        "open the total",
        "from party 1, the joint result, sealed to the parties",
        f"{OPENED}products of columns and of residuals in more digits (up to 6 numbers, 2 times), how many clusters it "
        "has (1 number), the power of two above its numbers, squared scores (6 numbers)",
    ]


def test_permuted_tables_are_among_what_leaves():
    """Twenty Gram matrices of 4 x 4, of ten numbers each; approvals did not have them."""
    lines = lines_of(CASES["pca by parallel analysis"](3).assemble().plan)
    assert lines[-1].endswith("Gram matrices of its columns, each permuted among its records (200 numbers)")


def test_of_a_prediction_nothing_leaves_a_site_but_scores():
    """No norm is summed and nothing is uploaded: approvals said both."""
    assert lines_of(predict().assemble().plan) == [
        f"its part of a sum that the parties open, {PADDED}: the power of two above its numbers",
        "the partial scores of its columns, under pads that only the label holder can take off the total",
    ]


def test_a_sum_of_which_nothing_is_written_has_its_own_name():
    plan = predict().assemble().plan
    more = replace(plan, steps=(*plan.steps, wide("totals of a new task", 7)))
    assert lines_of(more)[-1].endswith(f"{PADDED}: 'totals of a new task' (7 numbers)")
