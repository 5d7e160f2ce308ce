"""Columns that are not copied have the products of those that are; a logit keeps its digits on both sides."""

import numpy as np
import pytest
from scipy import special
from tests.tolerances import assert_close, assert_each_close, digits_lost

from fedsvd.statistics import families
from fedsvd.statistics.families import LOGIT
from fedsvd.statistics.newton_requests import Columns, Point, design

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("features", [0, 1, 6])
def test_columns_near_zero_have_the_products_of_centred_columns(first, features):
    means = RNG.uniform(-8.0, 8.0, features)
    X = RNG.normal(size=(500, features)) + means
    beta, values, weights = RNG.normal(size=first + features), RNG.normal(size=500), RNG.uniform(0.01, 0.25, 500)
    at = Point(beta, means + 0.01, True, near=True)
    near, Z = Columns(at, X, first), design(at, X, first)
    assert near.shape == Z.shape
    bar = digits_lost(2)
    assert_close(near.times(beta), Z @ beta, bar, scale=30.0)
    assert_close(near.turned(values), Z.T @ values, bar, scale=500.0)
    assert_close(near.squared(weights), (Z * weights[:, None]).T @ Z, bar, scale=500.0)


def test_columns_far_from_zero_are_centred_first():
    X = RNG.normal(size=(400, 3)) + 1e9
    at = Point(np.array([0.5, 1.0, -2.0, 0.25]), np.full(3, 1e9), True)
    Z, exact = Columns(at, X, 1), np.column_stack((np.ones(400), X - 1e9))
    np.testing.assert_array_equal(Z.times(at.beta), exact @ at.beta)
    np.testing.assert_array_equal(Z.turned(X[:, 0]), exact.T @ X[:, 0])
    before = X.copy()
    assert_close(Z.squared(np.full(400, 0.25)), 0.25 * exact.T @ exact, digits_lost(2))
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 30.0, 100.0])
def test_a_logit_has_all_digits_on_both_sides(scale):
    eta = np.concatenate((scale * RNG.normal(size=1000), [0.0, -0.0, scale, -scale]))
    for y in (np.zeros(len(eta)), np.ones(len(eta))):
        found = LOGIT.evaluate(eta, y)
        mu, rest = special.expit(eta), special.expit(-eta)
        assert_each_close(found.mu, mu, digits_lost(1))
        assert_each_close(found.variance, mu * rest, digits_lost(1))
        assert_each_close(found.deviance, -2.0 * (special.log_expit(eta if y[0] else -eta)), digits_lost(1))


def test_far_beyond_any_data_a_logit_is_finite():
    found = LOGIT.evaluate(np.array([1e6, -1e6]), np.array([0.0, 1.0]))
    assert np.isfinite(found.deviance).all()
    assert (found.variance > 0.0).all()


def test_the_likelihood_of_outcomes_is_that_of_shares_that_are_none():
    eta, weights = RNG.normal(size=50), RNG.uniform(0.5, 2.0, 50)
    y = (RNG.random(50) < special.expit(eta)).astype(float)
    found = LOGIT.log_likelihood(y, eta, weights, 1.0)
    expected = weights * np.where(y > 0.0, special.log_expit(eta), special.log_expit(-eta))
    assert_each_close(found, expected, digits_lost(1))
    mixed = np.append(y, 0.5), np.append(eta, 0.3), np.append(weights, 4.0)
    np.testing.assert_array_equal(LOGIT.log_likelihood(*mixed, 1.0)[:-1], found)


def test_a_canonical_link_has_its_variance_as_curvature():
    local = LOGIT.evaluate(RNG.normal(size=9), np.ones(9))
    assert families.expected_curvature(local) is local.variance
