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
    """A row of 1,500 entries, two hundred rows without any, and rows of a few."""
    lengths = np.r_[0, 1_500, np.zeros(200, int), RNG.integers(0, 30, 300), 0]
    rows = np.repeat(np.arange(len(lengths)), lengths)
    columns = np.concatenate([RNG.permutation(1_600)[:count] for count in lengths])
    return scipy.sparse.csr_array((RNG.normal(size=len(rows)), (rows, columns)), shape=(len(lengths), 1_600))


@pytest.mark.parametrize("A", [some_rows_long_and_some_empty(), scipy.sparse.csr_array((5, 3))], ids=["rows", "empty"])
@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.parametrize("compiled", [True, False])
def test_pieces_of_rows_have_the_product_of_the_whole(A, kind, compiled, monkeypatch):
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
