"""A wrong shape is told by name, with both shapes and no entry; bytes are written in binary units."""

from types import SimpleNamespace

import numpy as np
import pytest

from fedsvd.errors import ShapeError
from fedsvd.types import byte_size, enough_bytes, expect_shape


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


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (2**20 - 1, "1.0 MiB"),  # never 1024.0 KiB
        (2 << 30, "2.0 GiB"),
        (3 * 2**40, "3.0 TiB"),
        (5000 * 2**40, "5000.0 TiB"),
    ],
)
def test_bytes_are_written_in_the_units_of_memory_budgets(count, text):
    assert byte_size(count) == text


@pytest.mark.parametrize("count", [1, 2**20, 2**20 + 1, 123_456_789])
def test_an_amount_of_memory_that_is_advised_is_enough(count):
    text = enough_bytes(count)
    mebibytes, given = int(text.split(" MiB")[0]), int(text.split("(")[1].split(" ")[0])
    assert given == count
    assert count <= mebibytes * 2**20 < count + 2**20
