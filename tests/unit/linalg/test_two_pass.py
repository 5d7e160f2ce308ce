"""Two passes over panels give the SVD that LAPACK gives of the whole, and a wrong one is found by its probes."""

import numpy as np
import pytest
from tests.tolerances import EPS, assert_close, digits_lost

from fedsvd.errors import VerificationFailed
from fedsvd.linalg import two_pass
from fedsvd.linalg.streaming_factor import StreamingFactor
from fedsvd.linalg.two_pass import two_pass_svd

SHORT, LONG = 24, 700
PLACES = [slice(0, 150), slice(150, 400), slice(400, LONG)]


class Panels:
    """The long side in memory, as a store would have it; ``spoil`` stands for a disk or a solver that went wrong."""

    def __init__(self, B, spoil=None):
        self.cells, self.spoil = B.copy(), spoil

    def read(self, place):
        return self.cells[place]

    def write(self, place, L):
        self.cells[place, : L.shape[1]] = L if self.spoil is None else self.spoil(place, L.copy())


def matrix(condition, rank=SHORT):
    rng = np.random.default_rng(3)
    left, right = (np.linalg.qr(rng.normal(size=(side, rank)))[0] for side in (LONG, SHORT))
    return left * np.logspace(0, -np.log10(condition), rank) @ right.T


def factor_of(B):
    factor = StreamingFactor(SHORT)
    factor.update(B)
    return factor.factor()


def run(B, most=SHORT, spoil=None):
    rows = Panels(B, spoil)
    found = two_pass_svd(factor_of(B), rows, PLACES, B.shape, most)
    return found, rows.cells[:, : len(found.sigma)]


@pytest.mark.parametrize("condition", [1.0, 1e6, 1e12])
def test_both_sides_are_orthonormal_and_make_up_the_matrix_at_any_condition(condition):
    B = matrix(condition)
    (sigma, V, quality), L = run(B)
    assert np.abs(sigma - np.linalg.svd(B, compute_uv=False)).max() <= 50 * EPS
    assert np.linalg.norm(L * sigma @ V.T - B) <= 100 * EPS * np.linalg.norm(B)
    for side in (L, V):
        assert np.linalg.norm(side.T @ side - np.eye(len(sigma))) <= 64 * EPS * (SHORT + 16)
    assert quality.residual <= 100 * EPS


def test_the_top_triplets_are_those_of_the_whole():
    B = matrix(1e4)
    (sigma, V, _), L = run(B, most=5)
    U, s, Vt = np.linalg.svd(B, full_matrices=False)
    np.testing.assert_allclose(sigma, s[:5], rtol=0, atol=50 * EPS)
    assert_close(np.abs(np.sum(U[:, :5] * L, axis=0)), 1.0, digits_lost(7))
    assert_close(np.abs(np.sum(Vt[:5].T * V, axis=0)), 1.0, digits_lost(7))


def test_lost_rank_is_cut_off():
    (sigma, _, _), L = run(matrix(10.0, rank=7))
    assert len(sigma) == 7
    assert np.linalg.norm(L.T @ L - np.eye(7)) <= 64 * EPS * 23


def test_a_zero_matrix_has_no_triplets():
    (sigma, V, quality), _ = run(np.zeros((LONG, SHORT)))
    assert sigma.shape == (0,)
    assert V.shape == (SHORT, 0)
    assert (quality.residual, quality.orthogonality) == (0.0, 0.0)


@pytest.mark.parametrize("condition", [4.0, 1e8])
def test_a_vector_that_is_wrong_in_one_entry_is_found(condition, monkeypatch):
    product = two_pass.Probed.measured

    def wrong(self, place, L):
        if place.start == 150:
            L = L.copy()
            L[7, 3] += 1e-8
        return product(self, place, L)

    monkeypatch.setattr(two_pass.Probed, "measured", wrong)
    with pytest.raises(VerificationFailed):
        run(matrix(condition))


def test_a_store_that_does_not_give_back_what_it_took_is_found():
    def spoil(place, L):
        if place.start == 0:
            L[3, 0] += 1e-6
        return L

    with pytest.raises(VerificationFailed):
        run(matrix(1e6), spoil=spoil)
