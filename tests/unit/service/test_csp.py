"""The CSP's handlers: who may ask what, what concurrent members cannot spoil, and what a liar cannot make it do."""

import json
import resource
import shutil
import threading
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic, sleep

import pytest

from fedsvd.errors import NotAuthenticated, StorageError
from fedsvd.identity.temporary import temporary_federation
from fedsvd.protocol.certificate import Accounts
from fedsvd.service import api, capacity, csp, handlers, instances
from fedsvd.service.client import CspClient
from fedsvd.service.csp import CspNode
from fedsvd.service.failures import without_paths
from fedsvd.service.jobs import accounts_sent
from fedsvd.service.records import JobState
from fedsvd.service.site import Site
from fedsvd.wire.version import MARK

GENEROUS = 60.0
NAMES = [f"p{i}" for i in range(8)]
MEMBERS = [f"party/{name}" for name in NAMES]
FILE = {"job": {"name": "study", "task": "svd"}, "party": [{"name": name} for name in NAMES]}


@pytest.fixture(scope="module")
def kit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    return temporary_federation(folder, ["a"], now=datetime.now(UTC))["csp/csp"]


@pytest.fixture
def node(kit, tmp_path):
    site = Site.at(kit)
    node = CspNode(site.listening("127.0.0.1:0"), site.authenticate, tmp_path / "state", patience=GENEROUS)
    node.start()
    yield node
    node.stop()


@pytest.fixture
def narrow(kit, tmp_path):
    """A CSP that runs two sessions at a time, and takes six open jobs of a researcher."""
    site = Site.at(kit)
    where = site.listening("127.0.0.1:0"), site.authenticate, tmp_path / "state"
    node = CspNode(*where, patience=GENEROUS, sessions=2, open_jobs=6)
    node.start()
    yield node
    node.stop()


@pytest.fixture
def small_node(kit, tmp_path):
    """The CSP of a site with little memory."""
    site = Site.at(kit)
    (kit / "site.toml").write_text('memory = "1 MiB"\n')
    node = CspNode(
        site.listening("127.0.0.1:0"),
        site.authenticate,
        tmp_path / "state",
        patience=GENEROUS,
        allow=site.expect_allowed,
    )
    node.start()
    yield node
    node.stop()
    (kit / "site.toml").unlink()


def ask(node, caller, verb, **values):
    """The answer, or the error, as the caller reads it."""
    return json.loads(node.answer(caller, json.dumps({**MARK, "ask": verb, "with": values}).encode()))


def submitted(node, file=FILE):
    return ask(node, "researcher/r", "submit", file=file)["answer"]["id"]


def facts(place, **changes):
    return {"rows": 50, "columns": 4, "label": False, "features": "f", "signing": f"{place:064x}", **changes}


def enlist_all(node, id, attempt=1):
    for place, member in enumerate(MEMBERS):
        ask(node, member, "enlist", id=id, attempt=attempt, facts=facts(place))


def at_once(works):
    """Run all of these in the same instant, as far as threads do."""
    barrier = threading.Barrier(len(works))

    def run(work):
        barrier.wait(GENEROUS)
        work()

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GENEROUS)


def test_members_who_end_in_one_instant_are_all_counted(node):
    for _ in range(5):
        id = submitted(node)
        enlist_all(node, id)
        at_once([partial(ask, node, member, "ended", id=id, attempt=1) for member in MEMBERS])
        job = node.jobs.get(id)
        assert (job.state, job.finished) == (JobState.DONE, tuple(sorted(MEMBERS)))


def test_members_who_enlist_in_one_instant_open_one_session(node, tmp_path):
    id = submitted(node)
    works = [
        partial(ask, node, member, "enlist", id=id, attempt=1, facts=facts(place))
        for place, member in enumerate(MEMBERS)
    ]
    at_once([*works, *works])  # and every question comes twice, as it may
    assert node.jobs.get(id).state is JobState.RUNNING
    sessions = (tmp_path / "state" / "ledger.jsonl").read_text().count('"event":"session"')
    assert sessions == 1


def test_only_researchers_submit_and_only_members_see(node):
    with pytest.raises(NotAuthenticated):
        ask(node, "party/p0", "submit", file=FILE)
    id = submitted(node)
    with pytest.raises(NotAuthenticated):
        ask(node, "party/stranger", "job", id=id)
    assert ask(node, "party/stranger", "jobs")["answer"]["jobs"] == []


def test_a_failure_is_told_in_ones_own_name_and_briefly(node):
    id = submitted(node)
    told = {"who": "party/p1", "code": "FSVD-201", "stage": "x", "text": "y" * 100_000, "more": "z"}
    ask(node, "party/p0", "ended", id=id, attempt=1, failure=told)
    (failure,) = node.jobs.get(id).failures
    assert (failure.who, failure.code, failure.stage) == ("party/p0", "FSVD-201", "x")
    assert len(failure.text) <= 2000


def test_a_failure_of_an_earlier_attempt_changes_nothing(node):
    id = submitted(node)
    ask(node, "party/p0", "ended", id=id, attempt=1, failure={"code": "FSVD-501"})
    ask(node, "party/p0", "resume", id=id)
    ask(node, "party/p1", "ended", id=id, attempt=1, failure={"code": "FSVD-501"})
    job = node.jobs.get(id)
    assert (job.state, job.attempt, job.failures) == (JobState.RECRUITING, 2, ())


def test_an_overflow_starts_again_under_the_certain_bound_and_once(node):
    id = submitted(node)
    ask(node, "party/p0", "ended", id=id, attempt=1, failure={"code": "FSVD-301"})
    job = node.jobs.get(id)
    assert (job.state, job.attempt, job.certain_bound) == (JobState.RECRUITING, 2, True)
    ask(node, "party/p0", "ended", id=id, attempt=2, failure={"code": "FSVD-301"})
    assert node.jobs.get(id).state is JobState.BROKEN


@pytest.mark.parametrize(
    "changes", [{"rows": "many"}, {"signing": 5, "rows": None}, {"rows": True}, {"rows": -1}, {"more": 1}]
)
def test_facts_that_are_none_are_refused_and_the_job_still_recruits(node, changes):
    id = submitted(node)
    said = ask(node, MEMBERS[3], "enlist", id=id, attempt=1, facts=facts(3, **changes))
    assert said["error"]["code"] == "FSVD-100"
    job = node.jobs.get(id)
    assert (job.state, job.enlisted) == (JobState.RECRUITING, {})


def test_facts_that_make_no_plan_break_the_job_and_hang_nobody(node):
    id = submitted(node)
    for place, member in enumerate(MEMBERS):
        ask(node, member, "enlist", id=id, attempt=1, facts=facts(place, columns=5 if place == 3 else 4))
    job = node.jobs.get(id)
    assert job.state is JobState.BROKEN
    assert (job.failures[0].who, job.failures[0].stage) == ("csp", "planning")


@pytest.mark.parametrize(
    ("verb", "values"),
    [
        ("submit", {"file": 5}),
        ("submit", {"file": {"job": 1}}),
        ("wait", {"id": "", "seconds": "long"}),
        ("job", {"name": "study"}),
        ("job", {"id": 7}),
        ("dance", {}),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_with_a_code(node, verb, values):
    submitted(node)
    assert ask(node, "researcher/r", verb, **values)["error"]["code"].startswith("FSVD-")


def test_members_hear_of_what_is_under_way_and_people_of_all(node):
    ids = [submitted(node) for _ in range(3)]
    ask(node, "party/p0", "stop", id=ids[0])
    enlist_all(node, ids[1])
    under_way = ask(node, "party/p0", "jobs", under_way=True)["answer"]["jobs"]
    # The first was stopped: a member with results of it marks them.
    assert [job["id"] for job in by_number(under_way)] == ids
    assert "party/p3" in by_number(under_way)[1]["enlisted"]
    assert ask(node, "party/p0", "job", id=ids[1])["answer"]["enlisted"]["party/p3"]["signing"] == f"{3:064x}"
    theirs = ask(node, "researcher/r", "jobs", under_way=True)["answer"]["jobs"]
    assert [job["id"] for job in by_number(theirs)] == ids[1:]
    listed = ask(node, "party/p0", "jobs")["answer"]["jobs"]
    assert [job["id"] for job in by_number(listed)] == ids


def by_number(jobs):
    return sorted(jobs, key=lambda job: job["number"])


def test_a_list_of_jobs_carries_no_job_file_no_facts_and_no_plan(node):
    long = "a-feature-of-this-study"
    id = submitted(node, {**FILE, "job": {**FILE["job"], "id": long}})
    enlist_all(node, id)
    answer = json.dumps(ask(node, "party/p0", "jobs")["answer"])
    assert id in answer
    assert not {"file", "plan", "failures"} & set(ask(node, "party/p0", "jobs")["answer"]["jobs"][0])
    assert long not in answer
    assert f"{3:064x}" not in answer


def test_a_list_that_is_asked_for_again_holds_what_changed_and_no_more(node):
    ids = [submitted(node) for _ in range(5)]
    seen = ask(node, "party/p0", "jobs", under_way=True)["answer"]["seen"]
    enlist_all(node, ids[2])
    for member in MEMBERS:
        ask(node, member, "ended", id=ids[2], attempt=1)
    again = ask(node, "party/p0", "jobs", under_way=True, seen=seen)["answer"]
    assert [(job["id"], job["state"]) for job in again["jobs"]] == [(ids[2], "done")]
    assert not again["anew"]
    nothing = ask(node, "party/p0", "jobs", under_way=True, seen=again["seen"])["answer"]
    assert nothing == {"jobs": [], "seen": again["seen"], "more": False, "anew": False}


def test_many_jobs_are_listed_page_by_page_and_not_again_while_nothing_changes(node, monkeypatch):
    monkeypatch.setattr(handlers, "PAGE", 4)
    ids = [submitted(node) for _ in range(11)]

    class Carrier:
        calls = 0

        def call(self, method, body):
            Carrier.calls += 1
            return node.answer("party/p0", body)

    client = CspClient(Carrier())
    assert [job.id for job in client.jobs(under_way=True)] == ids
    assert Carrier.calls == 3
    assert [job.id for job in client.jobs(under_way=True)] == ids
    assert Carrier.calls == 4
    ids.append(submitted(node))
    assert [job.id for job in client.jobs(under_way=True)] == ids
    assert [job.id for job in client.jobs()] == ids


def test_a_look_at_the_jobs_ends_when_one_has_changed(node):
    seen, answers = ask(node, "party/p0", "jobs")["answer"]["seen"], []

    def look():
        answers.append(ask(node, "party/p0", "jobs", seen=seen, seconds=GENEROUS)["answer"])

    looking = threading.Thread(target=look)
    looking.start()
    id = submitted(node)
    looking.join(GENEROUS / 4)
    assert [job["id"] for job in answers[0]["jobs"]] == [id]
    assert answers[0]["seen"] != seen


@pytest.fixture
def looking(kit, tmp_path):
    """A CSP, and a thread in which a member looks at its jobs until one changes."""
    site = Site.at(kit)
    node = CspNode(site.listening("127.0.0.1:0"), site.authenticate, tmp_path / "state", patience=GENEROUS)
    node.start()
    seen = ask(node, "party/p0", "jobs")["answer"]["seen"]
    thread = threading.Thread(target=partial(ask, node, "party/p0", "jobs", seen=seen, seconds=GENEROUS))
    thread.start()
    yield node, thread
    node.stop()


def test_a_look_is_answered_at_once_where_too_many_wait_already(monkeypatch, request):
    monkeypatch.setattr(handlers, "MOST_WAITING", 0)
    _, thread = request.getfixturevalue("looking")
    thread.join(GENEROUS / 8)
    assert not thread.is_alive()


def test_a_look_that_waits_ends_with_the_csp(looking):
    node, thread = looking
    node.stop()
    thread.join(GENEROUS / 8)
    assert not thread.is_alive()


def test_a_page_of_large_jobs_is_a_small_one(node, monkeypatch):
    monkeypatch.setattr(handlers, "PAGE_BYTES", 1000)
    ids = [submitted(node) for _ in range(9)]
    page = ask(node, "party/p0", "jobs")["answer"]
    assert 0 < len(page["jobs"]) < 9
    rest = ask(node, "party/p0", "jobs", seen=page["seen"])["answer"]
    assert page["more"]
    assert [job["id"] for job in (*page["jobs"], *rest["jobs"])][: len(page["jobs"]) + 1] == ids[
        : len(page["jobs"]) + 1
    ]


@pytest.mark.parametrize(
    ("file", "word"),
    [
        ({**FILE, "job": {**FILE["job"], "id": "x" * 900_000}}, "bytes"),
        ({**FILE, "job": {**FILE["job"], "id": "x" * 2000}}, "[job] id"),
        ({**FILE, "job": {**FILE["job"], "id": "a\x1b[2Jb"}}, "'a?[2Jb' of the job has control characters"),
        ({**FILE, "job": {**FILE["job"], "components": 10**40}}, "[job] components"),
        ({**FILE, "job": {**FILE["job"], "memory": "9" * 400}}, "[job] memory"),
        ({**FILE, "party": [{"name": f"p{i}"} for i in range(501)]}, "[party]"),
    ],
)
def test_a_job_that_would_choke_its_members_is_refused_and_the_others_go_on(node, file, word):
    refused = ask(node, "researcher/r", "submit", file=file)["error"]
    assert refused["code"] == "FSVD-100"
    assert word in refused["fault"]
    assert len(refused["fault"]) < 500
    id = submitted(node)
    assert [job["id"] for job in ask(node, "party/p0", "jobs")["answer"]["jobs"]] == [id]


def test_an_answer_that_is_too_large_is_an_error_of_its_question_alone(node, monkeypatch):
    id = submitted(node)
    monkeypatch.setattr(api, "LARGEST_ANSWER", 300)
    refused = ask(node, "party/p0", "job", id=id)["error"]
    assert "bytes" in refused["fault"]
    assert ask(node, "party/p0", "now")["answer"]["fedsvd"]


def test_what_a_member_says_of_itself_and_of_its_progress_has_a_limit(node):
    id = submitted(node)
    much = {"stage": "x" * 20_000}
    for refused in (
        ask(node, "party/p0", "enlist", id=id, attempt=1, facts=much),
        ask(node, "party/p0", "report", id=id, progress=much),
    ):
        assert "at most" in refused["error"]["fix"]


def test_what_members_say_is_printable_wherever_it_is_shown(node):
    id = submitted(node)
    enlist_all(node, id)
    ask(
        node,
        "party/p0",
        "report",
        id=id,
        progress={"stage": "\x1b]0;owned\x07", "done": "many", "total": [1], "sent": -3},
    )
    failure = {"code": "\x1b[31m", "stage": "up\nloading", "text": "a\u202eb\r\nlevel=INFO forged"}
    told = ask(node, "party/p0", "ended", id=id, attempt=1, failure=failure)["answer"]["failures"][-1]
    assert told == {"who": "party/p0", "code": "?[31m", "stage": "up loading", "text": "a?b  level=INFO forged"}
    progress = ask(node, "party/p1", "job", id=id)["answer"]["progress"]["party/p0"]
    assert progress == {"stage": "?]0;owned?"}


def sent(node, job):
    return {who: progress.accounts() for who, progress in node.jobs.progress(job.id).items()}


def test_accounts_of_a_wrong_type_do_not_keep_a_job_from_being_done(node):
    id = submitted(node)
    enlist_all(node, id)
    wrong = {"stage": "done", "bytes_by_link": "many", "seconds_by_stage": {"a": "long", "b": 2.0}, "peak_memory": [1]}
    for member in MEMBERS:
        ask(node, member, "report", id=id, progress=wrong)
        last = ask(node, member, "ended", id=id, attempt=1)["answer"]
    assert last["state"] == "done"
    assert accounts_sent(node.jobs.progress(id)) == Accounts(), "a role that sends accounts of unknown form has none"


def test_a_defect_in_an_answer_is_an_answer_too(node, monkeypatch):
    def broken(verb, caller, asked):
        raise KeyError

    monkeypatch.setattr(node, "handle", broken)
    assert ask(node, "party/p0", "now")["error"]["fault"] == "unexpected KeyError at the CSP"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MemoryError(), "FSVD-351"),
        (RuntimeError("can't start new thread"), "FSVD-351"),
        (OSError(30, "Read-only file system", "/srv/kit/state/ledger.jsonl"), "FSVD-350"),
    ],
)
def test_what_a_csps_machine_lacks_is_answered_with_a_code_and_without_its_paths(node, monkeypatch, error, code):
    def broken(verb, caller, asked):
        raise error

    monkeypatch.setattr(node, "handle", broken)
    answer = ask(node, "party/p0", "now")["error"]
    assert answer["code"] == code
    assert answer["fix"]
    assert "/srv" not in str(answer)


def test_the_clock_and_the_version_are_told(node):
    told = ask(node, "party/p0", "now")["answer"]
    assert abs((datetime.now(UTC) - datetime.fromisoformat(told["now"])).total_seconds()) < GENEROUS
    assert told["fedsvd"]


def test_a_plan_beyond_the_memory_of_the_csps_site_breaks_in_planning(small_node):
    id = submitted(small_node)
    enlist_all(small_node, id)
    job = small_node.jobs.get(id)
    assert job.state is JobState.BROKEN
    assert [failure.stage for failure in job.failures] == ["planning"]
    assert "site.toml" in job.failures[0].text


# --- the queue --------------------------------------------------------------------------------------------------------


def states(node, ids):
    return [str(node.jobs.get(id).state) for id in ids]


def until(true):
    deadline = monotonic() + GENEROUS
    while not true():
        assert monotonic() < deadline
        sleep(0.02)


def test_jobs_beyond_the_sessions_of_a_csp_wait_in_order_and_have_a_place(narrow):
    ids = [submitted(narrow) for _ in range(5)]
    for id in ids:
        enlist_all(narrow, id)
    assert states(narrow, ids) == ["running", "running", "queued", "queued", "queued"]
    listed = {job["id"]: job["place"] for job in ask(narrow, "researcher/r", "jobs")["answer"]["jobs"]}
    assert [listed[id] for id in ids] == [0, 0, 1, 2, 3]
    watched = ask(narrow, "researcher/r", "job", id=ids[3])["answer"]
    assert watched["place"] == 2
    ask(narrow, "researcher/r", "stop", id=ids[2])  # one that waits gives its place up
    assert ask(narrow, "researcher/r", "job", id=ids[3])["answer"]["place"] == 1
    ask(narrow, "researcher/r", "stop", id=ids[0])  # one that runs is followed by the next
    until(lambda: states(narrow, ids) == ["stopped", "running", "stopped", "running", "queued"])


def test_a_caller_that_waits_for_a_job_in_the_queue_is_answered_when_its_place_changes(narrow):
    ids = [submitted(narrow) for _ in range(4)]
    for id in ids:
        enlist_all(narrow, id)
    seen, answers = ask(narrow, "researcher/r", "job", id=ids[3])["answer"], []

    def wait():
        answers.append(ask(narrow, "researcher/r", "wait", id=ids[3], seen=seen["seen"], seconds=15.0)["answer"])

    waiting = threading.Thread(target=wait)
    waiting.start()
    ask(narrow, "researcher/r", "stop", id=ids[2])
    waiting.join(GENEROUS)
    assert (seen["place"], answers[0]["place"]) == (2, 1)


def test_a_queue_is_the_same_after_a_restart_and_goes_on(narrow, kit, tmp_path):
    ids = [submitted(narrow) for _ in range(4)]
    for id in ids:
        enlist_all(narrow, id)
    site = Site.at(kit)
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "state", copy)  # as a kill at this moment leaves it
    again = CspNode(site.listening("127.0.0.1:0"), site.authenticate, copy, patience=2.0, sessions=1)
    again.start()
    try:
        until(lambda: states(again, ids) == ["broken", "broken", "running", "queued"])
        assert again.jobs.place(ids[3]) == 1
    finally:
        again.stop()


def test_a_job_that_cannot_be_planned_leaves_its_place_to_the_next(narrow):
    ids = [submitted(narrow) for _ in range(4)]
    for id in ids[:2]:
        enlist_all(narrow, id)
    for place, member in enumerate(MEMBERS):  # columns that do not fit together
        ask(narrow, member, "enlist", id=ids[2], attempt=1, facts=facts(place, columns=4 + place, features=f"f{place}"))
    enlist_all(narrow, ids[3])
    assert states(narrow, ids) == ["running", "running", "queued", "queued"]
    ask(narrow, "researcher/r", "stop", id=ids[1])
    until(lambda: states(narrow, ids) == ["running", "stopped", "broken", "running"])


def test_a_researcher_has_so_many_open_jobs_and_no_more(narrow):
    last = {"file": FILE, "nonce": "5a" * 16}
    ids = [*(submitted(narrow) for _ in range(5)), ask(narrow, "researcher/r", "submit", **last)["answer"]["id"]]
    assert ask(narrow, "researcher/r", "submit", **last)["answer"]["id"] == ids[-1]  # its answer was lost
    refused = ask(narrow, "researcher/r", "submit", file=FILE)["error"]
    assert refused["code"] == "FSVD-114"
    assert "job stop" in refused["fix"]
    assert "answer" in ask(narrow, "researcher/other", "submit", file=FILE)  # another has its own
    ask(narrow, "researcher/r", "stop", id=ids[0])
    submitted(narrow)


def test_the_sessions_of_a_machine_follow_from_its_cores_memory_and_descriptors(monkeypatch):
    for cores, memory, descriptors, most in (
        (2, 64 << 30, 1 << 20, 8),
        (32, 4 << 30, 1 << 20, 8),
        (32, 64 << 30, 1024, 8),
        (1, 256 << 20, 64, 1),
        (128, 1 << 40, resource.RLIM_INFINITY, 64),
    ):
        monkeypatch.setattr(capacity, "cores", lambda cores=cores: cores)
        monkeypatch.setattr(capacity, "main_memory", lambda memory=memory: memory)
        monkeypatch.setattr(resource, "getrlimit", lambda _, descriptors=descriptors: (descriptors, descriptors))
        assert capacity.most_sessions() == most


# --- two processes with one kit ---------------------------------------------------------------------------------------


def test_a_kit_that_runs_twice_is_named_at_both_ends_until_one_is_silent(node, tmp_path, monkeypatch):
    def look(instance):
        answer = ask(node, "party/p0", "jobs", instance=instance)
        return answer.get("error", {}).get("code", "served")

    assert [look("first"), look("first")] == ["served", "served"]
    assert look("second") == "served"  # the first may have been restarted
    assert [look("second"), look("first"), look("second")] == ["served", "FSVD-504", "FSVD-504"]
    assert ask(node, "party/p1", "jobs", instance="third").get("error") is None
    assert look("") == "served"  # a command of the same owner ends by itself
    assert (tmp_path / "state" / "audit.jsonl").read_text().count("kit runs twice") == 1
    now = monotonic()
    monkeypatch.setattr(instances, "monotonic", lambda: now + 11.0)
    assert look("second") == "served"


def test_a_process_that_was_restarted_is_not_taken_for_a_copy(node):
    for instance in ("first", "second", "third"):
        for _ in range(3):
            assert "answer" in ask(node, "party/p0", "jobs", instance=instance)


# --- what callers are not sent ----------------------------------------------------------------------------------------


def test_an_error_at_the_csp_names_a_file_and_none_of_its_folders(node, tmp_path, monkeypatch):
    id = submitted(node)

    def full(*_, **__):
        raise StorageError(f"cannot write {tmp_path}/state/ledger.jsonl: no space", f"chmod 600 {tmp_path}/state")

    monkeypatch.setattr(node.jobs, "change", full)
    error = ask(node, "researcher/r", "stop", id=id)["error"]
    assert error["fault"] == "cannot write state/ledger.jsonl: no space"
    assert str(tmp_path) not in json.dumps(error)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot read /srv/csp kit/state/x.json: denied", "cannot read state/x.json: denied"),
        ("others can open /etc/fedsvd/keys/ca.pem (mode 644)", "others can open ca.pem (mode 644)"),
        ("party/a and 3/4 of it; see https://example.org/a/b", "party/a and 3/4 of it; see https://example.org/a/b"),
    ],
)
def test_paths_are_left_out_of_what_others_read_and_nothing_else_is(text, shown):
    assert without_paths(text, Path("/srv/csp kit")) == shown


def test_a_failure_of_the_csp_is_shown_to_members_without_its_paths(node, tmp_path, monkeypatch):
    def refused(plan):
        raise StorageError(f"{tmp_path}/state/scratch is full", "free disk space")

    id = submitted(node)
    monkeypatch.setattr(csp, "ServiceProvider", lambda plan, *_: refused(plan))
    for place, member in enumerate(MEMBERS):
        answer = ask(node, member, "enlist", id=id, attempt=1, facts=facts(place))
    assert str(tmp_path) not in json.dumps(answer)
    assert "scratch is full" in json.dumps(answer)
