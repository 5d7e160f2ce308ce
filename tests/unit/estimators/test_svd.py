"""FederatedSVD is NumPy's thin SVD of the joint table, however rows or columns are split."""

import numpy as np
import pytest
from sklearn.decomposition import TruncatedSVD
from tests.tolerances import ORTHONORMAL_BAR, RESULT_BAR, VALUES_BAR, assert_close, digits_lost

from fedsvd import FederatedSVD, Masks, Simulation
from fedsvd.errors import ConfigError

from .joint import DIVISIONS, SCHEMES, TRUSTS, cut, parts, table, values_bar, vectors_bar

# One table is divided here, so its rows are in one order.
pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning", "ignore::fedsvd.errors.RowsNotCompared")

SPLITS = ("horizontal", "vertical")


def reference(D, split, r=None):
    """NumPy's factors with our signs: in each vector of the shared factor the largest entry is positive."""
    U, sigma, Vt = np.linalg.svd(D, full_matrices=False)
    shared = Vt.T if split == "horizontal" else U
    signs = np.sign(shared[np.argmax(np.abs(shared), axis=0), np.arange(len(sigma))])
    return (U * signs)[:, :r], sigma[:r], (Vt * signs[:, None])[:r]


def assert_equal(svd, D, split, r=None):
    U, sigma, Vt = reference(D, split, r)
    bar = vectors_bar(reference(D, split)[1], D.shape)[:r]
    np.testing.assert_allclose(svd.singular_values_, sigma, rtol=0, atol=values_bar(D) * sigma[0])
    assert (np.abs(svd.U_ - U) <= bar).all()
    assert (np.abs(svd.components_ - Vt) <= bar[:, None]).all()
    for Q in (svd.U_, svd.components_.T):
        assert_close(Q.T @ Q, np.eye(len(sigma)), ORTHONORMAL_BAR)


@pytest.mark.parametrize("trust", TRUSTS)
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_trust_and_split_gives_the_svd_of_the_joint_table(scheme, split, trust):
    D = table(70, 9)
    svd = FederatedSVD(split=split, masks=Masks(scheme=scheme, trust=trust)).fit(parts(D, split))
    assert_equal(svd, D, split)
    assert svd.rank_ == 9
    assert svd.certificate_.residual < RESULT_BAR


@pytest.mark.parametrize("shape", [(40, 11), (11, 40), (20, 20)], ids=str)
@pytest.mark.parametrize("division", DIVISIONS)
@pytest.mark.parametrize("split", SPLITS)
def test_it_does_not_matter_how_the_table_is_divided(split, division, shape):
    D = table(*shape, seed=1)
    assert_equal(FederatedSVD().set_params(split=split).fit(parts(D, split, DIVISIONS[division])), D, split)


@pytest.mark.parametrize("split", SPLITS)
def test_the_top_components_are_those_of_the_whole(split):
    D = table(40, 11, condition=1e6)
    assert_equal(FederatedSVD(4, split=split).fit(parts(D, split)), D, split, r=4)


@pytest.mark.parametrize("split", SPLITS)
def test_every_party_holds_its_own_rows_or_columns_of_one_factor(split):
    D = table(40, 12)
    held = parts(D, split, DIVISIONS["four"])
    svd = FederatedSVD(split=split).fit(held)
    for party, D_i in zip(svd.parties_, held, strict=True):
        rebuilt = party.U_ * party.singular_values_ @ party.components_
        assert_close(rebuilt, D_i, RESULT_BAR)
    joined = [party.U_ if split == "horizontal" else party.components_ for party in svd.parties_]
    joint = svd.U_ if split == "horizontal" else svd.components_
    np.testing.assert_array_equal(np.concatenate(joined, axis=0 if split == "horizontal" else 1), joint)


def test_split_by_samples_it_is_truncated_svd_signs_included():
    D, new = table(50, 8), table(6, 8, seed=4)
    svd, twin = FederatedSVD(3).fit(parts(D, "horizontal")), TruncatedSVD(3, algorithm="arpack").fit(D)
    assert_close(svd.components_, twin.components_, digits_lost(5))
    np.testing.assert_allclose(svd.explained_variance_, twin.explained_variance_, rtol=digits_lost(5))
    assert_close(svd.transform(new), twin.transform(new), digits_lost(6))
    coordinates = FederatedSVD(3).fit_transform(parts(D, "horizontal"))
    assert_close(coordinates, twin.fit_transform(D), digits_lost(6))
    assert_close(svd.inverse_transform(coordinates), twin.inverse_transform(coordinates), digits_lost(6))


@pytest.mark.parametrize("split", SPLITS)
def test_a_list_is_transformed_as_the_joint_table(split):
    D = table(30, 8)
    svd = FederatedSVD(3, split=split).fit(parts(D, split))
    expected = D @ svd.components_.T
    assert_close(svd.transform(D), expected, VALUES_BAR)
    assert_close(svd.transform(parts(D, split)), expected, VALUES_BAR)


def test_variance_ratios_are_there_when_nothing_is_left_out():
    D = table(50, 8)
    total = np.var(D, axis=0).sum()
    svd = FederatedSVD().fit(parts(D, "horizontal"))
    expected = np.var(D @ np.linalg.svd(D)[2].T, axis=0) / total
    assert_close(svd.explained_variance_ratio_, expected, VALUES_BAR)
    assert not hasattr(svd.set_params(n_components=3).fit(parts(D, "horizontal")), "explained_variance_ratio_")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("split", SPLITS)
def test_what_lies_beyond_the_rank_is_zero(split, scheme):
    rng = np.random.default_rng(3)
    D = rng.standard_normal((30, 3)) @ np.diag([4.0, 2.0, 1.0]) @ rng.standard_normal((3, 9))
    D[:, 4] = 0.0
    svd = FederatedSVD(split=split, masks=Masks(scheme=scheme)).fit(parts(D, split))
    assert svd.rank_ == 3
    assert svd.U_.shape == (30, 9)
    assert svd.components_.shape == (9, 9)
    assert not svd.singular_values_[3:].any()
    assert not svd.components_[3:].any()
    assert_close(svd.U_ * svd.singular_values_ @ svd.components_, D, RESULT_BAR)
    assert svd.parties_[0].singular_values_.shape == (3,)


@pytest.mark.parametrize("split", SPLITS)
def test_a_table_of_zeros_has_rank_zero(split):
    svd = FederatedSVD(split=split).fit([np.zeros((4, 3)), np.zeros((4, 3))])
    assert svd.rank_ == 0
    assert not svd.singular_values_.any()
    assert svd.transform(np.zeros((2, svd.n_features_in_))).shape == (2, len(svd.components_))


def test_the_papers_scheme_is_refused_with_where_it_is():
    with pytest.raises(ConfigError, match=r"fedsvd-lab.*fedsvd reproduce"):
        FederatedSVD(masks=Masks(scheme="paper")).fit([np.eye(3), np.eye(3)])


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.uint8, bool])
def test_other_types_are_computed_in_float64(dtype):
    D = np.random.default_rng(2).integers(0, 2, (40, 6)).astype(dtype)
    svd = FederatedSVD().fit(cut(D, DIVISIONS["three"], 0))
    assert svd.U_.dtype == np.float64
    assert_equal(svd, D.astype(np.float64), "horizontal")


@pytest.mark.parametrize(("split", "scheme"), [("horizontal", "sum"), ("vertical", "mask")])
def test_a_small_memory_budget_changes_nothing(split, scheme):
    D, memory = table(12_000, 6), 1_200_000
    assert 4 * D.nbytes > memory  # a matrix, its factors and a copy, which a dense SVD needs
    svd = FederatedSVD(split=split, federation=Simulation(memory=memory), masks=Masks(scheme=scheme)).fit(
        parts(D, split)
    )
    assert_equal(svd, D, split)
    assert svd.plan_.memory == memory
