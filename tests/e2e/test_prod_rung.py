"""The prod rung: kits, processes and commands as institutions use them; what breaks resumes, who lies is found."""

import ctypes
import json
import signal
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import sleep

import numpy as np
import pytest
from tests.e2e.commands import GENEROUS, Process, command, until
from tests.e2e.federations import federation_of, split_table, two_parties
from tests.e2e.held_csp import HeldCsp
from tests.e2e.outcomes import expect_equal, expect_simulated, file_of, simulated, stage_of
from tests.tolerances import RESULT_BAR, assert_close

import fedsvd
from fedsvd.identity.authority import Authority
from fedsvd.identity.kit import Kit, accept_revocations
from fedsvd.policy.rules import Policy
from fedsvd.protocol.certificate import READING
from fedsvd.protocol.tasks import Mode
from fedsvd.service import api, serve
from fedsvd.service import csp as csp_node
from fedsvd.service.csp import CspNode
from fedsvd.service.records import EnlistedFacts
from fedsvd.service.site import Site
from fedsvd.storage.record_file import RecordFile


@pytest.mark.slow
def test_three_hospitals_run_a_study_by_commands_and_from_python(tmp_path):
    parties = ("a", "b", "c")
    _, tables = split_table(330, 5, parties)
    options = {"components": 2, "release": ["components", "mean", "spectrum"]}
    with federation_of(tmp_path, parties, tables, policy=Policy(records_for_full=50)) as federation:
        federation.start("csp/csp", "party/a", "party/b", "authority/ta")
        # This one asks its owner; it has pinned no key, and its own is pinned nowhere.
        for name in ("a", "b", "ta", "c"):
            kit = federation.kits[f"{'authority' if name == 'ta' else 'party'}/{name}"]
            (kit / "pins.toml").write_text("")
        federation.processes["party/c"] = Process(
            "party", "start", "--kit", federation.kits["party/c"], "--csp", federation.csp
        )
        federation.processes["party/c"].said("has reached the CSP", "out")
        lines = [f"name = {json.dumps(name)}" for name in parties]
        (tmp_path / "job.toml").write_text(
            f'[job]\nname = "study"\ntask = "pca"\ncomponents = 2\nrelease = {json.dumps(options["release"])}\n'
            '[authority]\nname = "ta"\n' + "".join(f"[[party]]\n{line}\n" for line in lines)
        )
        at = ("--csp", federation.csp, "--format", "json")
        sent = command("job", "submit", tmp_path / "job.toml", "--kit", federation.kits["researcher/res"], *at)
        assert sent.returncode == 0, sent.stderr
        id = json.loads(sent.stdout)["job"]
        keys = {member: Kit.read(kit).identity.fingerprint for member, kit in federation.kits.items()}
        for name in ("party/c", "party/a", "party/b", "authority/ta"):
            approve = ("job", "approve", id, "--kit", federation.kits[name], "--yes", *at)
            assert json.loads(command(*approve).stdout)["error"]["code"] == "FSVD-503"  # they were not compared
            compared = [keys[other] for other in keys if other != name]
            said = command(*approve, *(word for key in compared for word in ("--pin", key)))
            assert said.returncode == 0, said.stdout + said.stderr
            shown = json.loads(said.stdout)
            assert shown["members"][0]["member"] == "csp/csp"
            assert len(shown["members"]) == 5  # the CSP and the researcher among them
            assert {each["standing"] for each in shown["members"]} == {"new"}
            assert name == "authority/ta" or any("Gram" in line for line in shown["learns"])
        watched = command("job", "watch", id[:6], "--kit", federation.kits["researcher/res"], *at)
        assert watched.returncode == 0, watched.stdout
        assert json.loads(watched.stdout)["folder"] is None
        found = json.loads(command("job", "results", id, "--kit", federation.kits["party/c"], *at).stdout)
        with fedsvd.connect(federation.kits["party/c"], federation.csp) as connection:
            assert str(connection.results(id).folder) == found["folder"]
        pca = fedsvd.load(found["folder"])
        assert_close(pca.mean_, np.concatenate(list(tables.values())).mean(axis=0), RESULT_BAR)
        expected = simulated(file_of("pca", parties, tmp_path, authority="ta", **options), tmp_path / "sim")
        for name in parties:
            expect_equal(federation.folder(name, id), expected / "parties" / name)
        for name in ("party/c", "authority/ta", "party/a", "csp/csp"):
            assert federation.stop(name) == 0
        audit = federation.kits["party/c"] / "state" / "audit.jsonl"
        assert command("audit-log", "verify", audit).returncode == 0
        audit.write_bytes(audit.read_bytes().replace(b"finished", b"finisheD"))
        broken = command("audit-log", "verify", audit)
        assert (broken.returncode, "was changed at line" in broken.stderr) == (1, True)


@pytest.mark.slow
def test_a_party_killed_after_its_pass_resumes_from_its_checkpoint(tmp_path):
    # As patient as the test: a party that is made to wait must not go on because the machine is busy.
    with two_parties(tmp_path, patience=GENEROUS) as federation, federation.csp_node(HeldCsp) as csp:
        federation.start("party/a", "party/b")
        csp.hold_at("party/b", "norm")  # what follows its pass
        with federation.connect() as line:
            id = line.submit(file_of("svd", ("a", "b")))
            until(lambda: stage_of(csp, id, "party/b") == "norm")
            until(lambda: stage_of(csp, id, "party/a") == "summing")
            federation.kill("party/a")
            checkpoint = federation.kits["party/a"] / "state" / "checkpoints" / f"{id}.factor"
            before = checkpoint.stat()
            csp.release()
            federation.start("party/a")  # it finds its session spent, and says so
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
        expect_simulated(federation, id)


class HeldAfterSteps(HeldCsp):
    """A CSP that makes party b wait when it comes to its fourth Ritz values."""

    def reported(self, caller, asked):
        super().reported(caller, asked)
        if self.told.count((1, "party/b", "ritz values", None)) == 4 and caller == "party/b":
            self.gate.wait(GENEROUS)


@pytest.mark.slow
def test_a_search_by_steps_whose_party_was_killed_goes_on(tmp_path):
    _, tables = split_table(400, 20, ("a", "b"))
    options, by_steps = {"components": 2, "split": "horizontal"}, {"masks": {"scheme": "steps"}}
    with (
        federation_of(tmp_path, ("a", "b"), tables, patience=GENEROUS) as federation,
        federation.csp_node(HeldAfterSteps) as csp,
    ):
        federation.start("party/a", "party/b")
        with federation.connect() as line:
            id = line.submit(file_of("svd", ("a", "b"), **options) | by_steps)
            until(lambda: csp.told.count((1, "party/b", "ritz values", None)) == 4)
            federation.kill("party/a")
            file = federation.kits["party/a"] / "state" / "checkpoints" / f"{id}.steps"
            records = len(RecordFile(file).read())
            assert records > 2
            csp.release()
            federation.start("party/a")
            assert line.watch(id, timeout=GENEROUS).state == "broken"
            until(lambda: {"party/a", "party/b"} <= {failure.who for failure in line.job(id).failures})
            assert line.resume(id).attempt == 2
            assert line.wait(id, timeout=GENEROUS).finished == ("party/a", "party/b")
        until(lambda: not file.exists())
        expected = simulated(file_of("svd", ("a", "b"), tmp_path, **options) | by_steps, tmp_path / "sim")
        for name in ("a", "b"):
            expect_equal(federation.folder(name, id), expected / "parties" / name)


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
    with two_parties(tmp_path) as federation:
        federation.start("csp/csp", "party/a")
        with federation.member_nodes("party/b", owner=Waiting), federation.connect() as line:
            id = line.submit(file_of("svd", ("a", "b")))
            until(Waiting.looked.is_set)
            until(lambda: line.job(id).progress_of("party/a").stage == "keys")
            if how is signal.SIGKILL:
                federation.kill("csp/csp")
            else:
                assert federation.stop("csp/csp") == 0
            federation.start("csp/csp")
            Waiting.go_on.set()
            assert line.watch(id, timeout=GENEROUS).state == "broken"
            line.resume(id)
            line.wait(id, timeout=GENEROUS)
        expect_simulated(federation, id)
        ledger = (federation.kits["csp/csp"] / "state" / "ledger.jsonl").read_text()
        sessions = [line for line in ledger.splitlines() if '"event":"session"' in line]
        assert len(sessions) == len(set(sessions)) == 2


@pytest.mark.slow
def test_a_party_told_to_stop_tells_the_others_and_is_resumed(tmp_path):
    with two_parties(tmp_path) as federation, federation.csp_node(HeldCsp) as csp:
        federation.start("party/a", "party/b")
        csp.hold_at("party/b", "compress")
        with federation.connect() as line:
            id = line.submit(file_of("pca", ("a", "b"), components=2))
            until(lambda: stage_of(csp, id, "party/a") == "summing")
            assert federation.stop("party/a") == 0
            broken = line.watch(id, timeout=GENEROUS)
            (failure,) = (each for each in broken.failures if each.who == "party/a")
            assert (failure.code, failure.text) == ("FSVD-501", "")  # the reason is in its own log
            csp.release()
            federation.start("party/a")
            line.resume(id)
            line.wait(id, timeout=GENEROUS)
        expect_simulated(federation, id, "pca", components=2)


@pytest.mark.slow
def test_a_revoked_party_is_refused_at_its_next_call(tmp_path):
    with two_parties(tmp_path) as federation, federation.csp_node(CspNode) as csp:
        federation.start("party/a", "party/b")
        operator = Authority(tmp_path / "kits" / "operator")
        accept_revocations(federation.kits["csp/csp"], operator.revoke("party", "b", now=datetime.now(UTC)))
        federation.processes["party/b"].said("the certificate of party/b was revoked")
        with federation.connect() as line, federation.connect("party/a") as ours:
            id = line.submit(file_of("svd", ("a", "b")))
            until(lambda: line.job(id).enlisted)
            assert [record.id for record in ours.jobs()] == [id]
            assert list(line.job(id).enlisted) == ["party/a"]
            line.stop(id)
        federation.kill("party/b")
        again = command("party", "start", "--kit", federation.kits["party/b"], "--csp", federation.csp)
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
    with two_parties(tmp_path) as federation, federation.csp_node(HeldCsp) as csp:
        federation.start("party/a", "party/b")
        with federation.connect() as line:
            id = line.submit(file_of("svd", ("a", "b")))
            broken = line.watch(id, timeout=GENEROUS)
        # Who comes second finds the attempt broken off, and nothing to do.
        told = [each for each in broken.failures if each.who != "csp"]
        assert {each.code for each in told} == {"FSVD-413"}
        assert broken.state == "broken"
        assert {stage for _, _, stage, _ in csp.told} <= {READING}  # who enlists has read; nobody came further
        for each in told:
            assert Site.at(federation.kits[each.who]).failure(broken).code == "FSVD-413"
        for name in ("a", "b"):
            assert not (federation.kits[f"party/{name}"] / "results").exists()


class Impostor(CspNode):
    """A CSP that puts a key of its own in the place of party b's."""

    def handle(self, verb, caller, asked):
        if verb is api.ENLIST and caller == "party/b":
            facts = asked.facts.also(EnlistedFacts(signing="ab" * 32))
            asked = asked.model_copy(update={"facts": facts})
        return super().handle(verb, caller, asked)


@pytest.mark.slow
def test_a_csp_that_swaps_a_key_is_found_out(tmp_path):
    with two_parties(tmp_path) as federation, federation.csp_node(Impostor):
        federation.start("party/a", "party/b")
        with federation.connect() as line:
            id = line.submit(file_of("svd", ("a", "b")))
            broken = line.watch(id, timeout=GENEROUS)
            assert broken.state == "broken"
            assert {each.code for each in broken.failures if each.who == "party/a"} <= {"FSVD-503"}
            assert not any(list((federation.kits[f"party/{name}"]).glob("results/*")) for name in ("a", "b"))


@pytest.mark.slow
def test_a_job_below_a_partys_policy_is_refused_and_the_reason_stays_there(tmp_path):
    with two_parties(tmp_path, policy=Policy()) as federation:
        federation.start("csp/csp", "party/a", "party/b")
        with federation.connect() as line:
            id = line.submit(file_of("svd", ("a", "b")))
            broken = line.watch(id, timeout=GENEROUS)
        told = {each.code for each in broken.failures if each.who != "csp"}
        assert "FSVD-110" in told
        assert "Gram" not in repr(broken.failures)
        at = ("--csp", federation.csp, "--format", "json")
        who = next(each.who for each in broken.failures if each.code == "FSVD-110")
        seen = command("job", "results", id, "--kit", federation.kits[who], *at)
        assert "Gram" in json.dumps(json.loads(seen.stdout)["failures"])
        watched = command("job", "watch", id, "--kit", federation.kits["researcher/res"], *at)
        assert (watched.returncode, json.loads(watched.stdout)["error"]["code"]) == (1, "FSVD-110")


@pytest.mark.slow
def test_several_jobs_run_at_the_same_time(tmp_path):
    with two_parties(tmp_path) as federation:
        federation.start("csp/csp", "party/a", "party/b", "authority/ta")
        files = [
            file_of("svd", ("a", "b")),
            file_of("pca", ("a", "b"), components=2),
            file_of("svd", ("a", "b"), authority="ta"),
            file_of("lsa", ("a", "b"), components=2),
        ]
        with federation.connect() as line:
            ids = [line.submit(file) for file in files]
            for id in ids:
                line.wait(id, timeout=GENEROUS)
        for id, file in zip(ids, files, strict=True):
            options = {key: value for key, value in file["job"].items() if key not in ("name", "task")}
            expect_simulated(federation, id, file["job"]["task"], **options)


@pytest.mark.slow
def test_one_kit_runs_once_and_in_its_own_role(tmp_path):
    with two_parties(tmp_path) as federation:
        federation.start("csp/csp", "party/a")
        second = command("party", "start", "--kit", federation.kits["party/a"], "--csp", federation.csp)
        assert (second.returncode, "this kit is running already" in second.stderr) == (1, True)
        wrong = command("csp", "start", "--kit", federation.kits["party/b"], "--address", "127.0.0.1:0")
        assert (wrong.returncode, "FSVD-503" in wrong.stderr) == (1, True)
        assert command("party", "start", "--kit", tmp_path / "nowhere").returncode == 1
        assert federation.stop("party/a") == 0


def test_a_role_that_waits_for_its_csp_can_be_stopped(tmp_path):
    with two_parties(tmp_path) as federation:
        process = Process("party", "start", "--kit", federation.kits["party/a"], "--csp", "127.0.0.1:9")
        try:
            process.said("waits for the CSP")
            sleep(1.5 * serve.GREETING_PAUSE)
            assert sum("waits for the CSP" in line for line in process.err) == 1
            process.signal(signal.SIGINT)
            assert process.ended() == 0
        finally:
            process.kill()


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "tgkill"), reason="no way here to signal one thread of a process")
@pytest.mark.parametrize("name", ["csp/csp", "party/a"])
def test_a_role_stops_whichever_of_its_threads_the_system_gives_the_signal_to(tmp_path, name):
    with two_parties(tmp_path) as federation, federation.csp_node(CspNode):
        federation.csp = "" if name == "csp/csp" else federation.csp
        federation.start(name)
        process = federation.processes[name]
        threads = sorted(int(thread.name) for thread in Path(f"/proc/{process.popen.pid}/task").iterdir())
        assert len(threads) > 1
        assert ctypes.CDLL(None).tgkill(process.popen.pid, threads[-1], signal.SIGTERM) == 0
        assert process.ended() == 0


def test_a_stopped_job_stays_stopped(tmp_path):
    with two_parties(tmp_path) as federation, federation.csp_node(HeldCsp) as csp:
        federation.start("party/a", "party/b")
        csp.hold_at("party/b", "compress")
        with federation.connect() as line:
            id = line.submit(file_of("svd", ("a", "b")))
            until(lambda: stage_of(csp, id, "party/a") == "summing")
            assert line.stop(id).state == "stopped"
            csp.release()
            until(lambda: {each.who for each in csp.jobs.get(id).failures} >= {"party/a", "party/b"})
            assert line.job(id).state == "stopped"
            with pytest.raises(fedsvd.errors.FedSVDError, match="not broken"):
                line.resume(id)
        assert not (federation.kits["party/a"] / "results").exists()
