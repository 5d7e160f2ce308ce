"""A job of several sessions at the CSP and at a party: recruited anew for each, and begun again at the first."""

import threading

import pytest

from fedsvd.errors import ApprovalSpent, ConfigError, LocalProtocolError, StorageError
from fedsvd.service.approvals import Approvals
from fedsvd.service.enlist import ticket_of
from fedsvd.service.jobs import Jobs
from fedsvd.service.member import Prekeys
from fedsvd.service.records import EnlistedFacts, JobRecord, JobState, Progress, ProposedPlan
from fedsvd.service.stage_answers import StageAnswers
from fedsvd.storage.journal import Journal
from fedsvd.studies.job_stages import Stage, stages_of
from fedsvd.studies.submitted import submitted_job

ID = "1122334455667788"
PARTIES = [{"name": "a"}, {"name": "b"}]
PREPARED = {"job": {"name": "study", "task": "pca"}, "prepare": {"missing": "mean"}, "party": PARTIES}
MATCHED = {
    "job": {"name": "study", "task": "svd", "split": "vertical", "id": "customer"},
    "match": {"align": "server"},
    "party": PARTIES,
    "authority": {"name": "ta"},
}
FACTS = EnlistedFacts(rows=3, columns=2, signing="ab")


def job(file=PREPARED, members=("party/a", "party/b"), **values):
    stage = stages_of(submitted_job(file))[0]
    given = {"file": file, "submitter": "researcher/r", "members": members, "stage": stage, **values}
    return JobRecord(id=ID, name="study", **given)


def running(jobs, record):
    """All that are needed have enlisted, and the session is open."""
    for member in record.needed:
        jobs.enlist(ID, member, record.attempt, FACTS, record.stage)
    plan = ProposedPlan(session=f"{record.attempt}{record.stage}")
    return jobs.change(ID, state=JobState.RUNNING, plan=plan, plan_digest=f"digest of {record.stage}")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.jsonl"


@pytest.mark.parametrize(
    ("file", "stages"),
    [
        (PREPARED, ("prepare", "study")),
        (MATCHED, ("match", "study")),
        ({**PREPARED, "prepare": {"missing": "drop"}}, ("study",)),
        ({**PREPARED, "prepare": {"centre": "site"}}, ("study",)),  # takes no sum
        ({"job": {**MATCHED["job"], "task": "svd"}, "prepare": {"missing": "mean"}, "party": PARTIES}, ("study",)),
    ],
)
def test_a_job_has_the_sessions_that_its_file_needs(file, stages):
    assert stages_of(submitted_job(file)) == stages


def test_when_all_have_ended_a_session_they_enlist_for_the_next_also_after_a_restart(path):
    jobs = Jobs(Journal(path))
    jobs.submit(job())
    running(jobs, jobs.get(ID))
    jobs.report(ID, "party/a", Progress(stage="done"))
    assert jobs.end(ID, "party/a")[1] is False
    now, ended = jobs.end(ID, "party/b")
    assert ended
    for found in (now, Jobs(Journal(path)).get(ID)):
        assert (found.state, found.stage, found.attempt) == (JobState.RECRUITING, Stage.STUDY, 1)
        assert (found.enlisted, found.finished, found.plan, found.plan_digest) == ({}, (), None, "")
        assert [(each.stage, each.session) for each in found.passed] == [("prepare", "1prepare")]
    assert jobs.progress(ID) == {}
    running(jobs, now)
    jobs.end(ID, "party/a")
    assert jobs.end(ID, "party/b")[0].state is JobState.DONE


def test_no_member_enlists_for_another_session_than_the_one_that_recruits(path):
    jobs = Jobs(Journal(path))
    jobs.submit(job())
    with pytest.raises(ConfigError, match="not recruiting"):
        jobs.enlist(ID, "party/a", 1, FACTS, Stage.STUDY)
    jobs.enlist(ID, "party/a", 1, FACTS, Stage.PREPARE)


def test_another_attempt_begins_at_the_first_session(path):
    jobs = Jobs(Journal(path))
    jobs.submit(job())
    running(jobs, jobs.get(ID))
    jobs.end(ID, "party/a")
    running(jobs, jobs.end(ID, "party/b")[0])
    jobs.breaks(ID, state=JobState.BROKEN)
    again = jobs.resume(ID)
    assert (again.attempt, again.stage, again.passed) == (2, Stage.PREPARE, ())


def test_members_that_end_in_one_instant_begin_the_next_session_once(path):
    jobs, ended = Jobs(Journal(path)), []
    jobs.submit(job())
    running(jobs, jobs.get(ID))
    threads = [threading.Thread(target=lambda m=m: ended.append(jobs.end(ID, m)[1])) for m in ("party/a", "party/b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ended) == [False, True]
    assert len(jobs.get(ID).passed) == 1


def test_an_authority_is_not_needed_to_match_records(path):
    jobs = Jobs(Journal(path))
    members = ("party/a", "party/b", "authority/ta")
    jobs.submit(job(MATCHED, members))
    record = jobs.get(ID)
    assert record.needed == ("party/a", "party/b")
    running(jobs, record)
    jobs.end(ID, "party/a")
    assert jobs.end(ID, "party/b")[0].needed == members


def test_what_people_are_shown_names_the_session():
    assert job().in_stage == "session 1 of 2, prepare"
    assert job().changed(stage=Stage.STUDY).in_stage == "session 2 of 2, study"
    assert job({"job": PREPARED["job"], "party": PARTIES}).in_stage == ""


# --- at a party -------------------------------------------------------------------------------------------------------


def test_every_session_has_a_prekey_and_a_ticket_of_its_own(tmp_path):
    prekeys = Prekeys(tmp_path / "prekeys")
    assert prekeys.make(ID, 1, Stage.PREPARE).public != prekeys.make(ID, 1, Stage.STUDY).public
    assert ticket_of(ID, 1, Stage.PREPARE) != ticket_of(ID, 1, Stage.STUDY)
    prekeys.erase_but([(ID, 1, Stage.STUDY)])
    with pytest.raises(LocalProtocolError):
        prekeys.take(ID, 1, Stage.PREPARE)


def test_answers_are_private_bound_to_their_attempt_and_gone_with_it(tmp_path):
    answers = StageAnswers(tmp_path / "answers")
    first = job()
    answers.write(first, {"recipe": {"numbers": ["x"]}})
    (file,) = (tmp_path / "answers").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    later = first.changed(stage=Stage.STUDY)
    assert answers.read(later, Stage.PREPARE) == {"recipe": {"numbers": ["x"]}}
    with pytest.raises(LocalProtocolError, match="not here any more"):
        answers.read(later.changed(attempt=2), Stage.PREPARE)
    with pytest.raises(StorageError, match="another job"):
        answers.read(later.changed(file=MATCHED), Stage.PREPARE)
    answers.erase_but([(ID, 1)])
    assert file.exists()
    answers.erase_but([(ID, 2)])
    assert not file.exists()


def test_answers_of_a_job_that_is_done_are_erased_and_those_of_others_are_not(tmp_path):
    answers, other = StageAnswers(tmp_path / "answers"), job().changed(id="99")
    answers.write(job(), {})
    answers.write(other, {})
    answers.erase(ID)
    assert [path.name for path in (tmp_path / "answers").iterdir()] == ["99-1-prepare.answers"]


def test_the_sessions_of_one_attempt_count_once_and_one_that_is_shown_twice_counts_twice(tmp_path):
    approvals, first = Approvals(tmp_path / "approvals"), job()
    approvals.give(first)
    approvals.begin(first)
    later = first.changed(stage=Stage.STUDY)
    approvals.of(later).expect_unspent(1, later)  # its own first session is no failure
    approvals.begin(later)
    assert approvals.of(later).failed == 1
    with pytest.raises(ApprovalSpent):
        approvals.of(later).expect_unspent(1, later)  # a CSP that asks for the same session once more
    again = first.changed(attempt=2)
    with pytest.raises(ApprovalSpent):
        approvals.of(again).expect_unspent(1, again)
    approvals.of(again).expect_unspent(2, again)


def test_an_attempt_whose_first_session_had_sums_counts_wherever_it_failed_later(tmp_path):
    approvals, first = Approvals(tmp_path / "approvals"), job()
    approvals.give(first)
    approvals.begin(first)
    later = first.changed(stage=Stage.STUDY)
    approvals.begin(later)
    approvals.fail(later, "keys")
    assert approvals.of(later).failed == 1
