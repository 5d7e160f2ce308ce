"""The CSP's jobs: every change is on disk before it is answered, and a CSP that was killed knows them all."""

import gc
import json
import threading
import tracemalloc

import pytest
from tests.network import GENEROUS

from fedsvd.errors import ConfigError, NotAuthenticated, StorageError
from fedsvd.service.jobs import Jobs
from fedsvd.service.records import (
    EnlistedFacts,
    Failure,
    JobRecord,
    JobState,
    PassedStage,
    Progress,
    ProposedPlan,
)
from fedsvd.storage.journal import Journal

MEMBERS = ("party/a", "party/b", "authority/ta")
SUBMITTER = "researcher/res"
FAILURE = Failure(who="party/b", code="FSVD-501")
FACTS = EnlistedFacts(rows=3, columns=2, signing="ab")
PLAN = ProposedPlan(session="00" * 16, m=3)


def job(id: str = "1122334455667788", **values) -> JobRecord:
    file = {
        "job": {"name": "study", "task": "svd"},
        "party": [{"name": "a"}, {"name": "b"}],
        "authority": {"name": "ta"},
    }
    return JobRecord(id=id, name="study", file=file, submitter=SUBMITTER, members=MEMBERS, **values)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.jsonl"


@pytest.fixture
def jobs(path):
    return Jobs(Journal(path))


def reread(path) -> Jobs:
    """The jobs of a CSP that was killed and started again."""
    return Jobs(Journal(path))


def running(jobs: Jobs) -> JobRecord:
    jobs.submit(job())
    for member in MEMBERS:
        jobs.enlist(job().id, member, 1, FACTS)
    return jobs.change(job().id, state=JobState.RUNNING, plan=PLAN, plan_digest="d" * 64)


def test_a_job_is_as_it_was_submitted_also_after_a_restart(jobs, path):
    kept = jobs.submit(job())
    assert kept == job()
    assert reread(path).get(job().id) == kept


def test_a_job_whose_members_had_all_enlisted_is_queued_after_a_restart_and_no_other_is(jobs, path):
    for id, enlisted in (("11", MEMBERS), ("22", MEMBERS[:2]), ("33", MEMBERS)):
        jobs.submit(job(id))
        for member in enlisted:
            jobs.enlist(id, member, 1, FACTS)
    jobs.change("33", state=JobState.STOPPED)
    after = reread(path)
    after.queue_enlisted()
    states = [after.get(id).state for id in ("11", "22", "33")]
    assert states == [JobState.QUEUED, JobState.RECRUITING, JobState.STOPPED]
    assert [each.id for each in after.queued()] == ["11"]
    assert reread(path).get("11").state is JobState.QUEUED


def test_a_job_is_submitted_once(jobs):
    jobs.submit(job())
    with pytest.raises(ConfigError, match="before"):
        jobs.submit(job())


def test_a_job_is_found_by_the_beginning_of_its_id_when_that_is_only_one(jobs):
    jobs.submit(job("11aa000000000000"))
    jobs.submit(job("11bb000000000000"))
    assert jobs.get("11a").id == "11aa000000000000"
    for unclear, says in (("11", "2 jobs match"), ("", "2 jobs match"), ("22", "no job has an id that begins with")):
        with pytest.raises(ConfigError, match=says):
            jobs.get(unclear)


@pytest.mark.parametrize("caller", [*MEMBERS, SUBMITTER])
def test_members_and_submitter_see_a_job(jobs, caller):
    jobs.submit(job())
    assert jobs.get("11", caller) == job()
    assert jobs.of(caller) == [job()]


@pytest.mark.parametrize("stranger", ["party/c", "researcher/other", "csp/csp", ""])
def test_nobody_else_sees_a_job(jobs, stranger):
    jobs.submit(job())
    with pytest.raises(NotAuthenticated):
        jobs.get("11", stranger)
    assert jobs.of(stranger) == []


def test_jobs_are_listed_oldest_first_also_after_a_restart(jobs, path):
    for id in ("33", "11", "22"):
        jobs.submit(job(id))
    jobs.change("33", state=JobState.STOPPED)
    for each in (jobs, reread(path)):
        assert [one.id for one in each.of("party/a")] == ["33", "11", "22"]


def test_members_enlist_for_an_attempt_with_their_facts(jobs, path):
    jobs.submit(job())
    jobs.enlist(job().id, "party/a", 1, FACTS)
    four = EnlistedFacts(rows=4)
    assert jobs.enlist(job().id, "party/b", 1, four).enlisted == {"party/a": FACTS, "party/b": four}
    assert reread(path).get("11").enlisted == {"party/a": FACTS, "party/b": four}


def test_an_enlisting_that_is_said_again_changes_nothing(jobs, path):
    once = running(jobs)
    lines = path.read_bytes()
    assert jobs.enlist(job().id, "party/a", 1, FACTS) == once
    assert path.read_bytes() == lines


@pytest.mark.parametrize("stranger", ["party/c", SUBMITTER])
def test_only_members_enlist(jobs, stranger):
    jobs.submit(job())
    with pytest.raises(NotAuthenticated):
        jobs.enlist(job().id, stranger, 1, FACTS)


def test_nobody_enlists_for_another_attempt_or_a_job_that_runs(jobs):
    jobs.submit(job())
    for attempt in (0, 2):
        with pytest.raises(ConfigError, match="not recruiting"):
            jobs.enlist(job().id, "party/a", attempt, FACTS)
    jobs.change(job().id, state=JobState.RUNNING)
    with pytest.raises(ConfigError, match="not recruiting"):
        jobs.enlist(job().id, "party/a", 1, EnlistedFacts(rows=99))


def test_a_job_that_ran_when_the_csp_was_killed_is_broken_unless_its_members_ended_and_says_why(jobs, path):
    before = running(jobs)
    again = reread(path)
    assert [job.id for job in again.interrupted] == [before.id]
    again.break_interrupted()
    assert again.interrupted == []
    after = again.get("11")
    assert (after.state, after.enlisted, after.plan) == (JobState.BROKEN, before.enlisted, PLAN)
    (failure,) = after.failures
    assert (failure.who, failure.code) == ("csp", "FSVD-501")
    # And only once: a second restart finds it broken already.
    assert reread(path).get("11") == after


def test_members_who_report_their_ends_again_to_a_csp_that_was_restarted_finish_the_job(jobs, path):
    running(jobs)
    jobs.end(job().id, "party/a")
    again = reread(path)
    again.end(job().id, "authority/ta")
    assert again.get("11").state is JobState.RUNNING
    _, all_ended = again.end(job().id, "party/b")
    assert all_ended
    assert again.break_interrupted() == []
    for each in (again, reread(path)):
        assert (each.get("11").state, each.get("11").failures) == (JobState.DONE, ())


def test_a_job_that_was_taken_for_broken_is_done_when_all_its_members_have_ended(jobs, path):
    running(jobs)
    jobs.change(job().id, state=JobState.BROKEN, failures=(Failure(who="csp", code="FSVD-501"),))
    for member in MEMBERS:
        jobs.end(job().id, member)
    assert (jobs.get("11").state, jobs.get("11").failures) == (JobState.DONE, ())
    assert reread(path).get("11") == jobs.get("11")


@pytest.mark.parametrize("state", [JobState.STOPPED, JobState.RECRUITING, JobState.QUEUED])
def test_an_end_does_not_finish_a_job_that_was_stopped_or_is_not_running(jobs, state):
    running(jobs)
    jobs.change(job().id, state=state)
    for member in MEMBERS:
        assert not jobs.end(job().id, member)[1]
    assert jobs.get("11").state is state


def test_jobs_that_wait_have_their_places_in_order_also_after_a_restart(jobs, path):
    for id in ("33", "11", "22", "44"):
        jobs.submit(job(id))
    for id in ("22", "33", "11"):
        jobs.change(id, state=JobState.QUEUED)
    for each in (jobs, reread(path)):
        assert [one.id for one in each.queued()] == ["22", "33", "11"]
        assert [each.place(id) for id in ("33", "11", "22", "44")] == [2, 3, 1, 0]
    jobs.change("22", state=JobState.STOPPED)
    for each in (jobs, reread(path)):
        assert [one.id for one in each.queued()] == ["33", "11"]


def test_a_job_between_two_of_its_sessions_goes_before_those_that_have_not_begun(jobs):
    passed = PassedStage(stage="prepare", session="00", plan_digest="dd")
    for id, before in (("33", ()), ("11", (passed,))):
        jobs.submit(job(id, passed=before))
        jobs.change(id, state=JobState.QUEUED)
    assert [one.id for one in jobs.queued()] == ["11", "33"]


def ledger_bytes(folder, count):
    """What the ledger holds of one job among so many members, from its submission to its end."""
    members = tuple(f"party/p{place}" for place in range(count))
    facts = EnlistedFacts(certificate="c" * 1500, signing="ab" * 32, rows=100, columns=20)
    path = folder / f"{count}.jsonl"
    jobs = Jobs(Journal(path))
    file = {"job": {"name": "study", "task": "svd"}, "party": [{"name": f"p{place}"} for place in range(count)]}
    jobs.submit(JobRecord(id="11", name="study", file=file, submitter=SUBMITTER, members=members))
    for member in members:
        jobs.enlist("11", member, 1, facts)
    plan = ProposedPlan(session="00" * 16, identities=["ab" * 32] * count)
    jobs.change("11", state=JobState.RUNNING, plan=plan, plan_digest="d" * 64)
    for member in members:
        jobs.end("11", member)
    assert Jobs(Journal(path)).get("11").state is JobState.DONE
    return path.stat().st_size


def test_the_ledger_of_a_job_grows_with_its_members_and_not_with_their_square(tmp_path):
    few, many = ledger_bytes(tmp_path, 5), ledger_bytes(tmp_path, 40)
    assert many < 8 * few  # 0.2.0 wrote 40 times as much


def read(value):
    """A value as it comes in a call: no part of it is shared with another's."""
    return json.loads(json.dumps(value))


def test_a_job_that_is_over_holds_little_memory(jobs):
    names = [f"p{place:02d}" for place in range(20)]
    facts = {"certificate": "c" * 1500, "signing": "ab" * 32, "rows": 24, "columns": 4}

    def done(id):
        file = {"job": {"name": "study", "task": "svd"}, "party": [{"name": name} for name in names]}
        members = tuple(f"party/{name}" for name in names)
        jobs.submit(JobRecord(id=id, name="study", file=read(file), submitter=SUBMITTER, members=members))
        for member in members:
            jobs.enlist(id, member, 1, EnlistedFacts.model_validate(read(facts)))
        jobs.change(id, state=JobState.RUNNING, plan=ProposedPlan(session=id, identities=["ab" * 32] * 20))
        for member in read(members):
            jobs.end(id, member)
        assert jobs.get(id).state is JobState.DONE

    done("ff" * 8)
    tracemalloc.start()
    try:
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        for place in range(20):
            done(f"{place:016x}")
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / 20 < 12_000  # bytes: each member's shapes and names alone were 15,000


@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.RUNNING])
def test_a_job_in_any_other_state_is_the_same_after_a_restart(jobs, path, state):
    running(jobs)
    before = jobs.change(job().id, state=state, finished=("party/a",), failures=(FAILURE,))
    assert reread(path).get("11") == before


def test_a_broken_job_is_resumed_as_a_new_attempt_that_remembers_only_what_it_must(jobs, path):
    running(jobs)
    failure = Failure(who="party/a", code="FSVD-301", stage="uploading", text="overflow")
    jobs.change(job().id, state=JobState.BROKEN, failures=(failure,), certain_bound=True)
    again = jobs.resume(job().id)
    assert again == job(attempt=2, certain_bound=True)
    assert reread(path).get("11") == again
    jobs.enlist(job().id, "party/a", 2, FACTS)
    with pytest.raises(ConfigError, match="not recruiting"):
        jobs.enlist(job().id, "party/b", 1, FACTS)


@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.BROKEN])
def test_only_broken_jobs_are_resumed(jobs, state):
    jobs.submit(job(state=state))
    with pytest.raises(ConfigError, match="not broken"):
        jobs.resume(job().id)


def test_done_and_stopped_are_ends_and_broken_is_not():
    ends = {state for state in JobState if job(state=state).over}
    assert ends == {JobState.DONE, JobState.STOPPED}


def test_a_change_that_could_not_be_written_did_not_happen(jobs, path, monkeypatch):
    jobs.submit(job())

    def full(journal, record):
        raise StorageError("cannot write ledger.jsonl: no space", "free disk space")

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "append", full)
        for change in (
            lambda: jobs.change(job().id, state=JobState.STOPPED),
            lambda: jobs.enlist(job().id, "party/a", 1, FACTS),
            lambda: jobs.submit(job("99")),
        ):
            with pytest.raises(StorageError):
                change()
    assert jobs.of("party/a") == [job()]
    assert reread(path).of("party/a") == [job()]


def test_progress_is_told_and_forgotten_with_the_process(jobs, path):
    jobs.submit(job())
    assert jobs.progress(job().id) == {}
    uploading, collecting = Progress(stage="uploading"), Progress(stage="collecting")
    jobs.report(job().id, "party/a", Progress(stage="masking", done=3))
    jobs.report(job().id, "party/a", uploading)
    jobs.report(job().id, "csp", collecting)
    assert jobs.progress(job().id) == {"party/a": uploading, "csp": collecting}
    assert reread(path).progress(job().id) == {}


@pytest.mark.parametrize(
    "change",
    [
        lambda jobs: jobs.submit(job("22")),
        lambda jobs: jobs.change(job().id, state=JobState.STOPPED),
        lambda jobs: jobs.enlist(job().id, "party/a", 1, FACTS),
        lambda jobs: jobs.report(job().id, "party/a", Progress(stage="masking")),
    ],
    ids=["submit", "change", "enlist", "report"],
)
def test_a_caller_that_waits_for_a_change_is_woken(jobs, change):
    jobs.submit(job())
    woken, waiting = threading.Event(), threading.Event()

    def wait() -> None:
        with jobs.changed:
            waiting.set()
            if jobs.changed.wait(GENEROUS):
                woken.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert waiting.wait(GENEROUS)
    change(jobs)
    thread.join(GENEROUS)
    assert woken.is_set()


LINE_OF_0_1_0 = (
    '{"event":"job","job":{"attempt":1,"certain_bound":false,"enlisted":{"party/a":{"certificate":"-----BEGIN",'
    '"columns":2,"features":"","label":false,"rows":3,"signing":"ab"},"authority/ta":{"certificate":"-----BEGIN",'
    '"signing":"cd"}},"failures":[{"code":"FSVD-501","stage":"","text":"gone","who":"csp"}],"file":{"job":{"name":'
    '"study","task":"svd"}},"finished":["party/a"],"id":"11","members":["party/a","party/b","authority/ta"],"name":'
    '"study","plan":{"csp_identity":"","m":3,"release":["left_vectors"],"session":"00"},"plan_digest":"dd","state":'
    '"broken","submitter":"researcher/res"}}\n'
)


def test_a_journal_of_an_older_version_is_read_and_goes_on(path):
    """A line of 0.1.0 holds a job whole, one of 0.3.0 what changed: journals outlive versions."""
    path.write_text(LINE_OF_0_1_0)
    found = reread(path).get("11")
    assert (found.state, found.enlisted["party/a"].rows, found.failures[0].text) == (JobState.BROKEN, 3, "gone")
    reread(path).change("11", finished=("party/a", "party/b"))
    assert reread(path).get("11").finished == ("party/a", "party/b")
    first, second = path.read_text().splitlines()
    assert f"{first}\n" == LINE_OF_0_1_0
    assert json.loads(second) == {"event": "change", "id": "11", "set": {}, "add": {"finished": ["party/b"]}}


def test_a_line_that_changes_a_job_there_is_none_of_is_damage(path):
    path.write_text('{"add":{},"event":"change","id":"11","set":{}}\n')
    with pytest.raises(StorageError, match=r"ledger\.jsonl"):
        reread(path)


def test_a_line_that_is_no_job_is_said_and_not_skipped(path):
    path.write_text('{"event":"job","job":{"id":3}}\n')
    with pytest.raises(StorageError, match=r"ledger\.jsonl"):
        reread(path)


def test_a_job_that_fails_on_a_full_disk_is_broken_now_and_after_a_restart(jobs, path, monkeypatch):
    running(jobs)
    failure = Failure(who="party/a", code="FSVD-350")

    def full(ledger, record):
        raise StorageError("cannot write ledger.jsonl", "free disk space")

    with monkeypatch.context() as disk:
        disk.setattr(Journal, "append", full)
        with pytest.raises(StorageError):
            jobs.change(job().id, finished=("party/a",))
        assert jobs.get(job().id).state is JobState.RUNNING
        broken = jobs.breaks(job().id, state=JobState.BROKEN, failures=(failure,))
        assert jobs.get(job().id) == broken
        with pytest.raises(StorageError):
            jobs.resume(job().id)
    again = reread(path)
    again.break_interrupted()
    assert again.get(job().id).state is JobState.BROKEN
