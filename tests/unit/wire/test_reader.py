"""A reader gives what there is, once, in order, and never more."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsvd.errors import MalformedFrame, RemoteProtocolError
from fedsvd.wire.reader import Reader, malformed


@settings(max_examples=100)
@given(st.binary(max_size=60), st.lists(st.integers(0, 20), max_size=10))
def test_what_is_taken_is_what_there_was(body, counts):
    reader, place = Reader(body), 0
    for count in counts:
        if place + count > len(body):
            with pytest.raises(MalformedFrame):
                reader.take(count)
        else:
            assert bytes(reader.take(count)) == body[place : place + count]
            place += count
        assert reader.left == len(body) - place


@pytest.mark.parametrize("count", [-1, -(2**63), 5, 2**31, 2**63, 2**64, 2**200])
def test_more_than_is_left_or_less_than_nothing_cannot_be_taken(count):
    reader = Reader(b"four")
    with pytest.raises(MalformedFrame):
        reader.take(count)
    assert bytes(reader.take(4)) == b"four"


def test_nothing_may_be_left_at_the_end():
    reader = Reader(b"ab")
    with pytest.raises(MalformedFrame):
        reader.end()
    reader.take(2)
    reader.end()
    Reader(b"").end()


def test_what_is_taken_is_a_view_that_cannot_be_written_to():
    body = bytearray(b"abcd")
    taken = Reader(body).take(4)
    assert taken.readonly
    assert taken.obj is body


def test_the_one_error_is_a_peers_fault_and_says_nothing_of_the_bytes():
    error = malformed()
    assert isinstance(error, RemoteProtocolError)
    assert error.code == "FSVD-414"
    assert str(error) == str(malformed())
