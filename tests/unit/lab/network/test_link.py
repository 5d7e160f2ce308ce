"""Slow links by every method this machine has: what is said arrives as it was, never faster than it may.

Bounds are one-sided: a slow machine makes a link slower, and never faster.
"""

import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from time import monotonic

import numpy as np
import pytest

from fedsvd.errors import ConfigError
from fedsvd_lab.network import link as links
from fedsvd_lab.network.link import METHODS, measure, open_link
from fedsvd_lab.network.namespaces import packet_size

RATE, ROUND_TRIP = 40e6, 0.08
GENEROUS = 60.0

ECHO = """
import socket, sys
with socket.create_server((sys.argv[1], 0)) as server:
    print(server.getsockname()[1], flush=True)
    line, _ = server.accept()
    said = b""
    while more := line.recv(65536):
        said += more
    line.sendall(said[::-1])
    line.shutdown(socket.SHUT_WR)
    line.recv(1)
"""


@contextmanager
def available(method):
    try:
        opened = open_link(RATE, ROUND_TRIP, method)
        link = opened.__enter__()
    except ConfigError as error:
        pytest.skip(f"not on this machine: {error.fault}")
    try:
        yield link
    finally:
        opened.__exit__(None, None, None)


@pytest.mark.parametrize("method", METHODS)
def test_bytes_arrive_as_they_were_and_not_faster_than_the_link_allows(method):
    said = np.random.default_rng(3).bytes(1_000_000)
    with available(method) as link:
        far = subprocess.Popen(
            [*link.before("csp"), sys.executable, "-c", ECHO, link.host], stdout=subprocess.PIPE, text=True
        )
        try:
            host, _, port = link.from_here(int(far.stdout.readline())).rpartition(":")
            started = monotonic()
            with socket.create_connection((host, int(port)), timeout=GENEROUS) as line:
                line.sendall(said)
                line.shutdown(socket.SHUT_WR)
                heard = b""
                while more := line.recv(1 << 16):
                    heard += more
            took = monotonic() - started
            assert far.wait(GENEROUS) == 0
        finally:
            far.kill()
            far.communicate()
    assert heard == said[::-1]
    # There and back one after the other, and a round trip for the first and the last byte.
    assert took >= 2 * 8 * len(said) / RATE + ROUND_TRIP


@pytest.mark.parametrize("method", METHODS)
def test_a_link_is_measured_by_processes_at_its_ends(method):
    with available(method) as link:
        measured = measure(link, seconds=1.0)
    assert measured.round_trip >= ROUND_TRIP
    # A queue is emptied within the window, too.
    assert 0 < measured.rate_up <= 1.2 * RATE
    assert 0 < measured.rate_down <= 1.2 * RATE


def test_the_best_method_that_works_is_taken_and_the_link_says_why_no_better(monkeypatch):
    class Unmade:
        def __init__(self, rate, round_trip, method, instead):
            raise OSError(f"no {method} here")

    monkeypatch.setattr(links, "NamespaceLink", Unmade)
    with open_link(RATE, ROUND_TRIP) as link:
        assert (link.method, link.instead) == ("relay", "netem: no netem here; tun: no tun here")
    with pytest.raises(ConfigError, match="no tun here"), open_link(RATE, ROUND_TRIP, "tun"):
        raise AssertionError("nothing was opened")
    with pytest.raises(ConfigError, match="pigeon"), open_link(RATE, ROUND_TRIP, "pigeon"):
        raise AssertionError("nothing was opened")


def test_a_relay_closes_a_half_when_that_half_is_closed_and_breaks_when_it_is_closed():
    with socket.create_server(("127.0.0.1", 0)) as server, open_link(1e9, 0.0, "relay") as link:
        host, _, port = link.from_members(server.getsockname()[1]).rpartition(":")
        with socket.create_connection((host, int(port)), timeout=GENEROUS) as near:
            far, _ = server.accept()
            with far:
                far.settimeout(GENEROUS)
                near.sendall(b"question")
                near.shutdown(socket.SHUT_WR)
                heard = b""
                while more := far.recv(100):
                    heard += more
                assert heard == b"question"
                far.sendall(b"answer")
                assert near.recv(6, socket.MSG_WAITALL) == b"answer"
                link.close()
                assert near.recv(1) == b""


def test_a_relay_to_nobody_hangs_up():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with open_link(1e9, 0.0, "relay") as link:
        host, _, port = link.from_members(port).rpartition(":")
        with socket.create_connection((host, int(port)), timeout=GENEROUS) as near:
            assert near.recv(1) == b""


def test_connections_share_a_relays_rate():
    said, took = bytes(500_000), []
    with socket.create_server(("127.0.0.1", 0)) as server, open_link(RATE, 0.0, "relay") as link:
        host, _, port = link.from_members(server.getsockname()[1]).rpartition(":")
        started = monotonic()
        lines = [socket.create_connection((host, int(port)), timeout=GENEROUS) for _ in range(3)]
        senders = [threading.Thread(target=line.sendall, args=(said,)) for line in lines]
        for sender in senders:
            sender.start()
        for _ in lines:
            far, _ = server.accept()
            with far:
                assert len(far.recv(len(said), socket.MSG_WAITALL)) == len(said)
            took.append(monotonic() - started)
        for sender, line in zip(senders, lines, strict=True):
            sender.join(GENEROUS)
            line.close()
    assert took[-1] >= 3 * 8 * len(said) / RATE


def test_packets_grow_where_the_rate_asks_too_much_of_python():
    assert packet_size(100e6) == 1500
    assert packet_size(1e9) == 9000
