"""A member that dies or stands still is noticed in seconds, whatever it does at the time; a thin line is no dead one.

Patience is long in most of these, so that what ends soon was noticed by what broke off or stood still, not by silence.
"""

import re
import signal
import subprocess
import sys
import threading
from time import monotonic, sleep

import pytest
from tests.e2e.commands import GENEROUS, until
from tests.e2e.federations import federation_in_trouble, job_file, two_parties
from tests.e2e.held_csp import HeldCsp
from tests.e2e.outcomes import file_of, settled

from fedsvd.service import api
from fedsvd.service.records import JobState

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
SOON = 10.0  # seconds: a lost party is noticed within these
BUSY = 5.0  # seconds that a busy machine may take for the rest


class Watched(HeldCsp):
    """A CSP at which party b waits for the answer that it is enlisted, or that it may join."""

    def __init__(self, *how, **more):
        self.asked = threading.Event()
        super().__init__(*how, **more)

    def handle(self, verb, caller, asked):
        answer = super().handle(verb, caller, asked)
        if caller == "party/b" and verb is api.ENLIST:
            self.asked.set()
            self.gate.wait(GENEROUS)
        return answer


def broken_after(node, id, what):
    """The job's failure at the CSP, and the seconds until it was there, from what was done to the party."""
    what()
    since = monotonic()
    until(lambda: node.jobs.get(id).state is JobState.BROKEN, "the party was never missed")
    took = monotonic() - since
    return next(each for each in node.jobs.get(id).failures if each.who == "csp"), took


@pytest.mark.chaos("a lost party", "kill -9 between enlisting and joining", "FSVD-501 at the CSP within 10 s")
def test_a_party_killed_between_enlisting_and_joining_is_noticed_in_seconds(tmp_path):
    with two_parties(tmp_path) as federation, federation.csp_node(Watched) as node, federation.member_nodes("party/a"):
        federation.start("party/b")
        with federation.connect() as researcher:
            id = researcher.submit(file_of("svd", ("a", "b")))
            assert node.asked.wait(GENEROUS)
            until(lambda: node.jobs.get(id).state is JobState.RUNNING)
            failure, took = broken_after(node, id, lambda: federation.kill("party/b"))
    assert failure.code == "FSVD-501"
    assert "the connection of user 2 closed" in failure.text
    assert took < SOON + BUSY


@pytest.mark.slow
@pytest.mark.chaos("a lost party", "kill -9 of a party that has no call waiting", "FSVD-501 at the CSP within 10 s")
def test_a_party_killed_while_no_call_of_its_session_waits_is_noticed_in_seconds(tmp_path, monkeypatch):
    with two_parties(tmp_path) as federation, federation.csp_node(HeldCsp) as node, federation.member_nodes("party/a"):
        node.hold_at("party/b", "summing")
        federation.start("party/b")
        with federation.connect() as researcher:
            id = researcher.submit(file_of("svd", ("a", "b")))
            until(lambda: ("party/b", "summing") in [(who, stage) for _, who, stage, _ in node.told])
            # As between two polls: what waits in the session is answered, and the next has not come.
            monkeypatch.setattr("fedsvd.transport.session.SessionLinks.broke_off", lambda *_: None)
            failure, took = broken_after(node, id, lambda: federation.kill("party/b"))
    assert failure.code == "FSVD-501"
    assert took < SOON + BUSY


def expect_still(failure, took):
    """A process that stood still was noticed by that, in time."""
    assert failure.code == "FSVD-501"
    silent = re.search("nothing has come from user 2 for ([0-9]+) s", failure.text)
    assert silent, failure.text
    assert int(silent[1]) < SOON
    assert took < SOON + BUSY


@pytest.mark.chaos("a stalled peer", "a party's process stands still (SIGSTOP) between enlisting and joining")
def test_a_process_that_stands_still_between_enlisting_and_joining_is_noticed_in_seconds(tmp_path, record_property):
    with two_parties(tmp_path) as federation, federation.csp_node(Watched) as node, federation.member_nodes("party/a"):
        federation.start("party/b")
        process = federation.processes["party/b"]
        with federation.connect() as researcher:
            id = researcher.submit(file_of("svd", ("a", "b")))
            assert node.asked.wait(GENEROUS)
            until(lambda: node.jobs.get(id).state is JobState.RUNNING)
            failure, took = broken_after(node, id, lambda: process.signal(signal.SIGSTOP))
            process.signal(signal.SIGCONT)
            node.release()
            record_property("outcome", f"{failure.code} at the CSP, here after {took:.1f} s")
    expect_still(failure, took)


@pytest.mark.slow
@pytest.mark.chaos("a stalled peer", "a party's process stands still (SIGSTOP) in its session, patience a minute")
def test_a_process_that_stands_still_in_its_session_is_noticed_in_seconds(tmp_path, record_property):
    with two_parties(tmp_path) as federation, federation.csp_node(HeldCsp) as node, federation.member_nodes("party/a"):
        node.hold_at("party/b", "summing")
        federation.start("party/b")
        process = federation.processes["party/b"]
        with federation.connect() as researcher:
            id = researcher.submit(file_of("svd", ("a", "b")))
            until(lambda: ("party/b", "summing") in [(who, stage) for _, who, stage, _ in node.told])
            failure, took = broken_after(node, id, lambda: process.signal(signal.SIGSTOP))
            process.signal(signal.SIGCONT)
            node.release()
            record_property("outcome", f"{failure.code} at the CSP, here after {took:.1f} s")
    expect_still(failure, took)


@pytest.mark.slow
@pytest.mark.chaos("a stalled peer", "a party's process stands still (SIGSTOP) while it enlists")
def test_a_process_that_stands_still_while_it_enlists_is_missed_and_resume_ends_right(tmp_path, record_property):
    with federation_in_trouble(tmp_path) as federation:
        federation.lay_data().start("csp/csp", "party/a", "party/c")
        process = federation.start_with_fault("party/b", "enlists-slowly")
        with federation.client() as client:
            id = client.submit(job_file()).id
            until(lambda: client.job(id).progress_of("party/b").stage == "reading")
            assert client.job(id).state is JobState.RECRUITING
            assert "party/b" not in client.job(id).enlisted
            process.send_signal(signal.SIGSTOP)
            since = monotonic()
            broken = settled(client, id, {"broken"})
            took = monotonic() - since
            assert [(failure.code, failure.stage) for failure in broken.failures] == [("FSVD-501", "enlisting")]
            assert took < SOON + BUSY
            record_property("outcome", f"FSVD-501 at the CSP, here after {took:.1f} s; resumed, right")
            process.send_signal(signal.SIGCONT)
            client.resume(id)
            assert settled(client, id, {"done", "broken"}).state is JobState.DONE
        federation.expect_right()


COMPUTES = """
import ctypes, sys, threading
from pathlib import Path
from fedsvd.service.site import Site
from fedsvd.transport.calls import STAY, Staying
from fedsvd.transport.grpc_client import PinnedConnection
line = PinnedConnection(Site.at(Path(sys.argv[1])).dialling(sys.argv[2]))
threading.Thread(target=line.call, args=(STAY, Staying(60_000).encode()), daemon=True).start()
sys.stdin.readline()
ctypes.PyDLL(None).sleep(14)  # a library that holds Python's lock, as LAPACK does for minutes
print("computed", flush=True)
sys.stdin.readline()
"""


@pytest.mark.slow
@pytest.mark.chaos("a stalled peer", "a party computes and holds Python's lock for 14 s", "not taken for lost")
def test_a_process_that_computes_with_pythons_lock_held_does_not_stand_still(tmp_path):
    with two_parties(tmp_path) as federation, federation.csp_node() as node:
        words = [sys.executable, "-c", COMPUTES, str(federation.kits["party/b"]), f"127.0.0.1:{node.port}"]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                until(lambda: node.presence.here("party/b"))
                process.stdin.write("go\n")
                process.stdin.flush()
                reader = threading.Thread(target=process.stdout.readline)
                reader.start()
                lost = []
                while reader.is_alive():
                    lost.append(node.presence.lost_at("party/b"))
                    sleep(0.1)
                assert len(lost) > 50
                assert set(lost) == {None}
                process.send_signal(signal.SIGSTOP)
                until(lambda: node.presence.lost_at("party/b") is not None, "it stood still, and was not missed")
                process.send_signal(signal.SIGCONT)
                until(lambda: node.presence.lost_at("party/b") is None, "it went on, and was still missed")
            finally:
                process.kill()
