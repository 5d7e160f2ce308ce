"""Steps on tables that stay in files: the answer of LAPACK from every format and for both splits, in bounded memory."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from tests.tolerances import VALUES_BAR, assert_close, assert_same_vectors

from fedsvd.data.open import open_source
from fedsvd.protocol.directions import memory_of_steps
from fedsvd.protocol.tasks import Item, Split, Task
from fedsvd.testing.federation import Federation

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
PCA_RELEASE = (Item.COMPONENTS, Item.SPECTRUM, Item.MEAN, Item.OWN_PART)


def memmap(X, folder, name):
    np.save(folder / f"{name}.npy", X)
    return open_source(folder / f"{name}.npy")


def parquet_parts(X, folder, name):
    for number, part in enumerate(np.array_split(X, 3)):
        table = pa.table({f"{name} {j}": part[:, j] for j in range(X.shape[1])})
        pq.write_table(table, folder / f"{name}-{number}.parquet", row_group_size=50)
    return open_source(folder / f"{name}-*.parquet")


def h5ad(X, folder, name, of=lambda X: X):
    import anndata

    kept = anndata.AnnData(of(X))
    kept.var_names = [f"{name} {j}" for j in range(X.shape[1])]
    kept.obs_names = [f"{name} record {i}" for i in range(len(X))]
    kept.write_h5ad(folder / f"{name}.h5ad")
    return open_source(folder / f"{name}.h5ad")


FORMATS = {
    "memmap": memmap,
    "parquet parts": parquet_parts,
    "h5ad": h5ad,
    "h5ad by rows": lambda *given: h5ad(*given, scipy.sparse.csr_array),
    "h5ad by columns": lambda *given: h5ad(*given, scipy.sparse.csc_array),
}


def table(records, features):
    """Four directions above the noise, a third of the entries zero, and a mean that is not."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(records, 4)) * (9.0, 6.0, 4.0, 3.0) @ rng.normal(size=(4, features)) / 3.0
    X += rng.normal(size=X.shape) + 0.5
    X[rng.uniform(size=X.shape) < 0.3] = 0.0
    return X


def least_memory(parts, task, split, **asked):
    """What a plan needs at least: less than a user's data and its copy, so that files are read in panels."""
    plan = Federation(parts, task, split, scheme="steps", **asked).assemble().plan
    assert memory_of_steps(plan) < 16 * plan.m * min(part.shape[0] * part.shape[1] // plan.m for part in parts)
    return memory_of_steps(plan)


@pytest.mark.parametrize("scaled", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", FORMATS)
def test_split_rows_of_files_have_the_top_of_lapack(kind, scaled, tmp_path):
    X = table(900, 24)
    parts = [FORMATS[kind](part, tmp_path, f"table{i}") for i, part in enumerate(np.array_split(X, 2))]
    asked = {"components": 2, "release": PCA_RELEASE, "unit_variance": scaled}
    memory = least_memory(parts, Task.PCA, Split.HORIZONTAL, **asked)
    results = Federation(parts, Task.PCA, Split.HORIZONTAL, scheme="steps", memory=memory, **asked).run()
    C = X - X.mean(axis=0)
    C = C / C.std(axis=0) if scaled else C
    U, s, Vt = np.linalg.svd(C, full_matrices=False)
    assert_close(results[0].sigma, s[:2], VALUES_BAR, s[0])
    scores = np.concatenate([np.asarray(found.scores_i) for found in results])
    for found, expected in ((results[0].U, Vt[:2].T), (scores / s[:2], U[:, :2])):
        assert_same_vectors(found.T, expected.T, s)


@pytest.mark.parametrize("kind", FORMATS)
def test_split_columns_of_files_have_the_top_of_lapack(kind, tmp_path):
    X = table(24, 900)
    parts = [FORMATS[kind](part, tmp_path, f"table{i}") for i, part in enumerate(np.array_split(X, 2, axis=1))]
    memory = least_memory(parts, Task.LSA, Split.VERTICAL, components=2)
    results = Federation(parts, Task.LSA, Split.VERTICAL, scheme="steps", memory=memory, components=2).run()
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    assert_close(results[0].sigma, s[:2], VALUES_BAR, s[0])
    own = np.concatenate([np.asarray(found.Vt_i) for found in results], axis=1)
    for found, expected in ((results[0].U.T, U[:, :2].T), (own, Vt[:2])):
        assert_same_vectors(found, expected, s)


@pytest.mark.slow
def test_what_is_held_of_files_is_bounded(tmp_path):
    """Two tables of 40 MB each, in one process with the CSP: a panel of 32 MiB that is inspected, and both budgets."""
    X = table(10_000, 1000)
    parts = [memmap(part, tmp_path, f"table{i}") for i, part in enumerate(np.array_split(X, 2))]
    expected = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)[0]
    asked = {"components": 1, "release": (Item.COMPONENTS, Item.SPECTRUM, Item.MEAN)}
    memory = least_memory(parts, Task.PCA, Split.HORIZONTAL, **asked)
    del X
    federation = Federation(parts, Task.PCA, Split.HORIZONTAL, scheme="steps", memory=memory, **asked)
    tracemalloc.start()
    found = federation.run()[0]
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert_close(found.sigma, expected, VALUES_BAR)
    assert held < (1 << 25) + 2 * memory < 50_000_000
