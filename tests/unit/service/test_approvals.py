"""An approval is for one study: spent when the job finishes here, or after as many failed attempts as are allowed."""

import pytest

from fedsvd.errors import ApprovalSpent, SourceChanged
from fedsvd.service.approvals import Approvals
from fedsvd.service.records import JobRecord

RECORD = JobRecord(id="8f3a91c2", name="study", file={"job": {}}, submitter="researcher/r", members=["party/a"])


def attempt(number, certain=False):
    return RECORD.changed(attempt=number, certain_bound=certain)


@pytest.fixture
def approvals(tmp_path):
    found = Approvals(tmp_path / "approvals")
    found.give(RECORD, source="digest")
    return found


def test_a_finished_job_shown_again_is_refused(approvals):
    """F6: version 0.1.0 ran a finished job seven times again, unasked."""
    approvals.begin(RECORD)
    approvals.spend(RECORD)
    for again in (RECORD, attempt(2), attempt(99)):
        with pytest.raises(ApprovalSpent, match="has already run here"):
            approvals.of(again).expect_unspent(3)
    approvals.give(RECORD)
    approvals.of(attempt(2)).expect_unspent(3)


def test_three_failed_attempts_are_covered_and_no_fourth(approvals):
    for number in (1, 2, 3):
        approvals.of(attempt(number)).expect_unspent(3)
        approvals.begin(attempt(number))
        approvals.fail(attempt(number), "summing")
    with pytest.raises(ApprovalSpent, match="3 attempts"):
        approvals.of(attempt(4)).expect_unspent(3)


def test_attempts_are_counted_across_processes_and_when_nothing_was_said_of_their_end(approvals, tmp_path):
    for number in (1, 2, 3):
        Approvals(tmp_path / "approvals").begin(attempt(number))  # killed
    with pytest.raises(ApprovalSpent):
        Approvals(tmp_path / "approvals").of(attempt(4)).expect_unspent(3)


@pytest.mark.parametrize("stage", ["keys", "seeding", "checking"])
def test_an_attempt_that_failed_before_any_sum_does_not_count(approvals, stage):
    for number in range(1, 9):
        approvals.begin(attempt(number))
        approvals.fail(attempt(number), stage)
    assert approvals.of(RECORD).failed == 0
    assert len(approvals.of(RECORD).attempts) == 8  # each is on record


def test_the_attempt_that_the_certain_bound_repeats_does_not_count_but_once(approvals):
    approvals.begin(attempt(1))
    for number in (2, 3, 4):
        approvals.of(attempt(number)).expect_unspent(3)
        approvals.begin(attempt(number, certain=True))
    with pytest.raises(ApprovalSpent):
        approvals.of(attempt(5)).expect_unspent(3)


def test_data_that_changed_since_the_approval_is_not_brought(approvals):
    approvals.bring(approvals.of(RECORD), "digest")
    with pytest.raises(SourceChanged, match="changed since this job was approved") as caught:
        approvals.bring(approvals.of(RECORD), "other")
    assert caught.value.code == "FSVD-211"


def test_without_a_person_the_first_data_brought_is_what_is_approved(approvals):
    approvals.give(RECORD)
    approvals.bring(approvals.of(RECORD), "first")
    with pytest.raises(SourceChanged):
        approvals.bring(approvals.of(RECORD), "second")


def test_a_job_that_was_changed_is_another_job(approvals):
    other = RECORD.changed(file={"job": {"components": 9}})
    assert approvals.of(other) is None
    assert approvals.changed(other)
