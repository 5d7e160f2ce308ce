"""The prod rung: kits, processes and commands as institutions use them; what breaks resumes, who lies is found."""

import ctypes
import json
import signal
import threading
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from tests.e2e.institutions import (
    GENEROUS,
    Process,
    command,
    expect_equal,
    file_of,
    institutions,
    simulated,
    split_table,
    until,
)
from tests.tolerances import RESULT_BAR, assert_close

import fedsvd
from fedsvd.identity.authority import Authority
from fedsvd.identity.kit import Kit, accept_revocations
from fedsvd.policy.rules import Policy
from fedsvd.protocol.tasks import Mode
from fedsvd.service import csp as csp_node
from fedsvd.service.csp import CspNode
from fedsvd.service.member_node import MemberNode
from fedsvd.service.records import EnlistedFacts, Progress
from fedsvd.service.site import Site

PATIENCE = 60.0


class HeldCsp(CspNode):
    """A CSP in this process that can make a member wait at a stage: it is slow to answer that the stage was told."""

    def __init__(self, *how, **more):
        self.hold, self.gate, self.told = None, threading.Event(), []
        super().__init__(*how, **more)

    def _report(self, caller, asked):
        answer = super()._report(caller, asked)
        progress = asked.progress
        self.told.append((self.jobs.get(asked.id).attempt, caller, progress.stage, progress.total or None))
        if self.hold == (caller, progress.stage):
            self.gate.wait(GENEROUS)
        return answer

    def hold_at(self, caller, stage):
        self.hold = caller, stage
        self.gate.clear()

    def release(self):
        self.hold = None
        self.gate.set()


@contextmanager
def csp_here(house, kind=HeldCsp, **how):
    """The federation's CSP, in this process."""
    site = Site.at(house.kits["csp/csp"])
    node = kind(
        site.listening("127.0.0.1:0"),
        site.authenticate,
        site.state,
        patience=house.patience,
        identity=site.kit.signing_key,
        **how,
    )
    node.start()
    house.csp = f"127.0.0.1:{node.port}"
    try:
        yield node
    finally:
        if isinstance(node, HeldCsp):
            node.release()
        node.stop()


@contextmanager
def member_here(house, name, owner=Site):
    """A member in this process, whose owner may be another than a folder."""
    site = owner(Site.at(house.kits[name]).kit, True)
    dialling = site.dialling(house.csp, house.patience)
    node = MemberNode(name, dialling, site.kit.signing_key, site.facts(), site, site.state)
    thread = threading.Thread(target=node.run, daemon=True)
    thread.start()
    try:
        yield node
    finally:
        node.stop()
        thread.join(GENEROUS)


def two(tmp_path, **how):
    _, tables = split_table(200, 5, ("a", "b"))
    return institutions(tmp_path, ("a", "b"), tables, **how)


def stage_of(node, id, caller):
    return node.jobs.progress(id).get(caller, Progress()).stage


def expect_right(house, id, task="svd", **options):
    """Each party's results are those of the sim rung."""
    file = file_of(task, ("a", "b"), house.root, **options)
    expected = simulated(file, house.root / f"sim-{id}")
    for name in ("a", "b"):
        expect_equal(house.folder(name, id), expected / "parties" / name)


@pytest.mark.slow
def test_three_hospitals_run_a_study_by_commands_and_from_python(tmp_path):
    parties = ("a", "b", "c")
    _, tables = split_table(330, 5, parties)
    options = {"components": 2, "release": ["components", "mean", "spectrum"]}
    with institutions(tmp_path, parties, tables, policy=Policy(records_for_full=50)) as house:
        house.start("csp/csp", "party/a", "party/b", "authority/ta")
        # This one asks its owner; it has pinned no key, and its own is pinned nowhere.
        for name in ("a", "b", "ta", "c"):
            kit = house.kits[f"{'authority' if name == 'ta' else 'party'}/{name}"]
            (kit / "pins.toml").write_text("")
        house.processes["party/c"] = Process("party", "start", "--kit", house.kits["party/c"], "--csp", house.csp)
        house.processes["party/c"].said("has reached the CSP", "out")
        lines = [f"name = {json.dumps(name)}" for name in parties]
        (tmp_path / "job.toml").write_text(
            f'[job]\nname = "study"\ntask = "pca"\ncomponents = 2\nrelease = {json.dumps(options["release"])}\n'
            '[authority]\nname = "ta"\n' + "".join(f"[[party]]\n{line}\n" for line in lines)
        )
        at = ("--csp", house.csp, "--format", "json")
        sent = command("job", "submit", tmp_path / "job.toml", "--kit", house.kits["researcher/res"], *at)
        assert sent.returncode == 0, sent.stderr
        id = json.loads(sent.stdout)["job"]
        keys = {member: Kit.read(kit).identity.fingerprint for member, kit in house.kits.items()}
        for name in ("party/c", "party/a", "party/b", "authority/ta"):
            approve = ("job", "approve", id, "--kit", house.kits[name], "--yes", *at)
            assert json.loads(command(*approve).stdout)["error"]["code"] == "FSVD-503"  # they were not compared
            compared = [keys[other] for other in keys if other not in (name, "researcher/res")]
            said = command(*approve, *(word for key in compared for word in ("--pin", key)))
            assert said.returncode == 0, said.stdout + said.stderr
            shown = json.loads(said.stdout)
            assert shown["members"][0]["member"] == "csp/csp"
            assert len(shown["members"]) == 4
            assert {each["standing"] for each in shown["members"]} == {"new"}
            assert name == "authority/ta" or any("Gram" in line for line in shown["learns"])
        watched = command("job", "watch", id[:6], "--kit", house.kits["researcher/res"], *at)
        assert watched.returncode == 0, watched.stdout
        assert json.loads(watched.stdout)["folder"] is None
        found = json.loads(command("job", "results", id, "--kit", house.kits["party/c"], *at).stdout)
        with fedsvd.connect(house.kits["party/c"], house.csp) as connection:
            assert str(connection.results(id).folder) == found["folder"]
        pca = fedsvd.load(found["folder"])
        assert_close(pca.mean_, np.concatenate(list(tables.values())).mean(axis=0), RESULT_BAR)
        expected = simulated(file_of("pca", parties, tmp_path, authority="ta", **options), tmp_path / "sim")
        for name in parties:
            expect_equal(house.folder(name, id), expected / "parties" / name)
        for name in ("party/c", "authority/ta", "party/a", "csp/csp"):
            assert house.stop(name) == 0
        audit = house.kits["party/c"] / "state" / "audit.jsonl"
        assert command("audit-log", "verify", audit).returncode == 0
        audit.write_bytes(audit.read_bytes().replace(b"finished", b"finisheD"))
        broken = command("audit-log", "verify", audit)
        assert (broken.returncode, "was changed at line" in broken.stderr) == (1, True)


@pytest.mark.slow
def test_a_party_killed_after_its_pass_resumes_from_its_checkpoint(tmp_path):
    # As patient as the test: a party that is made to wait must not go on because the machine is busy.
    with two(tmp_path, patience=GENEROUS) as house, csp_here(house) as csp:
        house.start("party/a", "party/b")
        csp.hold_at("party/b", "norm")  # what follows its pass
        with house.connect() as line:
            id = line.submit(file_of("svd", ("a", "b")))
            until(lambda: stage_of(csp, id, "party/b") == "norm")
            until(lambda: stage_of(csp, id, "party/a") == "summing")
            house.kill("party/a")
            checkpoint = house.kits["party/a"] / "state" / "checkpoints" / f"{id}.factor"
            before = checkpoint.stat()
            csp.release()
            house.start("party/a")  # it finds its session spent, and says so
            broken = line.watch(id, timeout=GENEROUS)
            assert broken.state == "broken"
            assert all(failure.code.startswith("FSVD-") for failure in broken.failures)
            # The first attempt is over at both, so that whatever is told from here on is told of the second.
            until(lambda: {"party/a", "party/b"} <= {failure.who for failure in line.job(id).failures})
            csp.hold_at("party/b", "summing")
            assert line.resume(id).attempt == 2
            until(lambda: (2, "party/b", "summing", None) in csp.told)
            until(lambda: (2, "party/a", "summing", None) in csp.told)
            after = checkpoint.stat()
            assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
            csp.release()
            assert line.wait(id, timeout=GENEROUS).finished == ("party/a", "party/b")
        passes = {(attempt, caller) for attempt, caller, stage, total in csp.told if stage == "compress" and total}
        assert passes == {(1, "party/a"), (1, "party/b")}
        until(lambda: not checkpoint.exists())  # removed when the end was said, a moment after the job is done
        expect_right(house, id)


class Waiting(Site):
    """An owner who looks at the plan for as long as the test likes."""

    looked, go_on = threading.Event(), threading.Event()

    def expect_allowed(self, plan):
        self.looked.set()
        self.go_on.wait(GENEROUS)
        super().expect_allowed(plan)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_csp_that_goes_away_in_the_middle_comes_back_and_finishes(tmp_path, how):
    Waiting.looked.clear()
    Waiting.go_on.clear()
    with two(tmp_path) as house:
        house.start("csp/csp", "party/a")
        with member_here(house, "party/b", Waiting), house.connect() as line:
            id = line.submit(file_of("svd", ("a", "b")))
            until(Waiting.looked.is_set)
            until(lambda: line.job(id).progress_of("party/a").stage == "keys")
            if how is signal.SIGKILL:
                house.kill("csp/csp")
            else:
                assert house.stop("csp/csp") == 0
            house.start("csp/csp")
            Waiting.go_on.set()
            assert line.watch(id, timeout=GENEROUS).state == "broken"
            line.resume(id)
            line.wait(id, timeout=GENEROUS)
        expect_right(house, id)
        ledger = (house.kits["csp/csp"] / "state" / "ledger.jsonl").read_text()
        sessions = [line for line in ledger.splitlines() if '"event":"session"' in line]
        assert len(sessions) == len(set(sessions)) == 2


@pytest.mark.slow
def test_a_party_told_to_stop_tells_the_others_and_is_resumed(tmp_path):
    with two(tmp_path) as house, csp_here(house) as csp:
        house.start("party/a", "party/b")
        csp.hold_at("party/b", "compress")
        with house.connect() as line:
            id = line.submit(file_of("pca", ("a", "b"), components=2))
            until(lambda: stage_of(csp, id, "party/a") == "summing")
            assert house.stop("party/a") == 0
            broken = line.watch(id, timeout=GENEROUS)
            (failure,) = (each for each in broken.failures if each.who == "party/a")
            assert (failure.code, failure.text) == ("FSVD-501", "")  # the reason is in its own log
            csp.release()
            house.start("party/a")
            line.resume(id)
            line.wait(id, timeout=GENEROUS)
        expect_right(house, id, "pca", components=2)


@pytest.mark.slow
def test_a_revoked_party_is_refused_at_its_next_call(tmp_path):
    with two(tmp_path) as house, csp_here(house, CspNode) as csp:
        house.start("party/a", "party/b")
        operator = Authority(tmp_path / "kits" / "operator")
        accept_revocations(house.kits["csp/csp"], operator.revoke("party", "b", now=datetime.now(UTC)))
        house.processes["party/b"].said("the certificate of party/b was revoked")
        with house.connect() as line, house.connect("party/a") as ours:
            id = line.submit(file_of("svd", ("a", "b")))
            until(lambda: line.job(id).enlisted)
            assert [record.id for record in ours.jobs()] == [id]
            assert list(line.job(id).enlisted) == ["party/a"]
            line.stop(id)
        house.kill("party/b")
        again = command("party", "start", "--kit", house.kits["party/b"], "--csp", house.csp)
        assert (again.returncode, "FSVD-503" in again.stderr, "revoked" in again.stderr) == (1, True, True)
        assert csp.jobs.of("party/b")[0].state == "stopped"


@pytest.mark.slow
@pytest.mark.chaos(
    "a peer with another plan",
    "a CSP that weakens the plan",
    "FSVD-413 at the parties; no data touched, nothing released",
)
def test_a_csp_that_changes_the_plan_is_found_out_before_data_is_touched(tmp_path, monkeypatch):
    honest = csp_node.plan_of

    def weaker(*facts):
        return replace(honest(*facts), mode=Mode.B)  # the CSP would open the sum

    monkeypatch.setattr(csp_node, "plan_of", weaker)
    with two(tmp_path) as house, csp_here(house) as csp:
        house.start("party/a", "party/b")
        with house.connect() as line:
            id = line.submit(file_of("svd", ("a", "b")))
            broken = line.watch(id, timeout=GENEROUS)
        # Who comes second finds the attempt broken off, and nothing to do.
        told = [each for each in broken.failures if each.who != "csp"]
        assert {each.code for each in told} == {"FSVD-413"}
        assert broken.state == "broken"
        assert csp.told == []  # nobody came as far as a stage
        for each in told:
            assert Site.at(house.kits[each.who]).failure(broken).code == "FSVD-413"
        for name in ("a", "b"):
            assert not (house.kits[f"party/{name}"] / "results").exists()


class Impostor(CspNode):
    """A CSP that puts a key of its own in the place of party b's."""

    def _enlist(self, caller, asked):
        if caller == "party/b":
            facts = asked.facts.also(EnlistedFacts(signing="ab" * 32))
            asked = asked.model_copy(update={"facts": facts})
        return super()._enlist(caller, asked)


@pytest.mark.slow
def test_a_csp_that_swaps_a_key_is_found_out(tmp_path):
    with two(tmp_path) as house, csp_here(house, Impostor):
        house.start("party/a", "party/b")
        with house.connect() as line:
            id = line.submit(file_of("svd", ("a", "b")))
            broken = line.watch(id, timeout=GENEROUS)
            assert broken.state == "broken"
            assert {each.code for each in broken.failures if each.who == "party/a"} <= {"FSVD-503"}
            assert not any(list((house.kits[f"party/{name}"]).glob("results/*")) for name in ("a", "b"))


@pytest.mark.slow
def test_a_job_below_a_partys_policy_is_refused_and_the_reason_stays_there(tmp_path):
    with two(tmp_path, policy=Policy()) as house:
        house.start("csp/csp", "party/a", "party/b")
        with house.connect() as line:
            id = line.submit(file_of("svd", ("a", "b")))
            broken = line.watch(id, timeout=GENEROUS)
        told = {each.code for each in broken.failures if each.who != "csp"}
        assert "FSVD-110" in told
        assert "Gram" not in repr(broken.failures)
        at = ("--csp", house.csp, "--format", "json")
        who = next(each.who for each in broken.failures if each.code == "FSVD-110")
        seen = command("job", "results", id, "--kit", house.kits[who], *at)
        assert "Gram" in json.dumps(json.loads(seen.stdout)["failures"])
        watched = command("job", "watch", id, "--kit", house.kits["researcher/res"], *at)
        assert (watched.returncode, json.loads(watched.stdout)["error"]["code"]) == (1, "FSVD-110")


@pytest.mark.slow
def test_several_jobs_run_at_the_same_time(tmp_path):
    with two(tmp_path) as house:
        house.start("csp/csp", "party/a", "party/b", "authority/ta")
        files = [
            file_of("svd", ("a", "b")),
            file_of("pca", ("a", "b"), components=2),
            file_of("svd", ("a", "b"), authority="ta"),
            file_of("lsa", ("a", "b"), components=2),
        ]
        with house.connect() as line:
            ids = [line.submit(file) for file in files]
            for id in ids:
                line.wait(id, timeout=GENEROUS)
        for id, file in zip(ids, files, strict=True):
            options = {key: value for key, value in file["job"].items() if key not in ("name", "task")}
            expect_right(house, id, file["job"]["task"], **options)


@pytest.mark.slow
def test_one_kit_runs_once_and_in_its_own_role(tmp_path):
    with two(tmp_path) as house:
        house.start("csp/csp", "party/a")
        second = command("party", "start", "--kit", house.kits["party/a"], "--csp", house.csp)
        assert (second.returncode, "this kit is running already" in second.stderr) == (1, True)
        wrong = command("csp", "start", "--kit", house.kits["party/b"], "--address", "127.0.0.1:0")
        assert (wrong.returncode, "FSVD-503" in wrong.stderr) == (1, True)
        assert command("party", "start", "--kit", tmp_path / "nowhere").returncode == 1
        assert house.stop("party/a") == 0


def test_a_role_that_waits_for_its_csp_can_be_stopped(tmp_path):
    with two(tmp_path) as house:
        process = Process("party", "start", "--kit", house.kits["party/a"], "--csp", "127.0.0.1:9")
        try:
            process.said("waits for the CSP")
            process.signal(signal.SIGINT)
            assert process.ended() == 0
        finally:
            process.kill()


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "tgkill"), reason="no way here to signal one thread of a process")
@pytest.mark.parametrize("name", ["csp/csp", "party/a"])
def test_a_role_stops_whichever_of_its_threads_the_system_gives_the_signal_to(tmp_path, name):
    with two(tmp_path) as house, csp_here(house, CspNode):
        house.csp = "" if name == "csp/csp" else house.csp
        house.start(name)
        process = house.processes[name]
        threads = sorted(int(thread.name) for thread in Path(f"/proc/{process.popen.pid}/task").iterdir())
        assert len(threads) > 1
        assert ctypes.CDLL(None).tgkill(process.popen.pid, threads[-1], signal.SIGTERM) == 0
        assert process.ended() == 0


def test_a_stopped_job_stays_stopped(tmp_path):
    with two(tmp_path) as house, csp_here(house) as csp:
        house.start("party/a", "party/b")
        csp.hold_at("party/b", "compress")
        with house.connect() as line:
            id = line.submit(file_of("svd", ("a", "b")))
            until(lambda: stage_of(csp, id, "party/a") == "summing")
            assert line.stop(id).state == "stopped"
            csp.release()
            until(lambda: {each.who for each in csp.jobs.get(id).failures} >= {"party/a", "party/b"})
            assert line.job(id).state == "stopped"
            with pytest.raises(fedsvd.errors.FedSVDError, match="not broken"):
                line.resume(id)
        assert not (house.kits["party/a"] / "results").exists()
