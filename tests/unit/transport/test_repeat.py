"""Calls are made again until they are answered, a few at a time, as long as something gets through."""

import threading
from collections import Counter
from time import monotonic, sleep

import grpc
import pytest
from tests.network import GENEROUS

from fedsvd.errors import MalformedFrame, NotAuthenticated, PeerLost, TimedOut
from fedsvd.transport import repeat
from fedsvd.transport.calls import BUSY
from fedsvd.transport.repeat import Landed, Repeating

OK, DOWN, LATE = grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED


class Weather:
    """Answers calls as a test likes, and remembers how they were made."""

    def __init__(self, forecast=lambda body, tries: OK, takes: float = 0.0, channels: int = 4) -> None:
        self._forecast = forecast
        self._takes = takes
        self._channels = channels
        self._lock = threading.Lock()
        self.tries: Counter[bytes] = Counter()
        self.avoided: list[tuple[bytes, int]] = []
        self.flying = self.most = 0

    def __call__(self, body: bytes, failed_on: int) -> Landed:
        with self._lock:
            self.tries[body] += 1
            tries = self.tries[body]
            self.avoided.append((body, failed_on))
            self.flying += 1
            self.most = max(self.most, self.flying)
        sleep(self._takes)
        with self._lock:
            self.flying -= 1
        status = self._forecast(body, tries)
        channel = (failed_on + 1) % self._channels
        return Landed(channel, status, b"re: " + body if status is OK else b"", f"FSVD-000: {status.name}. Fix: none")


def calls(weather: Weather, items, patience: float = GENEROUS, window: range = range(4, 9), pause=sleep):
    return Repeating(weather, lambda item: b"%d" % item, pause, patience, window).run(items)


def test_every_item_is_answered_once():
    weather = Weather()
    assert sorted(calls(weather, range(100))) == [(item, b"re: %d" % item) for item in range(100)]
    assert set(weather.tries.values()) == {1}


@pytest.mark.parametrize("count", [0, 1])
def test_none_or_a_single_call_needs_no_thread(count):
    threads = set()

    def attempt(body: bytes, failed_on: int) -> Landed:
        threads.add(threading.get_ident())
        return Landed(0, OK, b"yes")

    found = list(Repeating(attempt, lambda item: b"", sleep, GENEROUS, range(4, 9)).run(range(count)))
    assert found == [(0, b"yes")] * count
    assert threads <= {threading.get_ident()}


@pytest.mark.parametrize("status", [DOWN, LATE, BUSY, grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL])
def test_what_failed_for_a_while_is_answered_in_the_end(status):
    weather = Weather(lambda body, tries: status if tries < 3 and body in (b"3", b"7") else OK)
    assert sorted(calls(weather, range(10))) == [(item, b"re: %d" % item) for item in range(10)]
    assert {body for body, tries in weather.tries.items() if tries > 1} == {b"3", b"7"}


def test_a_call_that_failed_is_not_repeated_over_the_same_connection():
    weather = Weather(lambda body, tries: DOWN if tries < 4 else OK)
    assert list(calls(weather, [5])) == [(5, b"re: 5")]
    assert weather.avoided == [(b"5", -1), (b"5", 0), (b"5", 1), (b"5", 2)]


def test_a_body_is_made_once_however_often_it_is_sent():
    made = []
    weather = Weather(lambda body, tries: DOWN if tries < 3 else OK)
    list(Repeating(weather, lambda item: made.append(item) or b"x%d" % item, sleep, GENEROUS, range(2, 3)).run([1, 2]))
    assert sorted(made) == [1, 2]


def test_no_more_calls_are_on_their_way_than_the_window_allows():
    weather = Weather(takes=0.002)
    assert len(list(calls(weather, range(60), window=range(3, 4)))) == 60
    assert weather.most <= 3


def test_over_a_long_line_more_calls_are_on_their_way():
    weather = Weather(takes=0.06)
    assert len(list(calls(weather, range(40), window=range(2, 7)))) == 40
    assert 2 < weather.most <= 6


def test_in_trouble_one_call_at_a_time_is_made_and_the_oldest_first():
    up = threading.Event()
    weather = Weather(lambda body, tries: OK if up.is_set() else DOWN, takes=0.001)
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 12:
            up.set()
        sleep(0.001)

    assert len(list(calls(weather, range(20), pause=pause))) == 20
    # The first few were on their way together when the trouble began, and fail in any order; no later one is repeated.
    repeated = [body for body, failed_on in weather.avoided if failed_on >= 0]
    assert b"0" in repeated
    assert set(repeated) <= {b"0", b"1", b"2", b"3"}
    assert set(weather.tries) == {b"%d" % item for item in range(20)}


def test_a_window_shrinks_to_one_when_calls_do_not_end_in_time():
    late = {b"%d" % item for item in range(4)}
    weather = Weather(lambda body, tries: LATE if body in late and tries == 1 else OK)
    assert len(list(calls(weather, range(12), window=range(4, 5)))) == 12


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (grpc.StatusCode.PERMISSION_DENIED, NotAuthenticated),
        (grpc.StatusCode.FAILED_PRECONDITION, PeerLost),
        (grpc.StatusCode.INVALID_ARGUMENT, MalformedFrame),
        (grpc.StatusCode.UNIMPLEMENTED, MalformedFrame),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, MalformedFrame),
    ],
)
@pytest.mark.parametrize("count", [1, 12])
def test_what_calling_again_cannot_help_is_an_error_at_once(status, error, count):
    weather = Weather(lambda body, tries: status if body == b"0" else OK)
    with pytest.raises(error, match=status.name):
        list(calls(weather, range(count)))
    assert weather.tries[b"0"] == 1


@pytest.mark.parametrize(
    ("status", "error"),
    [(grpc.StatusCode.PERMISSION_DENIED, NotAuthenticated), (grpc.StatusCode.FAILED_PRECONDITION, PeerLost)],
)
def test_what_the_csp_says_to_do_is_what_the_caller_reads(status, error):
    said = error("party/a may not submit jobs", "submit it with a researcher's kit")
    with pytest.raises(error) as refused:
        list(Repeating(lambda *_: Landed(0, status, text=str(said)), bytes, sleep, GENEROUS, range(1, 2)).run([1]))
    assert str(refused.value) == str(said)


@pytest.mark.parametrize("text", ["SSL routines: CERTIFICATE_VERIFY_FAILED", "Hostname Verification Check failed."])
def test_a_csp_that_tls_does_not_trust_is_an_error_at_once(text):
    with pytest.raises(NotAuthenticated, match="certificate"):
        list(Repeating(lambda *_: Landed(0, DOWN, text=text), bytes, sleep, GENEROUS, range(1, 2)).run([1]))


@pytest.mark.parametrize("count", [1, 12])
def test_when_nothing_gets_through_patience_ends(count):
    weather = Weather(lambda body, tries: DOWN)
    started = monotonic()
    with pytest.raises(TimedOut, match="UNAVAILABLE"):
        list(calls(weather, range(count), patience=0.3))
    assert monotonic() - started >= 0.3


def test_patience_is_for_lack_of_progress_and_not_for_the_whole(monkeypatch):
    clock = [0.0]

    def passing(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr(repeat, "monotonic", lambda: clock[0])
    weather = Weather(lambda body, tries: DOWN if tries < 4 else OK)
    assert len(list(calls(weather, range(50), patience=1.0, window=range(1, 2), pause=passing))) == 50
    assert clock[0] > 10.0
    # Busy is an answer too.
    weather = Weather(lambda body, tries: BUSY if tries < 20 else OK)
    assert list(calls(weather, [1], patience=3.0, pause=passing)) == [(1, b"re: 1")]
    assert weather.tries == {b"1": 20}


def test_a_line_that_is_hung_up_ends_all_calls():
    def hung_up(seconds: float) -> None:
        raise PeerLost("the line was hung up")

    with pytest.raises(PeerLost):
        list(calls(Weather(lambda body, tries: DOWN), range(12), pause=hung_up))


def test_a_defect_in_a_thread_is_heard_of():
    def broken(body: bytes, failed_on: int) -> Landed:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(Repeating(broken, lambda item: b"", sleep, GENEROUS, range(2, 3)).run(range(3)))


def test_threads_go_when_nobody_wants_the_answers_any_more():
    weather = Weather(takes=0.001)
    before = threading.active_count()
    answers = calls(weather, iter(int, 1))
    assert next(answers) == (0, b"re: 0")
    answers.close()
    deadline = monotonic() + GENEROUS
    while threading.active_count() > before and monotonic() < deadline:
        sleep(0.01)
    assert threading.active_count() <= before
