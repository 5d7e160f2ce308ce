"""The rivals of the paper's section 5, each against a property of its own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tolerances import EPS, digits_lost, spectrum

from fedsvd.errors import ConfigError, MissingExtra
from fedsvd_lab.baselines import mpc_regression, sgd
from fedsvd_lab.baselines.encrypted_gradient import encrypted_step
from fedsvd_lab.baselines.fedpca import Privacy, fedpca, noise_deviation, scaled
from fedsvd_lab.baselines.packing import Packing
from fedsvd_lab.baselines.paillier import new_key
from fedsvd_lab.baselines.pool import workers
from fedsvd_lab.baselines.ppd_svd import ppd_svd
from fedsvd_lab.baselines.subspace import Subspace, merge, right_vectors
from fedsvd_lab.baselines.wda import wda_pca

RNG = np.random.default_rng


def distance(U, other):
    return np.linalg.norm(other - U @ (U.T @ other))


def subspace_of(Y, r):
    U, sigma, _ = np.linalg.svd(Y, full_matrices=False)
    return Subspace(U[:, :r], sigma[:r])


@pytest.fixture(scope="module")
def key():
    return new_key(512)


class TestFedPCA:
    def test_merging_two_subspaces_is_the_svd_of_both_side_by_side(self):
        A, B = RNG(1).normal(size=(12, 5)), RNG(2).normal(size=(12, 4))
        found = merge(subspace_of(A, 5), subspace_of(B, 4), 9)
        expected = subspace_of(np.hstack((A, B)), 9)
        assert np.abs(found.weights - expected.weights).max() <= spectrum(12, 9) * expected.weights[0]
        assert distance(expected.U[:, :4], found.U[:, :4]) <= 1e3 * EPS

    def test_without_noise_it_is_exact_whatever_the_blocks_and_the_order_of_clients(self):
        Y = RNG(3).normal(size=(8, 60))
        U, *_ = np.linalg.svd(Y, full_matrices=False)
        for parts, block in ((np.array_split(Y, 3, axis=1), 7), (np.array_split(Y, 3, axis=1)[::-1], 100)):
            found = fedpca(parts, 8, None, seed=0, block=block)
            assert distance(U[:, :3], found.U[:, :3]) <= 1e3 * EPS

    def test_the_noise_has_the_deviation_of_lemma_2(self):
        # By hand for epsilon = 0.5, delta = 0.1, d = 10, n = 1000.
        by_hand = 40 / 500 * np.sqrt(2 * np.log(100 / (0.1 * np.sqrt(2 * np.pi)))) + np.sqrt(2) / (np.sqrt(0.5) * 1000)
        assert noise_deviation(Privacy(0.5, 0.1), 10, 1000) == pytest.approx(by_hand, rel=digits_lost(2))
        # Of no data but zeros, the perturbed covariance is noise alone: its singular values say how much.
        d, n = 40, 1000
        found = fedpca([np.zeros((d, n))], d, Privacy(0.5, 0.1), seed=5, block=9)
        energy = float((found.weights**2).sum()) / d**2
        assert abs(energy / noise_deviation(Privacy(0.5, 0.1), d, n) ** 2 - 1) < 0.15

    def test_more_budget_brings_it_closer_to_the_truth(self):
        Y = np.diag(np.arange(8, 0, -1.0)) @ RNG(6).normal(size=(8, 4000))
        parts = scaled(np.array_split(Y, 2, axis=1))
        U, *_ = np.linalg.svd(Y, full_matrices=False)
        errors = [distance(U[:, :3], fedpca(parts, 3, Privacy(e, 0.1), seed=1).U) for e in (0.1, 10.0, 1000.0)]
        assert errors[0] > 2 * errors[1]
        assert errors[1] > 10 * errors[2]

    def test_scaled_samples_have_norm_at_most_one(self):
        parts = scaled([RNG(1).normal(size=(4, 9)), 5 * RNG(2).normal(size=(4, 9))])
        assert max(np.linalg.norm(part, axis=0).max() for part in parts) == pytest.approx(1.0)

    @pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.1), (1.0, 0.0), (1.0, 1.0), (-1.0, 0.5)])
    def test_a_budget_out_of_range_is_refused(self, epsilon, delta):
        with pytest.raises(ConfigError):
            Privacy(epsilon, delta)

    def test_right_vectors_of_the_exact_subspace_are_those_of_the_svd(self):
        Y = RNG(7).normal(size=(5, 9))
        U, sigma, Vt = np.linalg.svd(Y, full_matrices=False)
        assert np.abs(right_vectors(Y, Subspace(U, sigma)) - Vt).max() <= 100 * EPS


class TestWDA:
    def test_it_is_exact_where_local_ranks_are_at_most_r(self):
        basis = RNG(1).normal(size=(20, 3))
        parts = [basis @ RNG(seed).normal(size=(3, 50)) for seed in (2, 3)]
        U, *_ = np.linalg.svd(np.hstack(parts), full_matrices=False)
        assert distance(U[:, :3], wda_pca(parts, 3).U) <= 1e3 * EPS

    def test_it_carries_what_the_parties_cut_off(self):
        Y = RNG(4).normal(size=(20, 60))
        U, *_ = np.linalg.svd(Y, full_matrices=False)
        assert distance(U[:, :3], wda_pca(np.array_split(Y, 2, axis=1), 3).U) > 1e-3

    def test_its_vectors_are_orthonormal(self):
        found = wda_pca(np.array_split(RNG(5).normal(size=(20, 60)), 4, axis=1), 6)
        assert np.abs(found.U.T @ found.U - np.eye(6)).max() <= 100 * EPS


class TestPaillier:
    @given(a=st.integers(-(2**200), 2**200), b=st.integers(-(2**200), 2**200), factor=st.integers(0, 2**60))
    def test_sums_and_multiples_of_ciphertexts_are_those_of_numbers(self, key, a, b, factor):
        public = key.public
        square = public.square
        c_a, c_b = public.encrypt(a), public.encrypt(b)
        assert key.decrypt(c_a) == a
        assert key.decrypt(c_a * c_b % square) == a + b
        assert key.decrypt(pow(c_a, factor, square)) == a * factor

    def test_one_number_never_encrypts_to_the_same_text_twice(self, key):
        assert key.public.encrypt(5) != key.public.encrypt(5)

    @pytest.mark.parametrize("bits", [64, 128, 1024])
    def test_a_key_has_the_bits_asked_for(self, bits):
        n = int(new_key(bits).public.n)
        assert n.bit_length() == bits

    def test_a_key_of_odd_or_few_bits_is_refused(self):
        for bits in (63, 32):
            with pytest.raises(ConfigError):
                new_key(bits)

    @given(numbers=st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=6))
    def test_packed_numbers_come_back_signs_and_all(self, numbers):
        packing = Packing(fraction_bits=0, slot_bits=50, slots=6)
        assert packing.unpack(packing.pack(numbers), len(numbers)) == numbers


class TestPPDSVD:
    @pytest.mark.parametrize("packed", [False, True])
    def test_the_cross_block_is_exact_in_fixed_point(self, key, packed):
        X_1, X_2 = RNG(1).integers(-9, 10, (6, 5)) / 8, RNG(2).integers(-9, 10, (6, 4)) / 8
        found = ppd_svd(X_1, X_2, key, packed=packed, fraction_bits=8)
        assert (found.cross == X_1.T @ X_2).all()

    def test_singular_values_are_those_of_the_joint_matrix_as_far_as_a_covariance_gives_them(self, key):
        X_1, X_2 = RNG(3).normal(size=(12, 4)), RNG(4).normal(size=(12, 3))
        found = ppd_svd(X_1, X_2, key, packed=True)
        sigma = np.linalg.svd(np.hstack((X_1, X_2)), compute_uv=False)
        assert np.abs(found.sigma - sigma).max() <= len(X_1) * 2.0**-24 * sigma[0] / sigma[-1]

    def test_packing_sends_fewer_bytes(self, key):
        X_1, X_2 = RNG(5).normal(size=(5, 6)), RNG(6).normal(size=(5, 6))
        apart, packed = (ppd_svd(X_1, X_2, key, packed=how) for how in (False, True))
        assert packed.slots > 1
        assert packed.bytes_sent * 2 < apart.bytes_sent

    def test_processes_change_the_time_and_nothing_else(self, key):
        X_1, X_2 = RNG(7).normal(size=(4, 3)), RNG(8).normal(size=(4, 5))
        alone = ppd_svd(X_1, X_2, key, packed=True)
        with workers(2) as spread:
            before = spread.processor()
            two = ppd_svd(X_1, X_2, key, packed=True, spread=spread)
            assert spread.processor() > before
        assert (alone.cross == two.cross).all()


class TestRegressions:
    def test_descent_approaches_least_squares_and_never_goes_below_it(self):
        X, noise = RNG(1).normal(size=(400, 5)) * [1, 10, 0.1, 3, 2] + 7, RNG(2).normal(size=400)
        y = X @ RNG(3).normal(size=5) + noise
        best = sgd.optimum(X, y)
        full, mini = sgd.full_batch(X, y), sgd.mini_batches(X, y, seed=1)
        assert full[10] >= full[100] >= full[1000] >= best * (1 - digits_lost(4))
        assert full[1000] <= best * (1 + digits_lost(7))
        # A constant rate leaves mini-batches in a cloud around the optimum.
        assert all(best * (1 - digits_lost(4)) <= error <= 1.1 * best for error in mini.values())

    def test_full_batches_on_the_gram_matrix_are_full_batches(self):
        X, y = RNG(4).normal(size=(50, 3)), RNG(5).normal(size=50)
        Z, t = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
        w, rate = np.zeros(3), len(Z) / np.linalg.norm(Z, 2) ** 2
        for _ in range(7):
            w -= rate / len(Z) * Z.T @ (Z @ w - t)
        expected = y.std() ** 2 * np.mean((Z @ w - t) ** 2)
        assert sgd.full_batch(X, y, (7,))[7] == pytest.approx(expected, rel=digits_lost(4))

    def test_a_feature_that_is_nearly_always_zero_does_not_drive_mini_batches_apart(self):
        X = RNG(11).normal(size=(2000, 3))
        X[:, 2] = 0.0
        X[1999, 2] = 1.0  # standardised, this one entry is 45
        errors = sgd.mini_batches(X, X[:, 0] + X[:, 2], (1, 20), seed=1, batch=16)
        assert errors[20] <= errors[1] <= np.var(X[:, 0] + X[:, 2])

    def test_a_constant_column_does_no_harm(self):
        X = np.column_stack((RNG(6).normal(size=30), np.full(30, 4.0)))
        assert np.isfinite(sgd.full_batch(X, X[:, 0], (5,))[5])

    def test_the_optimum_is_that_of_least_squares(self):
        X = np.arange(5.0).reshape(-1, 1)
        # Residuals orthogonal to ones and to x stay, and nothing else does: their mean square is 2.
        residuals = np.array([1.0, -2.0, 0.0, 2.0, -1.0])
        assert sgd.optimum(X, 2 * X[:, 0] + 1 + residuals) == pytest.approx(2.0, rel=digits_lost(3))

    def test_an_encrypted_step_has_the_gradient_of_a_plain_one(self, key):
        X_1, X_2, y = RNG(7).normal(size=(9, 2)), RNG(8).normal(size=(9, 3)), RNG(9).normal(size=9)
        w = RNG(10).normal(size=5)
        X = np.hstack((X_1, X_2))
        found = encrypted_step(X_1, X_2, w, y, key)
        assert np.abs(found.gradient - X.T @ (X @ w - y)).max() <= 9 * 4 * 2.0**-22
        assert found.seconds > 0

    def test_the_mpc_peer_says_which_extra_it_needs(self, monkeypatch):
        monkeypatch.setattr(mpc_regression, "available", lambda: False)
        with pytest.raises(MissingExtra, match=r"fedsvd\[mpc\]"):
            mpc_regression.shared_step(5, 2, seed=1)

    @pytest.mark.slow
    def test_a_step_on_secret_shares_is_that_on_numbers(self):
        pytest.importorskip("mpyc")
        found = mpc_regression.shared_step(20, 4, seed=1)
        assert found.error <= 2.0**-18
        assert found.step > 0
