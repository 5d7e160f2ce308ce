"""What a role's own process takes beyond what it takes for next to nothing is its budget, the transport included."""

import pytest

from fedsvd.protocol.tasks import Task
from fedsvd_lab.scale import Case, measured

BUDGET = 96 << 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "short", "long"), [(Task.SVD, 300, 200_000), (Task.LR, 60, 400_000)], ids=["svd, all verified", "lr"]
)
def test_no_role_takes_more_than_its_budget_beyond_the_interpreter(task, short, long):
    nothing = measured(Case(task, 4, 400, memory=BUDGET), 0.0).peak_memory
    taken = measured(Case(task, short, long, alpha=0.01, memory=BUDGET), 0.0).peak_memory
    assert set(taken) == {"csp", "user-1", "user-2"}
    assert 8 * short * long > 4 * BUDGET or task is Task.LR, "the data would not fit"
    for role, peak in taken.items():
        assert peak - nothing[role] <= BUDGET, role
