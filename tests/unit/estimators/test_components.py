"""How many components, whitening, rows that stand out, rows with gaps: FederatedPCA against scikit-learn and NumPy."""

import numpy as np
import pytest
from scipy import stats
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler
from tests.tolerances import RESULT_BAR, STATISTIC_BAR, VALUES_BAR, assert_close, assert_each_close, digits_lost

from fedsvd import FederatedPCA, Masks, Simulation
from fedsvd.errors import ConfigError, DataError, NotFinite, StorageError
from fedsvd.statistics.undefined import Undefined

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")


def joint(rows=300, seed=1, noise=0.5):
    """Three directions above noise, with means of their own."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, 3)) @ rng.normal(size=(3, 8)) + noise * rng.normal(size=(rows, 8)) + np.arange(8.0)


def parted(D):
    return np.split(D, [len(D) // 4, len(D) // 3])


@pytest.mark.parametrize("n_components", [0.95, 0.5, "mle", 3, None])
@pytest.mark.parametrize("whiten", [False, True])
def test_the_number_and_the_coordinates_are_those_of_scikit_learn(n_components, whiten):
    D = joint()
    found = FederatedPCA(n_components, whiten=whiten).fit(parted(D))
    twin = PCA(n_components, whiten=whiten, svd_solver="full").fit(D)
    assert found.n_components_ == twin.n_components_
    assert_close(found.transform(D), twin.transform(D), RESULT_BAR)
    assert_close(found.fit_transform(parted(D)), twin.transform(D), RESULT_BAR)
    back = twin.inverse_transform(twin.transform(D))
    assert_close(found.inverse_transform(found.transform(D)), back, RESULT_BAR)
    assert_close(found.explained_variance_, twin.explained_variance_, VALUES_BAR)
    assert_close(found.noise_variance_, twin.noise_variance_, VALUES_BAR, scale=twin.explained_variance_[0])


def test_loadings_of_standardised_features_are_their_correlations_with_the_components():
    D = joint()
    found = FederatedPCA(3, unit_variance=True).fit(parted(D))
    scores = PCA(3, svd_solver="full").fit_transform(StandardScaler().fit_transform(D))
    expected = np.corrcoef(D.T, scores.T)[:8, 8:] * np.sqrt(len(D) / (len(D) - 1))  # variances are of n - 1
    assert_close(found.loadings_, expected, STATISTIC_BAR)


# --- parallel analysis ------------------------------------------------------------------------------------------------


def permuted_spectra(blocks, tables, rng):
    """Singular values of the joint table with columns permuted within each block: in one place, by NumPy."""
    found = []
    for _ in range(tables):
        D = np.concatenate([np.column_stack([rng.permutation(column) for column in block.T]) for block in blocks])
        found.append(np.linalg.svd(D - D.mean(axis=0), compute_uv=False))
    return np.array(found)


@pytest.mark.parametrize("seed", [1, 2])
def test_parallel_analysis_finds_what_a_permutation_within_the_same_blocks_finds_in_one_place(seed):
    D = StandardScaler().fit_transform(joint(seed=seed))
    found = FederatedPCA("parallel", federation=Simulation(random_state=seed)).fit(parted(D))
    reference = permuted_spectra(parted(D), 400, np.random.default_rng(3))
    sigma = np.linalg.svd(D - D.mean(axis=0), compute_uv=False)
    above = sigma > np.quantile(reference, 0.95, axis=0)
    assert found.n_components_ == found.choice_.count == np.argmin(above) == {1: 3, 2: 2}[seed]
    assert np.all(found.choice_.threshold > np.quantile(reference, 0.5, axis=0))
    assert np.all(found.choice_.threshold < reference.max(axis=0))
    assert_close(np.append(found.singular_values_, found.left_out_singular_values_), sigma, VALUES_BAR)


def test_what_only_separates_parties_is_no_component_here_and_is_one_where_the_joint_table_is_permuted():
    """Each party's rows are all alike: permuting them at home changes nothing, so the threshold is the spectrum."""
    sites = np.random.default_rng(5).normal(size=(3, 4))
    parts = [np.tile(site, (40, 1)) for site in sites]
    found = FederatedPCA("parallel").fit(parts)
    D = np.concatenate(parts)
    sigma = np.linalg.svd(D - D.mean(axis=0), compute_uv=False)
    # The Gram matrix of the permuted table is float64, with noise in its last digits.
    assert_close(found.choice_.threshold[:2], sigma[:2], digits_lost(3), scale=sigma[0])
    joined = permuted_spectra([D], 100, np.random.default_rng(6))
    assert sigma[0] > np.quantile(joined, 0.95, axis=0)[0]


def test_parallel_analysis_is_refused_where_no_party_opens_gram_matrices():
    with pytest.raises(ConfigError, match="scheme sum, mode A"):
        FederatedPCA("parallel", masks=Masks(scheme="mask")).fit(parted(joint()))
    with pytest.raises(ConfigError, match="scheme sum, mode A"):
        FederatedPCA("parallel", masks=Masks(mode="B")).fit(parted(joint()))
    with pytest.raises(StorageError, match="permutes each party's table in memory"):
        FederatedPCA("parallel", federation=Simulation(memory=1_000_000)).fit(parted(joint(rows=10_000)))


def test_a_rule_needs_the_spectrum_and_an_unknown_one_is_refused():
    for n_components in (0.9, "parallel"):
        with pytest.raises(ConfigError, match="needs the singular values"):
            FederatedPCA(n_components, release_spectrum=False).fit(parted(joint()))
    with pytest.raises(ConfigError, match="whiten = True needs the singular values"):
        FederatedPCA(2, release_spectrum=False, whiten=True).fit(parted(joint()))
    for wrong in ("kaiser", "0.9", 1.5, -0.1):
        with pytest.raises(ConfigError, match="n_components is"):
            FederatedPCA(wrong).fit(parted(joint()))


# --- rows that stand out ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit_variance", [False, True])
@pytest.mark.parametrize("level", [0.95, 0.99])
def test_t2_and_q_and_their_limits_are_those_of_the_formulas(unit_variance, level):
    D = joint()
    n, k = len(D), 3
    found = FederatedPCA(0.9 if not unit_variance else "parallel", unit_variance=unit_variance).fit(parted(D))
    assert found.n_components_ == k
    Z = StandardScaler().fit_transform(D) if unit_variance else D - D.mean(axis=0)
    _, s, Vt = np.linalg.svd(Z, full_matrices=False)
    T, variances = Z @ Vt[:k].T, s**2 / (n - 1)
    seen = found.outliers(D, level=level)
    assert_close(seen.t2, np.sum(T**2 / variances[:k], axis=1), RESULT_BAR)
    assert_close(seen.q, np.sum((Z - T @ Vt[:k]) ** 2, axis=1), RESULT_BAR)
    beta = (n - 1) ** 2 / n * stats.beta.ppf(level, k / 2, (n - k - 1) / 2)
    assert_each_close(seen.t2_limit, beta, STATISTIC_BAR)
    f = k * (n * n - 1) / (n * (n - k)) * stats.f.ppf(level, k, n - k)
    assert_each_close(found.outliers(D, level=level, new=True).t2_limit, f, STATISTIC_BAR)
    one, two, three = (np.sum(variances[k:] ** power) for power in (1, 2, 3))
    h = 1 - 2 * one * three / (3 * two**2)
    inner = stats.norm.ppf(level) * np.sqrt(2 * two * h**2) / one + 1 + two * h * (h - 1) / one**2
    assert_each_close(seen.q_limit, one * inner ** (1 / h), STATISTIC_BAR)


def test_a_row_that_was_moved_away_is_beyond_its_limit():
    D = joint()
    D[7] += 40 * np.linalg.svd(D - D.mean(axis=0))[2][0]
    D[9] += 10 * np.linalg.svd(D - D.mean(axis=0))[2][-1]
    pca = FederatedPCA("gavish-donoho").fit(parted(D))
    found = pca.outliers(D)
    assert found.t2[7] > found.t2_limit
    assert np.argmax(found.q) == 9
    assert found.q[9] > found.q_limit
    own = pca.outliers(parted(D)[1])
    assert_close(own.t2, found.t2[len(D) // 4 : len(D) // 3], RESULT_BAR)


def test_a_given_number_of_components_has_no_limit_of_q_and_says_why():
    D = joint()
    found = FederatedPCA(2).fit(parted(D)).outliers(D)
    assert isinstance(found.q_limit, Undefined)
    assert "not released" in found.q_limit.reason
    assert not isinstance(found.t2_limit, Undefined)
    with pytest.raises(ConfigError, match="variances of the components"):
        FederatedPCA(2, release_spectrum=False).fit(parted(D)).outliers(D)


# --- rows with gaps ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit_variance", [False, True])
def test_a_row_with_gaps_gets_the_scores_that_fit_its_other_features_best(unit_variance):
    D = joint()
    pca = FederatedPCA(3, missing="project", unit_variance=unit_variance).fit(parted(D))
    new = joint(rows=20, seed=4)
    assert_close(
        pca.transform(new), FederatedPCA(3, unit_variance=unit_variance).fit(parted(D)).transform(new), RESULT_BAR
    )
    gapped = new.copy()
    gapped[0, 2] = gapped[3, [0, 5]] = gapped[4, [0, 5]] = np.nan
    found = pca.transform(gapped)
    scale = D.std(axis=0) if unit_variance else np.ones(8)
    V = pca.components_.T
    for i in (0, 3, 4):
        there = ~np.isnan(gapped[i])
        z = ((gapped[i] - D.mean(axis=0)) / scale)[there]
        assert_close(found[i], np.linalg.lstsq(V[there], z, rcond=None)[0], RESULT_BAR)
    complete = [i for i in range(20) if i not in (0, 3, 4)]
    assert_close(found[complete], pca.transform(new)[complete], RESULT_BAR)


def test_gaps_are_refused_unless_asked_for_and_where_too_little_is_left():
    D = joint()
    gapped = D[:5].copy()
    gapped[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        FederatedPCA(3).fit(parted(D)).transform(gapped)
    pca = FederatedPCA(3, missing="project").fit(parted(D))
    gapped[0, :6] = np.nan
    with pytest.raises(DataError, match="do not determine 3 scores"):
        pca.transform(gapped)
    with pytest.raises((NotFinite, ValueError)):
        FederatedPCA(3, missing="project").fit([gapped, D[5:]])
    with pytest.raises(ConfigError, match="missing is"):
        FederatedPCA(3, missing="drop").fit(parted(D))
