"""P is orthogonal over a whole side, and follows from its seed."""

import numpy as np
import pytest
from tests import explicit, tolerances
from tests.explicit import FORMS, seed

from fedsvd.errors import ConfigError, ShapeError
from fedsvd.linalg.windows import MIXING_BLOCK, Form
from fedsvd.masks.left import LeftMask

every_form = pytest.mark.parametrize("form", FORMS)


def mask(form, m, number=0, **options):
    """P with blocks of 4, so that small sizes have several."""
    return LeftMask(form, m, seed(number), **{"b": 4, **options})


@every_form
@pytest.mark.parametrize("m", [1, 9, 10, 25])
def test_it_is_orthogonal(form, m):
    P = explicit.left(mask(form, m))
    assert P.shape == (m, m)
    assert np.abs(P.T @ P - np.eye(m)).max() < tolerances.ORTHOGONAL_BAR


@every_form
@pytest.mark.parametrize("m", [1, 9, 25])
def test_products_are_those_of_the_explicit_matrix_in_every_library(form, m, library):
    dense = explicit.left(mask(form, m))
    P = mask(form, m, on=library.array([0.0]))
    X = np.random.default_rng(m).normal(size=(m, 3))
    before = X.copy()
    np.testing.assert_allclose(
        library.numpy(P.left(library.array(X))), dense @ X, rtol=0, atol=tolerances.product(m, 8)
    )
    np.testing.assert_allclose(
        library.numpy(P.left_t(library.array(X))), dense.T @ X, rtol=0, atol=tolerances.product(m, 8)
    )
    np.testing.assert_array_equal(X, before)


def test_whole_numbers_are_masked_like_any_others():
    P, X = mask(Form.MIXING, 25), np.arange(50).reshape(25, 2)
    np.testing.assert_allclose(P.left(X), explicit.left(P) @ X, rtol=0, atol=50 * tolerances.product(25, 8))


@every_form
def test_one_seed_is_one_mask_and_another_seed_another(form):
    first, again, other = (explicit.left(mask(form, 25, number)) for number in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.1


@every_form
def test_a_kept_mask_is_drawn_once_and_one_not_kept_is_drawn_again_alike(form):
    kept, fresh = mask(form, 25), mask(form, 25, keep=False)
    assert kept.matrix is kept.matrix
    assert fresh.matrix is not fresh.matrix
    np.testing.assert_array_equal(fresh.matrix.explicit(), kept.matrix.explicit())


@every_form
def test_it_cannot_be_changed_and_shows_no_seed(form):
    P = mask(form, 25, 12345)
    with pytest.raises(AttributeError):
        P.m = 3
    for text in (repr(P), str(P), f"{P}"):
        assert text == f"LeftMask({form}, m=25)"


def test_a_block_width_is_the_usual_one_unless_asked():
    assert LeftMask(Form.MIXING, 5000, seed()).b == MIXING_BLOCK
    assert LeftMask(Form.MIXING, 5000, seed(), b=70).b == 70


def test_sizes_that_make_no_sense_are_refused():
    for form in FORMS:
        with pytest.raises(ConfigError, match=">= 1"):
            _ = mask(form, 0).matrix
    with pytest.raises(ShapeError):
        mask(Form.HAAR, 25).left(np.ones((24, 2)))
