"""Products with few columns, whichever way both matrices and the product lie, in one thread and in several."""

import numpy as np
import pytest
from tests import tolerances

from fedsvd.kernels import narrow
from fedsvd.linalg import backend, few_columns, pools

WAYS = {
    "by rows": lambda A: np.array(A, order="C"),
    "by columns": lambda A: np.array(A, order="F"),
    "rows of a larger one": lambda A: np.concatenate((A, A), axis=1)[:, : A.shape[1]],
    "columns of a larger one": lambda A: np.concatenate((A.T, A.T), axis=1)[:, : A.shape[0]].T,
    "apart": lambda A: np.repeat(np.repeat(A, 2, axis=0), 2, axis=1)[::2, ::2],
}


@pytest.fixture
def compiled():
    if not narrow.available():
        pytest.skip("not compiled, or not for this processor")


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("way", list(WAYS)[:4])
@pytest.mark.parametrize("shape", [(700, 1024, 5), (1024, 700, 13), (3, 400_000, 2), (400_000, 3, 1)])
def test_products_are_numpys_however_they_lie(compiled, way, shape, threads, monkeypatch):
    monkeypatch.setattr(few_columns, "threads", lambda: threads)
    (rows, width, columns), rng = shape, np.random.default_rng(1)
    A, B = WAYS[way](rng.standard_normal((rows, width))), rng.standard_normal((width, columns))
    bar = tolerances.product(width)
    for given in ("by rows", "by columns"):
        tolerances.assert_close(backend.matmul(A, WAYS[given](B)), A @ B, bar)
        assert few_columns.multiplied(A, WAYS[given](B), None, add=False) is not None
    for lies in WAYS:
        for add in (False, True):
            out = WAYS[lies](np.ones((rows, columns)))
            found = backend.matmul(A, B, out, add=add)
            assert np.shares_memory(found, out)
            tolerances.assert_close(found, out, 0.0)
            tolerances.assert_close(out, A @ B + float(add), bar)


@pytest.mark.parametrize("by_columns", [True, False])
@pytest.mark.parametrize("shape", [(1000, 3000, 5), (4000, 1500, 13), (50_000, 60, 2), (1031, 1999, 10)])
def test_how_a_product_is_added_up_does_not_depend_on_the_number_of_threads(compiled, shape, by_columns, monkeypatch):
    (length, height, columns), rng, found = shape, np.random.default_rng(3), []
    A, B = rng.standard_normal((height, length)).T, rng.standard_normal((height, columns))
    A = A if by_columns else np.ascontiguousarray(A)
    for count in (1, 3, 16):
        monkeypatch.setattr(few_columns, "threads", lambda count=count: count)
        found.append(few_columns.multiplied(A, B, None, add=False))
    tolerances.assert_close(found[0], A @ B, tolerances.product(height))
    tolerances.assert_close(found[1], found[0], 0.0)
    tolerances.assert_close(found[2], found[0], 0.0)


def test_a_thread_is_started_for_a_tenth_of_a_millisecond_of_work_and_where_blas_has_one(monkeypatch):
    monkeypatch.setattr(few_columns, "threads", lambda: 16)
    assert few_columns.threads_for(1 << 17, 8) == 1
    assert few_columns.threads_for(1 << 20, 8) == 8
    assert few_columns.threads_for(1 << 27, 8) == 16
    with pools.one_thread():
        monkeypatch.setattr(few_columns, "threads", pools.threads)
        assert few_columns.threads_for(1 << 27, 8) == 1  # a piece of work that others have beside it


def test_what_blas_does_better_is_left_to_it(compiled):
    A = np.zeros((3000, 3000))
    assert few_columns.multiplied(A, np.zeros((3000, 33)), None, add=False) is None
    assert few_columns.multiplied(A[::2, ::2], np.zeros((1500, 3)), None, add=False) is None


def test_without_the_kernels_blas_multiplies(monkeypatch):
    monkeypatch.setattr(narrow, "available", lambda: False)
    A, B = np.random.default_rng(2).standard_normal((2, 1100, 1100))
    tolerances.assert_close(backend.matmul(A, B[:, :4]), A @ B[:, :4], tolerances.product(1100))
