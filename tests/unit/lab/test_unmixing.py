"""Un-mixing works on cases built for it, so that its failure on a mask means something."""

import numpy as np
import pytest
from tests.tolerances import assert_close, digits_lost, orthogonal

from fedsvd.audit.attacks.score import correlations, gap, matched
from fedsvd.audit.attacks.unmix import Cuts, polar, unmixed_rows, whitening
from fedsvd_lab.attacks import rica
from fedsvd_lab.attacks.joint_diagonal import jointly_diagonal, left_mask_of
from fedsvd_lab.attacks.known_sample import Sample, from_sample
from fedsvd_lab.attacks.rica import infomax_rows, rica_weights


def haar(n, rng):
    Q, R = np.linalg.qr(rng.standard_normal((n, n)))
    return Q * np.sign(np.diag(R))


def blockwise(blocks, rng):
    P = np.zeros((blocks[-1].stop, blocks[-1].stop))
    for rows in blocks:
        P[rows, rows] = haar(rows.stop - rows.start, rng)
    return P


@pytest.fixture
def sources():
    """Twenty rows that are far from Gaussian, over two thousand samples."""
    return np.random.default_rng(1).laplace(size=(20, 2000))


def test_whitened_rows_are_uncorrelated_with_unit_variance_and_lost_rank_is_dropped(sources):
    B = np.concatenate((sources[:5], sources[:2] - sources[2:4]))
    K = whitening(B)
    assert K.shape == (5, 7)
    Z = K @ (B - B.mean(axis=1, keepdims=True))
    assert_close(Z @ Z.T / Z.shape[1], np.eye(5), digits_lost(7))


def test_a_block_of_zeros_is_left_alone():
    found, (W,) = unmixed_rows(np.zeros((4, 30)), [slice(0, 4)], np.random.default_rng(0))
    assert not found.any()
    assert not W.any()


def test_fast_ica_undoes_a_rotation_block_by_block(sources):
    rng = np.random.default_rng(2)
    cuts = Cuts.of_width(sources.shape, 6)
    found, _ = unmixed_rows(blockwise(cuts.rows, rng) @ sources, cuts.rows, rng)
    for rows in cuts.rows:
        assert matched(found[rows], sources[rows]) > 0.98


def test_infomax_undoes_a_rotation_of_logistic_sources():
    rng = np.random.default_rng(3)
    S = rng.logistic(size=(6, 6000))
    found = infomax_rows(haar(6, rng) @ S, [slice(0, 6)], iterations=400)
    assert matched(found, S) > 0.95


def test_one_side_of_the_papers_ica_un_mixes_what_is_white_already_and_finds_some_sources_twice():
    """Without decorrelation nothing keeps two columns of W apart: the weakness that its score does not show."""
    rng = np.random.default_rng(4)
    S = rng.laplace(size=(3000, 8))
    B = S @ haar(8, rng)
    table = correlations((B @ rica_weights(B, rng)).T, S.T)
    assert np.median(table.max(axis=1)) > 0.98
    assert len(set(table.argmax(axis=1))) < 8


def test_a_wide_block_is_fitted_a_few_columns_at_a_time_with_the_same_outcome(monkeypatch):
    """One column at a time or all at once: the objective has no term between columns."""
    rng = np.random.default_rng(5)
    B = rng.laplace(size=(800, 4)) @ haar(4, rng)
    whole = correlations((B @ rica_weights(B, np.random.default_rng(6))).T, B.T)
    monkeypatch.setattr(rica, "FITTED_AT_ONCE", 4)
    apart = rica_weights(B, np.random.default_rng(6))
    assert apart.shape == (4, 4)
    # Random starts are dealt out otherwise, so the same minima come in another order.
    again = correlations((B @ apart).T, B.T)
    assert max(np.abs(again - line).max(axis=1).min() for line in whole) < 0.05


def test_the_papers_ica_works_on_both_sides_and_keeps_the_shape():
    Y = np.random.default_rng(7).laplace(size=(12, 9))
    assert rica.rica(Y, Cuts.of_width((12, 9), 4), iterations=5).shape == (12, 9)


def test_matrices_that_share_a_basis_are_diagonalised_in_it():
    rng = np.random.default_rng(5)
    for c in (7, 8):
        P = haar(c, rng)
        grams = np.array([P @ np.diag(rng.random(c)) @ P.T for _ in range(5)])
        W = jointly_diagonal(grams)
        assert np.abs(W @ W.T - np.eye(c)).max() < 100 * orthogonal(c)
        assert_close(np.abs(W @ P).max(axis=1), 1.0, digits_lost(6))


def test_joint_diagonalisation_reads_a_left_mask_where_rows_of_a_block_rarely_meet():
    rng = np.random.default_rng(6)
    X = rng.integers(1, 6, (20, 3000)) * (rng.random((20, 3000)) < 0.03)
    cuts = Cuts.of_width(X.shape, 20)
    P = haar(20, rng)
    Y = P @ X @ blockwise(cuts.columns, rng)
    assert (np.abs(left_mask_of(Y, cuts.columns) @ P).max(axis=1) > 0.9).mean() > 0.9


def test_a_sample_of_the_same_kind_undoes_a_rotation_of_records():
    rng = np.random.default_rng(7)
    shape = haar(8, rng) * np.geomspace(1.0, 6.0, 8)
    hidden, sample = (shape @ (rng.gamma(1.0, size=(8, 4000)) - 1.0) for _ in range(2))
    found = from_sample(haar(8, rng) @ hidden, Sample(sample))
    assert gap(found, hidden) < 0.2


def test_a_sample_says_nothing_where_records_are_mixed_too():
    rng = np.random.default_rng(8)
    shape = haar(8, rng) * np.geomspace(1.0, 6.0, 8)
    hidden, sample = (shape @ (rng.gamma(1.0, size=(8, 600)) - 1.0) for _ in range(2))
    found = from_sample(haar(8, rng) @ hidden @ haar(600, rng), Sample(sample))
    assert gap(found, hidden) > 1.0


def test_cuts_have_near_equal_widths():
    assert [rows.stop - rows.start for rows in Cuts.of_width((25, 9), 10).rows] == [13, 12]
    assert Cuts.of_width((25, 9), 10).transposed.columns == Cuts.of_width((25, 9), 10).rows


def test_the_polar_factor_of_a_rotation_times_a_stretch_is_the_rotation():
    rng = np.random.default_rng(9)
    Q = haar(6, rng)
    stretch = np.diag(np.geomspace(1, 5, 6))
    np.testing.assert_allclose(polar(Q @ stretch), Q, rtol=0, atol=orthogonal(6) * 10)
