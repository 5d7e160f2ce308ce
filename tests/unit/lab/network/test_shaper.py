"""A line's arithmetic, without a clock: what enters at one time comes out at another, in order, or is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tolerances import digits_lost

from fedsvd.errors import ConfigError
from fedsvd_lab.network.shaper import Shaper


def test_a_packet_takes_its_bits_over_the_rate_and_the_delay():
    line = Shaper(rate=8e6, delay=0.025)  # a byte takes a microsecond
    assert line.admit(1000, 5.0) == pytest.approx(5.0 + 0.001 + 0.025, abs=digits_lost(4))


def test_packets_wait_for_those_before_them_and_an_idle_line_saves_nothing_up():
    line = Shaper(rate=8e6, delay=0.0)
    assert line.admit(1000, 0.0) == pytest.approx(0.001)
    assert line.admit(2000, 0.0) == pytest.approx(0.003)
    assert line.admit(1000, 0.002) == pytest.approx(0.004)
    assert line.admit(1000, 10.0) == pytest.approx(10.001)


def test_what_the_queue_has_no_space_for_is_lost_and_costs_nothing():
    line = Shaper(rate=8e6, delay=0.1, queue=3000)
    assert [line.offer(1000, 0.0) is not None for _ in range(5)] == [True, True, True, False, False]
    assert line.waiting(0.0) == pytest.approx(3000)
    # A millisecond later a thousand bytes were carried.
    assert line.offer(1000, 0.001) == pytest.approx(0.004 + 0.1)
    assert line.offer(1000, 0.001) is None


def test_one_who_may_not_lose_anything_is_told_how_long_to_wait():
    line = Shaper(rate=8e6, delay=0.0, queue=3000)
    line.admit(5000, 0.0)
    assert line.wait_for_space(0.0) == pytest.approx(0.002)
    assert line.wait_for_space(0.002) == pytest.approx(0.0, abs=digits_lost(4))
    assert line.wait_for_space(1.0) == 0.0


def test_the_queue_holds_a_round_trip():
    assert Shaper(rate=100e6, delay=0.025).queue == 625_000
    assert Shaper(rate=1e6, delay=0.0).queue == 64 << 10


@given(
    st.lists(st.tuples(st.floats(0.0, 0.01), st.integers(1, 9000)), min_size=1, max_size=200),
    st.sampled_from([1e6, 100e6, 1e9]),
)
def test_nothing_overtakes_and_nothing_is_faster_than_the_rate(packets, rate):
    line, now, comes, carried = Shaper(rate, 0.025), 0.0, [], 0
    for pause, size in packets:
        now += pause
        due = line.offer(size, now)
        if due is not None:
            carried += size
            comes.append(due)
            assert due >= now + 8 * size / rate + 0.025 - digits_lost(7)
    assert comes == sorted(comes)
    assert comes[-1] >= packets[0][0] + 8 * carried / rate + 0.025 - digits_lost(7)


@pytest.mark.parametrize(("rate", "delay"), [(0.0, 0.1), (-1.0, 0.1), (float("nan"), 0.1), (1e6, -0.1)])
def test_a_line_without_a_rate_is_refused(rate, delay):
    with pytest.raises(ConfigError, match="bit/s"):
        Shaper(rate, delay)
