"""P over a matrix on disk is P: forward and back, by columns and by rows, whatever memory there is (6.2)."""

import numpy as np
import pytest
from tests import tolerances
from tests.explicit import seed

from fedsvd.linalg.windows import Form
from fedsvd.masks.in_passes import Passes
from fedsvd.masks.orthogonal import draw_form
from fedsvd.masks.permute import Mixing, groups_of_blocks
from fedsvd.storage.mapped_array import scratch_array


def rows_of(P, n, count):
    return (
        [rows for _, rows in groups_of_blocks(P.blocks[-1].starts, count)] if isinstance(P, Mixing) else [slice(0, n)]
    )


def through(P, X, memory, scratch):
    """``P X`` with X on disk, columns as lines."""
    lines = scratch_array((X.shape[1], X.shape[0]), 0, scratch)
    lines[:] = X.T
    passes = Passes(P, memory)
    passes.forward(lines)
    return np.concatenate([passes.last(rows, lines[:, rows].T) for rows in rows_of(P, len(X), 1000)]), passes


@pytest.mark.parametrize("form", [Form.HAAR, Form.MIXING])
@pytest.mark.parametrize("n", [1, 360, 997])
@pytest.mark.parametrize("columns", [1, 7])
def test_passes_over_a_file_are_the_product_in_memory(form, n, columns, tmp_path):
    P = draw_form(form, n, 20, seed(n))
    X = np.random.default_rng(n).normal(size=(n, columns))
    for memory in (1, 8 * 4 * n * 3, 1 << 30):
        masked, passes = through(P, X, memory, tmp_path)
        np.testing.assert_allclose(masked, P.left(X), rtol=0, atol=tolerances.product(n, 8))
        lines = scratch_array((columns, n), 0, tmp_path)
        for rows in rows_of(P, n, 100):
            lines[:, rows] = passes.last_t(rows, masked[rows]).T
        passes.backward(lines)
        np.testing.assert_allclose(lines.T, X, rtol=0, atol=tolerances.product(n, 16))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("n", [1_000_000, 1_000_003])
def test_a_million_rows_go_through_a_file_and_back(n, tmp_path):
    """The second length is prime. Blocks are not stored, 32 bytes a row are all the memory there is."""
    P = draw_form(Form.MIXING, n, 256, seed(7), stored=0)
    assert not P.keep
    X = np.random.default_rng(7).normal(size=(n, 3)) * (1.0, 1e-6, 1e6)
    masked, passes = through(P, X, 32 * n, tmp_path)
    scale = np.linalg.norm(X, axis=0)
    np.testing.assert_allclose(np.linalg.norm(masked, axis=0), scale, rtol=tolerances.ORTHOGONAL_BAR)
    lines = scratch_array((3, n), 0, tmp_path)
    for rows in rows_of(P, n, 100_000):
        lines[:, rows] = passes.last_t(rows, masked[rows]).T
    passes.backward(lines)
    assert (np.linalg.norm(lines.T - X, axis=0) <= tolerances.ORTHOGONAL_BAR * scale).all()
