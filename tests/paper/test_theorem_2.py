"""Theorem 2: what the CSP sees could have come from infinitely many other matrices.

The paper prints ``Q_2 = R_2^T V^T Q_2``, which defines Q_2 by itself; its own derivation gives ``R_2^T V^T Q_1``. The
theorem says less than it seems to: the other matrices all have the singular values of X (the last test), and it says
nothing about how likely each of them is. The Haar theorem (``test_haar_theorem.py``) does.
"""

import numpy as np
import pytest
from tests import explicit, tolerances
from tests.explicit import FORMS, WITH_BLOCKS, left_mask, right_mask, seed

from fedsvd.masks.orthogonal import orthogonal
from fedsvd.randomness.keystream import Keystream

M, WIDTHS = 6, (4, 5)
N = sum(WIDTHS)
X_1 = np.random.default_rng(1).normal(size=(M, N))


def masked(form):
    P_1 = explicit.left(left_mask(form, M, seed(1), 3))
    Q_1 = explicit.right(right_mask(form, WIDTHS, seed(2), 3))
    return P_1, Q_1, P_1 @ X_1 @ Q_1


def another(P_1, Q_1, number):
    """X_2, P_2 and Q_2 of the paper's proof, from random orthogonal R_1 and R_2."""
    U, sigma, Vt = np.linalg.svd(X_1)
    Sigma = np.zeros((M, N))
    np.fill_diagonal(Sigma, sigma)
    R_1 = orthogonal(M, Keystream(seed(number))).explicit()
    R_2 = orthogonal(N, Keystream(seed(number + 1))).explicit()
    return R_1 @ Sigma @ R_2, P_1 @ U @ R_1.T, R_2.T @ Vt @ Q_1


@pytest.mark.parametrize("form", WITH_BLOCKS)
def test_other_data_under_other_orthogonal_masks_gives_the_same_masked_matrix(form):
    P_1, Q_1, X_masked = masked(form)
    found = [X_1]
    for number in range(10, 50, 2):
        X_2, P_2, Q_2 = another(P_1, Q_1, number)
        np.testing.assert_allclose(P_2.T @ P_2, np.eye(M), rtol=0, atol=tolerances.product(N, 4))
        np.testing.assert_allclose(Q_2 @ Q_2.T, np.eye(N), rtol=0, atol=tolerances.product(N, 4))
        np.testing.assert_allclose(
            P_2 @ X_2 @ Q_2, X_masked, rtol=0, atol=tolerances.product(N, 8) * np.linalg.norm(X_1, 2)
        )
        assert all(np.abs(X_2 - X).max() > 0.1 for X in found), "and it is other data every time"
        found.append(X_2)


def test_the_misprinted_q_2_does_not_solve_the_equation():
    """Read with any other orthogonal matrix in the place of Q_1, the construction gives another masked matrix."""
    P_1, _, X_masked = masked(FORMS[0])
    wrong = orthogonal(N, Keystream(seed(99))).explicit()
    X_2, P_2, Q_2 = another(P_1, wrong, 10)
    assert np.abs(P_2 @ X_2 @ Q_2 - X_masked).max() > 0.1


def test_all_of_them_have_the_singular_values_of_x():
    """What the theorem does not hide: no matrix with other singular values can be masked into X'."""
    P_1, Q_1, X_masked = masked(FORMS[0])
    sigma = np.linalg.svd(X_masked, compute_uv=False)
    for number in (10, 12):
        X_2, _, _ = another(P_1, Q_1, number)
        np.testing.assert_allclose(
            np.linalg.svd(X_2, compute_uv=False), sigma, rtol=0, atol=tolerances.product(N, 8) * sigma[0]
        )
