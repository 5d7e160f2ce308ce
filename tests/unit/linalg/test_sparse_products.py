"""A sparse matrix in pieces of rows has the product of the whole, however many threads there are."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse
from tests.tolerances import assert_close, digits_lost

from fedsvd.kernels import narrow
from fedsvd.linalg import sparse_products
from fedsvd.linalg.sparse_products import ByRows

RNG = np.random.default_rng(7)


def some_rows_long_and_some_empty():
    """A row of 1,500 entries, two hundred rows without any, and rows of a few; counted in 32 bits, which C reads."""
    lengths = np.r_[0, 1_500, np.zeros(200, int), RNG.integers(0, 30, 300), 0]
    rows = np.repeat(np.arange(len(lengths)), lengths)
    columns = np.concatenate([RNG.permutation(1_600)[:count] for count in lengths])
    return counted_shortly(
        scipy.sparse.csr_array((RNG.normal(size=len(rows)), (rows, columns)), shape=(len(lengths), 1_600))
    )


def counted_shortly(A):
    """SciPy counts in 64 bits what was made of places in 64 bits."""
    return scipy.sparse.csr_array((A.data, A.indices.astype(np.int32), A.indptr.astype(np.int32)), shape=A.shape)


@pytest.mark.parametrize(
    "A", [some_rows_long_and_some_empty(), counted_shortly(scipy.sparse.csr_array((5, 3)))], ids=["rows", "empty"]
)
@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.parametrize("compiled", [True, False])
def test_pieces_of_rows_have_the_product_of_the_whole(A, kind, compiled, monkeypatch):
    calls, in_c = [], narrow.sparse
    monkeypatch.setattr(narrow, "sparse", lambda *given: [calls.append(given), in_c(*given)])
    if not compiled:
        monkeypatch.setattr(narrow, "available", lambda: False)
    monkeypatch.setattr(sparse_products, "PIECE", 100)
    B = np.asfortranarray(RNG.normal(size=(A.shape[1], 6)))
    expected = A.toarray() @ B
    found = []
    with ThreadPoolExecutor(3) as pool:
        for each, several in ((None, 1), (pool.map, 3)):
            monkeypatch.setattr(sparse_products, "threads_for", lambda *shape, several=several: several)
            found.append(ByRows(A.asformat(kind), each).times(B))
    np.testing.assert_array_equal(*found)
    assert_close(found[0], expected, digits_lost(3))
    monkeypatch.setattr(sparse_products, "PIECE", 1 << 30)
    np.testing.assert_array_equal(ByRows(A, None).times(B), found[0])
    assert bool(calls) == narrow.available()


@pytest.mark.parametrize("apart", ["data", "indices"])
def test_parts_that_lie_in_several_pieces_have_the_same_product(apart):
    A, B = some_rows_long_and_some_empty(), RNG.normal(size=(1_600, 6))
    parts = {"data": A.data, "indices": A.indices}
    parts[apart] = np.repeat(parts[apart], 2)[::2]
    strided = scipy.sparse.csr_array((parts["data"], parts["indices"], A.indptr), shape=A.shape)
    assert not getattr(strided, apart).flags.c_contiguous
    assert_close(ByRows(strided, None).times(B), A.toarray() @ B, digits_lost(3))
