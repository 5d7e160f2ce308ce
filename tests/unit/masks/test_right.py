"""Q is orthogonal, and mixes the columns of all users; each user works with its own rows of it (C3)."""

import numpy as np
import pytest
from tests import explicit, tolerances
from tests.explicit import FORMS, seed

from fedsvd.errors import ConfigError, ShapeError
from fedsvd.linalg.windows import Form
from fedsvd.masks.right import RightMask

every_form = pytest.mark.parametrize("form", FORMS)
WIDTHS = (7, 1, 12, 3)


def mask(form, widths=WIDTHS, number=0, **options):
    """Q with blocks of 4, so that small sizes have several."""
    return RightMask(form, widths, seed(number), **{"b": 4, **options})


@every_form
@pytest.mark.parametrize("widths", [(1,), (5,), (1, 1, 1), (4, 5), WIDTHS], ids=str)
def test_it_is_orthogonal(form, widths):
    Q = explicit.right(mask(form, widths))
    assert np.abs(Q.T @ Q - np.eye(sum(widths))).max() < tolerances.ORTHOGONAL_BAR


@every_form
def test_products_with_slices_are_those_with_rows_of_the_explicit_matrix(form, library):
    Q, dense = mask(form, on=library.array([0.0])), explicit.right(mask(form))
    offsets = np.cumsum([0, *WIDTHS])
    rng = np.random.default_rng(1)
    for i, n_i in enumerate(WIDTHS):
        Q_i = dense[offsets[i] : offsets[i + 1]]
        A_i, V = rng.normal(size=(3, n_i)), rng.normal(size=(2, 23))
        tolerance = tolerances.product(23, 8)
        np.testing.assert_allclose(library.numpy(Q.rows(i)), Q_i, rtol=0, atol=tolerance)
        np.testing.assert_allclose(library.numpy(Q.right(i, library.array(A_i))), A_i @ Q_i, rtol=0, atol=tolerance)
        np.testing.assert_allclose(library.numpy(Q.right_t(i, library.array(V))), V @ Q_i.T, rtol=0, atol=tolerance)


def test_whole_numbers_are_masked_like_any_others():
    Q = mask(Form.HAAR, (4, 3))
    A = np.arange(8).reshape(2, 4)
    np.testing.assert_allclose(Q.right(0, A), A @ Q.rows(0), rtol=0, atol=10 * tolerances.product(7, 4))


@every_form
def test_one_seed_is_one_mask_and_another_seed_another(form):
    first, again, other = (explicit.right(mask(form, number=number)) for number in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.1


@every_form
def test_a_kept_mask_is_drawn_once_and_one_not_kept_is_drawn_again_alike(form):
    kept, fresh = mask(form, keep=True), mask(form)
    assert kept.matrix is kept.matrix
    assert fresh.matrix is not fresh.matrix, "Q is large: it is not kept unless asked"
    np.testing.assert_array_equal(fresh.matrix.explicit(), kept.matrix.explicit())


@every_form
def test_it_cannot_be_changed_and_shows_no_seed(form):
    Q = mask(form, number=12345)
    with pytest.raises(AttributeError):
        Q.seed = seed(1)
    for text in (repr(Q), str(Q), f"{Q}"):
        assert text == f"RightMask({form}, n=23, users=4)"


@pytest.mark.parametrize("widths", [(), (0,), (3, 0), (3, -1)], ids=str)
def test_users_without_columns_are_refused(widths):
    with pytest.raises(ConfigError, match="at least one column"):
        mask(Form.HAAR, widths)


def test_shares_of_another_width_are_refused():
    Q = mask(Form.HAAR)
    with pytest.raises(ShapeError):
        Q.right(0, np.ones((2, 6)))
    with pytest.raises(ShapeError):
        Q.right_t(0, np.ones((2, 22)))
