"""A role looks at itself: ``doctor --self`` says whether it answers, and a CSP that does not ends."""

import os
import signal
import threading

import pytest
from tests.e2e.commands import GENEROUS, command, until
from tests.e2e.federations import free_port, two_parties

from fedsvd.errors import OutOfResources, PeerLost
from fedsvd.identity.names import KitRole
from fedsvd.service import self_check
from fedsvd.service.self_check import expect_answering, expect_port, watch
from fedsvd.service.serve import serve
from fedsvd.service.site import Site


def itself(federation, name):
    return command("doctor", "--self", "--kit", federation.kits[name])


@pytest.mark.chaos("a mute CSP", "a process that stands still (SIGSTOP)", "doctor --self ends with 1")
def test_doctor_says_from_inside_whether_a_csp_and_a_party_answer(tmp_path):
    with two_parties(tmp_path) as federation:
        assert itself(federation, "csp/csp").returncode == 1
        federation.start("csp/csp", "party/a")
        kit = federation.kits["csp/csp"]
        (kit / "site.toml").write_text(f'[csp]\nlisten = "{federation.csp}"\n')
        until(lambda: (kit / "state" / ".alive").exists())
        well = itself(federation, "csp/csp")
        assert (well.returncode, well.stderr) == (0, "")
        until(lambda: itself(federation, "party/a").returncode == 0)
        process = federation.processes["csp/csp"]
        process.signal(signal.SIGSTOP)
        stopped = itself(federation, "csp/csp")
        process.signal(signal.SIGCONT)
        assert stopped.returncode == 1
        federation.stop("party/a")
        os.utime(federation.kits["party/a"] / "state" / ".alive", (1, 1))
        assert itself(federation, "party/a").returncode == 1


def test_a_look_that_fails_for_too_long_ends_the_service(tmp_path, monkeypatch):
    monkeypatch.setattr(self_check, "LONGEST", 0.0)
    looks = []

    def look():
        looks.append(1)
        raise OutOfResources("no thread answers")

    with pytest.raises(OutOfResources):
        watch(tmp_path, threading.Event(), look, every=0.01)
    assert looks
    assert not (tmp_path / ".alive").exists()


@pytest.mark.chaos("a mute CSP", "not all of its threads can be started", "FSVD-351 at the start; nothing listens")
def test_a_csp_whose_threads_cannot_all_be_started_does_not_start(tmp_path, monkeypatch):
    started = []

    class Few(threading.Thread):
        def start(self):
            if self.name.startswith("exchange"):
                started.append(self)
                if len(started) > 20:
                    raise RuntimeError("can't start new thread")
            super().start()

    with two_parties(tmp_path) as federation:
        monkeypatch.setattr(threading, "Thread", Few)
        federation.csp = f"127.0.0.1:{free_port()}"
        site = Site.at(federation.kits["csp/csp"])
        with pytest.raises(OutOfResources, match="threads cannot be started here"):
            serve(site, KitRole.CSP, threading.Event(), lambda ready: pytest.fail("ready"), listen=federation.csp)
        for thread in started[:20]:
            thread.join(GENEROUS)
            assert not thread.is_alive()
        with pytest.raises(PeerLost, match="nothing answers"):
            expect_port(site, federation.csp)


def test_a_port_or_threads_that_do_not_answer_are_found(tmp_path):
    with two_parties(tmp_path) as federation, federation.csp_node() as node:
        expect_answering(node.answers)
        expect_port(Site.at(federation.kits["csp/csp"]), f"127.0.0.1:{node.port}")
        with pytest.raises(PeerLost, match="another server"):
            expect_port(Site.at(federation.kits["party/a"]), f"127.0.0.1:{node.port}")
        with pytest.raises(OutOfResources):
            expect_answering(lambda seconds: False)
    with pytest.raises(PeerLost, match="nothing answers"):
        expect_port(Site.at(federation.kits["csp/csp"]), f"127.0.0.1:{node.port}")
    with pytest.raises(OutOfResources):
        expect_answering(node.answers)  # it has stopped


def test_callers_without_a_certificate_write_nothing_into_the_log_of_a_csp(tmp_path):
    with two_parties(tmp_path) as federation:
        federation.start("csp/csp", how="processes")
        for _ in range(3):  # what the CSP itself does every five seconds
            expect_port(Site.at(federation.kits["csp/csp"]), federation.csp)
        process = federation.processes["csp/csp"]
        assert federation.stop("csp/csp") == 0
        assert not any("andshake" in line for line in process.err), process.err
