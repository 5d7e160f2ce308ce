"""Scores say what was learned: chance is measured on the attack's own output, and p-values are uniform under it."""

import numpy as np
import pytest
from tests.tolerances import ACCEPTED, REJECTED, assert_close, digits_lost

from fedsvd.audit.attacks.score import correlations, exact_entries, p_value, score, uniformity
from fedsvd_lab.attacks.referee import as_published, beyond_rotation, largest_signed, published_baseline, up_to_signs


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


def test_correlations_are_pearsons_without_sign_and_constant_rows_have_none():
    found, true = normal(1, 3, 40), normal(2, 4, 40)
    assert_close(correlations(found, true), np.abs(np.corrcoef(found, true)[:3, 3:]), digits_lost(2))
    assert not correlations(np.ones((1, 40)), true).any()


def test_truth_in_any_order_and_sign_scores_one_at_the_smallest_p():
    true = normal(3, 30, 50)
    found = -true[np.random.default_rng(4).permutation(30)]
    scored = score(found, true, draws=49)
    assert scored.matched == pytest.approx(1.0)
    assert scored.largest == pytest.approx(1.0)
    assert scored.typical == pytest.approx(1.0)
    assert (scored.p, scored.p_largest) == (0.02, 0.02)
    assert scored.uniform < 0.8
    assert set(scored.record()) >= {"matched", "p", "null_mean", "uniform"}


def test_p_values_of_noise_are_uniform_and_those_of_a_leak_are_not():
    true = np.abs(normal(5, 12, 60))
    noise = np.array([score(normal(100 + i, 12, 60), true, 39, seed=i).p for i in range(40)])
    leak = np.array([score(normal(100 + i, 12, 60) + true, true, 39, seed=i).p for i in range(40)])
    assert uniformity(noise) > ACCEPTED
    assert uniformity(leak) < REJECTED


def test_spikes_that_know_nothing_are_no_better_than_chance_though_their_largest_correlation_is_high():
    rng = np.random.default_rng(6)
    sparse = (rng.random((40, 300)) < 0.01).astype(float)
    scored = score(np.eye(40, 300)[rng.permutation(40)], sparse)
    assert scored.largest > 0.5
    assert scored.p > 0.05
    assert scored.p_largest > 0.05


def test_the_papers_score_is_the_mean_of_the_largest_signed_correlations_of_rows_and_columns():
    found, true = normal(7, 9, 14), normal(8, 9, 14)
    rows = np.corrcoef(found, true)[:9, 9:].max()
    columns = np.corrcoef(found.T, true.T)[:14, 14:].max()
    assert largest_signed(found, true) == pytest.approx(rows)
    assert as_published(found, true) == pytest.approx((rows + columns) / 2)
    assert 0.0 < published_baseline(true) < 1.0


def test_a_p_value_counts_the_observation_itself():
    assert p_value(2.0, np.array([1.0, 2.0, 3.0])) == 0.75
    assert p_value(9.0, np.zeros(99)) == 0.01


def test_when_the_gram_matrix_is_known_the_null_is_a_rotation():
    true = np.random.default_rng(9).gamma(1.0, size=(8, 40))
    rotation = np.linalg.qr(normal(10, 8, 8))[0]
    assert beyond_rotation(true, true, draws=19)[1] == 0.05
    assert beyond_rotation(rotation @ true, true, draws=19)[1] > 0.05


def test_exact_entries_are_counted_apart_from_zeros_taken_for_something():
    true = np.array([[0.0, 3.0, 0.0, 5.0]])
    assert exact_entries(np.array([[0.2, 3.4, 0.9, 4.0]]), true) == (0.5, 0.5)
    assert up_to_signs(-true.T, true.T) == 0.0
