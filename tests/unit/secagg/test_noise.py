"""Noise is made of integers, each equally likely, and reaches as far as the specification says."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.tolerances import ACCEPTED

from fedsvd.errors import ConfigError, FixedPointOverflow
from fedsvd.randomness.keystream import Keystream
from fedsvd.randomness.seed import Seed
from fedsvd.secagg.noise import mean_width, mean_widths, rounded_normals, uniform, uniform_integers, value_width


def stream(number=1):
    return Keystream(Seed(bytes([number]) * 32))


@pytest.mark.parametrize("width", [0, 3, 5])
@pytest.mark.parametrize("law", ["one word", "any width"])
def test_every_integer_within_the_width_is_equally_likely(width, law):
    count = 4000 << width
    if law == "one word":
        drawn = uniform(width, count, stream(width))
    else:
        drawn = np.array(uniform_integers([width] * count, stream(width)))
    values, counts = np.unique(drawn, return_counts=True)
    assert values.tolist() == list(range(-(2**width), 2**width))
    assert stats.chisquare(counts).pvalue > ACCEPTED


@pytest.mark.parametrize("width", [46, 50, 62, 63, 64, 127, 128, 1030, 2046])
def test_noise_of_any_width_fills_it_to_the_last_bit(width):
    drawn = uniform_integers([width] * 2000, stream(9))
    assert all(-(2**width) <= value < 2**width for value in drawn)
    places = np.array([float(Fraction(value, 2 ** (width + 1))) + 0.5 for value in drawn])
    assert stats.kstest(places, "uniform").pvalue > ACCEPTED
    last = [value % 16 for value in drawn]
    assert stats.chisquare(np.bincount(last, minlength=16)).pvalue > ACCEPTED
    if width <= 62:
        one_word = uniform(width, 2000, stream(9))
        assert one_word.tolist() == drawn


def test_widths_may_differ_from_number_to_number():
    widths = [3, 200, 0, 64, 3]
    drawn = uniform_integers(widths, stream(4))
    assert all(-(2**width) <= value < 2**width for width, value in zip(widths, drawn, strict=True))
    assert uniform_integers([], stream()) == []


def test_rounded_normals_have_their_deviation_in_steps():
    drawn = rounded_normals(2.0**18, 20_000, stream(5))
    assert drawn.dtype == np.int64
    assert stats.kstest(drawn / 2.0**18, "norm").pvalue > ACCEPTED
    assert not rounded_normals(0.0, 10, stream()).any()
    small = rounded_normals(1.0, 20_000, stream(6))
    edges = stats.norm.cdf([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])
    expected = np.diff(np.concatenate([[0.0], edges, [1.0]])) * small.size
    assert stats.chisquare(np.bincount(np.clip(small, -3, 3) + 3, minlength=7), expected).pvalue > ACCEPTED


@settings(max_examples=300)
@given(st.integers(1, 10**9), st.floats(0, 1e300), st.floats(-1e290, 1e290))
def test_the_width_of_a_mean_is_the_least_power_of_two_that_reaches_its_bound(n_i, deviation, delta):
    """w = max(3, 1 + ceil(log2(n_i dev 2^-51)) + 1074), dev at least 8 |delta|; in fractions."""
    w = mean_width(n_i, deviation, delta)
    size = Fraction(n_i) * max(Fraction(deviation), 8 * abs(Fraction(delta))) / 2**51
    reach = Fraction(2) ** (w - 1 - 1074)
    if w == 3:
        assert size <= reach
    else:
        assert reach / 2 < size <= reach


@settings(max_examples=300)
@given(
    st.integers(1, 10**9),
    st.lists(st.tuples(st.floats(0, 1e308), st.floats(-1e300, 1e300)), max_size=6),
    st.integers(-1040, 900),
)
def test_widths_of_many_means_are_those_of_each(n_i, spread, power):
    """Next to a power of two a logarithm in float64 would be off by one."""
    near = [(2.0**power * factor / n_i, 0.0) for factor in (1.0, 1 - 2.0**-53, 1 + 2.0**-52, 3.0)]
    deviations, deltas = np.array([*spread, *near, (0.0, 0.0), (5e-324, 0.0)]).T
    expected = [mean_width(n_i, *pair) for pair in zip(deviations.tolist(), deltas.tolist(), strict=True)]
    assert mean_widths(n_i, deviations, deltas) == expected


def test_widths_of_means_that_are_not_finite_are_refused_alike():
    for call in (lambda x: mean_width(3, x), lambda x: mean_widths(3, np.array([1.0, x]), np.zeros(2))):
        with pytest.raises(FixedPointOverflow):
            call(math.inf)
        with pytest.raises(ConfigError):
            call(math.nan)


@given(st.integers(1, 10**9), st.floats(1e-290, 1e290))
def test_the_noise_of_a_mean_covers_32_spacings_of_its_pair(n_i, delta):
    assert 2 ** mean_width(n_i, 0.0, delta) >= 32 * n_i * Fraction(math.ulp(delta)) * 2**1074


@settings(max_examples=300)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_width_of_a_value_is_twice_its_last_digit(value):
    w = value_width(value)
    assert 2**w == max(8, 2 * Fraction(math.ulp(value)) * 2**1074 if value else 8)


def test_where_nothing_varies_the_noise_is_the_least():
    assert mean_width(1000, 0.0) == mean_width(0, 1.0) == value_width(0.0) == value_width(-0.0) == 3
    assert mean_width(3, 2.0**-1000) == 1 + math.ceil(math.log2(3)) - 1000 - 51 + 1074


def test_noise_without_a_law_is_refused():
    for width in (-1, 63):
        with pytest.raises(ConfigError):
            uniform(width, 1, stream())
    with pytest.raises(ConfigError):
        uniform_integers([3, -1], stream())
    for deviation in (-1.0, math.nan, math.inf, 2.0**51):
        with pytest.raises(ConfigError):
            rounded_normals(deviation, 1, stream())
    with pytest.raises(ConfigError):
        mean_width(3, math.nan)
    for call in (lambda: mean_width(3, math.inf), lambda: mean_width(3, 1.0, math.inf), lambda: value_width(math.inf)):
        with pytest.raises(FixedPointOverflow):
            call()
