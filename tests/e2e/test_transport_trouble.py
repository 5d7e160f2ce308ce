"""Whatever happens to a connection, a message arrives once and whole or both ends get a clear error; nothing hangs.

A proxy stands between member and CSP and cuts, stalls, half-closes, delays or refuses. Where the line comes back within
the member's patience the session goes on; where it does not, the member says so, and the CSP misses the member.
"""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep

import grpc
import numpy as np
import pytest
from tests.network import CALLERS, GENEROUS, Network, listening, make_kits, until
from tests.proxies import ConnectProxy, Proxy, proxied_environment

from fedsvd.errors import MalformedFrame, PeerLost, TimedOut, TransportError
from fedsvd.protocol.messages import BatchRequest, PaddedBatch
from fedsvd.protocol.parties import CSP, Party, user
from fedsvd.transport import pinned_connection
from fedsvd.transport.calls import ASK, DIALLING_OPTIONS, LISTENING_OPTIONS
from fedsvd.transport.grpc_client import Dialled
from fedsvd.transport.pace import LEAST
from fedsvd.transport.pinned_connection import CallFailed, PinnedChannels, PinnedConnection
from fedsvd.transport.session import SessionLinks
from fedsvd.types import Digest

PLAN = Digest("0" * 64)
MIB = 1 << 20
THIN = 3_000.0  # bytes a second
SHORT = 2.0  # seconds of patience where a line does not come back


@pytest.fixture(scope="module")
def kits(tmp_path_factory):
    return make_kits(tmp_path_factory.mktemp("federation"))


@pytest.fixture(scope="module")
def shared(kits):
    with listening(kits) as network:
        yield network


@pytest.fixture
def network(shared):
    yield shared
    shared.close()


@pytest.fixture
def proxy(network):
    with Proxy(network.exchange.port) as proxy:
        yield proxy
        network.close()


def batch(number: int, mib: int) -> PaddedBatch:
    words = np.random.default_rng(number).integers(0, 2**64, (mib, MIB // 8), np.uint64)
    return PaddedBatch(PLAN, number, words)


def words(number: int, size: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 2**64, (1, size // 8), np.uint64)


def expect_batch(message: object, number: int, mib: int) -> None:
    assert isinstance(message, PaddedBatch)
    assert message.batch == number
    np.testing.assert_array_equal(message.payload, batch(number, mib).payload)


def small_talk(links: SessionLinks, end: Dialled) -> None:
    """Little enough for the shortest patience on the slowest machine."""
    end.send(CSP, BatchRequest(PLAN, 1))
    assert links.receive(GENEROUS)[1].batch == 1
    links.send(user(1), BatchRequest(PLAN, 2))
    assert end.receive(GENEROUS)[1].batch == 2


def talk_both_ways(links: SessionLinks, end: Dialled, first: int = 0) -> None:
    """A message up and one down, each of several frames, arrive as they were."""
    end.send(CSP, batch(first, 3))
    expect_batch(links.receive(GENEROUS)[1], first, 3)
    links.send(user(1), batch(first + 1, 3))
    expect_batch(end.receive(GENEROUS)[1], first + 1, 3)


# --- lines that come back ---------------------------------------------------------------------------------------------


@pytest.mark.chaos(
    "cut connections", "in the middle of an upload", "dialled again; everything once, complete, in order"
)
@pytest.mark.parametrize("after", [1, 100_000, 3 * MIB, 9 * MIB])
def test_a_connection_cut_in_the_middle_of_an_upload_loses_and_doubles_nothing(network, proxy, after):
    links, end = network.pair(address=proxy.address)
    proxy.cut_after(after)
    for number in range(3):
        end.send(CSP, batch(number, 5))
    for number in range(3):
        expect_batch(links.receive(GENEROUS)[1], number, 5)
    assert links.receive(0.2) is None


@pytest.mark.chaos(
    "cut connections", "again and again, both ways", "dialled again; everything once, complete, in order"
)
def test_a_connection_cut_again_and_again_loses_and_doubles_nothing(network, proxy):
    links, end = network.pair(address=proxy.address)
    for number in range(4):
        end.send(CSP, batch(number, 4))
        links.send(user(1), batch(10 + number, 4))
    stop = threading.Event()

    def cutting() -> None:
        while not stop.wait(0.15):
            proxy.cut()

    thread = threading.Thread(target=cutting)
    thread.start()
    sleep(1.0)
    stop.set()
    thread.join()
    for number in range(4):
        expect_batch(links.receive(GENEROUS)[1], number, 4)
        expect_batch(end.receive(GENEROUS)[1], 10 + number, 4)
    assert links.receive(0.2) is None
    assert end.receive(0.2) is None


def test_a_connection_cut_in_the_middle_of_a_download_loses_and_doubles_nothing(network, proxy):
    links, end = network.pair(address=proxy.address)
    for number in range(3):
        links.send(user(1), batch(number, 5))
        if number:
            proxy.cut()
    for number in range(3):
        expect_batch(end.receive(GENEROUS)[1], number, 5)
    assert end.receive(0.2) is None


@pytest.mark.chaos(
    "a stalled peer", "a connection that carries nothing for a while", "goes on; everything once, complete, in order"
)
def test_a_line_that_stalls_for_a_while_goes_on(network, proxy):
    links, end = network.pair(address=proxy.address)
    talk_both_ways(links, end)
    proxy.flows.clear()
    end.send(CSP, batch(2, 3))
    links.send(user(1), batch(3, 3))
    assert links.receive(0.5) is None
    proxy.flows.set()
    expect_batch(links.receive(GENEROUS)[1], 2, 3)
    expect_batch(end.receive(GENEROUS)[1], 3, 3)
    talk_both_ways(links, end, 4)


@pytest.mark.chaos(
    "half-closed connections", "a connection, once", "dialled again; everything once, complete, in order"
)
def test_a_half_closed_line_is_dialled_again(network, proxy):
    links, end = network.pair(address=proxy.address)
    talk_both_ways(links, end)
    proxy.half_close()
    talk_both_ways(links, end, 2)


def test_a_slow_line_is_a_line(network, proxy):
    proxy.delay = 0.02
    links, end = network.pair(address=proxy.address)
    talk_both_ways(links, end)


@pytest.mark.slow
@pytest.mark.chaos(
    "a thin line", "3 kB/s, messages that take longer than the patience", "everything arrives; no redial"
)
def test_a_thin_line_is_not_a_dead_one(network):
    """What was seen before: no frame got through in the time of a call, and the member was taken for dead."""
    with Proxy(network.exchange.port, THIN) as proxy:
        links, end = network.pair(address=proxy.address, patience=30.0)
        up, down = (PaddedBatch(PLAN, number, words(number, 120 << 10)) for number in (1, 2))  # 40 s each
        end.send(CSP, up)
        links.send(user(1), down)
        for receiving, sent in ((links, up), (end, down)):
            said = None
            while said is None:
                links.expect_signs_of_life(30.0)
                said = receiving.receive(1.0)
            np.testing.assert_array_equal(said[1].payload, sent.payload)
        assert proxy.connections <= 5  # the first asks for the certificate
        network.close()


def test_a_csp_that_refuses_for_a_while_is_waited_for(network, proxy):
    links, end = network.pair(address=proxy.address)
    proxy.refuses = True
    proxy.cut()
    end.send(CSP, batch(0, 3))
    assert links.receive(1.0) is None
    proxy.refuses = False
    expect_batch(links.receive(GENEROUS)[1], 0, 3)
    talk_both_ways(links, end, 1)


def test_a_member_can_dial_before_anything_answers(network, proxy):
    proxy.refuses = True
    links = network.open((user(1),))
    with ThreadPoolExecutor(1) as pool:
        dialling = pool.submit(network.dial, user(1), links.session, address=proxy.address)
        until(lambda: proxy.connections > 1)
        proxy.refuses = False
        talk_both_ways(links, dialling.result(GENEROUS))


# --- lines that do not ------------------------------------------------------------------------------------------------


def gone(proxy: Proxy) -> None:
    proxy.refuses = True
    proxy.cut()


def stalled(proxy: Proxy) -> None:
    proxy.flows.clear()


def half_closed_for_good(proxy: Proxy) -> None:
    proxy.refuses = True
    proxy.half_close()


@pytest.mark.chaos(
    "lines that do not come back",
    "gone, stalled or half-closed, while speaking or waiting",
    "FSVD-502 at the member and at the CSP",
)
@pytest.mark.parametrize("trouble", [gone, stalled, half_closed_for_good])
@pytest.mark.parametrize("saying", [True, False], ids=["while it speaks", "while it waits"])
def test_a_line_that_does_not_come_back_is_an_error_at_both_ends(network, proxy, trouble, saying):
    links, end = network.pair(address=proxy.address, patience=SHORT)
    small_talk(links, end)
    trouble(proxy)
    if saying:
        end.send(CSP, batch(2, 3))
    with pytest.raises(TimedOut, match="nothing got through"):
        end.receive(GENEROUS)
    with pytest.raises(TimedOut):
        end.send(CSP, BatchRequest(PLAN, 3))
    with pytest.raises(TimedOut):
        end.receive()
    end.close()
    until(lambda: _missed(links), "the CSP never missed the member")


def _missed(links: SessionLinks) -> bool:
    try:
        links.expect_signs_of_life(SHORT / 4)
    except TimedOut:
        return True
    return False


def test_nobody_listening_is_an_error_after_our_patience(network):
    with Proxy(network.exchange.port) as proxy:
        address = proxy.address
    links = network.open((user(1),))
    with pytest.raises(TimedOut, match="nothing got through"):
        network.dial(user(1), links.session, address=address, patience=SHORT)


@pytest.mark.chaos("a stalled peer", "large frames are swallowed, small calls answered", "FSVD-502 at the member")
def test_large_frames_that_never_get_through_are_an_error_though_small_calls_do(network, proxy):
    """As behind a path that swallows large packets: pulls are answered, pushes are not."""
    links, end = network.pair(address=proxy.address, patience=SHORT)
    small_talk(links, end)
    push, never = links.push, threading.Event()

    def swallowing(party: Party, body: bytes) -> bool:
        if len(body) > LEAST // 2:  # any part of a long message, however slow the line was found to be
            never.wait(GENEROUS)
        return push(party, body)

    links.push = swallowing
    end.send(CSP, batch(2, 3))
    with pytest.raises(TimedOut):
        end.receive(GENEROUS)
    never.set()


@pytest.mark.chaos("a restarted CSP", "in the middle of a session", "FSVD-501 at the member; a new session works")
def test_a_csp_that_was_restarted_knows_nothing_of_the_session(kits):
    with listening(kits) as network:
        links, end = network.pair()
        talk_both_ways(links, end)
        address = network.address
        network.exchange.stop(0.0)
        with listening(kits, address) as again:
            with pytest.raises(PeerLost, match=r"no such session|over"):
                end.receive(GENEROUS)
            with pytest.raises(PeerLost):
                end.send(CSP, batch(2, 1))
            end.close()
            new = again.open((user(1),))
            talk_both_ways(new, again.dial(user(1), new.session))


# --- back-pressure ----------------------------------------------------------------------------------------------------


@pytest.mark.chaos("a reader that does not read", "at the CSP", "the sender waits; memory stays bounded; nothing lost")
def test_a_sender_waits_for_a_reader_that_does_not_read(kits):
    with listening(kits, held=8 * MIB) as network:
        links, end = network.pair(held=8 * MIB)
        sent = []

        def sending() -> None:
            for number in range(30):
                end.send(CSP, batch(number, 2))
                sent.append(number)

        thread = threading.Thread(target=sending)
        thread.start()
        until(lambda: len(sent) >= 4)
        sleep(1.0)  # time enough for all of it, were nobody to wait
        # Eight MiB may wait at each end, and one message is being handed over.
        assert len(sent) <= 2 * 4 + 1
        for number in range(30):
            expect_batch(links.receive(GENEROUS)[1], number, 2)
        thread.join(GENEROUS)
        assert sent == list(range(30))


def test_a_member_that_does_not_read_fetches_no_more_and_is_not_missed(network):
    links, end = network.pair(held=4 * MIB)
    for number in range(12):
        links.send(user(1), batch(number, 2))
    until(lambda: end.unread > 4 * MIB)
    for _ in range(2):
        before = monotonic()
        until(lambda before=before: monotonic() - links.silence(user(1)) > before, "it shows no sign of life")
    assert end.unread <= 6 * MIB + 1000
    for number in range(12):
        expect_batch(end.receive(GENEROUS)[1], number, 2)


def test_a_line_that_hangs_up_ends_the_wait_of_its_sender(kits):
    with listening(kits, held=MIB) as network:
        _, end = network.pair(held=MIB, patience=SHORT)
        failures = []

        def sending() -> None:
            try:
                while True:
                    end.send(CSP, batch(0, 1))
            except TransportError as error:
                failures.append(error)

        thread = threading.Thread(target=sending)
        thread.start()
        until(lambda: end.unsent > MIB)
        end.close()
        thread.join(GENEROUS)
        assert len(failures) == 1


def test_calls_that_wait_do_not_starve_those_that_speak(kits):
    with listening(kits, workers=8) as network:
        sessions = [network.open((user(1), user(2), user(3))) for _ in range(6)]
        ends = [network.dial(user(i), links.session) for links in sessions for i in (1, 2, 3)]
        for place, end in enumerate(ends):
            end.send(CSP, BatchRequest(PLAN, place))
        for place, links in enumerate(sessions):
            heard = sorted(links.receive(GENEROUS)[1].batch for _ in range(3))
            assert heard == [3 * place, 3 * place + 1, 3 * place + 2]
            links.send(user(2), BatchRequest(PLAN, place))
        for place in range(6):
            assert ends[3 * place + 1].receive(GENEROUS)[1].batch == place


def test_questions_that_wait_do_not_starve_those_that_speak(kits):
    release = threading.Event()

    def slow(caller: str, body: bytes) -> bytes:
        release.wait(GENEROUS)
        return body

    with listening(kits, workers=8, answer=slow) as network, ThreadPoolExecutor(12) as pool:
        line = PinnedConnection(network.dialling(user(2)))
        questions = [pool.submit(line.call, ASK, bytes([number])) for number in range(12)]
        links, end = network.pair()
        talk_both_ways(links, end)
        release.set()
        assert [question.result(GENEROUS) for question in questions] == [bytes([number]) for number in range(12)]
        line.close()


# --- connections ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 3, 6])
def test_a_large_message_goes_over_as_many_connections_as_there_are_channels(network, proxy, channels):
    links, end = network.pair(address=proxy.address, channels=channels)
    end.send(CSP, batch(0, 30))
    expect_batch(links.receive(GENEROUS)[1], 0, 30)
    assert proxy.connections == channels + 1  # the first was for the certificate of the CSP


def test_small_talk_opens_few_connections(network, proxy):
    dialling = network.dialling(user(1), address=proxy.address, channels=6)
    for _ in range(2):
        line = PinnedConnection(dialling)
        for _ in range(10):
            assert line.call(ASK, b"x") == b"null"
        line.close()
    assert proxy.connections == 3  # one for the certificate of the CSP, which both lines then know


def test_a_dead_peer_is_found_and_dialled_again_soon():
    for options in (dict(LISTENING_OPTIONS), dict(DIALLING_OPTIONS)):
        assert options["grpc.keepalive_time_ms"] <= 60_000
        assert options["grpc.keepalive_timeout_ms"] <= 20_000
        assert options["grpc.http2.ping_timeout_ms"] <= 20_000
        assert options["grpc.keepalive_permit_without_calls"] == 1
        assert options["grpc.http2.max_pings_without_data"] == 0
    # The server would hang up on those who ask more often than it allows.
    allowed = dict(LISTENING_OPTIONS)["grpc.http2.min_ping_interval_without_data_ms"]
    assert allowed < dict(DIALLING_OPTIONS)["grpc.keepalive_time_ms"]
    assert dict(DIALLING_OPTIONS)["grpc.max_reconnect_backoff_ms"] <= 5_000


def test_a_line_that_goes_dead_while_an_answer_is_awaited_is_found_by_keepalive(kits, monkeypatch):
    asked, release = threading.Event(), threading.Event()

    def slow(caller: str, body: bytes) -> bytes:
        asked.set()
        release.wait(GENEROUS)
        return body

    quick = {f"grpc.{key}_ms": 1_000 for key in ("keepalive_time", "keepalive_timeout", "http2.ping_timeout")}
    monkeypatch.setattr(
        pinned_connection, "DIALLING_OPTIONS", [(key, quick.get(key, it)) for key, it in DIALLING_OPTIONS]
    )
    with listening(kits, answer=slow) as network, Proxy(network.exchange.port) as proxy, ThreadPoolExecutor(1) as pool:
        line = PinnedChannels(network.dialling(user(1), address=proxy.address, channels=1))
        call = pool.submit(line.call, 0, ASK, b"x", 10 * GENEROUS)
        assert asked.wait(GENEROUS)
        proxy.flows.clear()
        # Without keepalive it would wait for its own time; with gRPC's own time for an answer, a minute.
        with pytest.raises(CallFailed) as failed:
            call.result(GENEROUS / 2)
        assert failed.value.status is grpc.StatusCode.UNAVAILABLE
        proxy.flows.set()
        release.set()
        line.end()


MEMBER = """
import sys
from pathlib import Path
from dataclasses import replace
from fedsvd.protocol.messages import BatchRequest
from fedsvd.protocol.parties import CSP
from fedsvd.service.site import Site
from fedsvd.transport.grpc_client import Dialled
kit, address, session, ending = sys.argv[1:]
dialling = replace(Site.at(Path(kit)).dialling(address), patience=20.0)
end = Dialled(dialling, session)
end.send(CSP, BatchRequest("0" * 64, 7))
assert end.receive(60.0)[1].batch == 8
if ending == "close":
    end.close()
print("heard")
"""


def run_member(network: Network, links: SessionLinks, ending: str, address: str | None = None, **how):
    kit = network.kits[CALLERS[user(1)]]
    arguments = [sys.executable, "-c", MEMBER, str(kit), address or network.address, links.session, ending]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how)
    try:
        assert links.receive(GENEROUS)[1].batch == 7
        links.send(user(1), BatchRequest(PLAN, 8))
        out, err = process.communicate(timeout=GENEROUS)
    finally:
        process.kill()
    return process.returncode, out.strip(), err.strip()


@pytest.mark.parametrize("ending", ["close", "just end"])
def test_a_member_that_ends_prints_nothing_and_leaves_no_thread_behind(network, ending):
    links = network.open((user(1),))
    assert run_member(network, links, ending) == (0, "heard", "")


def test_an_http_connect_proxy_is_honoured(network):
    links = network.open((user(1),))
    # Not 127.0.0.1: some systems go around the proxy for it.
    with ConnectProxy() as proxy:
        address = f"localhost:{network.exchange.port}"
        ended = run_member(network, links, "close", address, env=proxied_environment(proxy.url))
        assert ended == (0, "heard", "")
        assert set(proxy.asked) == {f"CONNECT {address}"}


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_a_session_that_is_over_is_over_for_all_and_never_opened_again(network):
    links, end = network.pair()
    links.send(user(1), BatchRequest(PLAN, 1))
    links.close()
    assert end.receive(GENEROUS)[1].batch == 1
    with pytest.raises(PeerLost, match="over"):
        end.receive(GENEROUS)
    with pytest.raises(PeerLost, match="over"):
        end.send(CSP, BatchRequest(PLAN, 2))
    end.close()
    for _ in range(2):
        with pytest.raises(PeerLost, match="before"):
            network.open((user(1),), links.session)
        with pytest.raises(PeerLost, match="over"):
            network.dial(user(1), links.session)


def test_a_second_process_of_a_party_is_refused_and_the_first_goes_on(network):
    links, end = network.pair()
    with pytest.raises(PeerLost, match="before"):
        network.dial(user(1), links.session)
    talk_both_ways(links, end)


def test_a_member_that_fails_tells_the_csp_when_it_hangs_up(network):
    links = network.open((user(1),))
    end = Dialled(network.dialling(user(1), patience=SHORT), links.session, longest=MIB)
    links.send(user(1), batch(0, 2))
    with pytest.raises(MalformedFrame):
        end.receive(GENEROUS)  # longer than any message that it expects
    end.close()
    with pytest.raises(PeerLost, match="user 1"):
        links.receive(GENEROUS)


def test_hanging_up_is_quick_when_the_csp_is_gone(kits):
    with listening(kits) as network:
        before = set(threading.enumerate())
        _, end = network.pair(patience=SHORT)
        own = set(threading.enumerate()) - before
        network.exchange.stop(0.0)
        count = threading.active_count()
        end.close()
        assert not any(thread.is_alive() for thread in own if not thread.name.startswith("exchange"))
        assert threading.active_count() <= count


def test_many_sessions_at_once_share_nothing(network):
    sessions = [network.open((user(1), user(2))) for _ in range(8)]

    def play(place: int) -> list[tuple[str, int]]:
        links = sessions[place]
        ends = {i: network.dial(user(i), links.session, channels=2) for i in (1, 2)}
        for i, end in ends.items():
            for number in range(5):
                end.send(CSP, batch(1000 * place + 10 * i + number, 1))
        heard = []
        for _ in range(10):
            sender, message = links.receive(GENEROUS)
            expect_batch(message, message.batch, 1)
            heard.append((sender.index, message.batch))
            links.send(sender, BatchRequest(PLAN, message.batch))
        for i, end in ends.items():
            echoed = [end.receive(GENEROUS)[1].batch for _ in range(5)]
            assert echoed == [1000 * place + 10 * i + number for number in range(5)]
            end.close()
        return heard

    with ThreadPoolExecutor(8) as pool:
        for place, heard in enumerate(pool.map(play, range(8))):
            for i in (1, 2):
                expected = [(i, 1000 * place + 10 * i + number) for number in range(5)]
                assert [pair for pair in heard if pair[0] == i] == expected


def test_an_address_that_is_taken_is_a_clear_error(kits, network):
    with pytest.raises(PeerLost, match="cannot listen"), listening(kits, network.address):
        raise AssertionError("nobody listens twice")
    assert Path(kits["csp/csp"]).exists()
