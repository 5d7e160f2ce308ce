"""What is applied sums over users to ``c P X Q``, by columns and by rows alike, and comes off again."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import explicit, tolerances
from tests.explicit import FORMS, masked, seed

from fedsvd.errors import ShapeError
from fedsvd.linalg.windows import Form
from fedsvd.masks.apply import mask_right, unmask_left, unmask_right, written_out
from fedsvd.masks.left import LeftMask
from fedsvd.masks.orthogonal import local_rotation
from fedsvd.masks.right import RightMask

M, WIDTHS, C = 13, (7, 1, 12, 3), 1.375
every_pair = pytest.mark.parametrize("forms", [(p, q) for p in FORMS for q in FORMS], ids=lambda pair: "-".join(pair))


def masks(forms, m=M, widths=WIDTHS, b=4, on=None):
    P = LeftMask(forms[0], m, seed(1), b=b, on=on)
    return P, RightMask(forms[1], widths, seed(2), b=b, on=on)


def joint(m=M, widths=WIDTHS):
    return np.random.default_rng(m).normal(size=(m, sum(widths)))


@every_pair
def test_the_users_sum_to_the_masked_joint_matrix(forms, library):
    P, Q = masks(forms, on=library.array([0.0]))
    X = joint()
    shares = explicit.split(X, WIDTHS)
    found = sum(library.numpy(masked(library.array(X_i), P, Q, C, i)) for i, X_i in enumerate(shares))
    expected = C * explicit.left(masks(forms)[0]) @ X @ explicit.right(masks(forms)[1])
    tolerance = tolerances.product(23, 12) * np.linalg.norm(X, 2)
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


@every_pair
def test_by_rows_that_are_under_p_a_share_is_that_of_the_users_product(forms):
    P, Q = masks(forms)
    X_i, i = explicit.split(joint(), WIDTHS)[2], 2
    Y_i = C * explicit.left(P) @ X_i @ explicit.right(Q)[8:20]
    tolerances.assert_close(masked(X_i, P, Q, C, i), Y_i, tolerances.digits_lost(4))
    under_p = P.left(X_i)
    for rows in (slice(0, 5), slice(5, M)):
        tolerances.assert_close(mask_right(under_p[rows], Q, i, C), Y_i[rows], tolerances.digits_lost(4))


@every_pair
def test_masks_come_off_again(forms, library):
    P, Q = masks(forms, on=library.array([0.0]))
    U, V = np.random.default_rng(3).normal(size=(M, 4)), np.random.default_rng(4).normal(size=(5, 23))
    dense_P, dense_Q = (side(mask) for side, mask in zip((explicit.left, explicit.right), masks(forms), strict=True))
    back = library.numpy(unmask_left(library.array(dense_P @ U), P))
    np.testing.assert_allclose(back, U, rtol=0, atol=tolerances.product(23, 12))
    for i, V_i in enumerate(explicit.split(V, WIDTHS)):
        back = library.numpy(unmask_right(library.array(dense_Q.T @ V.T), Q, i))
        np.testing.assert_allclose(back, V_i.T, rtol=0, atol=tolerances.product(23, 12))


@settings(max_examples=40)
@given(
    forms=st.tuples(st.sampled_from(FORMS), st.sampled_from(FORMS)),
    m=st.integers(1, 20),
    widths=st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple),
    b=st.integers(1, 7),
)
def test_what_is_masked_and_summed_is_unmasked_to_the_same_matrix(forms, m, widths, b):
    P, Q = masks(forms, m, widths, b)
    X = joint(m, widths)
    Y = np.zeros(X.shape)
    for i, X_i in enumerate(explicit.split(X, widths)):
        Y += masked(X_i, P, Q, C, i)
    rows_alone = unmask_left(Y, P)
    for i, X_i in enumerate(explicit.split(X, widths)):
        back = unmask_right(rows_alone.T, Q, i).T / C
        np.testing.assert_allclose(back, X_i, rtol=0, atol=tolerances.product(sum(widths), 12) * np.linalg.norm(X, 2))


@every_pair
def test_data_is_not_changed_by_masking(forms):
    P, Q = masks(forms)
    X_i = np.random.default_rng(5).normal(size=(M, 7))
    before = X_i.copy()
    X_i.flags.writeable = False
    masked(X_i, P, Q, C, 0)
    mask_right(X_i, Q, 0, C)
    np.testing.assert_array_equal(X_i, before)


def test_a_share_of_another_width_is_refused_before_anything_is_masked():
    _, Q = masks((Form.HAAR, Form.HAAR))
    with pytest.raises(ShapeError, match="A_i"):
        mask_right(np.ones((M, 6)), Q, 0, C)


def test_labels_beside_the_rows_get_the_left_mask_and_the_scale_alone():
    Q = masks((Form.HAAR, Form.HAAR))[1]
    rng = np.random.default_rng(6)
    A, y, T_i = rng.normal(size=(M, 12)), rng.normal(size=(M, 2)), local_rotation(12, seed(9))
    expected = C * np.hstack([A @ T_i.explicit() @ explicit.right(Q)[8:20], y])
    found = mask_right(np.hstack([A, y]), Q, 2, C, T_i)
    tolerances.assert_close(found, expected, tolerances.digits_lost(4))
    in_one_product = np.hstack([A, y]) @ written_out(Q, 2, C, T_i, targets=2)
    tolerances.assert_close(in_one_product, expected, tolerances.digits_lost(4))


def test_what_a_rotation_and_a_mask_did_to_own_columns_is_undone():
    Q, T_i = masks((Form.HAAR, Form.MIXING))[1], local_rotation(12, seed(9))
    W = np.random.default_rng(7).normal(size=(12, 3))
    W_masked = (T_i.explicit() @ explicit.right(Q)[8:20]).T @ W
    tolerances.assert_close(unmask_right(W_masked, Q, 2, T_i), W, tolerances.digits_lost(4))
