"""FederatedLSA is TruncatedSVD on the joint table; new documents fold in, and neighbours are found by cosine."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.metrics.pairwise import cosine_similarity
from tests.tolerances import RESULT_BAR, VALUES_BAR, assert_close, digits_lost

from fedsvd import FederatedLSA, Masks, Simulation
from fedsvd.errors import ConfigError, ShapeError

from .joint import DIVISIONS, SCHEMES, cut, vectors_bar

# One table is divided here, so its rows are in one order.
pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning", "ignore::fedsvd.errors.RowsNotCompared")

SPLITS = ("horizontal", "vertical")


def counts(documents, terms, seed=0, density=0.1):
    """Word counts, most of them zero, about a few topics of very different size."""
    rng = np.random.default_rng(seed)
    D = np.zeros((documents, terms))
    for topic, weight in enumerate((8, 4, 2, 1)):
        D[topic::4, topic::4] = weight * rng.poisson(1.0, D[topic::4, topic::4].shape)
    return D * (rng.random(D.shape) < 4 * density)


def parts(D, split, container=sparse.csr_array, shares=DIVISIONS["three"]):
    return [container(part) for part in cut(D, shares, 0 if split == "horizontal" else 1)]


def cosines_of(a, b):
    """Cosines; those of vectors that are rounding alone are zero."""
    return cosine_similarity(*(np.where(np.abs(part) > digits_lost(7), part, 0.0) for part in (a, b)))


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_it_is_truncated_svd_of_the_joint_sparse_table(scheme, split):
    D = counts(90, 40)
    lsa = FederatedLSA(4, split=split, masks=Masks(scheme=scheme)).fit(parts(D, split))
    twin = TruncatedSVD(4, algorithm="arpack").fit(D)
    sigma = np.linalg.svd(D, compute_uv=False)
    bar = vectors_bar(sigma, D.shape)[:4, None]
    np.testing.assert_allclose(lsa.singular_values_, sigma[:4], rtol=0, atol=VALUES_BAR * sigma[0])
    # Split by samples the components are shared and decide the signs, as they do in the twin.
    signs = 1.0 if split == "horizontal" else np.sign(np.sum(lsa.components_ * twin.components_, axis=1))[:, None]
    assert (np.abs(lsa.components_ - signs * twin.components_) <= bar).all()
    np.testing.assert_allclose(lsa.explained_variance_, twin.explained_variance_, rtol=digits_lost(6))


@pytest.mark.parametrize(
    "container", [sparse.csr_array, sparse.csc_array, sparse.coo_array, sparse.csr_matrix, np.array]
)
def test_every_sparse_form_gives_the_same(container):
    D = counts(60, 30)
    expected = FederatedLSA(3).fit(parts(D, "horizontal", np.array)).components_
    assert_close(FederatedLSA(3).fit(parts(D, "horizontal", container)).components_, expected, VALUES_BAR)


@pytest.mark.parametrize("split", SPLITS)
def test_a_document_of_fit_folds_in_to_its_own_place(split):
    D = counts(60, 30)
    lsa = FederatedLSA(3, split=split)
    coordinates = lsa.fit_transform(parts(D, split))
    assert_close(lsa.transform(sparse.csr_array(D)), coordinates, RESULT_BAR)
    assert_close(lsa.transform(parts(D, split)), coordinates, RESULT_BAR)
    assert_close(lsa.U_ * lsa.singular_values_, coordinates, digits_lost(1))


@pytest.mark.parametrize("split", SPLITS)
def test_neighbours_of_new_documents_are_those_of_largest_cosine(split):
    D, new = counts(60, 30), counts(7, 30, seed=8)
    lsa = FederatedLSA(3, split=split).fit(parts(D, split))
    _, _, Vt = np.linalg.svd(D, full_matrices=False)
    expected = cosines_of(new @ Vt[:3].T, D @ Vt[:3].T)
    cosines, indices = lsa.similarity(sparse.csr_array(new), k=5)
    assert cosines.shape == indices.shape == (7, 5)
    assert_close(cosines, -np.sort(-expected, axis=1)[:, :5], RESULT_BAR)
    assert_close(np.take_along_axis(expected, indices, axis=1), cosines, RESULT_BAR)


@pytest.mark.parametrize("split", SPLITS)
def test_neighbours_of_new_terms_are_found_among_the_terms(split):
    D, new = counts(60, 30), counts(60, 2, seed=8).T
    lsa = FederatedLSA(3, split=split).fit(parts(D, split))
    U, _, _ = np.linalg.svd(D, full_matrices=False)
    expected = cosines_of(new @ U[:, :3], D.T @ U[:, :3])
    cosines, indices = lsa.similarity(new, k=4, among="features")
    assert_close(cosines, -np.sort(-expected, axis=1)[:, :4], RESULT_BAR)
    assert_close(np.take_along_axis(expected, indices, axis=1), cosines, RESULT_BAR)


def test_a_document_is_its_own_nearest_neighbour_and_k_has_an_end():
    D = np.random.default_rng(0).random((12, 6))
    lsa = FederatedLSA(5).fit([D[:5], D[5:]])
    cosines, indices = lsa.similarity(D, k=50)
    assert indices.shape == (12, 12)
    np.testing.assert_array_equal(indices[:, 0], np.arange(12))
    assert_close(cosines[:, 0], 1.0, RESULT_BAR)


def test_a_document_outside_the_latent_space_is_near_to_none():
    D = counts(40, 8)
    lsa = FederatedLSA(1).fit(parts(D, "horizontal"))  # the first topic alone
    outside = np.zeros((2, 8))
    outside[0, 1::4] = 3.0
    assert np.abs(lsa.transform(outside)).max() < digits_lost(2) * np.linalg.norm(outside)
    cosines, _ = lsa.similarity(outside, k=3)
    np.testing.assert_array_equal(cosines, np.zeros((2, 3)))


def test_wrong_queries_are_refused():
    D = counts(20, 8)
    lsa = FederatedLSA(2).fit(parts(D, "horizontal"))
    with pytest.raises(ValueError, match="8 features"):
        lsa.similarity(np.ones((1, 9)))
    with pytest.raises(ShapeError, match="over 8 samples, fit had 20"):
        lsa.similarity(np.ones((1, 8)), among="features")
    with pytest.raises(ConfigError, match="among"):
        lsa.similarity(np.ones((1, 8)), among="authors")
    with pytest.raises(ConfigError, match="k is 0"):
        lsa.similarity(np.ones((1, 8)), k=0)


def test_a_long_sparse_table_is_never_dense_as_a_whole():
    documents, terms = 60_000, 100
    rng = np.random.default_rng(0)
    places = rng.integers(0, terms, (documents, 3)).ravel()
    D = sparse.csr_array(
        (rng.integers(1, 9, 3 * documents).astype(float), places, np.arange(0, 3 * documents + 1, 3)),
        shape=(documents, terms),
    )
    FederatedLSA(2).fit([D[:40], D[40:90]])  # what is imported on first use does not count
    tracemalloc.start()
    try:
        lsa = FederatedLSA(2, federation=Simulation(memory=1 << 21)).fit([D[:20_000], D[20_000:]])
        lsa.transform(D)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * documents * terms / 2
    sigma = np.sqrt(np.linalg.eigvalsh((D.T @ D).toarray())[::-1][:2])
    assert_close(lsa.singular_values_, sigma, VALUES_BAR)
