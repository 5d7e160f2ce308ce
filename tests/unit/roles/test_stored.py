"""Sums over a sparse table from what is stored of it, panel by panel: those of the dense table, in bounded memory."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from tests.tolerances import assert_close, digits_lost

from fedsvd.data.sparse import SparseSource
from fedsvd.linalg import sparse_products
from fedsvd.protocol.tasks import Split
from fedsvd.roles.user import stored
from fedsvd.roles.user.own_products import own_side
from fedsvd.roles.user.streamed import Streamed

RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 300)) * (RNG.uniform(size=(40, 300)) < 0.1)


class Counted(SparseSource):
    """A sparse source that counts how often its panels are read."""

    reads = 0

    def sparse_rows(self, start, stop):
        Counted.reads += 1
        return super().sparse_rows(start, stop)

    def sparse_columns(self, start, stop):
        Counted.reads += 1
        return super().sparse_columns(start, stop)


@pytest.mark.parametrize("split", [Split.HORIZONTAL, Split.VERTICAL])
@pytest.mark.parametrize(("memory", "passes"), [(1 << 20, 1), (4000, 2)], ids=["kept", "read again"])
def test_sums_of_stored_entries_are_those_of_the_table(split, memory, passes, monkeypatch):
    monkeypatch.setattr(stored, "PLACES", 900)
    monkeypatch.setattr(Counted, "reads", 0)
    work = SimpleNamespace(source=Counted(scipy.sparse.csr_array(X)), plan=SimpleNamespace(split=split, memory=memory))
    found = stored.stored_entries(work)
    centre, factor = RNG.normal(size=40), RNG.uniform(1, 2, size=40)
    assert_close(found.sums(), X.sum(axis=1), digits_lost(2))
    squares = ((X - centre[:, None]) * factor[:, None]) ** 2
    assert_close(found.squares_about(centre, factor), squares.sum(axis=1), digits_lost(2))
    records, length = (40, 300) if split is Split.VERTICAL else (300, 40)
    panels = -(-records // (900 // length))
    assert panels > 5
    assert Counted.reads == passes * panels
    places, blocks = zip(*found, strict=True)
    joined = scipy.sparse.vstack(blocks) if split is Split.VERTICAL else scipy.sparse.hstack(blocks)
    np.testing.assert_array_equal(joined.toarray(), X)
    assert places[-1].stop == records


def test_a_dense_table_has_none():
    from fedsvd.data.open import open_source

    assert stored.stored_entries(SimpleNamespace(source=open_source(X))) is None


@pytest.mark.parametrize("split", [Split.HORIZONTAL, Split.VERTICAL])
def test_products_in_pieces_are_those_of_the_panels(split, monkeypatch):
    monkeypatch.setattr(stored, "PLACES", 900)
    monkeypatch.setattr(sparse_products, "PIECE", 16)
    monkeypatch.setattr(Counted, "reads", 0)
    Q, W, mean = RNG.normal(size=(40, 3)), RNG.normal(size=(300, 3)), RNG.normal(size=40)
    with ThreadPoolExecutor(3) as pool:
        work = SimpleNamespace(
            source=Counted(scipy.sparse.csr_array(X)),
            plan=SimpleNamespace(split=split, memory=1 << 20),
            device=None,
            masks=SimpleNamespace(each=pool.map),
            put=np.asarray,
            spread=None,
            n_i=300,
        )
        side = own_side(work, Streamed(work.source, mean=mean, own_mean=mean))
        panels = [side.times(W), side.transposed_times(Q)]
        reads = Counted.reads
        pieces = [side.times(W), side.transposed_times(Q)]
    centred = X - mean[:, None]
    assert Counted.reads == reads
    assert_close(panels[0], centred @ W, digits_lost(3))
    for one, other in zip(panels, pieces, strict=True):
        np.testing.assert_array_equal(one, other)


def test_both_orders_are_not_kept_where_they_are_too_large(monkeypatch):
    work = SimpleNamespace(
        source=SparseSource(scipy.sparse.csr_array(X)), plan=SimpleNamespace(split=Split.VERTICAL, memory=1 << 20)
    )
    found = stored.stored_entries(work)
    assert not found.kept
    found.sums()
    assert found.kept
    monkeypatch.setattr(stored, "TURNED", 100)
    assert not found.kept
