"""The users find the least class of powers of two that no number of theirs reaches."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.summing import Session, planned

from fedsvd.errors import FixedPointOverflow, ShapeError
from fedsvd.randomness.keystream import Keystream
from fedsvd.randomness.seed import Seed
from fedsvd.secagg import bound
from fedsvd.secagg.sums import SumKind

PLAN = planned(SumKind.BOUND, bound.LENGTH, "bound")


def exponent(value):
    return math.frexp(value)[1] if value else None


def found(exponents, salt=0):
    """E, through the sum of all users."""
    own = [Keystream(Seed(bytes([salt, user]) * 16)) for user in range(len(exponents))]
    payloads = [bound.encode(power, stream) for power, stream in zip(exponents, own, strict=True)]
    return bound.decode(Session(len(exponents), salt).opened(PLAN, payloads))


def test_there_are_133_classes_from_below_the_least_float64_to_beyond_the_largest():
    assert (bound.LENGTH, bound.CLASSES[0], bound.CLASSES[-1]) == (133, -1088, 1024)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1e305) | st.floats(0, 1e-300) | st.just(0.0), min_size=2, max_size=5))
def test_every_number_is_below_the_class_and_one_reaches_the_class_before(values):
    E = found([exponent(value) for value in values])
    largest = max(values)
    if largest < 2.0**-1056:  # classes up to 2^-1040 count as zero
        assert E is None
    else:
        assert E % 16 == 0
        assert math.frexp(largest)[1] <= E  # largest < 2^E
        assert largest >= math.ldexp(1.0, E - 16)


@pytest.mark.parametrize(
    ("value", "E"),
    [(1.0, 16), (np.nextafter(1.0, 0), 0), (2.0**16, 32), (np.nextafter(2.0**16, 0), 16), (2.0**-16, 0), (3.0, 16)],
)
def test_a_power_of_two_reaches_its_own_class(value, E):
    assert found([exponent(value), None]) == found([exponent(2.0**-900), exponent(value)]) == E


def test_all_zero_is_no_class_and_so_are_numbers_that_cannot_be_scaled():
    assert found([None, None, None]) is None
    assert found([exponent(5e-324), None]) is None
    assert found([-1040, None]) is None
    assert found([-1039, None]) == -1024


def test_a_norm_beyond_float64_is_an_overflow_that_shows_no_value():
    assert found([1024, 5]) == 1024  # the largest float64 is below 2^1024
    with pytest.raises(FixedPointOverflow, match="FSVD-301") as caught:
        found([1025, 5])
    assert "1025" not in str(caught.value)


def test_a_total_of_another_shape_is_refused():
    with pytest.raises(ShapeError):
        bound.decode(np.zeros((132, 2), np.uint64))
