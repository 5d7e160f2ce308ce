"""Every interleaving gives the same result, bit for bit: order is kept on each link, and nothing depends on the rest.

Sums in the ring have no order, batches have numbers, and who must wait does. With two users all orders are played that
differ from the order of sending in one choice (in two, where it is marked slow); with more, hypothesis and a few mean
schedules choose.
"""

from dataclasses import fields, is_dataclass
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsvd.engine.simulate import Simulation
from fedsvd.protocol.messages import BatchRequest
from fedsvd.protocol.parties import CSP, TA, user
from fedsvd.testing.federation import drawn, every_order, newest_first, shuffled, starving
from fedsvd.testing.transports import DIGEST
from fedsvd.transport.loopback import Hub

from .cases import CASES


def bits(results):
    """Results as bytes: floats to the last bit, signs of zeros included."""
    return [[_bits(getattr(result, field.name)) for field in fields(result)] for result in results]


@cache
def expected(case, k):
    """The bits of a session in which everything arrives in the order it was sent."""
    return bits(CASES[case](k).run())


def _bits(value):
    if is_dataclass(value):
        return bits([value])
    return (value.shape, value.tobytes()) if isinstance(value, np.ndarray) else repr(value)


# Many batches or sums, whose orders multiply: other schedules below play them.
ENDLESS = {case for case in CASES if "tall" in case or "glm" in case or "propensity" in case}


@pytest.mark.parametrize("most", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", [case for case in CASES if case not in ENDLESS])
def test_every_order_of_two_users_gives_the_same_bits(case, most):
    orders = 0
    for results in every_order(CASES[case](2).run, most):
        assert bits(results) == expected(case, 2)
        orders += 1
    assert orders >= 5 * most


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=3)
@given(data=st.data())
def test_any_order_of_three_users_gives_the_same_bits(case, data):
    assert bits(CASES[case](3).run(drawn(data))) == expected(case, 3)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("pick", [newest_first, starving(user(1)), starving(TA)])
def test_mean_schedules_of_four_users_give_the_same_bits(case, pick):
    assert bits(CASES[case](4).run(pick)) == expected(case, 4)


@pytest.mark.parametrize("case", ["svd", "pca", "lr vertical", "lr horizontal"])
def test_a_shuffled_session_of_ten_users_gives_the_same_bits(case):
    assert bits(CASES[case](10).run(shuffled(7))) == expected(case, 10)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("pick", [newest_first, shuffled(1), starving(user(1))])
def test_computations_may_take_as_long_as_they_like(case, pick):
    """Nobody is spoken to while it computes: whatever the others do, they wait for it."""
    session = CASES[case](3).assemble()
    run = Simulation(session.machines, Hub(pick), deferred=True).run()
    assert bits([run.results[party] for party in session.plan.users]) == expected(case, 3)


def test_orders_differ_and_are_counted():
    """Every order is played once: three sealed messages on one link and two on another can be heard in ten ways."""

    def run(pick):
        hub = Hub(pick)
        for party, count in ((user(1), 3), (user(2), 2)):
            for number in range(count):
                hub.push(party, CSP, BatchRequest(DIGEST, number))
        return tuple((origin.index, message.batch) for origin, _, message in iter(hub.pop, None))

    orders = list(every_order(run))
    assert len(orders) == len(set(orders)) == 10
    few = [list(every_order(run, most)) for most in range(4)]
    assert [len(set(orders)) for orders in few] == [len(orders) for orders in few]
    assert len(few[0]) == 1
    assert set(few[0]) < set(few[1]) < set(few[2]) <= set(few[3]) == set(orders)
    for order in orders:
        assert [number for who, number in order if who == 1] == [0, 1, 2]
        assert [number for who, number in order if who == 2] == [0, 1]
