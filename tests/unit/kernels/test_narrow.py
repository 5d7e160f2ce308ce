"""Products with few lines against NumPy: every number of lines, widths that no vector divides, and lines with gaps."""

import numpy as np
import pytest
import scipy.sparse
from tests import tolerances

from fedsvd.kernels import narrow


@pytest.fixture(autouse=True)
def compiled():
    if not narrow.available():
        pytest.skip("not compiled, or not for this processor")


def lines(rng, count, width, gap):
    return rng.standard_normal((count, width + gap))[:, gap:]


@pytest.mark.parametrize("count", range(1, 15))
@pytest.mark.parametrize(("rows", "width", "gap"), [(1, 1, 0), (3, 7, 3), (11, 1025, 1), (9, 13_000, 0)])
def test_inner_products_and_sums_of_lines_are_numpys(rows, width, gap, count):
    rng = np.random.default_rng(count)
    A, B, W = lines(rng, rows, width, gap), lines(rng, count, width, gap), lines(rng, rows, count, gap)
    found, summed = np.ones((rows, count + gap)), np.ones((count, width + gap))
    narrow.inner(A, B, found[:, gap:])
    narrow.combine(A, W, summed[:, gap:])
    tolerances.assert_close(found[:, gap:], A @ B.T + 1.0, tolerances.product(width))
    tolerances.assert_close(summed[:, gap:], W.T @ A + 1.0, tolerances.product(rows))
    assert (found[:, :gap] == 1.0).all()
    assert (summed[:, :gap] == 1.0).all()


@pytest.mark.parametrize("count", [8, 16, 24, 40])
def test_a_sparse_matrix_by_rows_is_multiplied_bit_for_bit_as_by_scipy(count):
    rng = np.random.default_rng(count)
    A = rng.standard_normal((60, 90)) * (rng.random((60, 90)) < 0.2)
    A[7:10] = 0.0
    stored = scipy.sparse.csr_array(A)
    B, out = rng.standard_normal((90, count)), np.full((60, count), np.nan)
    narrow.sparse(stored.data, stored.indices, stored.indptr, B, out)
    np.testing.assert_array_equal(out, stored @ B)
    tolerances.assert_close(out, A @ B, tolerances.product(90))
