"""Eq. 6: the CSP computes user i's part of Vt under a blind R_i; and what the message gives away (C1).

[Q_i^T]^R = Q_i^T R_i,    [Vt_i]^R = Vt' [Q_i^T]^R,    Vt_i = [Vt_i]^R R_i^-1
"""

import numpy as np
import pytest
import scipy.linalg
from tests import explicit, tolerances
from tests.explicit import masked_columns, seed

from fedsvd.linalg.windows import Form
from fedsvd.masks.blind import blind, draw_blind, unblind
from fedsvd.masks.left import LeftMask
from fedsvd.masks.right import RightMask

M, WIDTHS, B = 9, (7, 1, 12, 3), 4
N = sum(WIDTHS)


@pytest.fixture
def session():
    """Masks, data, X' and its full SVD, as the paper's CSP has it (m < n: all n rows of Vt')."""
    P, Q = LeftMask(Form.BLOCKS, M, seed(1), b=B), RightMask(Form.BLOCKS, WIDTHS, seed(2), b=B)
    X = np.random.default_rng(3).normal(size=(M, N))
    X_masked = explicit.left(P) @ X @ explicit.right(Q)
    return P, Q, X, X_masked, np.linalg.svd(X_masked)[2]


def spread(blocks, Q):
    """[Q_i^T]^R with its zeros, (N, n_i), as eq. 7 draws it."""
    dense, column = np.zeros((N, sum(block.shape[1] for block in blocks if block is not None))), 0
    for window, block in zip(Q.windows, blocks, strict=True):
        if block is not None:
            dense[window.outputs, column : column + block.shape[1]] = block
            column += block.shape[1]
    return dense


def test_every_user_gets_all_n_rows_of_its_own_part_of_vt(session):
    _, Q, X, _, Vt_masked = session
    parts = []
    for i in range(len(WIDTHS)):
        R_i = draw_blind(Q, i, seed(10 + i))
        Qt_i_blinded = blind(Q, i, R_i)
        Vt_i_blinded = tuple(
            None if block is None else Vt_masked[:, window.outputs] @ block
            for window, block in zip(Q.windows, Qt_i_blinded, strict=True)
        )
        parts.append(unblind(Vt_i_blinded, R_i))
    Vt = np.concatenate(parts, axis=1)
    assert [part.shape for part in parts] == [(N, n_i) for n_i in WIDTHS]
    np.testing.assert_allclose(Vt, Vt_masked @ explicit.right(Q).T, rtol=0, atol=tolerances.product(N, 8))
    np.testing.assert_allclose(Vt @ Vt.T, np.eye(N), rtol=0, atol=tolerances.product(N, 8))
    np.testing.assert_allclose(X @ Vt[M:].T, 0.0, rtol=0, atol=tolerances.product(N, 8) * np.linalg.norm(X, 2))


def test_the_blinded_mask_is_blockwise_and_is_the_dense_product(session):
    """Eq. 7: R_i has one block to each slice, so Q_i^T R_i keeps the zeros of Q_i^T."""
    Q = session[1]
    i, start = 2, 8
    R_i = draw_blind(Q, i, seed(5))
    dense_R = scipy.linalg.block_diag(*(block.explicit() for block in R_i.blocks if block is not None))
    Qt_i = explicit.right(Q)[start : start + WIDTHS[i]].T
    np.testing.assert_allclose(spread(blind(Q, i, R_i), Q), Qt_i @ dense_R, rtol=0, atol=tolerances.product(N, 4))


def test_the_blind_has_condition_one_where_a_uniform_one_would_lose_digits(session):
    R_i = draw_blind(session[1], 2, seed(5))
    for block in R_i.blocks:
        if block is not None:
            assert np.linalg.cond(block.explicit()) < 1 + tolerances.digits_lost(3)


def test_the_csp_gets_every_users_share_from_the_blinded_masks_and_this_is_why_only_the_paper_scheme_sends_them(
    session,
):
    """C1: the column space of [Q_i^T]^R is that of Q_i^T, whatever R_i; projecting X' on it gives P X_i Q_i."""
    P, Q, X, X_masked, _ = session
    for i, X_i in enumerate(explicit.split(X, WIDTHS)):
        seen_by_csp = spread(blind(Q, i, draw_blind(Q, i, seed(20 + i))), Q)
        basis = np.linalg.qr(seen_by_csp)[0]
        recovered = X_masked @ basis @ basis.T
        share = np.concatenate([part for _, part in masked_columns(X_i, P, Q, 1.0, i)], axis=1)
        tolerances.assert_close(recovered, share, tolerances.digits_lost(4))
