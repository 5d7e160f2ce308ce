"""A party whose process dies: noticed when its connection closes, and every other party is told, done or not.
And jobs that must not stop a party.

The CSP and one party are threads here, the victim is a process. Patience is a minute, so what ends sooner was noticed
by the connection alone. A connection that is merely cut, and comes back, is in ``test_transport_trouble.py`` and
``test_chaos_troubles.py``: it must not be taken for a death.
"""

import json
import threading
import warnings
from time import monotonic

import pytest
from tests.e2e.commands import GENEROUS, command, until
from tests.e2e.federations import two_parties
from tests.e2e.held_csp import HeldCsp
from tests.e2e.outcomes import expect_equal, expect_simulated, file_of, simulated, stage_of

import fedsvd
from fedsvd.errors import FedSVDError
from fedsvd.roles.service_provider import role
from fedsvd.service.callers import Callers
from fedsvd.service.client import CspClient
from fedsvd.service.records import JobState
from fedsvd.service.site import Site
from fedsvd.transport.grpc_client import PinnedConnection

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
SOON = 30.0  # seconds: half of the patience


class LateCsp(HeldCsp):
    """A CSP at which party b has its results, and does not get through with saying so."""

    late = False

    def reported(self, caller, asked):
        if caller == "party/b" and asked.progress.bytes_by_link and self.hold is not None:
            self.late = True
            self.gate.wait(GENEROUS)


def failures(node, id):
    return {failure.who: failure for failure in node.jobs.get(id).failures}


@pytest.mark.slow
@pytest.mark.chaos(
    "a lost party",
    "kill -9 in the middle",
    "FSVD-501 at the CSP in seconds, FSVD-415 at the other; resumed, right",
)
def test_a_killed_party_is_noticed_by_its_connection_and_the_others_hear_of_it(tmp_path):
    with two_parties(tmp_path) as federation, federation.csp_node(HeldCsp) as node, federation.member_nodes("party/a"):
        node.hold_at("party/b", "summing")
        federation.start("party/b")
        with federation.connect() as researcher:
            id = researcher.submit(file_of("svd", ("a", "b")))
            until(lambda: stage_of(node, id, "party/b") == "summing")
            federation.kill("party/b")
            killed = monotonic()
            until(lambda: "party/a" in failures(node, id), "the other party was never told")
            assert monotonic() - killed < SOON
            told = failures(node, id)
            assert (told["csp"].code, told["party/a"].code) == ("FSVD-501", "FSVD-415")
            assert "the connection of user 2 closed" in told["csp"].text
            node.release()
            shown = command("job", "watch", id, "--kit", federation.kits["researcher/res"], "--csp", federation.csp)
            assert shown.returncode == 1
            assert "FSVD-501: csp in" in shown.stderr
            assert "the connection of party b closed" in shown.stderr
            federation.start("party/b")
            researcher.resume(id)
            assert researcher.wait(id, timeout=120).state == "done"
        expect_simulated(federation, id)


@pytest.mark.chaos(
    "a lost party",
    "kill -9 after another party was done",
    "FSVD-501 at the CSP; the other's results are marked; resumed, right",
)
def test_a_party_that_was_done_is_told_when_the_job_breaks_and_its_results_say_so(tmp_path):
    with (
        two_parties(tmp_path) as federation,
        federation.csp_node(LateCsp, grace=1.5) as node,
        federation.member_nodes("party/a"),
    ):
        node.hold_at("party/b", "done")
        federation.start("party/b")
        with federation.connect() as researcher:
            id = researcher.submit(file_of("svd", ("a", "b")))
            until(lambda: node.jobs.get(id).finished == ("party/a",))
            until(lambda: node.late)
            federation.kill("party/b")
            killed = monotonic()
            manifest, mark = (federation.folder("a", id) / name for name in ("manifest.json", "NOT-FINISHED.txt"))
            until(lambda: "not_finished" in manifest.read_text(), "the results of the other party were never marked")
            assert monotonic() - killed < SOON
            node.release()
            assert node.jobs.get(id).state is JobState.BROKEN
            assert "is broken: FSVD-501" in mark.read_text()
            assert "the connection of party b closed" in mark.read_text()
            assert json.loads(manifest.read_text())["not_finished"] == mark.read_text().strip()
            with pytest.warns(UserWarning, match="is broken: FSVD-501"):
                fedsvd.load(federation.folder("a", id))
            shown = command(
                "job", "results", id, "--kit", federation.kits["party/a"], "--csp", federation.csp, "--format", "json"
            )
            assert json.loads(shown.stdout)["warning"] == mark.read_text().strip()
            federation.start("party/b")
            until(
                (federation.folder("b", id) / "NOT-FINISHED.txt").exists,
                "the party that came back has unmarked results",
            )
            for name in ("a", "b"):  # both have results, and an approval is for one run
                own = ("--kit", federation.kits[f"party/{name}"], "--csp", federation.csp, "--format", "json")
                assert command("job", "approve", id, *own, "--yes").returncode == 0
            researcher.resume(id)
            assert researcher.wait(id, timeout=120).state == "done"
        expected = simulated(file_of("svd", ("a", "b"), federation.root), federation.root / "sim")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for name in ("a", "b"):
                first = federation.folder(name, id)
                again = first.with_name(f"{first.name}-2")  # results are never overwritten
                expect_equal(again, expected / "parties" / name)
                fedsvd.load(again)
                assert (first / "NOT-FINISHED.txt").exists()


@pytest.mark.chaos(
    "a lost party",
    "kill -9 while the CSP factorises",
    "FSVD-501 at the CSP and FSVD-415 at the other before the CSP is through",
)
def test_a_killed_party_is_noticed_while_the_csp_computes(tmp_path, monkeypatch):
    computing, go_on, factorise = threading.Event(), threading.Event(), role.factorise

    def held(*what):
        computing.set()
        go_on.wait(GENEROUS)
        return factorise(*what)

    monkeypatch.setattr(role, "factorise", held)
    with (
        two_parties(tmp_path) as federation,
        federation.csp_node(HeldCsp, grace=1.5) as node,
        federation.member_nodes("party/a"),
    ):
        federation.start("party/b")
        try:
            with federation.connect() as researcher:
                id = researcher.submit({**file_of("svd", ("a", "b")), "masks": {"scheme": "mask"}})
                assert computing.wait(GENEROUS)
                federation.kill("party/b")
                until(lambda: "party/a" in failures(node, id), "the other party was never told")
        finally:
            go_on.set()
        told = failures(node, id)
        assert (told["csp"].code, told["csp"].stage) == ("FSVD-501", "factorising")
        assert told["party/a"].code == "FSVD-415"
        until(lambda: not [thread for thread in threading.enumerate() if thread.name == f"job-{id}"])
        assert [failure.who for failure in node.jobs.get(id).failures].count("csp") == 1
        assert not (federation.kits["party/a"] / "results").exists()


def test_no_submitted_job_and_no_number_of_them_stops_a_party(tmp_path):
    """What was seen before: a job with an id column of 900 kB, and every party of it ended at its next look."""
    with two_parties(tmp_path) as federation:
        (federation.kits["csp/csp"] / "site.toml").write_text("open_jobs = 300\n")  # of a researcher; 100 if not said
        Callers(federation.kits["csp/csp"] / "state" / "callers.jsonl").add("party/c")  # on an earlier day
        federation.start("csp/csp", "party/a", "party/b")
        site = Site.at(federation.kits["researcher/res"])
        client = CspClient(PinnedConnection(site.dialling(federation.csp, GENEROUS)), site.kit)
        file = file_of("svd", ("a", "b"))
        try:
            for column in ("x" * 900_000, "x" * 200_000, "\x1b]0;x\x07"):
                with pytest.raises(FedSVDError, match="FSVD-100"):
                    client.submit({**file, "job": {**file["job"], "id": column}})
            with pytest.raises(FedSVDError, match="FSVD-100"):
                client.submit({**file, "job": {**file["job"], "id": "x" * (2 << 20)}})
            # These wait for a party that is not there, each as large as a job may be.
            waiting = {**file, "job": {**file["job"], "id": "x" * 1000}, "party": [*file["party"], {"name": "c"}]}
            for _ in range(250):
                client.submit(waiting)
            assert len(client.jobs()) == 250
        finally:
            client.close()
        with federation.connect() as researcher:
            id = researcher.submit(file)
            assert researcher.wait(id, timeout=GENEROUS).state == "done"
        assert all(process.popen.poll() is None for process in federation.processes.values())
        expect_simulated(federation, id)
