"""The sign of a singular vector is decided on U, by scikit-learn's rule (ADR 0013)."""

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.utils.extmath import svd_flip
from tests.tolerances import assert_close, digits_lost

from fedsvd.errors import ShapeError
from fedsvd.linalg.signs import apply_signs, signs_of


@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (40, 40), (5, 90)])
def test_the_rule_is_scikit_learns(shape):
    U, _, Vt = np.linalg.svd(np.random.default_rng(3).normal(size=shape), full_matrices=False)
    ours = apply_signs(U, Vt, signs_of(U))
    theirs = svd_flip(U.copy(), Vt.copy(), u_based_decision=True)
    np.testing.assert_array_equal(ours[0], theirs[0])
    np.testing.assert_array_equal(ours[1], theirs[1])


# Few values, so that ties between +a and -a are the rule and not the exception.
@given(
    U=arrays(
        np.float64, st.tuples(st.integers(1, 6), st.integers(1, 4)), elements=st.sampled_from([-2.0, -1.0, 1.0, 2.0])
    )
)
@settings(max_examples=200, deadline=None)
def test_ties_are_decided_by_the_first_entry_as_in_scikit_learn(U):
    theirs, _ = svd_flip(U.copy(), np.ones((U.shape[1], 1)), u_based_decision=True)
    np.testing.assert_array_equal(U * signs_of(U), theirs)


@pytest.mark.parametrize("xp", [np, array_api_strict])
def test_rounding_does_not_choose_between_equal_entries(xp):
    """A component of two columns at unit variance: (a, -a), (-a, a), and both with the last bits moved."""
    a = np.sqrt(0.5)
    U = np.array([[a, a, -a, -a, 0.1], [-a, -a, a, a, a], [0.0, 0.1, 0.0, -0.1, -a]])
    moved = U * (1.0 + 2.0**-50 * np.array([[0, 0, 0, 1, 0], [1, 0, 1, 0, 0], [0, 0, 0, 0, 1]]))
    for columns in (U, moved):
        np.testing.assert_array_equal(np.asarray(signs_of(xp.asarray(columns))), [1.0, 1.0, -1.0, -1.0, 1.0])


def test_signs_by_hand():
    U = np.array([[0.6, 0.5, -0.1, 0.0], [-0.8, -0.5, 0.2, 0.0], [0.0, 0.1, 0.9, 0.0]])
    np.testing.assert_array_equal(signs_of(U), [-1.0, 1.0, 1.0, 1.0])


def test_the_product_does_not_change():
    rng = np.random.default_rng(5)
    U, Vt = rng.normal(size=(6, 3)), rng.normal(size=(3, 8))
    flipped_U, flipped_Vt = apply_signs(U, Vt, np.array([1.0, -1.0, -1.0]))
    np.testing.assert_array_equal(flipped_U[:, 1], -U[:, 1])
    assert_close(flipped_U @ flipped_Vt, U @ Vt, digits_lost(2))


def test_a_second_application_changes_nothing():
    U = np.random.default_rng(6).normal(size=(30, 5))
    np.testing.assert_array_equal(signs_of(U * signs_of(U)), np.ones(5))


def test_no_vectors_have_no_signs():
    assert signs_of(np.zeros((4, 0))).shape == (0,)
    assert signs_of(np.zeros((0, 3))).tolist() == [1.0, 1.0, 1.0]


def test_signs_must_match_the_vectors():
    with pytest.raises(ShapeError, match="2 signs"):
        apply_signs(np.ones((4, 3)), np.ones((3, 4)), np.ones(2))


def test_the_rule_needs_only_the_array_api_standard():
    U = np.random.default_rng(7).normal(size=(9, 4))
    strict = array_api_strict.asarray(U)
    signs = signs_of(strict)
    np.testing.assert_array_equal(np.asarray(signs), signs_of(U))
    left, right = apply_signs(strict, strict.T, signs)
    np.testing.assert_array_equal(np.asarray(left).T, np.asarray(right))
