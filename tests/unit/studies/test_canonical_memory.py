"""A CCA whose tables do not fit the memory budget is refused before it begins, with the bytes that would do."""

import re
import tracemalloc

import numpy as np
import pytest

from fedsvd.errors import StorageError
from fedsvd.protocol.budget import DEFAULT_MEMORY
from fedsvd.protocol.tasks import Split, Task
from fedsvd.statistics.cca import basis
from fedsvd.studies.planning import held_whole, plan_study
from fedsvd.studies.study import Study
from fedsvd.types import SessionId

SESSION = SessionId("00" * 16)


def plan(m, counts, **asked):
    return plan_study(Study(Task.CCA, Split.VERTICAL, **asked), m, counts, SESSION).plan


def test_a_table_beyond_the_budget_is_refused_with_the_bytes_that_would_do():
    with pytest.raises(StorageError, match="holds a party's table in memory") as refusal:
        plan(100_000, (40, 10), memory=100 << 20)
    assert re.search(r"allow at least \d", refusal.value.fix)
    study = Study(Task.CCA, Split.VERTICAL)
    enough = held_whole(study, 100_000, (40, 10))
    assert plan(100_000, (40, 10), memory=enough).memory == enough


def test_without_a_budget_the_plan_has_as_much_as_the_tables_take():
    assert plan(1_000, (4, 3)).memory == DEFAULT_MEMORY
    held = held_whole(Study(Task.CCA, Split.VERTICAL), 4_000_000, (40, 10))
    assert plan(4_000_000, (40, 10)).memory == held > DEFAULT_MEMORY


def test_what_is_counted_is_what_a_party_holds_at_its_most():
    X = np.random.default_rng(0).normal(size=(20_000, 20))
    tracemalloc.start()
    found = basis(X)
    most = tracemalloc.get_traced_memory()[1] + X.nbytes
    tracemalloc.stop()
    assert found.rank == 20
    assert most <= held_whole(Study(Task.CCA, Split.VERTICAL), len(X), (20, 2))
