"""Compressing first changes nothing: ``[L_1 ... L_k]`` has the U and S of ``[X_1 ... X_k]`` (ADR 0015).

So does ``[L_1 T_1 ... L_k T_k]`` for any rotations T_i, masked or not, and each user finds its Vt_i at home.
"""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import explicit, tolerances
from tests.explicit import masked, seed

from fedsvd.compress.reduce import compress
from fedsvd.data.open import open_source
from fedsvd.linalg.windows import Form
from fedsvd.masks.apply import unmask_left
from fedsvd.masks.left import LeftMask
from fedsvd.masks.orthogonal import local_rotation
from fedsvd.masks.right import RightMask

shapes = {
    "m": st.integers(1, 12),
    "widths": st.lists(st.one_of(st.just(1), st.integers(2, 6), st.integers(30, 60)), min_size=1, max_size=4).map(
        tuple
    ),
    "panel": st.integers(1, 70),
    "number": st.integers(0, 2**20),
}


def joint(m, widths, number):
    """Singular values 1, 1/2, 1/4 ...: simple, so that U is unique up to signs."""
    rng, n = np.random.default_rng(number), sum(widths)
    k = min(m, n)
    U, V = np.linalg.qr(rng.normal(size=(m, k)))[0], np.linalg.qr(rng.normal(size=(n, k)))[0]
    return U * 0.5 ** np.arange(k) @ V.T, U, 0.5 ** np.arange(k), V.T


def expect_svd(U, sigma, exact_U, exact_sigma, size):
    bound = tolerances.product(size, 8)
    k = exact_sigma.size
    np.testing.assert_allclose(sigma[:k], exact_sigma, rtol=0, atol=tolerances.FACTOR_BAR + bound)
    np.testing.assert_allclose(sigma[k:], 0.0, rtol=0, atol=bound)
    # A singular vector is known to eps S_1 / gap, and the gap to the next value is half of its own.
    error = np.abs(np.abs(np.sum(U[:, :k] * exact_U, axis=0)) - 1.0)
    assert np.all(error < (4 * bound / exact_sigma) ** 2 + bound)


@settings(max_examples=60)
@given(**shapes)
def test_the_factors_side_by_side_have_the_u_and_s_of_the_data_side_by_side(m, widths, panel, number):
    X, U, sigma, _ = joint(m, widths, number)
    L = [compress(open_source(X_i), panel=panel).L_i for X_i in explicit.split(X, widths)]
    assert [L_i.shape for L_i in L] == [(m, min(m, n_i)) for n_i in widths]
    got_U, got_sigma, _ = np.linalg.svd(np.concatenate(L, axis=1))
    expect_svd(got_U, got_sigma, U, sigma, sum(widths))


@settings(max_examples=40)
@given(**shapes)
def test_so_do_they_after_local_rotations_and_masks_and_each_user_finds_its_part_of_v_at_home(m, widths, panel, number):
    X, U, sigma, Vt = joint(m, widths, number)
    shares = explicit.split(X, widths)
    A = []
    for i, X_i in enumerate(shares):
        L_i = compress(open_source(X_i), panel=panel).L_i
        A.append(local_rotation(L_i.shape[1], seed(number + i)).right(L_i))
    P = LeftMask(Form.HAAR, m, seed(number))
    Q = RightMask(Form.HAAR, tuple(A_i.shape[1] for A_i in A), seed(number + 100))
    Y = sum(masked(A_i, P, Q, 1.5, i) for i, A_i in enumerate(A))
    U_masked, sigma_scaled, _ = np.linalg.svd(Y)
    got_U, got_sigma = unmask_left(U_masked, P), sigma_scaled / 1.5
    expect_svd(got_U, got_sigma, U, sigma, sum(widths))
    k = sigma.size
    signs = np.sign(np.sum(got_U[:, :k] * U, axis=0))
    for X_i, Vt_i in zip(shares, explicit.split(Vt, widths), strict=True):
        home = (got_U[:, :k].T @ X_i) / got_sigma[:k, None]
        np.testing.assert_allclose(
            signs[:, None] * home, Vt_i, rtol=0, atol=16 * tolerances.product(sum(widths), 8) / sigma[-1]
        )
