"""Factors made apart, each less its own mean, become those of the jointly centred and scaled data, exactly.

The reference is centred in extended precision: in float64 the mean of large numbers is itself not known well enough.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler
from tests import tolerances

from fedsvd.compress.centre import at_offset, deviations, own_shift, row_energy, unit_scales
from fedsvd.compress.reduce import compress
from fedsvd.data.open import open_source
from fedsvd.linalg.device import Device

M = 10


def centred(X):
    exact = X.astype(np.longdouble)
    return np.asarray(exact - exact.mean(axis=1, keepdims=True), dtype=np.float64)


def federated(parts, panel=50, device=None):
    """What the users do: a shift of their own, one pass each, the exact joint mean, and the column that moves each."""
    sources = [open_source(X_i) for X_i in parts]
    reduced = [compress(source, shift=own_shift(source), panel=panel, device=device) for source in sources]
    count = sum(part.count for part in reduced)
    means = [[Fraction(s) + Fraction(d) for s, d in zip(*pair(part), strict=True)] for part in reduced]
    joint = [
        sum(p.count * mean[j] for p, mean in zip(reduced, means, strict=True)) / count for j in range(len(means[0]))
    ]
    offsets = [np.array([float(own - all_) for own, all_ in zip(mean, joint, strict=True)]) for mean in means]
    A = [at_offset(part, offset) for part, offset in zip(reduced, offsets, strict=True)]
    return A, np.array([float(value) for value in joint]), count


def pair(reduced):
    """The local mean as an exact pair: the shift, and the offset from it."""
    return reduced.shift.tolist(), reduced.offset_i.tolist()


def parts_of(widths, ratio, apart, seed=3):
    """Users' shares with mean/std = ratio, rows of different scales, and the users' own means some std apart."""
    rng = np.random.default_rng(seed)
    scale = np.geomspace(1.0, 1e-3, M)[:, None]
    return [scale * (rng.normal(size=(M, n_i)) + ratio + apart * rng.normal(size=(M, 1))) for n_i in widths]


@pytest.mark.parametrize("ratio", [0.0, 1.0, 1e4, 1e8, 1e11])
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
    assert scales.shape == (M,)
    assert scales.min() > 0


def test_the_own_shift_is_the_mean_of_the_first_columns():
    X = np.random.default_rng(4).normal(size=(3, 5000))
    for few in (7, 4096, 5000):
        np.testing.assert_allclose(
            own_shift(open_source(X[:, :few])),
            X[:, : min(few, 4096)].mean(axis=1),
            rtol=0,
            atol=tolerances.digits_lost(2),
        )


def test_on_a_device_the_own_shift_is_of_two_columns_for_each_row(foreign):
    X = np.random.default_rng(4).normal(size=(3000, 6500))
    device = Device("test", foreign.array([0.0]))
    shift = own_shift(open_source(X), device)
    np.testing.assert_allclose(shift, X[:, :6000].mean(axis=1), rtol=0, atol=tolerances.digits_lost(2))
    few = own_shift(open_source(X[:3, :5]), device)
    np.testing.assert_allclose(few, X[:3, :5].mean(axis=1), rtol=0, atol=tolerances.digits_lost(2))


def test_local_deviations_are_those_of_the_users_own_columns():
    X = parts_of((400,), 1e8, 0.0)[0]
    reduced = compress(open_source(X), shift=own_shift(open_source(X)), panel=50)
    np.testing.assert_allclose(
        deviations(reduced), np.sqrt(np.mean(centred(X) ** 2, axis=1)), rtol=tolerances.digits_lost(4)
    )


@pytest.mark.parametrize("first", [3.0, 1e6])
def test_a_first_chunk_that_is_not_typical_costs_no_digits(first):
    """The shift is far from the mean then, and the offset carries what is between."""
    X = parts_of((6000,), 5.0, 0.0)[0]
    X[:, :4096] += first
    reduced = compress(open_source(X), shift=own_shift(open_source(X)), panel=500)
    exact = X.astype(np.longdouble).mean(axis=1)
    shift, offset = (np.array(part, dtype=np.longdouble) for part in pair(reduced))
    size = np.abs(X).max(axis=1)
    assert np.max(np.abs(shift + offset - exact) / size) < tolerances.digits_lost(2)


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

    inverse = np.divide(1.0, scales, out=np.zeros(M), where=scales > 0)
    scaled = np.concatenate(A, axis=1) * inverse[:, None]
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
    A = at_offset(reduced, np.zeros(3))
    np.testing.assert_array_equal(unit_scales(row_energy(A), 200, reduced.mean_i) == 0, [False, True, False])


def test_row_energies_are_sums_of_squares():
    A = np.random.default_rng(7).normal(size=(5, 9))
    np.testing.assert_allclose(row_energy(A), np.sum(A * A, axis=1), rtol=tolerances.digits_lost(2))
