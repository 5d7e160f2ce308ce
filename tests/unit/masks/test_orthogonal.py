"""Two forms of random orthogonal matrix: each is orthogonal, follows from its seed, and is cut as we say."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest
from tests import tolerances
from tests.explicit import FORMS, seed

from fedsvd.linalg.householder import Reflectors
from fedsvd.linalg.windows import HAAR_RIGHT_LIMIT, Form
from fedsvd.masks import orthogonal as orthogonal_module
from fedsvd.masks.orthogonal import draw_form, local_rotation, orthogonal, secret_scale
from fedsvd.masks.permute import Mixing
from fedsvd.randomness.keystream import Keystream
from fedsvd_lab.published.block_diagonal import efficient_orthogonal

every_form = pytest.mark.parametrize("form", FORMS)


# The matrices.


@every_form
@pytest.mark.parametrize("n", [1, 2, 5, 31, 32, 33, 300])
def test_every_form_is_orthogonal(form, n):
    Q = draw_form(form, n, 16, seed(n))
    dense = Q.explicit()
    assert (Q.n, dense.shape) == (n, (n, n))
    assert np.abs(dense.T @ dense - np.eye(n)).max() < tolerances.ORTHOGONAL_BAR
    assert np.abs(dense @ dense.T - np.eye(n)).max() < tolerances.ORTHOGONAL_BAR


@every_form
@settings(max_examples=20)
@given(n=st.integers(1, 40), b=st.integers(1, 12), columns=st.integers(1, 3))
def test_products_are_those_of_the_explicit_matrix_in_every_library(library, form, n, b, columns):
    dense = draw_form(form, n, b, seed(n)).explicit()
    Q = draw_form(form, n, b, seed(n), library.array([0.0]))
    X = np.random.default_rng(n).normal(size=(n, columns))
    for got, expected in (
        (Q.explicit(), dense),
        (Q.left(library.array(X)), dense @ X),
        (Q.left_t(library.array(X)), dense.T @ X),
        (Q.right(library.array(X.T)), X.T @ dense),
        (Q.right_t(library.array(X.T)), X.T @ dense.T),
    ):
        np.testing.assert_allclose(library.numpy(got), expected, rtol=0, atol=tolerances.product(n, 10))


@every_form
def test_one_seed_is_one_matrix_and_another_seed_another(form):
    first, again, other = (draw_form(form, 20, 5, seed(number)).explicit() for number in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.1


def test_each_form_is_made_its_own_way():
    kinds = {form: type(draw_form(form, 20, 5, seed())) for form in FORMS}
    assert kinds == {Form.HAAR: Reflectors, Form.MIXING: Mixing}


def test_blocks_are_drawn_one_after_another_from_one_stream():
    stream = Keystream(seed())
    parts = [orthogonal(size, stream).explicit() for size in (6, 5)]
    assert np.abs(parts[0][:5, :5] - parts[1]).max() > 0.1
    Q = efficient_orthogonal(11, 4, Keystream(seed())).explicit()
    np.testing.assert_array_equal(Q, scipy.linalg.block_diag(*parts))


def test_no_mask_shows_a_number_in_its_repr():
    for form in FORMS:
        text = repr(draw_form(form, 4, 2, seed(7)))
        assert "array" not in text
        assert "0." not in text
    assert repr(draw_form(Form.MIXING, 4, 2, seed())) == "Mixing(n=4)"


# What one user, or all of them, keep to themselves.


def test_a_local_rotation_is_haar_until_it_is_long(monkeypatch):
    np.testing.assert_array_equal(
        local_rotation(30, seed(3)).explicit(), draw_form(Form.HAAR, 30, 1, seed(3)).explicit()
    )
    assert isinstance(local_rotation(HAAR_RIGHT_LIMIT + 1, seed(3)), Mixing)
    monkeypatch.setattr(orthogonal_module, "HAAR_RIGHT_LIMIT", 30)
    assert isinstance(local_rotation(30, seed(3)), Reflectors)
    assert isinstance(local_rotation(31, seed(3)), Mixing)


@pytest.mark.parametrize("n", [1, 2, 300])
def test_a_local_rotation_keeps_the_gram_matrix_and_hides_the_columns(n):
    A = np.random.default_rng(n).normal(size=(8, n))
    rotated = local_rotation(n, seed(4)).right(A)
    np.testing.assert_allclose(
        rotated @ rotated.T, A @ A.T, rtol=0, atol=tolerances.gram(n) * np.linalg.norm(A, 2) ** 2
    )
    if n > 1:
        assert np.abs(rotated - A).max() > 0.1


def test_the_secret_scale_is_log_uniform_between_one_and_two():
    scales = np.array([secret_scale(seed(number)) for number in range(2000)])
    assert 1.0 <= scales.min() < scales.max() < 2.0
    assert kstest(np.log2(scales), "uniform").pvalue > tolerances.ACCEPTED
    assert secret_scale(seed(5)) == secret_scale(seed(5))
    assert np.unique(scales).size == scales.size
