"""Theorem 1: masks that come off leave the SVD of X, whatever its shape, the users' split and the form of the masks."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import explicit, tolerances
from tests.explicit import WITH_BLOCKS, left_mask, masked, right_mask, seed

from fedsvd.masks.apply import unmask_left, unmask_right
from fedsvd.masks.orthogonal import secret_scale
from fedsvd.masks.right import RightMask


@settings(max_examples=80)
@given(
    forms=st.tuples(st.sampled_from(WITH_BLOCKS), st.sampled_from(WITH_BLOCKS)),
    m=st.integers(1, 15),
    widths=st.lists(st.sampled_from([1, 1, 2, 5, 9]), min_size=1, max_size=4).map(tuple),
    b=st.integers(1, 8),
    rank=st.integers(0, 15),
    number=st.integers(0, 2**30),
)
def test_the_svd_of_the_masked_matrix_is_unmasked_to_the_svd_of_x(forms, m, widths, b, rank, number):
    n = sum(widths)
    rng = np.random.default_rng(number)
    X = rng.normal(size=(m, rank)) @ rng.normal(size=(rank, n)) if rank else rng.normal(size=(m, n))
    P = left_mask(forms[0], m, seed(number), b)
    Q = right_mask(forms[1], widths, seed(number + 1), b)
    c = secret_scale(seed(number + 2))

    X_masked = np.zeros((m, n))
    for i, X_i in enumerate(explicit.split(X, widths)):
        X_masked += masked(X_i, P, Q, c, i)
    U_masked, sigma_scaled, Vt_masked = np.linalg.svd(X_masked, full_matrices=False)

    U, sigma = unmask_left(U_masked, P), sigma_scaled / c
    if isinstance(Q, RightMask):
        Vt = [unmask_right(Vt_masked.T, Q, i).T for i in range(len(widths))]
    else:
        Vt = explicit.split(Vt_masked @ explicit.right(Q).T, widths)

    expected = np.linalg.svd(X, compute_uv=False)
    bound = tolerances.product(max(m, n), 8)
    np.testing.assert_allclose(sigma, expected, rtol=0, atol=bound * expected[0])
    k = min(m, n)
    np.testing.assert_allclose(U.T @ U, np.eye(k), rtol=0, atol=bound)
    joined = np.concatenate(Vt, axis=1)
    np.testing.assert_allclose(joined @ joined.T, np.eye(k), rtol=0, atol=bound)
    for X_i, Vt_i in zip(explicit.split(X, widths), Vt, strict=True):
        np.testing.assert_allclose(U * sigma @ Vt_i, X_i, rtol=0, atol=bound * expected[0])


def test_the_masked_factors_themselves_are_not_those_of_x():
    """Without unmasking U' is of no use: the masks do something."""
    X = np.random.default_rng(1).normal(size=(8, 20))
    for form in WITH_BLOCKS:
        P, Q = left_mask(form, 8, seed(1), 4), right_mask(form, (20,), seed(2), 4)
        X_masked = masked(X, P, Q, 1.0, 0)
        U, U_masked = (np.linalg.svd(A)[0] for A in (X, X_masked))
        assert np.abs(np.abs(U.T @ U_masked) - np.eye(8)).max() > 0.3
