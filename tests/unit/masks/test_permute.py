"""The mixing mask is signs, DCT, signs, DCT, a permutation and Haar blocks, in this order, and spreads every row."""

import numpy as np
import pytest
import scipy.fft
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from tests import tolerances
from tests.explicit import seed

from fedsvd.errors import ShapeError
from fedsvd.masks.orthogonal import efficient_orthogonal, mixing
from fedsvd.masks.permute import Mixing
from fedsvd.randomness.keystream import Keystream


def parts(n, b, number=0):
    """The random parts in the order they are drawn: signs, signs, permutation, blocks."""
    stream = Keystream(seed(number))
    rounds = (stream.signs(n), stream.signs(n))
    return rounds, stream.permutation(n), efficient_orthogonal(n, b, stream)


@settings(max_examples=30)
@given(n=st.integers(1, 60), b=st.integers(1, 20))
def test_it_is_the_product_of_its_parts(n, b):
    (first, second), order, blocks = parts(n, b)
    C = scipy.fft.dct(np.eye(n), axis=0, norm="ortho")
    Pi = np.eye(n)[order]
    B = scipy.linalg.block_diag(*(block.explicit() for block in blocks.blocks))
    expected = B @ Pi @ C @ np.diag(second) @ C @ np.diag(first)
    np.testing.assert_allclose(
        mixing(n, b, Keystream(seed())).explicit(), expected, rtol=0, atol=tolerances.product(n, 4)
    )


def test_parts_cross_into_the_library_of_the_data(foreign):
    rounds, order, blocks = parts(9, 3)
    on = foreign.array([0.0])
    Q = Mixing.of(rounds, order, efficient_orthogonal(9, 3, _after_signs(9), on), on)
    for array in (*Q.signs, Q.order, Q.inverse_order):
        foreign.numpy(array)
    ours = Mixing.of(rounds, order, blocks)
    np.testing.assert_allclose(foreign.numpy(Q.explicit()), ours.explicit(), rtol=0, atol=tolerances.product(9, 4))


def _after_signs(n):
    stream = Keystream(seed())
    stream.signs(n), stream.signs(n), stream.permutation(n)
    return stream


def test_every_row_is_spread_over_the_whole_window():
    """One row goes everywhere with entries of size sqrt(log n / n); bare blocks keep it within b places."""
    n, b = 1024, 16
    Q = mixing(n, b, Keystream(seed(1))).explicit()
    assert np.abs(Q).max() < 6.0 / np.sqrt(n)
    for energy in ((Q**2).reshape(n // b, b, n).sum(axis=1), (Q**2).reshape(n, n // b, b).sum(axis=2)):
        # A tile of a Haar matrix has this much: n energy is chi-square with b degrees of freedom, nearly.
        assert chi2(b).ppf(tolerances.REJECTED) < n * energy.min() < n * energy.max() < chi2(b).isf(tolerances.REJECTED)
    blocks = efficient_orthogonal(n, b, Keystream(seed(1))).explicit()
    assert np.count_nonzero(blocks[:, 0]) == b


def test_a_constant_and_an_alternating_column_are_spread_too():
    """One round would leave what the DCT itself concentrates to its signs; two rounds leave nothing."""
    n = 1024
    Q = mixing(n, 16, Keystream(seed(2)))
    waves = np.stack([np.ones(n), np.resize([1.0, -1.0], n), np.cos(np.pi * 7 * (np.arange(n) + 0.5) / n)], axis=1)
    masked = Q.left(waves / np.linalg.norm(waves, axis=0))
    assert np.abs(masked).max() < 6.0 / np.sqrt(n)


def test_inputs_are_not_changed_and_other_sizes_are_refused():
    Q = mixing(6, 2, Keystream(seed()))
    X = np.ones((6, 6))
    Q.left(X), Q.left_t(X), Q.right(X), Q.right_t(X)
    assert np.all(X == 1.0)
    for product, shape in ((Q.left, (5, 2)), (Q.left_t, (7, 2)), (Q.right, (2, 5)), (Q.right_t, (2, 7))):
        with pytest.raises(ShapeError):
            product(np.ones(shape))
