"""Connections by caller: how many each may have, and from whom nothing comes any more."""

import socket
from contextlib import ExitStack

import pytest
from tests.network import until

from fedsvd.transport import connections
from fedsvd.transport.connections import NAMELESS, Connection, Connections, connections_to, end_of, hang_up

MOST = 256  # connections in all: 16 of one caller, 64 of those that made no call


class Kernel:
    """A list of connections that a test changes, and a clock."""

    def __init__(self, monkeypatch):
        self.now, self.listed, self.closed, self.noted = 1000.0, {}, [], []
        monkeypatch.setattr(connections, "monotonic", lambda: self.now)
        self.connections = Connections(
            7443, MOST, lambda *what: self.noted.append(what), lambda port: list(self.listed.values()), self.close
        )

    def open(self, port, caller=None, host="10.0.0.1", silent=0.0):
        self.listed[host, port] = Connection(port, (host, port), silent)
        if caller:
            self.connections.called(f"ipv4:{host}:{port}", caller)

    def close(self, connection):
        self.closed.append(connection.end)
        del self.listed[connection.end]

    def passes(self, seconds, heard=()):
        """So much time, in which nothing comes but over the connections of these ports."""
        for _ in range(round(seconds / connections.EVERY)):
            self.now += connections.EVERY
            for end, each in list(self.listed.items()):
                silent = 0.0 if end[1] in heard else each.silent + connections.EVERY
                self.listed[end] = Connection(each.descriptor, end, silent)
            self.connections.look()


@pytest.fixture
def kernel(monkeypatch):
    return Kernel(monkeypatch)


def test_a_caller_has_its_share_of_connections_and_loses_those_that_were_silent_longest(kernel):
    for port in range(20):
        kernel.open(port, "party/a", silent=float(port))
    kernel.open(99, "party/b", silent=1e6)
    kernel.connections.look()
    assert sorted(kernel.closed) == [("10.0.0.1", port) for port in (16, 17, 18, 19)]
    assert kernel.noted == [("party/a", 4)]
    kernel.open(50, "party/a")
    kernel.connections.look()
    assert len(kernel.closed) == 5
    assert len(kernel.noted) == 1  # one line for as long as it goes on


def test_ends_that_make_no_call_are_closed_when_they_are_many_those_of_the_fullest_address_first(kernel):
    for port in range(80):
        kernel.open(port, host="10.0.0.9")
    for port in range(3):
        kernel.open(port, host="10.0.0.2")
    kernel.connections.look()
    assert len(kernel.listed) == 64
    assert {host for host, _ in kernel.closed} == {"10.0.0.9"}
    assert kernel.noted == [(NAMELESS, 19)]


def test_an_end_that_makes_no_call_is_closed_in_seconds_and_one_that_does_is_not(kernel):
    kernel.open(1)
    kernel.open(2, "party/a")
    kernel.passes(19.0)
    assert kernel.closed == []
    kernel.passes(3.0)
    assert kernel.closed == [("10.0.0.1", 1)]


def test_a_caller_that_stood_still_and_calls_again_is_there_at_once(kernel):
    """A job that is resumed as its party wakes was broken again, until the next look at the connections."""
    kernel.open(1, "party/a")
    kernel.passes(20.0)
    assert kernel.connections.quiet_since("party/a") is not None
    kernel.now += connections.EVERY / 2
    kernel.connections.called("ipv4:10.0.0.1:1", "party/a")
    assert kernel.connections.quiet_since("party/a") is None


def test_a_caller_from_whose_connections_nothing_comes_is_quiet_since_its_last_byte(kernel):
    kernel.open(1, "party/a")
    kernel.open(2, "party/a")
    kernel.open(3, "party/b")
    kernel.passes(10.0, heard=(1, 3))
    assert kernel.connections.quiet_since("party/a") is None  # one of its connections is enough
    last = kernel.now
    kernel.passes(8.0, heard=(3,))
    assert kernel.connections.quiet_since("party/a") == pytest.approx(last)
    assert kernel.connections.quiet_since("party/b") is None
    assert kernel.connections.quiet_since("party/unknown") is None


def test_a_server_that_stood_still_itself_misses_no_one_for_that_time(kernel):
    kernel.open(1, "party/a")
    kernel.passes(2.0, heard=(1,))
    kernel.now += 3600.0  # this machine slept: nothing was asked, and nothing came
    kernel.open(1, silent=3600.0)
    kernel.connections.look()
    woke = kernel.now
    kernel.passes(3.0)
    assert kernel.connections.quiet_since("party/a") is None
    kernel.passes(5.0)
    assert kernel.connections.quiet_since("party/a") == pytest.approx(woke)


def test_a_caller_that_became_known_while_the_kernel_was_asked_is_not_forgotten(monkeypatch):
    monkeypatch.setattr(connections, "monotonic", lambda: 1000.0)
    theirs = Connection(5, ("10.0.0.1", 5), 0.0)
    answers = [[], [theirs] * 2]
    noted = []

    def asked(port):
        found = answers.pop(0)
        if not found:
            seen.called("ipv4:10.0.0.1:5", "party/a")
        return found

    seen = Connections(7443, MOST, lambda *what: noted.append(what), asked, lambda connection: None)
    seen.look()
    seen.look()
    monkeypatch.setattr(connections, "monotonic", lambda: 1001.0)
    answers.append([Connection(5, theirs.end, 900.0)])
    seen.look()
    assert noted == []
    monkeypatch.setattr(connections, "monotonic", lambda: 1002.0)
    answers.append([Connection(5, theirs.end, 901.0)])
    seen.look()
    assert seen.quiet_since("party/a") is None  # known, and quiet for two seconds of our looks
    for second in range(3, 9):
        monkeypatch.setattr(connections, "monotonic", lambda second=second: 1000.0 + second)
        answers.append([Connection(5, theirs.end, 900.0 + second)])
        seen.look()
    assert seen.quiet_since("party/a") == pytest.approx(1000.0)


@pytest.mark.parametrize(
    ("peer", "end"),
    [
        ("ipv4:10.0.0.7:41234", ("10.0.0.7", 41234)),
        ("ipv6:%5B::1%5D:7", ("::1", 7)),
        ("ipv6:%5B::ffff:10.0.0.7%5D:7", ("10.0.0.7", 7)),
        ("ipv6:%5Bfe80::1%25eth0%5D:7", ("fe80::1", 7)),
        ("unix:/run/socket", None),
        ("ipv4:nowhere:7", None),
        ("", None),
    ],
)
def test_the_name_that_grpc_has_for_an_end_is_read(peer, end):
    assert end_of(peer) == end


def test_the_kernel_says_who_is_connected_how_long_it_said_nothing_and_ends_it():
    with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as held:
        port = server.getsockname()[1]
        near = held.enter_context(socket.create_connection(("127.0.0.1", port)))
        far = held.enter_context(server.accept()[0])
        found = connections_to(port)
        if found is None:
            pytest.skip("this system does not say")
        (one,) = found
        assert one.end == near.getsockname()
        assert one.descriptor == far.fileno()
        until(lambda: connections_to(port)[0].silent > 0.3)
        near.send(b"x")
        until(lambda: connections_to(port)[0].silent < 0.3)
        hang_up(Connection(one.descriptor, ("127.0.0.1", 1), 0.0))  # another end by now: left alone
        near.send(b"y")
        assert far.recv(2) == b"xy"
        hang_up(one)
        assert near.recv(1) == b""
