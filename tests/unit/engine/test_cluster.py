"""A cluster computes what one process computes, whatever becomes of its workers; real worker processes, real TLS."""

import os
import signal

import dask.array
import numpy as np
import pytest
import scipy.sparse
from tests import tolerances

from fedsvd.data.open import open_source
from fedsvd.engine.cluster import Cluster
from fedsvd.engine.cluster_store import ClusterStore
from fedsvd.engine.device import Engine
from fedsvd.errors import ConfigError, NotFinite
from fedsvd.linalg.truncated_svd import truncated_svd
from fedsvd.protocol.tasks import Item, Scheme, Split, Task
from fedsvd.storage.block_store import Access
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import run_study
from fedsvd.studies.study import Study

X = np.random.default_rng(1).normal(size=(30, 5000)) * np.geomspace(1, 1e-5, 30)[:, None]
EVERYTHING = slice(None)
RELEASE = (Item.COMPONENTS, Item.SPECTRUM, Item.MEAN, Item.OWN_PART)


@pytest.fixture(scope="module")
def opened():
    with Cluster.open(workers=2) as opened:
        yield opened


@pytest.fixture
def cluster(opened):
    """The cluster with both workers, or this fails instead of hanging."""
    opened.client.wait_for_workers(2, timeout=120)
    return opened


@pytest.fixture
def mortal():
    """A cluster of its own for a test that kills a worker of it."""
    with Cluster.open(workers=2) as opened:
        opened.client.wait_for_workers(2, timeout=120)
        yield opened


def kill_a_worker(cluster):
    os.kill(next(iter(cluster.client.run(os.getpid).values())), signal.SIGKILL)


def expect_factor(R, X):
    """R^T R is the Gram matrix, and the singular values are LAPACK's."""
    got, expected = np.linalg.svd(R, compute_uv=False), np.linalg.svd(X, compute_uv=False)
    assert np.abs(got - expected).max() < tolerances.FACTOR_BAR * expected[0]
    assert np.abs(R.T @ R - X @ X.T).max() < tolerances.gram(X.shape[1]) * expected[0] ** 2


def sources(folder):
    np.save(folder / "x.npy", X)
    np.save(folder / "xt.npy", np.ascontiguousarray(X.T))
    return {
        "a file": open_source(folder / "x.npy"),
        "a file, transposed": open_source(folder / "xt.npy").T,
        "an array": open_source(X),
        "a Dask array": open_source(dask.array.from_array(X, chunks=(7, 700))),
        "a Dask array, transposed": open_source(dask.array.from_array(X.T, chunks=(700, 7))).T,
    }


@pytest.mark.parametrize(
    "kind", ["a file", "a file, transposed", "an array", "a Dask array", "a Dask array, transposed"]
)
def test_the_factor_is_that_of_all_columns_wherever_they_lie(cluster, tmp_path, kind):
    heard = []
    factor = cluster.factor(sources(tmp_path)[kind], None, 400, lambda done, n: heard.append((done, n)))
    assert factor.rows == X.shape[1]
    expect_factor(factor.factor(), X)
    assert heard[-1] == (X.shape[1], X.shape[1])


def test_a_shift_is_taken_from_every_column_and_the_ones_stand_above(cluster):
    shift = np.arange(30.0)
    R = cluster.factor(open_source(X), shift, 900).factor()
    expect_factor(R, np.concatenate((np.ones((1, 5000)), X - shift[:, None])))


def test_a_worker_killed_in_mid_run_does_not_change_the_factor(mortal):
    source, killed = open_source("synthetic://60x200000?seed=3"), []

    def kill_once(done, n):
        if not killed:
            killed.append(done)
            kill_a_worker(mortal)

    factor = mortal.factor(source, None, 2000, kill_once)
    assert 0 < killed[0] < 200_000
    assert factor.rows == 200_000
    expect_factor(factor.factor(), source.columns(0, 200_000))


def test_missing_values_in_a_block_are_refused_where_the_block_is(cluster):
    holed = X.copy()
    holed[3, 4000] = np.nan
    with pytest.raises(NotFinite):
        cluster.factor(open_source(dask.array.from_array(holed, chunks=(30, 500))), None, 400)


def test_a_scheduler_without_tls_is_refused():
    with pytest.raises(ConfigError, match="TLS"):
        Cluster.open("tcp://127.0.0.1:8786")


def test_a_stored_matrix_is_multiplied_and_factored_by_the_workers_and_outlives_one_of_them(mortal, tmp_path):
    rng = np.random.default_rng(2)
    A, B, C = rng.normal(size=(120, 900)), rng.normal(size=(900, 3)), rng.normal(size=(120, 3))
    with ClusterStore(A.shape, Access.BY_COLUMNS, tmp_path, mortal, panel=170) as store:
        store.write(EVERYTHING, slice(0, 500), A[:, :500])
        store.write(EVERYTHING, slice(500, 900), A[:, 500:])
        for _ in range(2):
            np.testing.assert_allclose(store.matmul(B), A @ B, rtol=0, atol=tolerances.product(900) * 100)
            np.testing.assert_allclose(store.rmatmul(C), A.T @ C, rtol=0, atol=tolerances.product(900) * 100)
            expect_factor(store.factor().factor(), A)
            kill_a_worker(mortal)
        store.write(slice(0, 1), slice(0, 1), np.array([[7.0]]))
        A[0, 0] = 7.0
        np.testing.assert_allclose(store.matmul(B), A @ B, rtol=0, atol=tolerances.product(900) * 100)
    assert list(tmp_path.iterdir()) == []


def test_the_top_of_a_matrix_long_on_both_sides_is_found_on_the_workers(cluster, tmp_path):
    rng = np.random.default_rng(3)
    A = rng.normal(size=(400, 20)) * np.geomspace(10, 1, 20) @ rng.normal(size=(20, 900)) + rng.normal(size=(400, 900))
    with ClusterStore(A.shape, Access.BY_COLUMNS, tmp_path, cluster, panel=250) as store:
        store.write(EVERYTHING, EVERYTHING, A)
        found = truncated_svd(store, 4, A[:, ::90], basis=120)
    expected = np.linalg.svd(A, compute_uv=False)[:4]
    tolerances.assert_close(found.sigma, expected, tolerances.digits_lost(4))


@pytest.mark.parametrize("by_rows", [False, True])
def test_products_of_records_are_made_by_the_workers(cluster, by_rows, tmp_path):
    rng = np.random.default_rng(7)
    A, B = rng.normal(size=(900, 3)), rng.normal(size=(40, 3))
    table = rng.normal(size=(900, 40)) * (rng.uniform(size=(900, 40)) < 0.2)
    np.save(tmp_path / "table.npy", table)
    scipy.sparse.save_npz(tmp_path / "table.npz", scipy.sparse.csr_array(table))
    made = [tmp_path / "table.npy", tmp_path / "table.npz", dask.array.from_array(table, chunks=(300, 25))]
    for opened in map(open_source, made):
        along, over = cluster.products(opened if by_rows else opened.T, by_rows, 130)
        for _ in range(2):
            np.testing.assert_allclose(along(B), table @ B, rtol=0, atol=tolerances.product(40) * 100)
            np.testing.assert_allclose(over(A), table.T @ A, rtol=0, atol=tolerances.product(900) * 100)
    assert cluster.products(open_source(table), True, 130) is None, "what is in memory here is multiplied here"


# Whole studies.


def run(task, D, cluster, **more):
    parties = [PartyData(open_source(part)) for part in np.array_split(D, 2)]
    return run_study(Study(task, Split.HORIZONTAL, **more), parties, engine=cluster, random_state=4)


@pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
def test_a_study_computed_by_a_cluster_is_the_joint_one(cluster):
    D = np.random.default_rng(5).normal(size=(4000, 12)) @ np.diag(np.geomspace(1, 1e-3, 12)) + 5.0
    outcome = run(Task.PCA, D, cluster, components=3)
    alone = run(Task.PCA, D, None, components=3)
    centred = D - D.mean(axis=0)
    _, _, Vt = np.linalg.svd(centred, full_matrices=False)
    for got in (outcome.parties[0], alone.parties[0]):
        assert np.linalg.norm(got.U @ got.U.T - Vt[:3].T @ Vt[:3]) < tolerances.digits_lost(4)
        tolerances.assert_close(got.mean, D.mean(axis=0), tolerances.digits_lost(3))
    tolerances.assert_close(outcome.parties[0].U, alone.parties[0].U, tolerances.digits_lost(4))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
def test_steps_of_a_party_with_chunks_on_a_cluster_are_those_of_the_joint_table(cluster, tmp_path, monkeypatch):
    asked, products = [], Cluster.products
    monkeypatch.setattr(Cluster, "products", lambda *given: asked.append(1) or products(*given))
    rng = np.random.default_rng(8)
    D = rng.normal(size=(1500, 4)) * (9.0, 6.0, 4.0, 2.0) @ rng.normal(size=(4, 30)) + rng.normal(size=(1500, 30))
    np.save(tmp_path / "file.npy", D[900:])
    parties = [
        PartyData(open_source(part)) for part in (dask.array.from_array(D[:900], (200, 30)), tmp_path / "file.npy")
    ]
    study = Study(Task.PCA, Split.HORIZONTAL, scheme=Scheme.STEPS, components=3, release=RELEASE)
    outcome = run_study(study, parties, engine=cluster, random_state=4)
    assert len(asked) == 2
    U, sigma, Vt = np.linalg.svd(D - D.mean(axis=0), full_matrices=False)
    tolerances.assert_close(outcome.parties[0].sigma, sigma[:3], tolerances.VALUES_BAR)
    scores = np.concatenate([party.scores_i for party in outcome.parties])
    for found, expected in ((outcome.parties[0].U.T, Vt[:3]), ((scores / sigma[:3]).T, U[:, :3].T)):
        tolerances.assert_same_vectors(found, expected, sigma)


@pytest.mark.usefixtures("mixing_masks")  # a Haar Q of this width would not fit either
@pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
def test_a_matrix_beyond_the_csp_s_memory_is_kept_and_factorised_by_the_cluster(cluster, tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(ClusterStore, "matmul", lambda store, B, to=ClusterStore.matmul: kept.append(1) or to(store, B))
    rng = np.random.default_rng(6)
    D = rng.normal(size=(2000, 6)) * 10 @ rng.normal(size=(6, 300)) + rng.normal(size=(2000, 300))
    parties = [PartyData(open_source(part)) for part in np.array_split(D, 2)]
    study = Study(Task.LSA, Split.HORIZONTAL, components=3, scheme=Scheme.MASK, memory=6_000_000)
    outcome = run_study(study, parties, engine=cluster, scratch=tmp_path, random_state=4)
    assert kept
    U, sigma, _ = np.linalg.svd(D.T, full_matrices=False)
    got = outcome.parties[0]
    tolerances.assert_close(got.sigma, sigma[:3], tolerances.digits_lost(4))
    assert np.linalg.norm(got.U @ got.U.T - U[:, :3] @ U[:, :3].T) < tolerances.digits_lost(5)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_engine_is_refused_and_so_is_a_device_beside_a_cluster(cluster):
    with pytest.raises(ConfigError, match="numpy, dask"):
        Engine.of(None, "spark")
    with pytest.raises(ConfigError, match="leave one out"):
        Engine.of("cuda", cluster)
