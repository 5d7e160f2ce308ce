"""How much a call carries follows from how long calls took: a thin line gets little at a time, and is not given up."""

import threading

import grpc
import pytest
from tests.network import GENEROUS

from fedsvd.errors import TimedOut
from fedsvd.transport.pace import FIRST, LEAST, Pace
from fedsvd.transport.repeat import Landed, Repeating

MOST = 2 << 20
OK, LATE = grpc.StatusCode.OK, grpc.StatusCode.DEADLINE_EXCEEDED


def paced(rate: float, calls: int) -> list[int]:
    """The bytes of so many calls over a line of so many bytes a second."""
    pace, carried = Pace(MOST), []
    for _ in range(calls):
        carried.append(pace.bytes)
        pace.took(pace.bytes, pace.bytes / rate)
    return carried


def test_over_a_fast_line_calls_are_whole_after_four():
    assert paced(1e9, 6) == [FIRST, 4 * FIRST, 16 * FIRST, 64 * FIRST, MOST, MOST]


@pytest.mark.parametrize("rate", [1e3, 3e3, 1e4, 1e5, 1e6])
def test_no_call_takes_long_over_a_thin_line(rate):
    assert all(size / rate <= 10.0 or size == LEAST for size in paced(rate, 50))
    assert all(size / rate <= 4.0 or size == LEAST for size in paced(rate, 50)[2:])


def test_a_call_that_was_late_is_followed_by_a_small_one_and_small_messages_say_nothing():
    pace = Pace(MOST)
    for _ in range(10):
        pace.took(100, 0.001)
    assert (pace.bytes, pace.unknown, pace.thin) == (FIRST, True, True)
    for _ in range(10):
        pace.took(pace.bytes, 0.001)
    assert (pace.bytes, pace.unknown, pace.thin) == (MOST, False, False)
    pace.failed()
    assert (pace.bytes, pace.unknown, pace.thin) == (LEAST, False, True)


def test_while_a_line_is_thin_calls_go_one_at_a_time():
    lock, flying, most = threading.Lock(), 0, 0
    pace = Pace(MOST)

    def attempt(body: bytes, failed_on: int) -> Landed:
        nonlocal flying, most
        with lock:
            flying += 1
            most = max(most, flying)
        threading.Event().wait(0.01)
        with lock:
            flying -= 1
        return Landed(0, OK)

    def pause(seconds: float) -> None:
        threading.Event().wait(seconds)

    assert len(list(Repeating(attempt, bytes, pause, GENEROUS, range(4, 9), pace).run([10] * 12))) == 12
    assert most == 1  # of ten bytes each, which say nothing about the line
    assert len(list(Repeating(attempt, bytes, pause, GENEROUS, range(4, 9), pace).run([MOST] * 12))) == 12
    assert most > 1


def test_a_dead_line_is_still_given_up():
    pace = Pace(MOST)
    calls = Repeating(lambda *_: Landed(0, LATE), bytes, lambda _: None, 0.2, range(4, 9), pace)
    with pytest.raises(TimedOut):
        list(calls.run([FIRST] * 3))
    assert pace.bytes == LEAST
