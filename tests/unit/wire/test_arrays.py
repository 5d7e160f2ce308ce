"""An array keeps its numbers, its shape and its memory order, and a header that is not ours is refused."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.wire.said import arrays

from fedsvd.errors import MalformedFrame
from fedsvd.wire.reader import Reader, decode_array, encode_array


def again(array):
    reader = Reader(b"".join(encode_array(array)))
    decoded = decode_array(reader)
    reader.end()
    return decoded


@settings(max_examples=300)
@given(arrays("f8", 1, 2) | arrays("u8", 1, 2))
def test_an_array_comes_back_to_the_last_bit(array):
    decoded = again(array)
    assert decoded.dtype == array.dtype
    assert decoded.dtype.isnative
    assert decoded.shape == array.shape
    assert decoded.tobytes() == array.tobytes()
    assert not decoded.flags.writeable


@pytest.mark.parametrize("shape", [(0,), (0, 0), (0, 5), (5, 0)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_without_entries_keeps_its_shape(shape, order):
    for dtype in (np.float64, np.uint64):
        decoded = again(np.zeros(shape, dtype, order))
        assert (decoded.shape, decoded.dtype) == (shape, dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.uint64])
def test_memory_order_is_kept_so_that_nobody_transposes_in_memory(dtype):
    C = np.arange(12).astype(dtype).reshape(3, 4)
    F = np.asfortranarray(C)
    assert again(C).flags.c_contiguous
    assert not again(C).flags.f_contiguous
    assert again(F).flags.f_contiguous
    assert not again(F).flags.c_contiguous
    np.testing.assert_array_equal(again(F), again(C))
    # The bytes are those of the array as it lies in memory.
    assert b"".join(encode_array(F)).endswith(C.T.tobytes())
    assert b"".join(encode_array(C)).endswith(C.tobytes())


def test_contiguous_numbers_are_not_copied_on_either_way():
    for array in (np.ones((30, 20)), np.ones((30, 20), order="F"), np.ones(30, np.uint64)):
        _, numbers = encode_array(array)
        assert np.shares_memory(array, np.frombuffer(numbers, np.uint8))
        content = b"".join(encode_array(array))
        assert np.shares_memory(decode_array(Reader(content)), np.frombuffer(content, np.uint8))


def test_numbers_are_little_endian_on_every_machine():
    header = b"fC\x01" + struct.pack("<Q", 2)
    values = decode_array(Reader(header + struct.pack("<2d", 1.5, -2.0)))
    np.testing.assert_array_equal(values, [1.5, -2.0])
    assert b"".join(encode_array(np.array([1, 2**63], np.uint64))) == b"uC\x01" + struct.pack("<3Q", 2, 1, 2**63)


@pytest.mark.parametrize(
    "header",
    [
        b"dC\x01" + struct.pack("<Q", 1),  # a type that is never said
        b"OC\x01" + struct.pack("<Q", 1),  # objects least of all
        b"\x00C\x01" + struct.pack("<Q", 1),
        b"fA\x01" + struct.pack("<Q", 1),  # an order that there is not
        b"ff\x01" + struct.pack("<Q", 1),
        b"fF\x01" + struct.pack("<Q", 1),  # one dimension has no order
        b"fF\x00",
        b"fC\x03" + struct.pack("<3Q", 1, 1, 1),  # three dimensions are never said
        b"fC\xff" + struct.pack("<255Q", *[1] * 255),
    ],
)
def test_another_header_is_refused(header):
    with pytest.raises(MalformedFrame):
        decode_array(Reader(header + bytes(8)))


@settings(max_examples=200)
@given(
    st.sampled_from([b"f", b"u"]),
    st.sampled_from([b"C", b"F"]),
    st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)),
    st.integers(0, 64),
)
def test_numbers_that_have_not_come_are_refused(code, order, shape, come):
    content = code + order + b"\x02" + struct.pack("<2Q", *shape) + bytes(come)
    if 8 * shape[0] * shape[1] > come:
        with pytest.raises(MalformedFrame):
            decode_array(Reader(content))
