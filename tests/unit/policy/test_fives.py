"""What an owner reads of counts that are opened, rounded at home or exact, and is asked about them."""

from dataclasses import replace

import pytest

from fedsvd.policy.own_rows import Grid, OwnRows, row_findings
from fedsvd.policy.rules import Policy, findings, what_each_role_learns
from fedsvd.policy.sent import leaves_each_site
from fedsvd.protocol.openings import openings
from fedsvd.protocol.steps import What, fives
from fedsvd.protocol.tasks import Answer, Labels, Task
from fedsvd.studies.planning import plan_study
from fedsvd.studies.study import Study
from fedsvd.types import SessionId

COUNTED = {"fives": fives("grid", 12, 5), "exact": fives("grid", 12, 1)}


def plan_of(step):
    """A session of three parties that opens this and nothing else."""
    plan = plan_study(Study(Task.PCA), 4, (120, 150, 130), SessionId("00" * 16)).plan
    return replace(plan, steps=(step,), answer=Answer.SUMS, labels=Labels.NONE, release=())


def test_a_count_in_fives_opens_as_many_bits_as_there_are_multiples():
    plan = plan_of(COUNTED["fives"])
    (rounded,) = openings(plan, plan.steps)
    assert (rounded.what, rounded.numbers, rounded.bits) == (What.FIVES, 12, (plan.n // 5).bit_length())
    (exact,) = openings(plan, [COUNTED["exact"]])
    assert (exact.what, exact.numbers, exact.bits) == (What.CELLS, 12, plan.n.bit_length())


def test_an_owner_reads_that_counts_are_rounded_at_home_and_by_how_much_totals_are_off():
    plan = plan_of(COUNTED["fives"])
    said = " ".join(what_each_role_learns(plan))
    assert "multiples of 5 at home" in said
    assert f"off by at most {2 * plan.k} records" in said
    assert any("rounded at home (12 numbers)" in line for line in leaves_each_site(plan))


def test_an_owner_reads_that_counts_are_exact():
    plan = plan_of(COUNTED["exact"])
    said = " ".join(what_each_role_learns(plan))
    assert "exactly" in said
    assert "rounds" not in said


@pytest.mark.parametrize(("least", "below"), [(5, False), (6, True)])
def test_counts_rounded_to_less_than_an_owner_asks_for_are_below_its_policy(least, below):
    found = findings(plan_of(COUNTED["fives"]), Policy(least_count=least))
    assert ("least_count" in {finding.rule for finding in found}) is below


def test_exact_counts_ask_the_owner_whose_cells_hold_few():
    few = OwnRows(grids=(Grid("time bins", 7, 35),))
    (asked,) = row_findings(few, Policy())
    assert asked.asks
    assert "7 of 35 time bins hold 1 to 4 of your records" in asked.text
    assert row_findings(OwnRows(grids=(Grid("time bins", 0, 35),)), Policy()) == ()
