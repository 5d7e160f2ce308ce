"""A widened share has the Gram matrix of its factor, in a unit that bounds its entries, mixed by Haar rows."""

import math

import numpy as np
import pytest
from scipy.stats import beta, kstest
from tests import tolerances
from tests.tolerances import digits_lost

from fedsvd.errors import ConfigError, ShapeError
from fedsvd.linalg import householder, widen


def normals(seed):
    return np.random.default_rng(seed).standard_normal


def counted(seed):
    stream, drawn = normals(seed), []
    return (lambda n: (drawn.append(n), stream(n))[1]), drawn


@pytest.mark.parametrize(("m", "p", "q"), [(10, 3, 37), (12, 40, 40), (1000, 1, 532), (1001, 532, 532), (1, 1, 32)])
def test_two_shares_together_are_wider_than_the_matrix(m, p, q):
    assert widen.width(m, p) == q
    assert 2 * widen.width(m, 1) >= m + 63


@pytest.mark.parametrize(("m", "p"), [(10, 1), (30, 20), (30, 60), (200, 200), (7, 1100)])
def test_widening_does_not_change_the_gram_matrix(library, m, p):
    L = normals(m)((m, p))
    T_t = widen.draw_rows(p, widen.width(m, p), normals(1), library.array(L))
    A = library.numpy(widen.widen(library.array(L), T_t))
    assert A.shape == (m, widen.width(m, p))
    np.testing.assert_allclose(
        A @ A.T, L @ L.T, atol=tolerances.product(A.shape[1], 2) * np.linalg.norm(L) ** 2, rtol=0
    )


def test_the_rows_that_are_drawn_are_the_first_ones_of_a_haar_matrix():
    stream = normals(2)
    first = np.array([widen.widen(np.eye(2), widen.draw_rows(2, 6, stream)) for _ in range(2000)])
    np.testing.assert_allclose(first[0] @ first[0].T, np.eye(2), atol=tolerances.orthogonal(6), rtol=0)
    for row in (0, 1):
        for column in (0, 1, 5):
            entry = first[:, row, column]
            assert kstest(entry**2, beta(0.5, 2.5).cdf).pvalue > tolerances.ACCEPTED
            assert abs(np.mean(entry > 0) - 0.5) < 4 * 0.5 / math.sqrt(2000)


def test_rows_are_those_of_the_whole_haar_matrix_from_the_same_normals():
    whole = householder.draw(9, normals(3)).explicit()
    part = widen.widen(np.eye(4), widen.draw_rows(4, 9, normals(3)))
    np.testing.assert_allclose(part, whole.T[:4], atol=tolerances.orthogonal(9), rtol=0)


def test_no_more_normals_are_drawn_than_the_rows_need():
    stream, drawn = counted(4)
    widen.draw_rows(5, 1300, stream)
    assert sum(drawn) == 5 * (2 * 1300 - 5 + 1) // 2


@pytest.mark.parametrize("c", [1.0, 1.37, 1.999])
@pytest.mark.parametrize("F1", [1e-3, 0.4995, 0.5, 1.0 / 1.001, 1.0, 7.3])
def test_the_unit_is_the_least_power_of_two_that_leaves_half(F1, c):
    F = widen.unit(F1, c)
    assert math.frexp(F)[0] == 0.5
    assert 1.001 * c * F1 / F <= 0.5 < 2 * 1.001 * c * F1 / F


@pytest.mark.parametrize("norm", [0.0, math.inf, math.nan])
def test_a_matrix_without_a_norm_has_no_unit(norm):
    with pytest.raises(ConfigError, match="norm"):
        widen.unit(norm)


def test_dither_follows_the_norm_and_has_at_least_four_units():
    assert widen.dither_deviation(0.4, 100) == pytest.approx(0.4 * 2**11 / 10)
    assert widen.dither_deviation(0.4, 10**6) == 4.0


@pytest.mark.parametrize("c", [1.0, 1.9])
def test_a_share_as_a_whole_stays_within_half_of_the_unit(c):
    L = np.zeros((20, 12))
    L[3, 5] = 0.7
    A = widen.widen((c / widen.unit(0.7, c)) * L, widen.draw_rows(12, 42, normals(6)))
    assert 0.25 / 1.001 < np.linalg.norm(A) * (1 + digits_lost(2)) <= 0.5 / 1.001


def test_rows_for_another_factor_are_refused():
    T_t = widen.draw_rows(3, 40, normals(8))
    with pytest.raises(ShapeError, match="4 columns"):
        widen.widen(np.zeros((10, 4)), T_t)
    with pytest.raises(ConfigError, match="41 columns"):
        widen.draw_rows(41, 40, normals(8))
