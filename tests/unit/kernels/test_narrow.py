"""Products with few lines against NumPy: every number of lines, widths that no vector divides, and lines with gaps."""

import numpy as np
import pytest
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
