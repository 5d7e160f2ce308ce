"""A member takes part in what its owner approved, whatever the CSP's record says."""

from itertools import pairwise
from time import monotonic
from types import SimpleNamespace

import pytest

from fedsvd.errors import DataChanged, MalformedFrame, StorageError, TimedOut
from fedsvd.service import member_node
from fedsvd.service.client import Refused
from fedsvd.service.enlist import OpenedData
from fedsvd.service.member import Member
from fedsvd.service.member_node import MemberNode
from fedsvd.service.records import EnlistedFacts, JobState, WatchedJob

GENEROUS = 60.0  # seconds
RECORD = WatchedJob(
    id="8f3a",
    name="study",
    state="running",
    members=["party/a", "party/b"],
    submitter="researcher/r",
    enlisted={"party/a": {"rows": 3}, "party/b": {}},
    file={},
)


class Client:
    """A client of a CSP that answers with these records."""

    def __init__(self, *records):
        self.records, self.asked = records, []

    def job(self, id):
        self.asked.append("job")
        return next(record for record in self.records if record.id == id)

    def ended(self, job, failure=None):
        self.asked.append("ended")
        return job

    def jobs(self, under_way=False):
        self.asked.append("jobs")
        return list(self.records)

    def changed(self, under_way, seconds=0.0):
        return True

    def close(self):
        return None


@pytest.fixture
def played(monkeypatch):
    seen = []
    monkeypatch.setattr(member_node, "take_part", lambda member, record, stopping: seen.append(record.id))
    return seen


def member(tmp_path, owner, kind=Member):
    return kind("party/a", SimpleNamespace(patience=60.0), None, EnlistedFacts(), owner, tmp_path)


def node(tmp_path, approves, kind=MemberNode):
    return kind(member(tmp_path, SimpleNamespace(approved=lambda record: approves)))


@pytest.mark.parametrize("approves", [True, False])
def test_a_session_is_joined_only_if_the_owner_approved_the_job(tmp_path, played, approves):
    """The CSP can write into its record that we enlisted; it cannot write our owner's approval."""
    service = node(tmp_path, approves)
    service.look(Client(RECORD))
    service.await_sessions(GENEROUS)
    assert played == (["8f3a"] if approves else [])


def test_nothing_is_done_while_others_have_not_enlisted(tmp_path, played):
    client = Client(RECORD.changed(state=JobState.RECRUITING))
    node(tmp_path, True).look(client)
    assert (played, client.asked) == ([], ["jobs"])


def test_data_of_another_shape_than_was_enlisted_with_is_not_brought(tmp_path):
    file = {"job": {"name": "study", "task": "svd"}, "party": [{"name": "a"}, {"name": "b"}]}
    record, rows = RECORD.changed(file=file), 4

    class Bringing(Member):
        def open(self, record):
            return OpenedData(None, (), EnlistedFacts(rows=rows))

    bringing = member(tmp_path, None, Bringing)
    with pytest.raises(DataChanged):
        bringing.open_as_enlisted(record)
    rows = 3
    assert bringing.open_as_enlisted(record).facts.rows == 3


def test_a_failure_is_told_on_a_full_disk_and_again_while_the_csp_shows_the_attempt(tmp_path, played, monkeypatch):
    def full(*_):
        raise StorageError("cannot write", "free disk space")

    ours = member(tmp_path, SimpleNamespace(approved=lambda record: True))
    monkeypatch.setattr(ours, "enlist", full)
    monkeypatch.setattr(ours, "note", lambda *_, **facts: full())
    service = MemberNode(ours)
    client = Client(RECORD.changed(state=JobState.RECRUITING, enlisted={}))
    for told in (1, 2):
        service.look(client)
        assert client.asked.count("ended") == told
    client.records = (RECORD.changed(attempt=2),)
    service.look(client)
    assert client.asked.count("ended") == 2


def test_a_job_that_makes_no_sense_does_not_keep_a_member_from_the_others(tmp_path, played, caplog):
    strange = RECORD.changed(id="0bad", enlisted=3)
    service = node(tmp_path, True)
    for _ in range(3):
        service.look(Client(strange, RECORD))
    service.await_sessions(GENEROUS)
    assert played == ["8f3a"]
    assert [entry.getMessage() for entry in caplog.records] == [
        "role=party/a job=0bad is left alone: unexpected TypeError"
    ]


def test_an_answer_that_is_none_does_not_end_the_service(tmp_path, monkeypatch):
    """An answer beyond the size of a call is MalformedFrame, and a question that the CSP refuses has its own code."""
    troubles = [MalformedFrame("too large"), Refused("FSVD-100", "refused", ""), TimedOut("away")]
    looks = []

    class Troubled(MemberNode):
        def look(self, client):
            looks.append(True)
            if troubles:
                raise troubles.pop()

    monkeypatch.setattr(member_node, "replace", lambda dialling, **changes: None)
    monkeypatch.setattr(member_node, "PinnedConnection", lambda dialling: None)
    monkeypatch.setattr(member_node, "LOOK_AFTER_TROUBLE", 0.01)
    monkeypatch.setattr(member_node, "CspClient", lambda connection: Client())
    node(tmp_path, True, Troubled).run(until=lambda: len(looks) == 5)
    assert len(looks) == 5


@pytest.mark.parametrize(("changed", "pause"), [(False, "LOOK"), (True, "SOON")])
def test_a_csp_that_answers_at_once_is_not_asked_all_the_time(tmp_path, monkeypatch, changed, pause):
    looks = []

    class Hasty(Client):
        def changed(self, under_way, seconds=0.0):
            return changed

        def jobs(self, under_way=False):
            looks.append(monotonic())
            return []

    monkeypatch.setattr(member_node, "replace", lambda dialling, **changes: None)
    monkeypatch.setattr(member_node, "PinnedConnection", lambda dialling: None)
    monkeypatch.setattr(member_node, "CspClient", lambda connection: Hasty())
    node(tmp_path, True).run(until=lambda: len(looks) == 3)
    assert all(later - look >= getattr(member_node, pause) for look, later in pairwise(looks))


def test_results_of_a_job_that_broke_afterwards_are_marked_once(tmp_path, played):
    marked = []
    owner = SimpleNamespace(
        approved=lambda record: True,
        has_results=lambda record: record.id == "8f3a",
        mark_unfinished=lambda record: not marked.append(record.id),
    )
    service = MemberNode(member(tmp_path, owner))
    broken = RECORD.changed(state=JobState.BROKEN)
    for _ in range(3):
        service.look(Client(broken, broken.changed(id="77", state=JobState.STOPPED)))
    assert (marked, played) == (["8f3a"], [])
