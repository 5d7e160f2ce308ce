"""A member takes part in what its owner approved, whatever the CSP's book says."""

from types import SimpleNamespace

import pytest

from fedsvd.errors import DataChanged, StorageError
from fedsvd.runtime import member_node
from fedsvd.runtime.enlisting import OwnPart
from fedsvd.runtime.member import Member
from fedsvd.runtime.member_node import MemberNode

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
        return list(self.records)


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
    member._opened["8f3a"] = OwnPart(None, (), {"rows": 4})
    with pytest.raises(DataChanged):
        member.open_as_enlisted(RECORD)
    member._opened["8f3a"] = OwnPart(None, (), {"rows": 3})
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
