"""The CSP's book of jobs: every change is on disk before it is answered, and a CSP that was killed knows them all."""

import threading

import pytest
from tests.network import GENEROUS

from fedsvd.errors import ConfigError, NotAuthenticated, StorageError
from fedsvd.service.jobs import JobRecord, Jobs, JobState
from fedsvd.storage.journal import Journal

MEMBERS = ("party/a", "party/b", "authority/ta")
SUBMITTER = "researcher/res"
FAILURE = {"who": "party/b", "code": "FSVD-501", "stage": "", "text": ""}
FACTS = {"rows": 3, "columns": ["x", "y"], "signing": "ab"}


def job(id: str = "1122334455667788", **values) -> JobRecord:
    return JobRecord(id, "study", {"job": {"name": "study", "task": "svd"}}, SUBMITTER, MEMBERS, **values)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.jsonl"


@pytest.fixture
def book(path):
    return Jobs(Journal(path))


def reread(path) -> Jobs:
    """The book of a CSP that was killed and started again."""
    return Jobs(Journal(path))


def running(book: Jobs) -> JobRecord:
    book.submit(job())
    for member in MEMBERS:
        book.enlist(job().id, member, 1, FACTS)
    return book.change(job().id, state=JobState.RUNNING, plan={"m": 3}, plan_digest="d" * 64)


def test_a_job_is_as_it_was_submitted_also_after_a_restart(book, path):
    kept = book.submit(job())
    assert kept == job()
    assert reread(path).get(job().id) == kept


def test_a_job_is_submitted_once(book):
    book.submit(job())
    with pytest.raises(ConfigError, match="before"):
        book.submit(job())


def test_a_job_is_found_by_the_beginning_of_its_id_when_that_is_only_one(book):
    book.submit(job("11aa000000000000"))
    book.submit(job("11bb000000000000"))
    assert book.get("11a").id == "11aa000000000000"
    for unclear, count in (("11", 2), ("", 2), ("22", 0)):
        with pytest.raises(ConfigError, match=f"{count} jobs match"):
            book.get(unclear)


@pytest.mark.parametrize("caller", [*MEMBERS, SUBMITTER])
def test_members_and_submitter_see_a_job(book, caller):
    book.submit(job())
    assert book.get("11", caller) == job()
    assert book.of(caller) == [job()]


@pytest.mark.parametrize("stranger", ["party/c", "researcher/other", "csp/csp", ""])
def test_nobody_else_sees_a_job(book, stranger):
    book.submit(job())
    with pytest.raises(NotAuthenticated):
        book.get("11", stranger)
    assert book.of(stranger) == []


def test_jobs_are_listed_oldest_first_also_after_a_restart(book, path):
    for id in ("33", "11", "22"):
        book.submit(job(id))
    book.change("33", state=JobState.STOPPED)
    for each in (book, reread(path)):
        assert [one.id for one in each.of("party/a")] == ["33", "11", "22"]


def test_members_enlist_for_an_attempt_with_their_facts(book, path):
    book.submit(job())
    book.enlist(job().id, "party/a", 1, FACTS)
    assert book.enlist(job().id, "party/b", 1, {"rows": 4}).enlisted == {"party/a": FACTS, "party/b": {"rows": 4}}
    assert reread(path).get("11").enlisted == {"party/a": FACTS, "party/b": {"rows": 4}}


def test_an_enlisting_that_is_said_again_changes_nothing(book, path):
    once = running(book)
    lines = path.read_bytes()
    assert book.enlist(job().id, "party/a", 1, FACTS) == once
    assert path.read_bytes() == lines


@pytest.mark.parametrize("stranger", ["party/c", SUBMITTER])
def test_only_members_enlist(book, stranger):
    book.submit(job())
    with pytest.raises(NotAuthenticated):
        book.enlist(job().id, stranger, 1, FACTS)


def test_nobody_enlists_for_another_attempt_or_a_job_that_runs(book):
    book.submit(job())
    for attempt in (0, 2):
        with pytest.raises(ConfigError, match="not recruiting"):
            book.enlist(job().id, "party/a", attempt, FACTS)
    book.change(job().id, state=JobState.RUNNING)
    with pytest.raises(ConfigError, match="not recruiting"):
        book.enlist(job().id, "party/a", 1, {"rows": 99})


def test_a_job_that_ran_when_the_csp_was_killed_is_broken_and_says_why(book, path):
    before = running(book)
    after = reread(path).get("11")
    assert (after.state, after.enlisted, after.plan) == (JobState.BROKEN, before.enlisted, {"m": 3})
    (failure,) = after.failures
    assert (failure["who"], failure["code"]) == ("csp", "FSVD-501")
    # And only once: a second restart finds it broken already.
    assert reread(path).get("11") == after


@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.RUNNING])
def test_a_job_in_any_other_state_is_the_same_after_a_restart(book, path, state):
    running(book)
    before = book.change(job().id, state=state, finished=("party/a",), failures=(FAILURE,))
    assert reread(path).get("11") == before


def test_a_broken_job_is_resumed_as_a_new_attempt_that_remembers_only_what_it_must(book, path):
    running(book)
    failure = {"who": "party/a", "code": "FSVD-301", "stage": "uploading", "text": "overflow"}
    book.change(job().id, state=JobState.BROKEN, failures=(failure,), certain_bound=True)
    again = book.resume(job().id)
    assert again == job(attempt=2, certain_bound=True)
    assert reread(path).get("11") == again
    book.enlist(job().id, "party/a", 2, FACTS)
    with pytest.raises(ConfigError, match="not recruiting"):
        book.enlist(job().id, "party/b", 1, FACTS)


@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.BROKEN])
def test_only_broken_jobs_are_resumed(book, state):
    book.submit(job(state=state))
    with pytest.raises(ConfigError, match="not broken"):
        book.resume(job().id)


def test_done_and_stopped_are_ends_and_broken_is_not():
    ends = {state for state in JobState if job(state=state).over}
    assert ends == {JobState.DONE, JobState.STOPPED}


def test_a_change_that_could_not_be_written_did_not_happen(book, path, monkeypatch):
    book.submit(job())

    def full(line):
        raise StorageError("cannot write ledger.jsonl: no space", "free disk space")

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "_write", lambda ledger, line: full(line))
        for change in (
            lambda: book.change(job().id, state=JobState.STOPPED),
            lambda: book.enlist(job().id, "party/a", 1, FACTS),
            lambda: book.submit(job("99")),
        ):
            with pytest.raises(StorageError):
                change()
    assert book.of("party/a") == [job()]
    assert reread(path).of("party/a") == [job()]


def test_progress_is_told_and_forgotten_with_the_process(book, path):
    book.submit(job())
    assert book.progress(job().id) == {}
    book.told(job().id, "party/a", {"stage": "masking", "done": 3})
    book.told(job().id, "party/a", {"stage": "uploading"})
    book.told(job().id, "csp", {"stage": "collecting"})
    assert book.progress(job().id) == {"party/a": {"stage": "uploading"}, "csp": {"stage": "collecting"}}
    assert reread(path).progress(job().id) == {}


@pytest.mark.parametrize(
    "change",
    [
        lambda book: book.submit(job("22")),
        lambda book: book.change(job().id, state=JobState.STOPPED),
        lambda book: book.enlist(job().id, "party/a", 1, FACTS),
        lambda book: book.told(job().id, "party/a", {"stage": "masking"}),
    ],
    ids=["submit", "change", "enlist", "told"],
)
def test_whoever_waits_for_a_change_is_woken(book, change):
    book.submit(job())
    woken, waiting = threading.Event(), threading.Event()

    def wait() -> None:
        with book.changed:
            waiting.set()
            if book.changed.wait(GENEROUS):
                woken.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert waiting.wait(GENEROUS)
    change(book)
    thread.join(GENEROUS)
    assert woken.is_set()


def test_a_record_is_shown_in_plain_values_without_its_class(book):
    shown = running(book).shown()
    assert (shown["state"], type(shown["state"])) == ("running", str)
    assert shown["members"] == MEMBERS
    assert set(shown) >= {"id", "name", "file", "submitter", "members", "attempt", "enlisted", "plan", "failures"}


def test_a_job_that_fails_on_a_full_disk_is_broken_now_and_after_a_restart(book, path, monkeypatch):
    running(book)
    failure = {"who": "party/a", "code": "FSVD-350", "stage": "", "text": ""}

    def full(ledger, record):
        raise StorageError("cannot write ledger.jsonl", "free disk space")

    with monkeypatch.context() as disk:
        disk.setattr(Journal, "append", full)
        with pytest.raises(StorageError):
            book.change(job().id, finished=("party/a",))
        assert book.get(job().id).state is JobState.RUNNING
        broken = book.breaks(job().id, state=JobState.BROKEN, failures=(failure,))
        assert book.get(job().id) == broken
        with pytest.raises(StorageError):
            book.resume(job().id)
    assert reread(path).get(job().id).state is JobState.BROKEN
