"""Haar blocks two to a square: the blocks that ``householder.draw`` makes, applied to lines in place."""

import numpy as np
import pytest
from tests import tolerances

from fedsvd.linalg import householder, packed_blocks


def _normals(n, seed):
    return np.random.default_rng(seed).standard_normal(n * (n + 1) // 2)


@pytest.mark.parametrize(("n", "side"), [(1, 1), (2, 3), (7, 7), (40, 41), (130, 130)])
@pytest.mark.parametrize("transposed", [False, True])
def test_both_blocks_of_a_square_are_those_of_their_normals(n, side, transposed):
    square = np.full((side, side), np.nan)  # what is not written is not read
    blocks = [packed_blocks.draw(n, _normals(n, above), square, bool(above)) for above in (0, 1)]
    for above, block in enumerate(blocks):
        drawn = iter([_normals(n, above)])
        Q = householder.draw(n, lambda count, drawn=drawn: next(drawn)).explicit()
        X = np.random.default_rng(3).standard_normal((n, 5))
        expected = (Q.T if transposed else Q) @ X
        for form in (block, block.written()):
            larger = np.zeros((9, n + 2))
            larger[2:7, 1:-1] = X.T
            form.turn(larger[2:7, 1:-1], transposed)
            tolerances.assert_close(larger[2:7, 1:-1].T, expected, tolerances.product(n, 8), np.linalg.norm(X))
            larger[2:7, 1:-1] = 0.0
            assert not larger.any()
