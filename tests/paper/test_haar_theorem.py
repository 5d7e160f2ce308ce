"""The Haar theorem (docs/threat-model.md): under Haar masks the CSP's view depends on A only through cS.

Two matrices with the same singular values and otherwise nothing in common, one dense and one diagonal with a single
huge entry, are masked under many seeds. Entries, tile energies and leverages of what the CSP sees have one law; under
the paper's block masks the same tests tell the two apart, so they can fail.
"""

from functools import cache

import numpy as np
import pytest
from scipy.stats import ks_2samp
from tests import tolerances
from tests.explicit import BLOCKS, left_mask, masked, right_mask, seed, split

from fedsvd.linalg.windows import Form
from fedsvd.masks.orthogonal import secret_scale

M, WIDTHS, B, SEEDS = 8, (7, 5), 4, 600
N = sum(WIDTHS)
SIGMA = np.array([100.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.5, 0.1])


def dense():
    rng = np.random.default_rng(1)
    U, Vt = np.linalg.qr(rng.normal(size=(M, M)))[0], np.linalg.qr(rng.normal(size=(N, M)))[0].T
    return U * SIGMA @ Vt


def diagonal():
    A = np.zeros((M, N))
    np.fill_diagonal(A, SIGMA)
    return A


@cache
def views(form, kind):
    """What the CSP decodes in SEEDS sessions: the sum of the users' shares."""
    A = {"dense": dense, "diagonal": diagonal}[kind]()
    seen = np.zeros((SEEDS, M, N))
    for s in range(SEEDS):
        number = 10_000 * (kind == "diagonal") + s
        group = seed(number)
        P, Q = left_mask(form, M, group.derive("left"), B), right_mask(form, WIDTHS, group.derive("right"), B)
        c = secret_scale(group.derive("scale"))
        for i, A_i in enumerate(split(A, WIDTHS)):
            seen[s] += masked(A_i, P, Q, c, i)
    return seen


STATISTICS = {
    "the first entry": lambda Y: Y[:, 0, 0],
    "the last entry": lambda Y: Y[:, -1, -1],
    "the energy of a tile": lambda Y: np.sum(Y[:, :B, :B] ** 2, axis=(1, 2)),
    "the share of a tile": lambda Y: np.sum(Y[:, :B, :B] ** 2, axis=(1, 2)) / np.sum(Y**2, axis=(1, 2)),
    "the energy of the last tile": lambda Y: np.sum(Y[:, B:, -B:] ** 2, axis=(1, 2)),
    "the second singular value of a tile": lambda Y: np.linalg.svd(Y[:, :B, :B], compute_uv=False)[:, 1],
    "the leverage of a row": lambda Y: np.linalg.svd(Y)[0][:, 0, 0] ** 2,
    "the leverage of the first rows": lambda Y: np.sum(np.linalg.svd(Y)[0][:, :B, 0] ** 2, axis=1),
    "the leverage of the first columns": lambda Y: np.sum(np.linalg.svd(Y)[2][:, 0, :B] ** 2, axis=1),
    "the largest entry": lambda Y: np.abs(Y).max(axis=(1, 2)),
}
TELLING = ["the share of a tile", "the leverage of the first rows", "the leverage of the first columns"]


def p_value(form, statistic):
    first, second = (STATISTICS[statistic](views(form, kind)) for kind in ("dense", "diagonal"))
    return ks_2samp(first, second).pvalue


def test_the_two_matrices_share_their_singular_values_and_little_else():
    first, second = dense(), diagonal()
    np.testing.assert_allclose(
        np.linalg.svd(first, compute_uv=False), SIGMA, rtol=0, atol=tolerances.product(N) * SIGMA[0]
    )
    assert np.count_nonzero(first) == first.size
    assert np.count_nonzero(second) == M
    assert np.abs(first).max() < np.abs(second).max() / 2


@pytest.mark.parametrize("statistic", STATISTICS)
def test_under_haar_masks_the_two_are_not_told_apart(statistic):
    assert p_value(Form.HAAR, statistic) > tolerances.ACCEPTED


@pytest.mark.parametrize("statistic", TELLING)
def test_under_the_papers_block_masks_the_same_test_tells_them_apart(statistic):
    assert p_value(BLOCKS, statistic) < tolerances.IMPOSSIBLE


def test_the_view_keeps_the_singular_values_times_c_and_nothing_else_is_promised():
    for kind in ("dense", "diagonal"):
        sigma = np.linalg.svd(views(Form.HAAR, kind), compute_uv=False)
        scale = sigma[:, :1] / SIGMA[0]
        assert np.all((scale >= 1.0 - tolerances.digits_lost(4)) & (scale < 2.0))
        np.testing.assert_allclose(sigma, scale * SIGMA, rtol=0, atol=tolerances.product(N, 8) * 200.0)
