"""The benchmark of ``auto`` compares both families on one table, and says how far the one that is taken is off."""

from math import inf

import pytest
from benchmarks import choice

from fedsvd.protocol.tasks import Scheme


def test_a_shape_is_played_by_both_families_and_auto_takes_sums_of_few_features():
    row = choice.compared(300, 64, 2, "factors")
    assert row.taken == Scheme.SUM
    assert row.steps is not None
    assert min(row.steps, row.sums) > 0


@pytest.mark.parametrize(
    ("steps", "sums", "taken", "off"),
    [(1.0, 3.0, "steps", 1.0), (1.0, 3.0, "sum", 3.0), (None, 2.0, "sum", 1.0), (None, 2.0, "steps", inf)],
)
def test_what_is_taken_is_compared_with_the_faster_one(steps, sums, taken, off):
    row = choice.Row(9, 9, 1, "noise", steps, sums, taken)
    assert row.off == off
    assert f"{taken}, {off:.2f} of the faster" in choice.in_a_line(row)
