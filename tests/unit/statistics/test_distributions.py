"""Tail probabilities and quantiles equal SciPy's laws, and stay exact where one minus a probability is lost."""

import math

import numpy as np
import pytest
from scipy import stats
from tests.tolerances import assert_each_close, digits_lost

from fedsvd.statistics import distributions

T = np.array([0.0, 0.3, 1.0, 2.5, 8.0, 40.0])


@pytest.mark.parametrize("freedom", [1, 3, 30, 10_000])
def test_students_t(freedom):
    expected = 2.0 * stats.t.sf(T, freedom)
    assert_each_close(distributions.t_two_sided(T, freedom), expected, digits_lost(5))
    assert_each_close(distributions.t_two_sided(-T, freedom), expected, digits_lost(5))
    assert_each_close(distributions.t_reach(0.9, freedom), stats.t.ppf(0.95, freedom), digits_lost(5))


def test_students_t_near_zero():
    # With one degree of freedom the tail is 1 - 2 atan(t) / pi.
    t = np.array([1e-9, 1e-4, 0.2])
    assert_each_close(1.0 - distributions.t_two_sided(t, 1), 2.0 * np.arctan(t) / math.pi, digits_lost(9))


def test_students_t_in_the_far_tail():
    # With two degrees of freedom the tail has a closed form: 1 - t / sqrt(2 + t^2) = 2 / (r (r + t)), r the root.
    t = 1e8
    root = math.sqrt(2.0 + t * t)
    assert_each_close(distributions.t_two_sided(t, 2), 2.0 / (root * (root + t)), digits_lost(3))


def test_the_normal_law():
    assert_each_close(distributions.normal_two_sided(T), 2.0 * stats.norm.sf(T), digits_lost(4))
    assert_each_close(distributions.normal_reach(0.95), stats.norm.ppf(0.975), digits_lost(4))


@pytest.mark.parametrize(("first", "second"), [(1, 9), (6, 9), (20, 500), (2.5, 33.3)])
def test_f(first, second):
    for f in (0.01, 0.9, 3.0, 200.0):
        assert_each_close(distributions.f_tail(f, first, second), stats.f.sf(f, first, second), digits_lost(5))
    assert_each_close(distributions.f_quantile(0.95, first, second), stats.f.ppf(0.95, first, second), digits_lost(5))
    assert distributions.f_tail(math.inf, first, second) == 0.0


def test_chi_squared_and_beta():
    for x in (0.1, 5.0, 300.0):
        assert_each_close(distributions.chi2_tail(x, 7), stats.chi2.sf(x, 7), digits_lost(5))
    assert_each_close(distributions.beta_quantile(0.95, 1.5, 20.0), stats.beta.ppf(0.95, 1.5, 20.0), digits_lost(5))


def test_the_tail_of_t_beyond_the_squares_of_float64_is_0_and_no_warning():
    with np.errstate(all="raise"):
        assert distributions.t_two_sided(np.array([1e200, -1e200]), 8.0).tolist() == [0.0, 0.0]
