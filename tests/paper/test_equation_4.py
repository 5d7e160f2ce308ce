"""Eq. 4: ``X' = P X Q = sum_i P X_i Q_i``, so each user masks alone and the CSP adds."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import explicit, tolerances
from tests.explicit import BLOCKS, FORMS, WITH_BLOCKS, left_mask, masked, right_mask, seed


@settings(max_examples=60)
@given(
    forms=st.tuples(st.sampled_from(WITH_BLOCKS), st.sampled_from(WITH_BLOCKS)),
    m=st.integers(1, 15),
    widths=st.lists(st.integers(1, 8), min_size=1, max_size=5).map(tuple),
    b=st.integers(1, 8),
)
def test_the_users_terms_add_up_to_the_masked_joint_matrix(forms, m, widths, b):
    P, Q = left_mask(forms[0], m, seed(1), b), right_mask(forms[1], widths, seed(2), b)
    dense_P, dense_Q = explicit.left(P), explicit.right(Q)
    X = np.random.default_rng(m).normal(size=(m, sum(widths)))
    bound = tolerances.product(sum(widths) + m, 8) * np.linalg.norm(X, 2)
    total, offset = np.zeros(X.shape), 0
    for i, X_i in enumerate(explicit.split(X, widths)):
        Q_i = dense_Q[offset : offset + widths[i]]
        offset += widths[i]
        found = masked(X_i, P, Q, 1.0, i)
        np.testing.assert_allclose(found, dense_P @ X_i @ Q_i, rtol=0, atol=bound)
        total += found
    np.testing.assert_allclose(total, dense_P @ X @ dense_Q, rtol=0, atol=bound)


def test_a_users_columns_reach_all_of_y_but_in_the_papers_scheme_only_blocks_it_has_columns_in():
    """Blocks inside another user's columns get zeros from it: secure aggregation adds nothing there (C3)."""
    X_i = np.random.default_rng(3).normal(size=(4, 8))
    for form in FORMS:
        P, Q = left_mask(form, 4, seed(1), 4), right_mask(form, (8, 8), seed(2), 4)
        assert np.all(masked(X_i, P, Q, 1.0, 0) != 0.0)
    P, Q = left_mask(BLOCKS, 4, seed(1), 4), right_mask(BLOCKS, (8, 8), seed(2), 4)
    assert len(Q.windows) == 4
    Y_i = masked(X_i, P, Q, 1.0, 0)
    assert np.all(Y_i[:, :8] != 0.0)
    assert np.all(Y_i[:, 8:] == 0.0)
