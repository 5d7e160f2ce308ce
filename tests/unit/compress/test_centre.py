"""Factors made apart, each less its own mean, become those of the jointly centred and scaled data, exactly.

The reference is centred in extended precision: in float64 the mean of large numbers is itself not known well enough.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler
from tests import tolerances

from fedsvd.compress.centre import first_mean, row_energy, to_joint_mean, to_unit_variance, unit_scales
from fedsvd.compress.reduce import Reduced, compress
from fedsvd.data.open import open_source
from fedsvd.errors import LocalProtocolError
from fedsvd.linalg.device import Device

M = 10


def centred(X):
    exact = X.astype(np.longdouble)
    return np.asarray(exact - exact.mean(axis=1, keepdims=True), dtype=np.float64)


def federated(parts, panel=50, device=None):
    """What the users do: a common shift, one pass each, sums of counts and means, and the column that moves each."""
    sources = [open_source(X_i) for X_i in parts]
    heads = [first_mean(source) for source in sources]
    shift = sum(count * mean for count, mean in heads) / sum(count for count, _ in heads)
    reduced = [compress(source, shift=shift, panel=panel, device=device) for source in sources]
    count = sum(part.count for part in reduced)
    mean = sum(part.count * part.mean_i for part in reduced) / count
    return [to_joint_mean(part, mean) for part in reduced], mean, count


def parts_of(widths, ratio, apart, seed=3):
    """Users' shares with mean/std = ratio, rows of different scales, and the users' own means some std apart."""
    rng = np.random.default_rng(seed)
    scale = np.geomspace(1.0, 1e-3, M)[:, None]
    return [scale * (rng.normal(size=(M, n_i)) + ratio + apart * rng.normal(size=(M, 1))) for n_i in widths]


@pytest.mark.parametrize("ratio", [0.0, 1.0, 1e4, 1e8])
@pytest.mark.parametrize("apart", [0.0, 1.0, 10.0])
def test_the_joint_factor_is_that_of_the_jointly_centred_matrix_however_large_the_mean(ratio, apart):
    parts = parts_of((300, 500, 7, 1), ratio, apart)
    A, _, _ = federated(parts)
    C = centred(np.concatenate(parts, axis=1))
    sigma = np.linalg.svd(C, compute_uv=False)
    got = np.linalg.svd(np.concatenate(A, axis=1), compute_uv=False)[:M]
    assert np.abs(got - sigma).max() < tolerances.FACTOR_BAR * sigma[0]
    joint = np.concatenate(A, axis=1)
    assert np.abs(joint @ joint.T - C @ C.T).max() < tolerances.gram(C.shape[1]) * sigma[0] ** 2
    np.testing.assert_allclose(row_energy(joint), np.sum(C * C, axis=1), rtol=tolerances.digits_lost(4))


def test_means_subtracted_as_they_stand_would_lose_half_the_digits():
    """Why a factor remembers its mean as an offset from the shift."""
    parts = parts_of((300, 500), 1e8, 1.0)
    shift = parts[0].mean(axis=1)
    reduced = [compress(open_source(X_i), shift=shift) for X_i in parts]
    mean = sum(part.count * part.mean_i for part in reduced) / 800
    naive = [np.column_stack((part.L_i, np.sqrt(part.count) * (part.mean_i - mean))) for part in reduced]
    C = centred(np.concatenate(parts, axis=1))
    sigma = np.linalg.svd(C, compute_uv=False)
    assert (
        np.abs(np.linalg.svd(np.concatenate(naive, axis=1), compute_uv=False)[:M] - sigma).max()
        > tolerances.digits_lost(3) * sigma[0]
    )


@settings(max_examples=40)
@given(widths=st.lists(st.integers(1, 40), min_size=1, max_size=4), panel=st.integers(1, 50), seed=st.integers(0, 999))
def test_any_split_gives_the_same_centred_gram_matrix(widths, panel, seed):
    parts = parts_of(widths, 3.0, 1.0, seed)
    A, mean, count = federated(parts, panel)
    X = np.concatenate(parts, axis=1)
    C, joint = centred(X), np.concatenate(A, axis=1)
    assert count == X.shape[1]
    tolerances.assert_close(mean, X.mean(axis=1), tolerances.digits_lost(4))
    assert np.abs(joint @ joint.T - C @ C.T).max() < tolerances.gram(count) * np.linalg.norm(X, 2) ** 2


def test_it_works_in_every_library(library):
    parts = parts_of((60, 80), 10.0, 1.0)
    A, mean, count = federated(parts, device=Device("test", library.array([0.0])))
    expected, _, _ = federated(parts)
    scales = unit_scales(sum(row_energy(A_i) for A_i in A), count, mean)
    for A_i, E_i in zip(A, expected, strict=True):
        joint, reference = library.numpy(A_i), E_i
        bound = tolerances.gram(80) * np.linalg.norm(reference, 2) ** 2
        np.testing.assert_allclose(joint @ joint.T, reference @ reference.T, rtol=0, atol=bound)
        scaled = library.numpy(to_unit_variance(A_i, scales))
        np.testing.assert_allclose(scaled, joint / scales[:, None], rtol=tolerances.digits_lost(2))


def test_the_first_mean_is_that_of_the_first_columns():
    X = np.random.default_rng(4).normal(size=(3, 5000))
    for few in (7, 4096):
        count, mean = first_mean(open_source(X[:, :few]))
        assert count == few
        tolerances.assert_close(mean, X[:, :few].mean(axis=1), tolerances.digits_lost(2))


def test_the_mean_of_a_part_is_rounded_to_about_a_deviation_because_exact_it_would_show_the_rest():
    rng = np.random.default_rng(4)
    X = np.array([[1.0], [1e-3], [1e5], [1.0]]) * rng.normal(size=(4, 5000)) + np.array([[3.0], [1e5], [0.0], [7.0]])
    X[3] = 7.0  # without a deviation of its own: the least of the others'
    count, mean = first_mean(open_source(X))
    first = X[:, :4096]
    assert count == 4096
    step = 2.0 ** np.ceil(np.log2(np.append(first[:3].std(axis=1), first[1].std())))
    assert np.array_equal(mean, step * np.rint(mean / step))
    assert (np.abs(mean - first.mean(axis=1)) <= step / 2).all()
    assert first_mean(open_source(np.full((2, 5000), 3.1)))[1] == pytest.approx([3.1, 3.1], rel=2.0**-19)
    assert np.array_equal(first_mean(open_source(np.zeros((2, 5000))))[1], np.zeros(2))


# Unit variance.


def constant_rows():
    """Rows 1, 3, 5, 7 are constant, among them one whose mean is no binary fraction and one that is large."""
    parts = parts_of((300, 500, 1), 5.0, 1.0)
    for X_i in parts:
        X_i[1], X_i[3], X_i[5], X_i[7] = 0.0, 0.1, 1e8 / 3, -7.0
    return parts


def test_unit_variance_is_scikit_learns_on_the_joint_data_constant_rows_included():
    parts = constant_rows()
    A, mean, count = federated(parts)
    X = np.concatenate(parts, axis=1)
    scaler = StandardScaler().fit(X.T)
    scales = unit_scales(sum(row_energy(A_i) for A_i in A), count, mean)

    constant = np.ptp(X, axis=1) == 0
    assert np.flatnonzero(constant).tolist() == [1, 3, 5, 7]
    np.testing.assert_array_equal(scales == 0, constant)
    np.testing.assert_allclose(scales[~constant], scaler.scale_[~constant], rtol=tolerances.digits_lost(4))

    scaled = np.concatenate([to_unit_variance(A_i, scales) for A_i in A], axis=1)
    assert np.all(scaled[constant] == 0.0), "a row without variance is exactly zero"
    Z = scaler.transform(X.T).T
    Z[constant] = 0.0
    np.testing.assert_allclose(
        scaled @ scaled.T, Z @ Z.T, rtol=0, atol=tolerances.gram(count) * np.linalg.norm(Z, 2) ** 2
    )
    np.testing.assert_allclose(row_energy(scaled)[~constant], count, rtol=tolerances.digits_lost(4))


def test_a_row_that_varies_only_by_rounding_is_constant_by_scikit_learns_rule():
    rng = np.random.default_rng(5)
    X = np.ones((4, 400))
    X[0] += 1e-16 * rng.integers(0, 2, 400)
    X[1] += 1e-15 * rng.integers(0, 2, 400)
    X[2] += 1e-10 * rng.integers(0, 2, 400)
    A, mean, count = federated([X[:, :150], X[:, 150:]])
    scales = unit_scales(sum(row_energy(A_i) for A_i in A), count, mean)
    kept = StandardScaler().fit(X.T).scale_ != 1.0
    assert kept.tolist() == [False, False, True, False]
    np.testing.assert_array_equal(scales > 0, kept)


def test_a_constant_row_is_noticed_even_when_the_shift_is_far_off():
    X = np.random.default_rng(6).normal(size=(3, 200))
    X[1] = 12.3
    reduced = compress(open_source(X), shift=np.full(3, -40.0), panel=30)
    A = to_joint_mean(reduced, reduced.mean_i)
    np.testing.assert_array_equal(unit_scales(row_energy(A), 200, reduced.mean_i) == 0, [False, True, False])


def test_row_energies_are_sums_of_squares():
    A = np.random.default_rng(7).normal(size=(5, 9))
    np.testing.assert_allclose(row_energy(A), np.sum(A * A, axis=1), rtol=tolerances.digits_lost(2))


def test_a_factor_without_a_mean_cannot_be_moved_to_another():
    with pytest.raises(LocalProtocolError, match="without its mean"):
        to_joint_mean(compress(open_source(np.ones((2, 5)))), np.zeros(2))
    with pytest.raises(LocalProtocolError, match="without its mean"):
        to_joint_mean(Reduced(np.eye(2), 2), np.zeros(2))
