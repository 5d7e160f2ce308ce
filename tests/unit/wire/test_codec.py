"""Every message comes back as it went, and every byte string that is no message is the one error."""

import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.wire.said import EXAMPLES, FIELDS, PLAN, body, messages, same

from fedsvd.errors import LocalProtocolError, MalformedFrame, OtherVersion
from fedsvd.protocol import messages as m
from fedsvd.protocol.messages import Message
from fedsvd.wire import codec
from fedsvd.wire.codec import decode, encode

HEAD = 4 + 1 + 1 + 32
IDS = [f"{number}-{type(message).__name__}" for number, message in enumerate(EXAMPLES)]
# A number is never given to another type, nor a field to another place, but with a new version of the format.
NUMBERS = {
    "KeyOffer": 1,
    "KeyBook": 2,
    "Relay": 3,
    "Relayed": 4,
    "RowIds": 5,
    "RowsAgree": 6,
    "SumShare": 7,
    "SumReply": 8,
    "Ready": 9,
    "BatchRequest": 10,
    "PaddedBatch": 11,
    "Factors": 13,
    "Solution": 14,
    "Finished": 17,
    "Aborted": 18,
    "RowsRequest": 19,
    "FactorRows": 20,
    "Countersigned": 21,
    "Challenge": 22,
    "Product": 23,
    "IdHashes": 24,
    "CommonRows": 25,
    "Gathered": 26,
}
RETIRED = 12  # protocol 1's masked batch
SPOKEN_TO_ONESELF = {"Begin"}


def frame(number: int, rest: bytes) -> bytes:
    """A message of this type with these bytes as its fields."""
    return struct.pack("<4sBB32s", b"FSVD", 3, number, bytes(32)) + rest


def refused(content: bytes | bytearray | memoryview) -> None:
    if bytes(content[:4]) == b"FSVD" and len(content) >= HEAD and content[4] != 3:
        with pytest.raises(OtherVersion, match="and here is fedsvd"):
            decode(content)
        return
    with pytest.raises(MalformedFrame) as error:
        decode(content)
    assert (
        str(error.value) == "FSVD-414: a message is not well-formed. Fix: check that all parties run the same version"
    )
    assert error.value.__cause__ is None


def decoded_or_refused(content: bytes) -> Message | None:
    try:
        return decode(content)
    except (MalformedFrame, OtherVersion):
        return None


@settings(max_examples=400)
@given(messages)
def test_a_message_comes_back_as_it_went(message):
    again = decode(body(message))
    assert same(again, message)
    assert body(again) == body(decode(body(again)))


def test_every_type_there_is_can_be_said_or_is_a_roles_own():
    kinds = {kind.__name__ for kind in Message.__subclasses__() if kind.__module__ == Message.__module__}
    assert kinds == set(NUMBERS) | SPOKEN_TO_ONESELF
    assert {kind.__name__ for kind in FIELDS} == {type(message).__name__ for message in EXAMPLES} == set(NUMBERS)


@pytest.mark.parametrize("message", EXAMPLES, ids=IDS)
def test_a_types_number_never_changes(message):
    content = body(message)
    assert content[:4] == b"FSVD"
    assert content[4] == 3
    assert content[5] == NUMBERS[type(message).__name__]
    assert content[6:HEAD] == bytes.fromhex(PLAN)


def test_what_a_role_says_to_itself_is_not_encoded():
    with pytest.raises(LocalProtocolError):
        encode(m.Begin(PLAN))


@pytest.mark.parametrize("message", EXAMPLES, ids=IDS)
def test_no_part_of_a_message_is_a_message(message):
    content = body(message)
    for end in range(len(content)):
        refused(content[:end])
    refused(content + b"\x00")
    refused(content + content)


@pytest.mark.parametrize("message", EXAMPLES, ids=IDS)
def test_a_flipped_bit_gives_another_message_or_the_one_error(message):
    content = bytearray(body(message))
    for bit in range(8 * len(content)):
        content[bit // 8] ^= 1 << bit % 8
        other = decoded_or_refused(bytes(content))
        if other is None:
            refused(bytes(content))
        else:
            assert not same(other, message)
            assert same(decode(body(other)), other)
        content[bit // 8] ^= 1 << bit % 8


@settings(max_examples=400)
@given(st.binary(max_size=300))
def test_any_bytes_at_all_are_a_message_or_the_one_error(content):
    for attempt in (content, *(frame(number, content) for number in range(22))):
        decoded_or_refused(attempt)


@pytest.mark.parametrize("version", [0, 1, 2, 255])
def test_another_version_is_refused(version):
    content = bytearray(body(EXAMPLES[0]))
    content[4] = version
    refused(content)


@pytest.mark.parametrize("number", [0, RETIRED, 22, 127, 128, 255])
def test_an_unknown_type_is_refused(number):
    refused(frame(number, b""))


@pytest.mark.parametrize("magic", [b"FSVE", b"fsvd", b"\x00\x00\x00\x00", b"HTTP", b"DVSF"])
def test_what_does_not_begin_as_a_message_is_refused(magic):
    refused(magic + body(EXAMPLES[0])[4:])


def test_a_memoryview_of_any_kind_is_read_as_its_bytes():
    for message in EXAMPLES:
        content = body(message)
        for view in (memoryview(content), memoryview(bytearray(content)), memoryview(b"xx" + content)[2:]):
            assert same(decode(view), message)
    eights = np.frombuffer(body(m.Ready(PLAN)) + bytes(2), np.uint64)
    refused(memoryview(eights))


@pytest.mark.parametrize(
    "message", [m.PaddedBatch(PLAN, 0, np.ones((64, 64), np.uint64)), m.Factors(PLAN, np.ones((64, 64)), None, 0, 0)]
)
def test_arrays_are_views_of_the_message_on_both_ways_and_nobody_can_write_to_them(message):
    payload = next(value for value in vars(message).values() if isinstance(value, np.ndarray))
    assert any(np.shares_memory(payload, np.frombuffer(part, np.uint8)) for part in encode(message) if len(part) > 1000)
    received = bytearray(body(message))  # as a transport may hand it over
    for content in (bytes(received), received):
        whole = np.frombuffer(content, np.uint8)
        again = next(value for value in vars(decode(content)).values() if isinstance(value, np.ndarray))
        assert np.shares_memory(again, whole)
        assert not again.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            again[0, 0] = 0


# --- limits: what is absurd is refused before anything is allocated --------------------------------------------

HUGE = [2**16, 2**20, 2**31, 2**32 - 1, 2**40, 2**61, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
DIM2 = [(a, b) for a in HUGE for b in (1, 2, *HUGE)]


def peak(content: bytes) -> int:
    """The most memory that reading these bytes took, whatever came of it."""
    decoded_or_refused(content)
    tracemalloc.start()
    try:
        decoded_or_refused(content)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


SMALL = 16 << 10


@pytest.mark.parametrize("order", [b"C", b"F"])
def test_a_shape_that_promises_more_than_has_come_is_refused_before_it_is_allocated(order):
    for shape in [*DIM2, *(pair[::-1] for pair in DIM2)]:
        content = frame(11, bytes(8) + b"u" + order + b"\x02" + struct.pack("<2Q", *shape) + bytes(64))
        refused(content)
        assert peak(content) < SMALL
    for side in HUGE:
        content = frame(5, b"uC\x01" + struct.pack("<Q", side) + bytes(64))
        refused(content)
        assert peak(content) < SMALL


def test_a_shape_whose_size_wraps_around_is_refused():
    # In 64 bits 2^32 * 2^32 * 8 is 0, and 2^61 * 8 as well.
    for shape in ((2**32, 2**32), (2**61, 8), (2**63, 2), (2**64 - 1, 2**64 - 1)):
        refused(frame(11, bytes(8) + b"uC\x02" + struct.pack("<2Q", *shape)))


@pytest.mark.parametrize("size", [*HUGE, 4097])
def test_a_length_that_promises_more_than_has_come_or_may_come_is_refused(size):
    for number, before in ((1, b""), (3, bytes(5)), (7, b""), (18, b"")):
        content = frame(number, before + struct.pack("<Q", size) + bytes(200))
        refused(content)
        assert peak(content) < SMALL


def test_keys_and_texts_are_short():
    key = struct.pack("<Q", 4096) + bytes(4096)
    assert decode(frame(1, key * 3))
    refused(frame(1, struct.pack("<Q", 4097) + bytes(4097) + key * 2))
    empty, text = struct.pack("<Q", 0), struct.pack("<Q", 1 << 16) + b"a" * (1 << 16)
    assert decode(frame(18, empty + text))
    refused(frame(18, empty + struct.pack("<Q", (1 << 16) + 1) + b"a" * ((1 << 16) + 1)))


@pytest.mark.parametrize("count", [2, 100, 2**16, 2**20, 2**20 + 1, 2**31, 2**32 - 1])
def test_a_count_that_promises_more_than_has_come_is_refused(count):
    for number, before in ((2, b""), (15, b""), (16, b""), (8, bytes(16) + U2 + U1)):
        content = frame(number, before + struct.pack("<I", count) + b"\x00")
        refused(content)
        assert peak(content) < SMALL


def test_more_items_than_any_plan_has_are_refused_even_if_they_have_come(monkeypatch):
    monkeypatch.setattr(codec, "MOST_ITEMS", 1000)
    assert len(decode(frame(2, struct.pack("<I", 1000) + bytes(29) * 1000)).offers) == 1000
    refused(frame(2, struct.pack("<I", 1001) + bytes(29) * 1001))


def test_memory_is_in_proportion_to_what_has_come():
    items = 5000
    for content in (
        frame(2, struct.pack("<I", items) + bytes(29) * items),
        frame(11, bytes(8) + b"uC\x02" + struct.pack("<2Q", 1000, 100) + bytes(800_000)),
        frame(3, bytes(5) + struct.pack("<Q", 1 << 20) + bytes(1 << 20)),
    ):
        assert decoded_or_refused(content) is not None
        assert peak(content) < 64 * len(content) + SMALL
    # The large ones cost nothing beyond their bytes: an array none, a letter one copy.
    assert peak(frame(11, bytes(8) + b"uC\x02" + struct.pack("<2Q", 1000, 100) + bytes(800_000))) < SMALL
    assert peak(frame(3, bytes(5) + struct.pack("<Q", 1 << 20) + bytes(1 << 20))) < (1 << 20) + SMALL


@pytest.mark.parametrize(
    ("number", "rest"),
    [
        (3, b"\x03" + bytes(4) + bytes(8)),  # a role that there is not
        (3, b"\xff" + bytes(4) + bytes(8)),
        (13, b"fC\x02" + bytes(16) + b"\x02" + bytes(16)),  # neither there nor not there
        (15, b"\x01\x00\x00\x00\x07"),
        (18, struct.pack("<Q", 2) + b"\xff\xfe" + bytes(8)),  # not UTF-8
        (18, struct.pack("<Q", 3) + b"\xed\xa0\x80" + bytes(8)),  # half a surrogate pair
    ],
)
def test_values_that_a_field_cannot_have_are_refused(number, rest):
    refused(frame(number, rest))


U1, U2 = b"uC\x01" + bytes(8), b"uC\x02" + bytes(16)
F1, F2 = b"fC\x01" + bytes(8), b"fC\x02" + bytes(16)
U0, F0 = b"uC\x00" + bytes(8), b"fC\x00" + bytes(8)


@pytest.mark.parametrize(
    ("number", "before", "allowed", "after"),
    [
        (5, b"", {U1}, b""),
        (7, bytes(16), {U2}, U1 + bytes(8)),
        (7, bytes(16) + U2, {U1}, bytes(8)),
        (8, bytes(16), {U2}, U1 + bytes(4)),
        (8, bytes(16) + U2, {U1}, bytes(4)),
        (11, bytes(8), {U2}, b""),
        (13, b"", {F2}, b"\x00" + bytes(16)),
        (13, F2 + b"\x01", {F1}, bytes(16)),
        (14, b"", {F2}, F2 + bytes(16)),
        (14, F2, {F2}, bytes(16)),
        (20, bytes(8), {F2}, b""),
    ],
)
def test_a_field_has_one_kind_of_number_and_its_own_dimensions(number, before, allowed, after):
    # No handler is written for a scalar where rows should be, or for floats in the ring.
    for array in (U0, U1, U2, F0, F1, F2):
        content = frame(number, before + array + after)
        if array in allowed:
            assert decode(content)
        else:
            refused(content)
