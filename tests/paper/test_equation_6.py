"""Eq. 6: the CSP computes user i's part of Vt under a blind R_i; and what the message gives away (C1).

[Q_i^T]^R = Q_i^T R_i,    [Vt_i]^R = Vt' [Q_i^T]^R,    Vt_i = [Vt_i]^R R_i^-1
"""

import numpy as np
import pytest
import scipy.linalg
from tests import explicit, tolerances
from tests.explicit import masked, seed

from fedsvd_lab.published.blind import blind, draw_blind, unblind
from fedsvd_lab.published.block_masks import LeftBlocks, RightBlocks

M, WIDTHS, B = 9, (7, 1, 12, 3), 4
N = sum(WIDTHS)


@pytest.fixture
def session():
    """Masks, data, X' and its full SVD, as the paper's CSP has it (m < n: all n rows of Vt')."""
    P, Q = LeftBlocks(M, seed(1), b=B), RightBlocks(WIDTHS, seed(2), b=B)
    X = np.random.default_rng(3).normal(size=(M, N))
    X_masked = explicit.left(P) @ X @ explicit.right(Q)
    return P, Q, X, X_masked, np.linalg.svd(X_masked)[2]


def slices(Q, i):
    """User i's slices of Q, as the TA deals them: none for a block in which it has no column."""
    own = {w: window.columns[i] for w, window in enumerate(Q.windows)}
    return {w: Q.rows(w, i) for w, columns in own.items() if columns.stop > columns.start}


def spread(blocks, Q, i):
    """[Q_i^T]^R with its zeros, (N, n_i), as eq. 7 draws it."""
    dense, column = np.zeros((N, sum(block.shape[1] for block in blocks))), 0
    for w, block in zip(slices(Q, i), blocks, strict=True):
        dense[Q.windows[w].outputs, column : column + block.shape[1]] = block
        column += block.shape[1]
    return dense


def test_every_user_gets_all_n_rows_of_its_own_part_of_vt(session):
    _, Q, X, _, Vt_masked = session
    parts = []
    for i in range(len(WIDTHS)):
        Q_i = slices(Q, i)
        R_i = draw_blind(Q_i, seed(10 + i))
        Vt_i_blinded = tuple(
            Vt_masked[:, Q.windows[w].outputs] @ block for w, block in zip(Q_i, blind(Q_i, R_i), strict=True)
        )
        parts.append(np.concatenate(unblind(Vt_i_blinded, R_i), axis=1))
    Vt = np.concatenate(parts, axis=1)
    assert [part.shape for part in parts] == [(N, n_i) for n_i in WIDTHS]
    np.testing.assert_allclose(Vt, Vt_masked @ explicit.right(Q).T, rtol=0, atol=tolerances.product(N, 8))
    np.testing.assert_allclose(Vt @ Vt.T, np.eye(N), rtol=0, atol=tolerances.product(N, 8))
    np.testing.assert_allclose(X @ Vt[M:].T, 0.0, rtol=0, atol=tolerances.product(N, 8) * np.linalg.norm(X, 2))


def test_the_blinded_mask_is_blockwise_and_is_the_dense_product(session):
    """Eq. 7: R_i has one block to each slice, so Q_i^T R_i keeps the zeros of Q_i^T."""
    Q = session[1]
    i, start = 2, 8
    R_i = draw_blind(slices(Q, i), seed(5))
    dense_R = scipy.linalg.block_diag(*(block.explicit() for block in R_i.values()))
    Qt_i = explicit.right(Q)[start : start + WIDTHS[i]].T
    blinded = spread(blind(slices(Q, i), R_i), Q, i)
    np.testing.assert_allclose(blinded, Qt_i @ dense_R, rtol=0, atol=tolerances.product(N, 4))


def test_the_blind_has_condition_one_where_a_uniform_one_would_lose_digits(session):
    R_i = draw_blind(slices(session[1], 2), seed(5))
    for block in R_i.values():
        assert np.linalg.cond(block.explicit()) < 1 + tolerances.digits_lost(3)


def test_blinds_differ_between_blocks_and_between_seeds(session):
    blocks = [
        block.explicit() for number in (2, 3) for block in draw_blind(slices(session[1], 2), seed(number)).values()
    ]
    wide = [block for block in blocks if len(block) > 2]
    assert len(wide) >= 4
    for j, block in enumerate(wide):
        alike = [other for other in wide[:j] if other.shape == block.shape]
        assert all(np.abs(block - other).max() > 0.01 for other in alike)


def test_the_csp_gets_every_users_share_from_the_blinded_masks_and_this_is_why_the_product_sends_none(session):
    """C1: the column space of [Q_i^T]^R is that of Q_i^T, whatever R_i; projecting X' on it gives P X_i Q_i."""
    P, Q, X, X_masked, _ = session
    for i, X_i in enumerate(explicit.split(X, WIDTHS)):
        Q_i = slices(Q, i)
        seen_by_csp = spread(blind(Q_i, draw_blind(Q_i, seed(20 + i))), Q, i)
        basis = np.linalg.qr(seen_by_csp)[0]
        recovered = X_masked @ basis @ basis.T
        share = masked(X_i, P, Q, 1.0, i)
        tolerances.assert_close(recovered, share, tolerances.digits_lost(4))
