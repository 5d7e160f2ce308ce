"""A wrong shape is told by name, with both shapes and no entry."""

from types import SimpleNamespace

import numpy as np
import pytest

from fedsvd.errors import ShapeError
from fedsvd.types import expect_shape


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 4), (1, 2, 3)])
def test_the_right_shape_passes(shape):
    expect_shape("X_i", np.zeros(shape), *shape)


@pytest.mark.parametrize(("shape", "expected"), [((3, 2), (2, 3)), ((6,), (2, 3)), ((2, 3, 1), (2, 3)), ((1,), ())])
def test_a_wrong_shape_is_told_with_both_shapes(shape, expected):
    with pytest.raises(ShapeError) as caught:
        expect_shape("X_i", np.full(shape, 271.828), *expected)
    assert f"X_i has shape {shape}, expected {expected}" in str(caught.value)
    assert "271" not in str(caught.value)


def test_an_array_of_another_library_is_asked_for_its_shape_only():
    expect_shape("A", SimpleNamespace(shape=[2, 3]), 2, 3)
    with pytest.raises(ShapeError):
        expect_shape("A", SimpleNamespace(shape=[2, 3]), 3, 2)
