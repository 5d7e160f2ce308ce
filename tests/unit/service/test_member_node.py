"""A member takes part in what its owner approved, whatever the CSP's record says."""

import json
from itertools import pairwise
from time import monotonic
from types import SimpleNamespace

import pytest

from fedsvd.errors import ApprovalSpent, DataChanged, MalformedFrame, NotAuthenticated, PeerLost, StorageError, TimedOut
from fedsvd.service import member_node
from fedsvd.service.client import Refused
from fedsvd.service.enlist import OpenedData
from fedsvd.service.handover import Handover
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

    def report(self, id, progress):
        self.asked.append(progress.stage)

    def forget(self, id):
        self.asked.append("forget")

    def close(self):
        return None


@pytest.fixture
def played(monkeypatch):
    seen = []
    monkeypatch.setattr(member_node, "take_part", lambda member, record, stopping: seen.append(record.id))
    return seen


def owner(approves=True, **more):
    return SimpleNamespace(approved=lambda record: approves, expect_unspent=lambda record: None, **more)


def member(tmp_path, owner, kind=Member):
    return kind("party/a", SimpleNamespace(patience=60.0), None, EnlistedFacts(), owner, tmp_path)


class Away:
    """A connection over which nothing gets through."""

    def call(self, method, body):
        raise PeerLost("away")

    def close(self):
        pass


def node(tmp_path, approves, kind=MemberNode):
    return kind(member(tmp_path, owner(approves)))


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

    ours = member(tmp_path, owner(expect_submitted=lambda record: None))
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
    strange = RECORD.changed(id="0bad", enlisted=3, members=(*RECORD.members,))
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
    monkeypatch.setattr(member_node, "PinnedConnection", lambda dialling: Away())
    monkeypatch.setattr(member_node, "LOOK_AFTER_TROUBLE", 0.01)
    monkeypatch.setattr(member_node, "CspClient", lambda connection, instance: Client())
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
    monkeypatch.setattr(member_node, "PinnedConnection", lambda dialling: Away())
    monkeypatch.setattr(member_node, "CspClient", lambda connection, instance: Hasty())
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


# --- what has ended here ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.BROKEN])
def test_what_has_ended_here_is_reported_again_also_by_another_process(tmp_path, played, state):
    member(tmp_path, owner()).ends.add(RECORD)  # and then it was killed, before the CSP had heard of it
    service = node(tmp_path, True)
    client = Client(RECORD.changed(state=state))
    service.look(client)
    assert client.asked.count("ended") == 1
    assert played == []
    client.records = (RECORD.changed(state=state, finished=("party/a",)),)
    service = MemberNode(member(tmp_path, owner(has_results=lambda record: False)))
    service.look(client)
    assert client.asked.count("ended") == 1


def test_a_job_that_is_done_is_asked_for_no_more_and_its_results_lose_their_mark(tmp_path, played):
    unmarked = []
    finishes = owner(mark_finished=lambda record: unmarked.append(record.id) or True)
    ours = member(tmp_path, finishes)
    ours.ends.add(RECORD)
    client = Client(RECORD.changed(state=JobState.DONE, finished=("party/a", "party/b")))
    client.jobs = lambda under_way: []  # a process that was started again is not listed what is over
    MemberNode(ours).look(client)
    assert unmarked == ["8f3a"]
    later = member(tmp_path, finishes)
    assert later.ends.jobs == set()
    MemberNode(later).look(client)
    assert unmarked == ["8f3a"]


def test_a_party_that_must_be_asked_again_is_waited_for_and_breaks_nothing(tmp_path, played):
    def spent(record):
        raise ApprovalSpent("job 8f3a has already run here")

    asked_again = SimpleNamespace(approved=lambda record: True, expect_unspent=spent)
    service = MemberNode(member(tmp_path, asked_again))
    client = Client(RECORD.changed(state=JobState.RECRUITING, enlisted={}, attempt=2))
    for _ in range(3):
        service.look(client)
    assert client.asked.count("awaiting approval") == 1
    assert "ended" not in client.asked


def test_nothing_of_a_stopped_job_stays_but_its_results(tmp_path, played):
    checkpoint = tmp_path / "checkpoints" / "8f3a.factor"
    checkpoint.parent.mkdir()
    half = checkpoint.with_name("8f3a.factor.new")
    for path in (checkpoint, half):
        path.write_bytes(b"as confidential as data")
    forgotten = []
    stops = owner(
        checkpoint=lambda record: checkpoint,
        forget=lambda record: forgotten.append(record.id),
        has_results=lambda record: False,
    )
    ours = member(tmp_path, stops)
    client = Client(RECORD.changed(state=JobState.STOPPED))
    MemberNode(ours).look(client)
    assert not checkpoint.exists()
    assert not half.exists()
    assert forgotten == ["8f3a"]
    assert "forget" in client.asked


class Tables(Member):
    """A member that opens tables, and whose tables can be counted."""

    def __init__(self, *how):
        super().__init__(*how)
        self.released = []

    def release(self, wanted):
        self.released.append(set(wanted))
        super().release(wanted)


def test_tables_of_jobs_that_wait_are_closed_but_for_one(tmp_path, played):
    waiting = [
        RECORD.changed(id=f"aa{place:02d}", state=state)
        for place, state in enumerate([JobState.RECRUITING, JobState.QUEUED, JobState.BROKEN, JobState.QUEUED])
    ]
    ours = member(tmp_path, owner(has_results=lambda record: False), Tables)
    MemberNode(ours).look(Client(*waiting, RECORD))
    assert ours.released == [{"aa00", "8f3a"}]


class Handing(Client):
    """A client whose CSP is away when it is first sent something for the researcher, or refuses it."""

    def __init__(self, record, fault):
        super().__init__(record)
        self.faults = [fault]

    def hand_over(self, job, number, sealed):
        self.asked.append((number, sealed))
        if self.faults:
            raise self.faults.pop()


def ended(tmp_path):
    """A member whose study has ended, and whose process was killed before it reported that."""
    file = {"job": {"name": "study", "task": "svd"}, "party": [{"name": "a"}, {"name": "b"}]}
    sealed = Handover("agreed", "00", (b"notice", b"files"))
    ours = member(tmp_path, owner(handover=lambda record: sealed))
    record = RECORD.changed(file=file)
    ours.ends.add(record)
    return ours, record


def test_what_the_researcher_gets_is_sent_again_with_the_end_and_before_it(tmp_path):
    ours, record = ended(tmp_path)
    client = Handing(record, PeerLost("away"))
    service = MemberNode(ours)
    with pytest.raises(PeerLost):
        service.look(client)
    assert client.asked == ["jobs", "job", (0, b"notice")]  # its end is not reported before
    service.look(client)
    assert client.asked[3:] == ["jobs", "job", (0, b"notice"), (1, b"files"), "ended"]
    lines = (tmp_path / "audit.jsonl").read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["sealed for the researcher"] * 2  # one before each sending


@pytest.mark.parametrize("fault", [Refused("FSVD-350", "full", ""), NotAuthenticated("not the pinned key")])
def test_a_study_ends_also_where_nothing_can_be_sent_to_the_researcher(tmp_path, fault):
    ours, record = ended(tmp_path)
    client = Handing(record, fault)
    MemberNode(ours).look(client)
    assert client.asked[-1] == "ended"


def test_nothing_is_sent_before_its_line_in_the_audit_log(tmp_path):
    ours, record = ended(tmp_path)

    class Full(Member):
        def note(self, event, **facts):
            raise StorageError("full")

    full = member(tmp_path / "full", ours.owner, Full)
    client = Handing(record, PeerLost("away"))
    full.report_end(client, record)
    assert client.asked == ["ended"]
