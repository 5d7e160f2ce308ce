"""Lines against NumPy and against the paper's reflectors, with the compiled passes and without."""

import numpy as np
import pytest
from tests import tolerances

from fedsvd.kernels import lines
from fedsvd.kernels.lines import Blocks
from fedsvd.linalg import householder


def normals(n, seed):
    return np.random.default_rng(seed).standard_normal(n * (n + 1) // 2)


@pytest.mark.parametrize(("count", "length", "gap"), [(1, 1, 0), (3, 17, 2), (40, 33, 0), (2, 1000, 5)])
def test_signs_orders_and_transposes_are_numpys(way, count, length, gap):
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((count, length + gap))
    part, signs, order = wide[:, gap:], rng.choice([-1, 1], length).astype(np.int8), rng.permutation(length)
    signed = np.array(wide)
    lines.sign(signed[:, gap:], signs)
    np.testing.assert_array_equal(signed[:, gap:], part * signs)
    np.testing.assert_array_equal(signed[:, :gap], wide[:, :gap])
    taken, back = np.zeros((count, length + 1)), np.zeros((count, length))
    lines.take(part, order, taken[:, 1:])
    np.testing.assert_array_equal(taken[:, 1:], part[:, order])
    assert not taken[:, 0].any()
    lines.put(taken[:, 1:], order, back)
    np.testing.assert_array_equal(back, part)
    turned = np.zeros((length, count + 3))
    lines.transpose(part, turned[:, 3:])
    np.testing.assert_array_equal(turned[:, 3:], part.T)
    assert not turned[:, :3].any()
    lines.transpose(np.asfortranarray(part), turned[:, 3:])
    np.testing.assert_array_equal(turned[:, 3:], part.T)


@pytest.mark.parametrize("widths", [(1,), (2, 1), (7, 7, 6), (40, 39), (130, 129), (600,)])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("columns", [1, 5, 16, 35])
def test_blocks_are_the_haar_matrices_of_their_normals(way, widths, transposed, columns):
    starts = 11 + np.cumsum((0, *widths))
    n = sum(widths)
    drawn = [normals(width, number) for number, width in enumerate(widths)]
    blocks = Blocks.of(starts, np.concatenate(drawn), np.empty((3, n)))
    X = np.random.default_rng(3).standard_normal((n, columns))
    larger = np.zeros((columns + 4, n + 2))
    larger[2:-2, 1:-1] = X.T
    blocks.turn(larger[2:-2, 1:-1], transposed=transposed)
    begin = 0
    for width, its in zip(widths, drawn, strict=True):
        once = iter([its.copy()])
        Q = householder.draw(width, lambda count, once=once: next(once)).explicit()
        rows = slice(begin, begin + width)
        expected = (Q.T if transposed else Q) @ X[rows]
        found = larger[2:-2, 1:-1].T[rows]
        tolerances.assert_close(found, expected, tolerances.product(width, 8), np.linalg.norm(X))
        begin += width
    larger[2:-2, 1:-1] = 0.0
    assert not larger.any()


def test_a_part_of_the_blocks_turns_its_own_rows(way):
    widths = (9, 8, 8, 7)
    starts = np.cumsum((0, *widths))
    packed = np.concatenate([normals(width, number) for number, width in enumerate(widths)])
    whole = Blocks.of(starts, packed, np.empty((3, 32)))
    X = np.random.default_rng(4).standard_normal((6, 32))
    every = X.copy()
    whole.turn(every, transposed=False)
    words = [width * (width + 1) // 2 for width in widths]
    part = Blocks(starts[1:4], packed[words[0] : sum(words[:3])], whole.by_row[:, 9:25])
    some = X[:, 9:25].copy()
    part.turn(some, transposed=False)
    np.testing.assert_array_equal(some, every[:, 9:25])


def test_numbers_of_other_kinds_are_converted_as_numpy_converts_them(way):
    whole, out = np.arange(12).reshape(3, 4), np.zeros((4, 3))
    lines.transpose(whole, out)
    np.testing.assert_array_equal(out, whole.T)
    taken = np.zeros((3, 4))
    lines.take(whole.astype(np.float32), np.array([3, 2, 1, 0]), taken)
    np.testing.assert_array_equal(taken, whole[:, ::-1])
