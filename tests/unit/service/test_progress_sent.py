"""Who watches a member is told every stage, and how much of it is done where that can be counted."""

import pytest

from fedsvd.service import progress as reporting
from fedsvd.service.progress import ProgressReporter


class Written:
    """Where a member's words go: what was told, in order."""

    def __init__(self) -> None:
        self.told: list[dict] = []

    def report(self, id, progress):
        assert id == "job"
        self.told.append(progress.model_dump(exclude={"sent"}))


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(reporting, "monotonic", lambda: now[0])
    return now


def test_a_stage_of_one_part_is_told_when_it_begins_and_never_as_nought_per_cent(clock):
    client = Written()
    reporter = ProgressReporter(client, "job")
    reporter.stage("uploading")
    reporter.progress("masking", 0, 1)
    reporter.progress("masking", 1, 1)
    reporter.progress("uploading", 1, 1)
    assert client.told == [{"stage": "uploading"}, {"stage": "masking"}, {"stage": "uploading"}]


def test_what_can_be_counted_is_told_twice_a_second_at_most_and_at_its_end(clock):
    client = Written()
    reporter = ProgressReporter(client, "job")
    for done in range(1, 101):
        clock[0] += 0.1
        reporter.progress("uploading", done, 100)
    shares = [told["done"] for told in client.told]
    assert (shares[0], shares[-1]) == (1, 100)
    assert len(shares) <= 22
    assert all(told["total"] == 100 for told in client.told)
