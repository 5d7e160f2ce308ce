"""Panels of an upload: as large as a cache can use, however much memory there is, and less where memory is less."""

import pytest

from fedsvd.linalg.windows import PANEL_HEIGHT, PANEL_WORDS
from fedsvd.protocol.tasks import Split, Task
from fedsvd.studies.planning import plan_study
from fedsvd.studies.study import Study
from fedsvd.types import SessionId


def plan(m, counts, memory, task=Task.SVD, **asked):
    study = Study(task, Split.VERTICAL, memory=memory, scheme="mask", **asked)
    return plan_study(study, m, counts, SessionId("s")).plan


def heights(made):
    return [rows.stop - rows.start for rows in made.row_panels]


@pytest.mark.parametrize("memory", [1 << 30, 1 << 34])
def test_more_memory_than_a_cache_makes_no_larger_panels(memory):
    made = plan(200_000, (100, 100), memory, Task.LR, targets=1, label_user=2)
    assert sum(heights(made)) == 200_000
    assert max(heights(made)) * 201 <= PANEL_WORDS
    assert len(made.row_panels) == -(-200_000 * 201 // PANEL_WORDS)


def test_wide_ones_are_high_enough_for_a_factor_to_be_updated_by_products():
    made = plan(50_000, (500, 500, 500), 1 << 34, components=10)
    assert min(heights(made)) > PANEL_HEIGHT * 1500 * 0.9
    assert max(heights(made)) <= PANEL_HEIGHT * 1500


def test_less_memory_makes_smaller_ones_of_whole_blocks():
    made = plan(50_000, (40, 60), 4 << 20)
    assert max(heights(made)) * 100 * 8 <= made.memory // 10 + 129 * 100 * 8
    assert all(height >= 128 for height in heights(made))
