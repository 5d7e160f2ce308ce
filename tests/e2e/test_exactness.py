"""SVD, LSA and PCA of a federation are those of the joint data: every scheme, trust and split, on hard matrices."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from tests.tolerances import ORTHONORMAL_BAR, RESULT_BAR, VALUES_BAR, assert_close, digits_lost

from fedsvd.protocol.messages import BatchRequest
from fedsvd.protocol.parties import CSP, user
from fedsvd.protocol.tasks import Item, Mode, Scheme, Split, Task, Trust
from fedsvd.protocol.upload import Retention, batches, fits_whole, folds, retention
from fedsvd.testing.federation import Federation

from .joint import (
    CUTS,
    MATRICES,
    SCHEMES,
    M,
    N,
    expect_svd,
    of_spectrum,
    rotation,
    split_as,
    vectors_apart,
)

H, V = Split.HORIZONTAL, Split.VERTICAL
FULL_RELEASE = (Item.COMPONENTS, Item.MEAN, Item.OWN_PART, Item.SPECTRUM)


def federation(X, task=Task.SVD, split=V, cuts=(15,), **asked):
    return Federation(split_as(X, cuts, split), task, split, **asked)


# --- SVD --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("split", Split)
@pytest.mark.parametrize("matrix", MATRICES)
def test_an_svd_of_a_hard_matrix_meets_the_bars(matrix, split, scheme):
    X = MATRICES[matrix]()
    expect_svd(X, federation(X, split=split, scheme=scheme).run())


@pytest.mark.parametrize("split", Split)
@pytest.mark.parametrize("matrix", MATRICES)
def test_a_hard_matrix_meets_the_bars_where_the_csp_opens_the_sum(matrix, split):
    X = MATRICES[matrix]()
    run = federation(X, split=split, scheme="sum", mode=Mode.B)
    expect_svd(X, run.run())
    assert run.plan.mode is Mode.B


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("k", [2, 3, 10])
def test_the_top_is_the_same_in_both_modes_for_two_to_ten_users(k, mode):
    X = of_spectrum(np.logspace(0, -6, M))
    cuts = tuple(range(2, 2 * k, 2))
    results = federation(X, cuts=cuts, components=5, mode=mode).run()
    U, sigma, _ = np.linalg.svd(X)
    assert_close(results[0].sigma, sigma[:5], VALUES_BAR)
    assert np.abs(np.abs(np.sum(results[0].U * U[:, :5], axis=0)) - 1).max() <= RESULT_BAR
    for result in results[1:]:
        assert_close(result.U, results[0].U, RESULT_BAR)


@pytest.mark.parametrize("trust", Trust)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("cuts", CUTS)
def test_an_svd_meets_the_bars_however_columns_are_dealt(cuts, scheme, trust):
    X = of_spectrum(np.logspace(0, -9, M))
    expect_svd(X, federation(X, cuts=CUTS[cuts], scheme=scheme, trust=trust).run())


@pytest.mark.parametrize("matrix", ["condition 1e12", "rank five", "zero rows"])
@pytest.mark.parametrize("cuts", CUTS)
def test_the_scheme_chosen_for_them_meets_the_bars_too(matrix, cuts):
    X = MATRICES[matrix]()
    expect_svd(X, federation(X, cuts=CUTS[cuts]).run())


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("components", [1, 4, M])
def test_the_top_of_an_svd_meets_the_bars(components, scheme):
    X = of_spectrum(np.logspace(0, -6, M))
    expect_svd(X, federation(X, Task.LSA, components=components, scheme=scheme).run(), components)


def test_components_beyond_the_rank_are_not_invented():
    X = MATRICES["rank five"]()
    expect_svd(X, federation(X, components=8).run(), 8)


@pytest.mark.parametrize("scheme", ["sum", "mask"])
def test_fifty_users_of_one_to_three_columns_meet_the_bars(scheme):
    rng = np.random.default_rng(3)
    widths = rng.integers(1, 4, 50)
    X = rng.normal(size=(6, int(widths.sum()))) * np.logspace(0, -5, 6)[:, None]
    results = federation(X, cuts=np.cumsum(widths)[:-1], scheme=scheme).run()
    assert len(results) == 50
    expect_svd(X, results)


@pytest.mark.parametrize("k", [2, 3, 7])
def test_sizes_that_differ_a_thousandfold_meet_the_bars(k):
    rng = np.random.default_rng(k)
    X = rng.normal(size=(8, 3000 + k)) * np.logspace(0, -10, 8)[:, None]
    expect_svd(X, federation(X, cuts=range(1, k)).run())


@pytest.mark.parametrize("scheme", SCHEMES)
def test_singular_vectors_are_as_good_as_lapacks(scheme):
    """Within ten times of what permutations of the rows change in LAPACK's own answer: the vectors' conditioning."""
    X = of_spectrum(np.geomspace(1, 1e-4, 20), 40, 60, seed=5)
    U, _, Vt = np.linalg.svd(X, full_matrices=False)
    moved_U, moved_V = np.zeros(20), np.zeros(20)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(40)
        U_other, _, Vt_other = np.linalg.svd(X[order], full_matrices=False)
        moved_U = np.maximum(moved_U, vectors_apart(U_other[np.argsort(order), :20], U[:, :20]))
        moved_V = np.maximum(moved_V, vectors_apart(Vt_other[:20].T, Vt[:20].T))
    results = federation(X, cuts=(25,), scheme=scheme).run()
    V_found = np.hstack([result.Vt_i for result in results]).T
    assert np.all(vectors_apart(results[0].U, U[:, :20]) <= 10 * moved_U)
    assert np.all(vectors_apart(V_found, Vt[:20].T) <= 10 * moved_V)


def test_what_is_not_released_is_not_held():
    X = MATRICES["gaussian"]()
    results = federation(X, release=(Item.COMPONENTS, Item.SPECTRUM)).run()
    assert all(result.Vt_i is None for result in results)


# --- routes: many batches, folded, on disk ----------------------------------------------------------------------------


@pytest.mark.parametrize(("budget", "kept"), [(192_000, Retention.STORED), (50_000, Retention.BOTH)])
def test_a_tall_matrix_in_many_batches_meets_the_bars(budget, kept, tmp_path):
    X = np.random.default_rng(7).normal(size=(1500, 4)) * np.logspace(0, -8, 4)
    run = federation(X, cuts=(1, 3), memory=budget, scratch=tmp_path)
    expect_svd(X, run.run())
    assert run.plan.scheme is Scheme.MASK
    assert retention(run.plan) is kept
    assert len(batches(run.plan)) >= 2


@pytest.mark.parametrize("matrix", ["graded", "rank lost"])
def test_a_long_matrix_that_the_csp_folds_meets_the_bars(matrix, tmp_path):
    sigma = np.logspace(0, -11, 20) if matrix == "graded" else [2.0, 1.0, 0.5]
    X = of_spectrum(sigma, 1400, 20, seed=8)
    run = federation(X, cuts=(1, 9), memory=48 * 20 * 560, scratch=tmp_path)
    expect_svd(X, run.run())
    assert retention(run.plan) is Retention.BOTH
    assert len(batches(run.plan)) >= 3


@pytest.mark.parametrize("m", [900, pytest.param(3200, id="3200, on disk")])
def test_a_matrix_long_on_both_sides_gives_its_top_from_the_store(m, tmp_path):
    rng = np.random.default_rng(9)
    n, r = 560, 4
    X = rng.normal(size=(m, 20)) / np.sqrt(m) * np.geomspace(1, 1e-3, 20) @ rotation(n, rng)[:20]
    memory = 4_500_000
    run = federation(X, Task.LSA, cuts=(160,), scheme="mask", components=r, memory=memory, scratch=tmp_path)
    results = run.run()
    assert not folds(run.plan)
    assert not fits_whole(run.plan)
    assert (8 * X.size > memory) == (m > 900)
    exact = np.linalg.svd(X, compute_uv=False)
    sigma, Vt = results[0].sigma, np.hstack([result.Vt_i for result in results])
    # An iterative solver stops at a residual of 1e-12.
    assert np.abs(sigma - exact[:r]).max() <= RESULT_BAR * exact[0]
    assert np.abs(np.linalg.norm(results[0].U * sigma @ Vt - X, 2) - exact[r]) <= RESULT_BAR * exact[0]
    assert np.abs(results[0].U.T @ results[0].U - np.eye(r)).max() <= ORTHONORMAL_BAR
    assert np.abs(Vt @ Vt.T - np.eye(r)).max() <= ORTHONORMAL_BAR
    assert list(tmp_path.iterdir()) == []


def test_a_small_budget_makes_many_batches_and_the_same_result():
    X = np.random.default_rng(12).normal(size=(300, 40))
    wide, narrow = federation(X, scheme="mask"), federation(X, scheme="mask", memory=48 * 300 * 40)
    expect_svd(X, wide.run())
    expect_svd(X, narrow.run())
    asked = [len(run.views.of(user(1), BatchRequest)) for run in (wide, narrow)]
    assert asked == [1, len(batches(narrow.plan))]
    assert asked[1] >= 4


# --- PCA --------------------------------------------------------------------------------------------------------------


def expect_pca(D, results, r, unit_variance=False):
    """scikit-learn's PCA of the joint table, signs decided on the components as every party holds them."""
    joint = (D - D.mean(axis=0)) / np.where(D.std(axis=0) > 0, D.std(axis=0), 1.0) if unit_variance else D
    exact = PCA(r, svd_solver="full").fit(joint)
    found = results[0]
    top, size = exact.singular_values_[0], np.abs(D).max()
    np.testing.assert_allclose(found.mean, D.mean(axis=0), rtol=0, atol=digits_lost(2) * size)
    np.testing.assert_allclose(found.sigma, exact.singular_values_, rtol=0, atol=VALUES_BAR * top)
    assert np.abs(found.U.T @ found.U - np.eye(r)).max() <= ORTHONORMAL_BAR
    signs = np.sign(np.einsum("ij,ji->i", exact.components_, found.U))
    assert_close(found.U.T, exact.components_ * signs[:, None], digits_lost(5))
    scores = np.vstack([result.scores_i for result in results])
    np.testing.assert_allclose(scores, exact.transform(joint) * signs, rtol=0, atol=digits_lost(5) * top)
    ratio = found.sigma**2 / found.total_energy
    assert_close(ratio, exact.explained_variance_ratio_, VALUES_BAR)


def table(rows=40, columns=7, decades=3, seed=13):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, columns)) @ (np.logspace(0, -decades, columns)[:, None] * rotation(columns, rng)) + 3


@pytest.mark.parametrize("trust", Trust)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("unit_variance", [False, True])
@pytest.mark.parametrize("cuts", [(20,), (1,), (39,), (1, 2, 30)])
def test_pca_is_scikit_learns_on_the_joint_table(cuts, unit_variance, scheme, trust):
    D = table()
    run = federation(
        D.T, Task.PCA, H, cuts, components=4, unit_variance=unit_variance, scheme=scheme, trust=trust,
        release=FULL_RELEASE,
    )  # fmt: skip
    expect_pca(D, run.run(), 4, unit_variance)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_pca_survives_a_mean_far_larger_than_the_spread(scheme):
    """Whole numbers, so that the shift by 2^30 is exact and the table without it is the reference."""
    small = np.round(1000 * table())
    D = small + 2.0**30
    results = federation(D.T, Task.PCA, H, (1, 17), components=3, scheme=scheme, release=FULL_RELEASE).run()
    exact = PCA(3, svd_solver="full").fit(small)
    assert_close(results[0].sigma, exact.singular_values_, VALUES_BAR)
    signs = np.sign(np.einsum("ij,ji->i", exact.components_, results[0].U))
    assert_close(results[0].U.T, exact.components_ * signs[:, None], digits_lost(5))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_pca_of_columns_without_variance_reports_them_and_leaves_them_at_zero(scheme):
    D = table()
    D[:, 2] = 0.1
    D[:, 5] = 0.0
    results = federation(
        D.T, Task.PCA, H, (11,), components=3, unit_variance=True, scheme=scheme, release=FULL_RELEASE
    ).run()
    expect_pca(D, results, 3, unit_variance=True)
    assert np.flatnonzero(results[0].scales == 0).tolist() == [2, 5]
    assert np.abs(results[0].U[[2, 5]]).max() <= digits_lost(1)
    np.testing.assert_allclose(results[1].scales, D.std(axis=0) * (np.arange(7) % 3 != 2), rtol=VALUES_BAR)


def test_pca_of_a_wide_table_and_of_many_users():
    D = table(60, 25)
    run = federation(D.T, Task.PCA, H, range(2, 60, 2), components=5, release=FULL_RELEASE)
    results = run.run()
    assert len(results) == 30
    expect_pca(D, results, 5)


def test_without_the_spectrum_nobody_holds_it():
    D = table()
    run = federation(D.T, Task.PCA, H, (11,), components=2)
    assert all(result.sigma is None for result in run.run())


def test_the_certificate_says_how_good_the_answer_is():
    X = MATRICES["rank five"]()
    run = federation(X)
    run.run()
    certificate = run.certificate
    assert certificate.rank == 5
    assert 0 <= certificate.residual <= VALUES_BAR
    assert 0 < certificate.orthogonality <= VALUES_BAR
    assert certificate.plan_digest == run.plan.digest
    assert set(certificate.bytes_by_link) == {(CSP, user(1)), (CSP, user(2)), (user(1), CSP), (user(2), CSP)}
    assert certificate.bytes_total == sum(certificate.bytes_by_link.values())
    assert certificate.messages_by_link[user(1), CSP] >= 5
    assert X.shape[1] == N
