"""Q is orthogonal; each user's slices of it partition that user's columns, and it mixes all users (C3)."""

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
def test_it_is_orthogonal_with_one_window_and_with_many(form, widths):
    Q = explicit.right(mask(form, widths))
    assert np.abs(Q.T @ Q - np.eye(sum(widths))).max() < tolerances.ORTHOGONAL_BAR


@every_form
def test_products_with_slices_are_those_with_rows_of_the_explicit_matrix(form, library):
    Q, dense = mask(form, on=library.array([0.0])), explicit.right(mask(form))
    offsets = np.cumsum([0, *WIDTHS])
    rng = np.random.default_rng(1)
    for w, window in enumerate(Q.windows):
        for i, own in enumerate(window.columns):
            Q_iw = dense[offsets[i] + own.start : offsets[i] + own.stop, window.outputs]
            A_iw, V = rng.normal(size=(3, own.stop - own.start)), rng.normal(size=(2, window.width))
            tolerance = tolerances.product(window.width, 8)
            np.testing.assert_allclose(library.numpy(Q.rows(w, i)), Q_iw, rtol=0, atol=tolerance)
            np.testing.assert_allclose(
                library.numpy(Q.right(w, i, library.array(A_iw))), A_iw @ Q_iw, rtol=0, atol=tolerance
            )
            np.testing.assert_allclose(
                library.numpy(Q.right_t(w, i, library.array(V))), V @ Q_iw.T, rtol=0, atol=tolerance
            )


def test_whole_numbers_are_masked_like_any_others():
    Q = mask(Form.HAAR, (4, 3))
    A = np.arange(8).reshape(2, 4)
    np.testing.assert_allclose(Q.right(0, 0, A), A @ Q.rows(0, 0), rtol=0, atol=10 * tolerances.product(7, 4))


@every_form
def test_one_seed_is_one_mask_and_another_seed_another(form):
    first, again, other = (explicit.right(mask(form, number=number)) for number in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.1


def test_blocks_of_one_size_differ_and_none_needs_the_others():
    Q = mask(Form.BLOCKS, (16, 16), b=8)
    blocks = [Q.window(w).explicit() for w in range(len(Q.windows))]
    assert len(blocks) == 4
    for w, block in enumerate(blocks):
        np.testing.assert_array_equal(mask(Form.BLOCKS, (16, 16), b=8).window(w).explicit(), block)
        assert all(np.abs(block - other).max() > 0.1 for other in blocks[:w])


@every_form
def test_a_kept_window_is_drawn_once_and_one_not_kept_is_drawn_again_alike(form):
    kept, fresh = mask(form, keep=True), mask(form)
    assert kept.window(0) is kept.window(0)
    assert fresh.window(0) is not fresh.window(0), "Q is large: it is not kept unless asked"
    np.testing.assert_array_equal(fresh.window(0).explicit(), kept.window(0).explicit())


@every_form
def test_it_cannot_be_changed_and_shows_no_seed(form):
    Q = mask(form, number=12345)
    with pytest.raises(AttributeError):
        Q.seed = seed(1)
    for text in (repr(Q), str(Q), f"{Q}"):
        assert text == f"RightMask({form}, n=23, users=4, windows={len(Q.windows)})"


@pytest.mark.parametrize("widths", [(), (0,), (3, 0), (3, -1)], ids=str)
def test_users_without_columns_are_refused(widths):
    with pytest.raises(ConfigError, match="at least one column"):
        mask(Form.HAAR, widths)


def test_shares_of_another_width_are_refused():
    Q = mask(Form.HAAR)
    with pytest.raises(ShapeError):
        Q.right(0, 0, np.ones((2, 6)))
    with pytest.raises(ShapeError):
        Q.right_t(0, 0, np.ones((2, 22)))
