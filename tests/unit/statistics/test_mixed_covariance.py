"""Covariances of random effects: what makes one, how a step out of their cone is cut, and where a face begins."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tests.tolerances import STATISTIC_BAR

from fedsvd.statistics.mixed_covariance import Covariance

ENTRIES = arrays.arrays(np.float64, 6, elements=st.floats(-2.0, 2.0).map(lambda value: round(value, 3)))


@given(ENTRIES)
def test_parameters_are_outside_where_an_eigenvalue_is_negative(values):
    G = Covariance(3)
    least = np.linalg.eigvalsh(G.matrix(values))[0]
    if abs(least) > STATISTIC_BAR:
        assert G.outside(values) == (least < 0.0)


@given(ENTRIES)
def test_a_cut_step_ends_inside_of_the_cone(values):
    G, start = Covariance(3), np.array([1.0, 0.0, 1.0, 0.0, 0.0, 1.0])
    if G.outside(values):
        assert not G.outside(G.cut(start, values))
    apart = Covariance(3, correlated=False)
    assert (apart.cut(np.ones(3), values[:3]) > 0.0).all()


@given(ENTRIES)
def test_a_face_begins_with_the_largest_effects_and_has_a_column_less(values):
    G = Covariance(3)
    face, start = G.face(G.matrix(values), 1.0)
    assert (face.rank, face.factored, sorted(face.order)) == (2, True, [0, 1, 2])
    made = face.matrix(start)
    assert np.linalg.matrix_rank(made) == 2
    first = face.order[0]
    if G.matrix(values)[first, first] > 1.0:
        np.testing.assert_allclose(made[first], G.matrix(values)[first], rtol=0, atol=STATISTIC_BAR)


def test_effects_that_are_not_correlated_and_have_no_variance_are_left_out():
    face, start = Covariance(3, correlated=False).face(np.diag([2.0, -1.0, 0.5]), 1.0)
    assert (face.rank, face.places, start.tolist()) == (2, ((0, 0), (2, 2)), [2.0, 0.5])
    np.testing.assert_array_equal(face.matrix(start), np.diag([2.0, 0.0, 0.5]))
    nothing, none = Covariance(1).face(np.array([[-0.1]]), 1.0)
    assert (nothing.rank, nothing.parameters, none.size) == (0, 1, 0)


@pytest.mark.parametrize("correlated", [True, False])
def test_a_factor_with_all_columns_gives_the_covariance_again(correlated):
    B = np.random.default_rng(2).normal(size=(3, 3))
    wanted = B @ B.T if correlated else np.diag(np.diag(B @ B.T))
    whole, start = Covariance(3, correlated).whole(wanted, 1e-3)
    assert whole.factored
    np.testing.assert_allclose(whole.matrix(start), wanted, rtol=STATISTIC_BAR)
    assert not whole.singular(np.concatenate(([1.0], start)))


def test_what_says_which_parameters_they_are_says_it_all():
    for G in (Covariance(2), Covariance(3, False, 1, order=(1, 0, 2)), Covariance(3, True, 2, True, (2, 0, 1))):
        rank, factored, *order = G.numbers
        assert Covariance(G.q, G.correlated, rank, bool(factored), tuple(order)) == G
