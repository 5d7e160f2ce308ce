"""Eq. 4: ``X' = P X Q = sum_i P X_i Q_i``, so each user masks alone and the CSP adds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import explicit, tolerances
from tests.explicit import FORMS, masked_columns, masked_rows, seed

from fedsvd.masks.left import LeftMask
from fedsvd.masks.right import RightMask


def put_together(panels, shape, by_rows):
    Y = np.full(shape, np.nan)
    for run, values in panels:
        Y[(run, slice(None)) if by_rows else (slice(None), run)] = values
    return Y


@settings(max_examples=60)
@given(
    forms=st.tuples(st.sampled_from(FORMS), st.sampled_from(FORMS)),
    m=st.integers(1, 15),
    widths=st.lists(st.integers(1, 8), min_size=1, max_size=5).map(tuple),
    b=st.integers(1, 8),
)
def test_the_users_terms_add_up_to_the_masked_joint_matrix(forms, m, widths, b):
    P = LeftMask(forms[0], m, seed(1), b=b)
    Q = RightMask(forms[1], widths, seed(2), b=b)
    dense_P, dense_Q = explicit.left(P), explicit.right(Q)
    X = np.random.default_rng(m).normal(size=(m, sum(widths)))
    bound = tolerances.product(sum(widths) + m, 8) * np.linalg.norm(X, 2)
    total, offset = np.zeros(X.shape), 0
    for i, X_i in enumerate(explicit.split(X, widths)):
        Q_i = dense_Q[offset : offset + widths[i]]
        offset += widths[i]
        by_columns = put_together(masked_columns(X_i, P, Q, 1.0, i), X.shape, by_rows=False)
        by_rows = put_together(masked_rows(X_i, P, Q, 1.0, i), X.shape, by_rows=True)
        np.testing.assert_allclose(by_columns, dense_P @ X_i @ Q_i, rtol=0, atol=bound)
        np.testing.assert_allclose(by_rows, by_columns, rtol=0, atol=bound)
        total += by_rows
    np.testing.assert_allclose(total, dense_P @ X @ dense_Q, rtol=0, atol=bound)


@pytest.mark.parametrize("form", FORMS)
def test_a_users_slice_of_q_reaches_only_the_windows_it_has_columns_in(form):
    """Blocks inside another user's columns get zeros from it: secure aggregation adds nothing there (C3)."""
    widths = (8, 8)
    P, Q = LeftMask(form, 4, seed(1), b=4), RightMask(form, widths, seed(2), b=4)
    X_i = np.random.default_rng(3).normal(size=(4, 8))
    Y_i = put_together(masked_columns(X_i, P, Q, 1.0, 0), (4, 16), by_rows=False)
    for window in Q.windows:
        alone = window.columns[0].stop == window.columns[0].start
        assert np.all(Y_i[:, window.outputs] == 0.0) == alone
    shared = [all(own.stop > own.start for own in window.columns) for window in Q.windows]
    assert all(shared) == (form != "blocks")
    assert len(Q.windows) == {"haar": 1, "mixing": 1, "blocks": 4}[form]
