"""A source that can make its panels on a device makes the very panels it would hand out in memory."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.tolerances import product

from fedsvd.compress.reduce import column_panels, columns_of, row_panels, rows_of
from fedsvd.data.arrays import ArraySource
from fedsvd.data.open import open_source
from fedsvd.data.sparse import SparseSource
from fedsvd.linalg.device import Device

SPARSE = sp.random_array((40, 30), density=0.1, rng=np.random.default_rng(1))
SOURCES = {
    "in memory": lambda: ArraySource(np.random.default_rng(2).normal(size=(12, 25))),
    "sparse": lambda: SparseSource(SPARSE),
    "sparse, transposed": lambda: SparseSource(SPARSE).T,
    "ratings": lambda: open_source("synthetic-ratings://60x50?density=0.05&seed=3"),
    "wide": lambda: open_source("synthetic://9x50?seed=7"),
    "tall": lambda: open_source("synthetic://50x9?seed=7"),
    "tall, some columns": lambda: open_source("synthetic://50x9?seed=7&columns=2:6"),
    "wide, some rows": lambda: open_source("synthetic://9x50?seed=7&rows=1:5"),
    "wide, transposed": lambda: open_source("synthetic://9x50?seed=7").T,
    "power law": lambda: open_source("synthetic://50x9?seed=7&alpha=0.5"),
    "labelled": lambda: open_source("synthetic://50x9?seed=7&label=y"),
}


@pytest.fixture(params=SOURCES.values(), ids=SOURCES.keys())
def source(request):
    return request.param()


@pytest.fixture
def device(foreign):
    return Device("test", foreign.array([0.0]))


def test_panels_on_a_device_are_those_in_memory(source, device, foreign):
    m, n = source.shape
    bound = product(9) * 10
    columns = columns_of(source, n // 4, n // 2, device)
    np.testing.assert_allclose(foreign.numpy(columns), source.columns(n // 4, n // 2), rtol=0, atol=bound)
    rows = rows_of(source, m // 4, m // 2, device)
    np.testing.assert_allclose(foreign.numpy(rows), source.rows(m // 4, m // 2), rtol=0, atol=bound)


@pytest.mark.parametrize("width", [4, 7, 100])
def test_they_cover_the_matrix_once_and_in_order(source, device, foreign, width):
    whole = source.rows(0, source.shape[0])
    for axis, panels in ((1, column_panels(source, width, device)), (0, row_panels(source, width, device))):
        places, made = zip(*panels, strict=True)
        assert [place.start for place in places] == list(range(0, source.shape[axis], width))
        joined = np.concatenate([foreign.numpy(panel) for panel in made], axis=axis)
        np.testing.assert_allclose(joined, whole, rtol=0, atol=product(9) * 10)


@pytest.mark.torch
def test_of_a_sparse_panel_only_what_is_stored_travels(monkeypatch):
    pytest.importorskip("torch")
    import array_api_compat.torch as xp

    moved = []
    asarray = xp.asarray
    monkeypatch.setattr(xp, "asarray", lambda A, **more: (moved.append(np.size(A)), asarray(A, **more))[1])
    made = SparseSource(SPARSE).columns_on(xp, "cpu", 0, 30)
    assert moved == [SPARSE.nnz, SPARSE.nnz]
    np.testing.assert_array_equal(made.numpy(), SPARSE.toarray())
