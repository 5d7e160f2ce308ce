"""FederatedPCA is scikit-learn's PCA on the joint table, signs included, however samples are split."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.tolerances import RESULT_BAR, VALUES_BAR, assert_close, digits_lost

from fedsvd import FederatedPCA, Masks
from fedsvd.errors import ConfigError, DataError

from .joint import DIVISIONS, SCHEMES, TRUSTS, cut, table, values_bar, vectors_bar

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")


def assert_equal(pca, D, twin, known=None):
    """All attributes of the twin, on ``known`` of its components (the others are rounding)."""
    centred = D - D.mean(axis=0)
    sigma = np.linalg.svd(centred, compute_uv=False)
    known = pca.n_components_ if known is None else known
    bar, top = vectors_bar(sigma[: known + 1], D.shape)[:known], sigma[0]
    assert (np.abs(pca.components_[:known] - twin.components_[:known]) <= bar[:, None]).all()
    np.testing.assert_allclose(pca.singular_values_, twin.singular_values_, rtol=0, atol=values_bar(D) * top)
    np.testing.assert_allclose(pca.mean_, twin.mean_, rtol=0, atol=values_bar(D) * np.abs(D).max())
    variance = values_bar(D) * twin.explained_variance_[0]
    np.testing.assert_allclose(pca.explained_variance_, twin.explained_variance_, rtol=0, atol=4 * variance)
    ratio = values_bar(D) * np.ones(twin.n_components_)
    np.testing.assert_allclose(pca.explained_variance_ratio_, twin.explained_variance_ratio_, rtol=0, atol=4 * ratio[0])
    assert abs(pca.noise_variance_ - twin.noise_variance_) <= 4 * variance
    for name in ("n_components_", "n_samples_", "n_features_in_"):
        assert getattr(pca, name) == getattr(twin, name)


@pytest.mark.parametrize("trust", TRUSTS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_and_trust_gives_the_pca_of_the_joint_table(scheme, trust):
    D = table(150, 8)
    pca = FederatedPCA(4, masks=Masks(scheme=scheme, trust=trust)).fit(cut(D, DIVISIONS["three"], 0))
    assert_equal(pca, D, PCA(4, svd_solver="full").fit(D))
    assert pca.rank_ == 4
    assert pca.plan_.scheme == ("sum" if scheme == "auto" else scheme)


@pytest.mark.parametrize("shape", [(40, 11), (11, 40), (20, 20), (30, 1)], ids=str)
@pytest.mark.parametrize("division", DIVISIONS)
def test_it_does_not_matter_how_samples_are_divided(division, shape):
    D = table(*shape, seed=1)
    pca = FederatedPCA().fit(cut(D, DIVISIONS[division], 0))
    # Centring takes one direction from a table with fewer samples than features.
    assert_equal(pca, D, PCA(svd_solver="full").fit(D), known=min(shape[0] - 1, shape[1]))


def test_every_party_holds_the_scores_of_its_own_samples():
    D = table(60, 7)
    held = cut(D, DIVISIONS["four"], 0)
    pca = FederatedPCA(3).fit(held)
    for party, D_i in zip(pca.parties_, held, strict=True):
        expected = (D_i - D.mean(axis=0)) @ PCA(3, svd_solver="full").fit(D).components_.T
        assert_close(party.scores_, expected, RESULT_BAR)
        np.testing.assert_array_equal(party.components_, pca.components_)


def test_new_samples_are_transformed_and_back_as_the_twin_does():
    D, new = table(60, 7), table(20, 7, seed=5)
    pca, twin = FederatedPCA(3).fit(cut(D, DIVISIONS["three"], 0)), PCA(3, svd_solver="full").fit(D)
    scores = pca.transform(new)
    assert_close(scores, twin.transform(new), RESULT_BAR)
    assert_close(pca.transform([new[:3], new[3:]]), scores, digits_lost(2))
    assert_close(pca.inverse_transform(scores), twin.inverse_transform(scores), RESULT_BAR)
    joint = FederatedPCA(3).fit_transform([D[:9], D[9:]])
    assert_close(joint, twin.transform(D), RESULT_BAR)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_unit_variance_is_a_standard_scaler_before_the_pca(scheme):
    D = table(80, 6) * np.geomspace(1e-4, 1e4, 6)
    D[:, 2] = 5.0
    pca = FederatedPCA(3, unit_variance=True, masks=Masks(scheme=scheme)).fit(cut(D, DIVISIONS["three"], 0))
    scaler, twin = make_pipeline(StandardScaler(), PCA(3, svd_solver="full")).fit(D)
    np.testing.assert_allclose(pca.scale_, scaler.scale_, rtol=RESULT_BAR)
    assert_close(pca.components_, twin.components_, digits_lost(5))
    np.testing.assert_allclose(pca.explained_variance_, twin.explained_variance_, rtol=RESULT_BAR)
    np.testing.assert_allclose(pca.explained_variance_ratio_, twin.explained_variance_ratio_, rtol=RESULT_BAR)
    scores = twin.transform(scaler.transform(D))
    assert_close(pca.transform(D), scores, digits_lost(6))
    assert_close(np.vstack([party.scores_ for party in pca.parties_]), scores, digits_lost(6))
    back = scaler.inverse_transform(twin.inverse_transform(scores))
    assert_close(pca.inverse_transform(pca.transform(D)), back, digits_lost(9))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_components_beyond_the_rank_are_zero(scheme):
    rng = np.random.default_rng(3)
    D = rng.standard_normal((50, 3)) @ np.diag([4.0, 2.0, 1.0]) @ rng.standard_normal((3, 9)) + 1.0
    pca = FederatedPCA(5, masks=Masks(scheme=scheme)).fit(cut(D, DIVISIONS["three"], 0))
    twin = PCA(5, svd_solver="full").fit(D)
    assert pca.rank_ == 3
    assert_equal(pca, D, twin, known=3)
    assert (pca.components_[3:] == 0).all()
    assert_close(pca.transform(D), twin.transform(D), RESULT_BAR)
    assert all(party.scores_.shape[1] == 3 for party in pca.parties_)


def test_a_constant_table_is_refused():
    with pytest.raises(DataError, match="no column of the joint table varies"):
        FederatedPCA().fit([np.ones((3, 4)), np.ones((5, 4))])


def test_a_large_mean_costs_no_digits_of_the_components():
    D = table(90, 5, mean=0.0)
    far = FederatedPCA(masks=Masks(scheme="sum")).fit(cut(D + 2.0**26, DIVISIONS["three"], 0))
    near = PCA(svd_solver="full").fit((D + 2.0**26) - 2.0**26)
    assert_close(far.singular_values_, near.singular_values_, VALUES_BAR)
    assert_close(far.components_[0], near.components_[0], RESULT_BAR)


def test_without_the_spectrum_nothing_about_variance_is_there():
    D = table(60, 7)
    pca = FederatedPCA(3).fit([D[:20], D[20:]])
    assert hasattr(pca, "explained_variance_ratio_")
    pca.set_params(release_spectrum=False).fit([D[:20], D[20:]])
    assert_close(pca.components_, PCA(3, svd_solver="full").fit(D).components_, RESULT_BAR)
    for name in ("singular_values_", "explained_variance_", "explained_variance_ratio_", "noise_variance_"):
        assert not hasattr(pca, name)
    assert "spectrum" not in pca.plan_.release


def test_split_features_are_refused():
    with pytest.raises(ConfigError, match="horizontal"):
        FederatedPCA(split="vertical").fit([np.ones((5, 2)), np.ones((5, 3))])


def test_more_components_than_the_joint_table_has_are_refused():
    with pytest.raises(ConfigError, match="n_components=5 is too large for n_samples=9 and n_features=4"):
        FederatedPCA(5).fit([np.ones((4, 4)), np.ones((5, 4))])


SPECTRAL = [0.5, 0.9, 0.999, "mle"]


def low_rank(n=300, p=12, r=4, seed=5):
    """A few strong directions and white noise."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, r)) * [9.0, 6.0, 4.0, 3.0][:r] @ rng.normal(size=(r, p)) + rng.normal(size=(n, p)) + 5.0


@pytest.mark.parametrize("n_components", SPECTRAL)
def test_a_share_of_variance_and_the_most_likely_number_are_those_of_scikit_learn(n_components):
    D = low_rank()
    pca = FederatedPCA(n_components).fit(np.split(D, [120, 210]))
    twin = PCA(n_components, svd_solver="full").fit(D)
    assert pca.n_components_ == twin.n_components_
    for name in ("components_", "explained_variance_", "explained_variance_ratio_", "singular_values_"):
        assert_close(getattr(pca, name), getattr(twin, name), digits_lost(4))
    assert_close(pca.noise_variance_, twin.noise_variance_, digits_lost(5))
    assert_close(np.concatenate([party.scores_ for party in pca.parties_]), twin.transform(D), digits_lost(4))
    assert pca.plan_.components is None, "all of U and S are released, and the plan says so"


def test_gavish_and_donoho_find_the_directions_that_stand_out_of_noise():
    pca = FederatedPCA("gavish-donoho").fit(np.split(low_rank(), [120, 210]))
    assert pca.n_components_ == 4
    noise = np.random.default_rng(8).normal(size=(400, 6))
    assert FederatedPCA("gavish-donoho").fit(np.split(noise, [150, 280])).n_components_ == 1


@pytest.mark.parametrize("n_components", [0.0, 1.0, -0.5, 1.5, "most", np.nan])
def test_what_is_no_number_no_share_and_no_rule_is_refused(n_components):
    with pytest.raises(ConfigError, match="n_components"):
        FederatedPCA(n_components).fit(np.split(low_rank(), 3))


def test_a_number_that_the_spectrum_decides_needs_the_spectrum():
    with pytest.raises(ConfigError, match="needs the singular values"):
        FederatedPCA(0.9, release_spectrum=False).fit(np.split(low_rank(), 3))
