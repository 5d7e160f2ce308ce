"""A member takes part in what its owner approved, whatever the CSP's book says."""

from types import SimpleNamespace

import pytest

from fedsvd.errors import DataChanged, MalformedFrame, StorageError, TimedOut
from fedsvd.service import member_node
from fedsvd.service.api import Refused
from fedsvd.service.enlist import OpenedData
from fedsvd.service.member import Member
from fedsvd.service.member_node import MemberNode

RECORD = {
    "id": "8f3a",
    "attempt": 1,
    "state": "running",
    "members": ["party/a", "party/b"],
    "enlisted": {"party/a": {"rows": 3}, "party/b": {}},
    "file": {},
}


class Book:
    """A CSP's desk that answers with these records."""

    def __init__(self, *records):
        self.records, self.asked = records, []

    def ask(self, verb, **values):
        self.asked.append(verb)
        return next((dict(record) for record in self.records if record["id"] == values.get("id")), {})

    def jobs(self, under_way=False):
        self.asked.append("jobs")
        return list(self.records)

    def close(self):
        return None


@pytest.fixture
def played(monkeypatch):
    seen = []
    monkeypatch.setattr(member_node, "take_part", lambda member, record, stopping: seen.append(record["id"]))
    return seen


def node(tmp_path, approves):
    owner = SimpleNamespace(approved=lambda record: approves)
    return MemberNode("party/a", None, None, {}, owner, tmp_path)


@pytest.mark.parametrize("approves", [True, False])
def test_a_session_is_joined_only_if_the_owner_approved_the_job(tmp_path, played, approves):
    """The CSP can write into its book that we enlisted; it cannot write our owner's approval."""
    member = node(tmp_path, approves)
    member._look(Book(RECORD))
    for thread in member._busy.values():
        thread.join()
    assert played == (["8f3a"] if approves else [])


def test_nothing_is_done_while_others_have_not_enlisted(tmp_path, played):
    desk = Book({**RECORD, "state": "recruiting"})
    node(tmp_path, True)._look(desk)
    assert (played, desk.asked) == ([], ["jobs"])


def test_data_of_another_shape_than_was_enlisted_with_is_not_brought(tmp_path):
    member = Member("party/a", None, None, {}, None, tmp_path)
    member._opened["8f3a"] = OpenedData(None, (), {"rows": 4})
    with pytest.raises(DataChanged):
        member.open_as_enlisted(RECORD)
    member._opened["8f3a"] = OpenedData(None, (), {"rows": 3})
    assert member.open_as_enlisted(RECORD).facts == {"rows": 3}


def test_a_failure_is_told_on_a_full_disk_and_again_while_the_csp_shows_the_attempt(tmp_path, played, monkeypatch):
    def full(*_):
        raise StorageError("cannot write", "free disk space")

    member = node(tmp_path, True)
    monkeypatch.setattr(member._member, "enlist", full)
    monkeypatch.setattr(member._member, "note", lambda *_, **facts: full())
    desk = Book({**RECORD, "state": "recruiting", "enlisted": {}})
    for told in (1, 2):
        member._look(desk)
        assert desk.asked.count("ended") == told
    desk.records = ({**RECORD, "attempt": 2},)
    member._look(desk)
    assert desk.asked.count("ended") == 2


def test_a_job_that_makes_no_sense_does_not_keep_a_member_from_the_others(tmp_path, played, caplog):
    strange = {**RECORD, "id": "0bad", "enlisted": 3}
    member = node(tmp_path, True)
    for _ in range(3):
        member._look(Book(strange, RECORD))
    for thread in member._busy.values():
        thread.join()
    assert played == ["8f3a"]
    assert [entry.getMessage() for entry in caplog.records] == [
        "role=party/a job=0bad is left alone: unexpected TypeError"
    ]


def test_an_answer_that_is_none_does_not_end_the_service(tmp_path, monkeypatch):
    """An answer beyond the size of a call is MalformedFrame, and a question that the CSP refuses has its own code."""
    troubles = [MalformedFrame("too large"), Refused("FSVD-100", "refused", ""), TimedOut("away")]
    looks = []

    def look(desk):
        looks.append(True)
        if troubles:
            raise troubles.pop()

    member = node(tmp_path, True)
    member._member.dialling = SimpleNamespace(patience=60.0)
    monkeypatch.setattr(member_node, "replace", lambda dialling, **changes: None)
    monkeypatch.setattr(member_node, "PinnedConnection", lambda dialling: None)
    monkeypatch.setattr(member_node, "_LOOK_AFTER_TROUBLE", 0.01)
    monkeypatch.setattr(member_node, "CspClient", lambda line: Book())
    monkeypatch.setattr(member, "_look", look)
    member.run(until=lambda: len(looks) == 5)
    assert len(looks) == 5


def test_results_of_a_job_that_broke_afterwards_are_marked_once(tmp_path, played):
    marked = []
    owner = SimpleNamespace(
        approved=lambda record: True,
        has_results=lambda record: record["id"] == "8f3a",
        mark_unfinished=lambda record: not marked.append(record["id"]),
    )
    member = MemberNode("party/a", None, None, {}, owner, tmp_path)
    broken = {**RECORD, "state": "broken", "name": "study", "failures": []}
    for _ in range(3):
        member._look(Book(broken, {**broken, "id": "77", "state": "stopped"}))
    assert (marked, played) == (["8f3a"], [])
