"""Blocks drawn together are the blocks drawn one by one from the same normals, and multiply like them."""

import numpy as np
import pytest
from tests import tolerances

from fedsvd.linalg.block_diagonal import draw_blocks, normals_needed
from fedsvd.linalg.householder import draw
from fedsvd.linalg.uniform_words import normals_of, signed_order
from fedsvd.randomness.keystream import Keystream
from fedsvd.randomness.seed import Seed
from fedsvd_lab.published.block_diagonal import BlockDiagonal

WIDTHS = (5, 5, 5, 4, 4, 1)
SEED = Seed(bytes(range(32)))


def one_by_one():
    stream = Keystream(SEED)
    return BlockDiagonal(tuple(draw(width, stream.normal) for width in WIDTHS))


def together(library):
    return draw_blocks(WIDTHS, library.array(Keystream(SEED).normal(normals_needed(WIDTHS))))


def test_they_are_the_same_matrices(library):
    bound = tolerances.product(max(WIDTHS), 4)
    np.testing.assert_allclose(library.numpy(together(library).explicit()), one_by_one().explicit(), rtol=0, atol=bound)


@pytest.mark.parametrize("way", ["left", "left_t", "right", "right_t"])
def test_they_multiply_from_either_side_as_the_matrix_itself(library, way):
    Q, dense = together(library), one_by_one().explicit()
    X = np.random.default_rng(1).normal(size=(sum(WIDTHS), 7))
    X = X if way.startswith("left") else np.ascontiguousarray(X.T)
    expected = {
        "left": lambda: dense @ X,
        "left_t": lambda: dense.T @ X,
        "right": lambda: X @ dense,
        "right_t": lambda: X @ dense.T,
    }[way]()
    found = library.numpy(getattr(Q, way)(library.array(X)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerances.product(max(WIDTHS), 4) * 4)


def test_normals_on_a_device_are_the_streams_normals(library):
    words = Keystream(SEED).words(4096)
    found = library.numpy(normals_of(words.copy(), library.array([0.0])))
    np.testing.assert_allclose(found, Keystream(SEED).normal(4096), rtol=0, atol=8 * tolerances.EPS * 8)


def test_signed_words_have_the_order_of_the_unsigned(library):
    words = Keystream(SEED).words(1000)
    order = np.argsort(library.numpy(signed_order(words, library.array([0.0]))), kind="stable")
    np.testing.assert_array_equal(order, np.argsort(words, kind="stable"))


def test_they_show_no_entry(library):
    assert repr(together(library)) == "BatchedBlocks(n=24)"
