"""Callers without number: one researcher's waits, and connections that say nothing, do not stop the others."""

import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
from contextlib import ExitStack, suppress

import pytest
from tests.e2e.commands import GENEROUS, until
from tests.e2e.federations import two_parties
from tests.e2e.outcomes import file_of

from fedsvd.service import api
from fedsvd.service.csp import CspNode
from fedsvd.service.records import JobState
from fedsvd.service.serve import raise_descriptors
from fedsvd.service.site import Site
from fedsvd.transport.calls import GREET, LISTENING_OPTIONS
from fedsvd.transport.pinned_connection import CallFailed, TlsChannel
from fedsvd.wire.version import MARK

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
DESCRIPTORS = 1024
IDLE = 1100


class Counting(CspNode):
    """A CSP that counts the waits that are under way."""

    waits = 0

    def handle(self, verb, caller, asked):
        if verb is not api.WAIT:
            return super().handle(verb, caller, asked)
        self.waits += 1
        try:
            return super().handle(verb, caller, asked)
        finally:
            self.waits -= 1


@pytest.mark.chaos("callers without number", "130 waits of one researcher", "put off; a job of others ends meanwhile")
def test_the_waits_of_one_researcher_do_not_stop_a_job(tmp_path):
    with two_parties(tmp_path) as federation, federation.csp_node(Counting) as node, ExitStack() as held:
        with federation.connect() as researcher:
            waiting = researcher.submit({**file_of("svd", ("a", "b")), "party": [{"name": "a"}, {"name": "z"}]})
        seen = json.loads(node.answer("researcher/res", _question("job", id=waiting)))["answer"]["seen"]
        clients = [held.enter_context(federation.client()) for _ in range(13)]
        stop = threading.Event()

        def waits(client):
            while not stop.is_set():
                client.wait(waiting, 10.0, seen)
                stop.wait(0.1)

        threads = [threading.Thread(target=waits, args=(client,), daemon=True) for client in clients for _ in range(10)]
        for thread in threads:
            thread.start()
        until(lambda: node.waits)
        with federation.member_nodes("party/a", "party/b"), federation.connect("party/a") as member:
            id = node.jobs.all()[-1].id
            with federation.connect() as researcher:
                id = researcher.submit(file_of("svd", ("a", "b")))
            until(lambda: node.jobs.get(id).state is JobState.DONE, "the job of others was stopped")
            assert member.job(id).state is JobState.DONE
        assert node.waits <= 8  # of one researcher at a time
        stop.set()
        for thread in threads:
            thread.join(GENEROUS)


def _question(verb, **values):
    return json.dumps({**MARK, "ask": verb, "with": values}).encode()


def test_connections_that_say_nothing_are_closed_in_seconds():
    options = dict(LISTENING_OPTIONS)
    assert options["grpc.server_handshake_timeout_ms"] <= 20_000
    assert options["grpc.max_connection_idle_ms"] <= 300_000


def test_descriptors_are_raised_to_the_hard_limit():
    code = textwrap.dedent("""
        import resource
        from fedsvd.service.serve import raise_descriptors
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 900))
        print(raise_descriptors(), resource.getrlimit(resource.RLIMIT_NOFILE))
    """)
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=GENEROUS)
    assert shown.stdout.split("\n")[0] == "900 (900, 900)"
    assert raise_descriptors() >= resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2


def few_descriptors(federation):
    """A CSP that runs with 1,024 descriptors; its process."""
    words = ["prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}"]
    if shutil.which("prlimit") is None:
        pytest.skip("prlimit is not here")
    federation.start("csp/csp", before=words)
    return federation.processes["csp/csp"].popen


def expect_a_job_ends(federation, process):
    """Others do their work meanwhile, and the CSP finds itself well."""
    with federation.member_nodes("party/a", "party/b"), federation.connect() as researcher:
        id = researcher.submit(file_of("svd", ("a", "b")))
        assert researcher.wait(id, timeout=GENEROUS).state is JobState.DONE
    assert process.poll() is None


@pytest.mark.slow
@pytest.mark.chaos("callers without number", "a connection that begins no handshake", "closed within seconds")
def test_a_connection_that_begins_no_handshake_is_closed_in_seconds(tmp_path):
    with two_parties(tmp_path) as federation, federation.csp_node() as node, ExitStack() as held:
        idle = held.enter_context(socket.create_connection(("127.0.0.1", node.port), 30.0))
        assert idle.recv(1) == b""  # or this times out


@pytest.mark.slow
@pytest.mark.chaos("callers without number", "1,100 idle TCP connections, 1,024 descriptors", "a job of others ends")
def test_idle_connections_beyond_all_descriptors_do_not_make_a_csp_mute(tmp_path):
    raise_descriptors()
    with two_parties(tmp_path) as federation, ExitStack() as held:
        process = few_descriptors(federation)
        for _ in range(IDLE):
            with suppress(OSError):  # refused: the CSP has enough of them
                held.enter_context(socket.create_connection(("127.0.0.1", federation.port), 5.0))
        expect_a_job_ends(federation, process)


@pytest.mark.slow
@pytest.mark.chaos("callers without number", "1,100 idle connections of one party, 1,024 descriptors", "the same")
def test_idle_connections_of_one_caller_are_closed_beyond_its_share(tmp_path):
    raise_descriptors()
    with two_parties(tmp_path) as federation, ExitStack() as held:
        process = few_descriptors(federation)
        dialling = Site.at(federation.kits["party/a"]).dialling(federation.csp)
        for _ in range(IDLE):  # each makes one call, so that it is known whose it is, and says nothing any more
            channel = TlsChannel(dialling, dialling.ca)
            held.callback(channel.close)
            with suppress(CallFailed):
                channel.call(GREET, b"", 5.0)
        most = DESCRIPTORS - 256  # connections that a CSP takes with so many descriptors
        until(lambda: len(os.listdir(f"/proc/{process.pid}/fd")) < most // 4, "they stay open")
        expect_a_job_ends(federation, process)
