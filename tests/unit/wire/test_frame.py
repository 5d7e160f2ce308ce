"""A message comes together from its frames in any order, each said any number of times, and from nothing else."""

import hashlib
import itertools
import resource
import struct

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.wire.frames import cut, encode_frame

from fedsvd.errors import ConfigError, MalformedFrame, OtherVersion
from fedsvd.types import SessionId
from fedsvd.wire.frame import LARGEST_FRAME, OVERHEAD, Assembly, Frame, decode_frame, one_frame, session_of

SESSION = SessionId("5e" * 16)
CONTENT = np.random.default_rng(1).bytes(10_000)


def frames_of(content: bytes, frame: int = 1024, number: int = 7) -> list[Frame]:
    return list(cut(SESSION, number, [content], frame))


def header(part: int, parts: int, size: int, rest: bytes, **wrong: bytes | int) -> bytes:
    """A frame written by hand."""
    magic, version = wrong.get("magic", b"FSVF"), wrong.get("version", 3)
    head = struct.pack("<4sB16sQIIQ", magic, version, bytes(16), 0, part, parts, size)
    key, nonce = AESGCM(b"fedsvd/frame/1\x00\x00"), hashlib.sha256(head).digest()[:12]
    return head + wrong.get("checksum", key.encrypt(nonce, b"", rest)) + rest


def refused(content: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decode_frame(content)


@settings(max_examples=60)
@given(
    pieces=st.lists(st.binary(max_size=3000), max_size=5),
    frame=st.integers(1024, 2000),
    data=st.data(),
)
def test_a_message_comes_together_from_its_frames_in_any_order(pieces, frame, data):
    content = b"".join(pieces)
    frames = [decode_frame(encode_frame(one)) for one in cut(SESSION, 3, list(pieces), frame)]
    assert len(frames) == max(1, -(-len(content) // frame))
    said = data.draw(st.permutations([*frames, *data.draw(st.lists(st.sampled_from(frames), max_size=3))]))
    assembly = Assembly(said[0], 1 << 20)
    for one in said:
        assembly.add(one)
    assert assembly.complete
    assert assembly.missing == []
    assert assembly.message() == content
    assert {(one.session, one.number, one.parts, one.size) for one in frames} == {
        (SESSION, 3, len(frames), len(content))
    }


def test_parts_of_any_kind_and_without_bytes_are_joined():
    parts = [b"a", memoryview(b""), memoryview(np.arange(300.0)), b"", memoryview(bytearray(b"z" * 99))]
    content = b"".join(bytes(part) for part in parts)
    assert b"".join(bytes(frame.body) for frame in cut(SESSION, 0, parts, 1024)) == content


def test_a_message_lacks_what_has_not_come():
    frames = frames_of(CONTENT)
    assembly = Assembly(frames[4], 1 << 20)
    for frame in (frames[4], frames[1]):
        assembly.add(frame)
    assert not assembly.complete
    assert assembly.missing == [0, 2, 3, 5, 6, 7, 8, 9]


def test_a_frame_said_again_with_other_bytes_is_refused_and_changes_nothing():
    frames = frames_of(CONTENT)
    assembly = Assembly(frames[0], 1 << 20)
    assembly.add(frames[0])
    with pytest.raises(MalformedFrame):
        assembly.add(Frame(SESSION, 7, 0, 10, 10_000, bytes(1024)))
    for frame in frames:
        assembly.add(frame)
    assert assembly.message() == CONTENT


def test_frames_of_another_division_or_size_are_refused():
    frames, others = frames_of(CONTENT), frames_of(CONTENT + b"x", 1024)
    assembly = Assembly(frames[0], 1 << 20)
    for other in (others[1], frames_of(CONTENT, 2000)[1]):
        with pytest.raises(MalformedFrame):
            assembly.add(other)


def test_a_message_larger_than_may_come_is_refused_at_its_first_frame():
    first = frames_of(CONTENT)[0]
    assert Assembly(first, 10_000)
    with pytest.raises(MalformedFrame):
        Assembly(first, 9_999)
    with pytest.raises(MalformedFrame):
        Assembly(decode_frame(header(0, 2**26, 2**36, bytes(1024))), 1 << 30)


def test_frames_that_do_not_add_up_are_refused():
    # Lengths 1100 and 1200 both fit two frames that make 2100, each with a partner of its own.
    first, last = decode_frame(header(0, 2, 2100, bytes(1100))), decode_frame(header(1, 2, 2100, bytes(900)))
    assembly = Assembly(first, 1 << 20)
    assembly.add(first)
    with pytest.raises(MalformedFrame):
        assembly.add(last)
    with pytest.raises(MalformedFrame):
        assembly.message()
    longer = decode_frame(header(0, 2, 2100, bytes(1200)))
    assembly = Assembly(longer, 1 << 20)
    assembly.add(longer)
    with pytest.raises(MalformedFrame):
        assembly.add(decode_frame(header(1, 2, 2100, bytes(1000))))


@pytest.mark.parametrize(
    ("part", "parts", "size", "length"),
    [
        (0, 0, 0, 0),  # no frames at all
        (1, 1, 5, 5),
        (0, 1, 5, 4),
        (0, 1, 4, 5),
        (0, 1, 2**64 - 1, 5),
        (2, 2, 2000, 1024),
        (0, 2, 1024, 1024),  # one would do
        (0, 2, 2049, 1024),  # two would not
        (0, 2, 1500, 1000),  # tiny
        (0, 2**32 - 1, 2**32 - 1, 1),  # as many as there are bytes
        (5, 2**32 - 1, 2**32 - 1, 1),
        (0, 2**32 - 1, 2**64 - 1, 1024),
        (0, 2, 1500, 0),
        (1, 2, 1500, 0),
        (1, 2, 1500, 800),  # the last is longer than the first
        (2, 3, 5000, 601),  # the others would not be of one length
        (1, 2, 100, 1000),
        (2**32 - 1, 2**32 - 1, 2**42, 2),
    ],
)
def test_a_frame_that_fits_no_message_is_refused(part, parts, size, length):
    refused(header(part, parts, size, bytes(length)))


def test_every_frame_of_every_division_fits():
    for size, frame in itertools.product((0, 1, 1023, 1024, 1025, 2048, 2049, 5000), (1024, 1025, 2048, 4999, 5000)):
        for one in frames_of(bytes(size), frame):
            assert decode_frame(encode_frame(one)).body == one.body


def test_no_part_of_a_frame_is_a_frame_and_no_changed_body_is_its_body():
    content = encode_frame(frames_of(CONTENT)[3])
    for end in (*range(OVERHEAD + 3), *range(OVERHEAD, len(content), 97)):
        refused(content[:end])
    refused(content + b"\x00")
    for place in range(OVERHEAD, len(content), 13):
        changed = bytearray(content)
        changed[place] ^= 1
        refused(bytes(changed))


def test_a_flipped_bit_of_the_head_gives_another_frame_or_the_one_error():
    frame = frames_of(CONTENT)[3]
    content = encode_frame(frame)
    for bit in range(8 * OVERHEAD):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            other = decode_frame(bytes(changed))
        except MalformedFrame:
            continue
        except OtherVersion:
            assert bit // 8 == 4  # the byte of the version, and no other
            continue
        assert vars(other) != vars(frame)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"magic": b"FSVD"}, MalformedFrame),
        ({"magic": b"\x00" * 4}, MalformedFrame),
        ({"version": 0}, OtherVersion),
        ({"version": 2}, OtherVersion),
        ({"checksum": bytes(16)}, MalformedFrame),
    ],
)
def test_another_magic_version_or_checksum_is_refused(wrong, error):
    assert decode_frame(header(0, 1, 5, b"hello")).body == b"hello"
    with pytest.raises(error):
        decode_frame(header(0, 1, 5, b"hello", **wrong))


def test_a_frame_has_at_most_two_mebibytes():
    most = LARGEST_FRAME - OVERHEAD
    (largest,) = cut(SESSION, 0, [bytes(most)], most)
    assert len(encode_frame(largest)) == LARGEST_FRAME == 2 << 20
    assert decode_frame(encode_frame(largest)).size == most
    refused(header(0, 1, most + 1, bytes(most + 1)))


@pytest.mark.parametrize("frame", [-1, 0, 1, 1023, LARGEST_FRAME - OVERHEAD + 1, 1 << 30])
def test_frames_of_another_length_are_not_made(frame):
    with pytest.raises(ConfigError):
        frames_of(CONTENT, frame)


def test_what_a_header_promises_is_not_allocated():
    frame = decode_frame(header(0, 2**22, 2**32, bytes(1024)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assembly = Assembly(frame, 1 << 36)
    assembly.add(frame)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB
    assert not assembly.complete


def test_any_frame_can_be_made_alone_and_there_are_no_more():
    for part, frame in enumerate(frames_of(CONTENT)):
        assert vars(one_frame(SESSION, 7, [CONTENT[:3000], CONTENT[3000:]], part, 1024)) == vars(frame)
    with pytest.raises(MalformedFrame):
        one_frame(SESSION, 7, [CONTENT], 10, 1024)


def test_a_frame_says_whose_it_is_or_nothing():
    content = encode_frame(frames_of(CONTENT)[0])
    assert session_of(content) == SESSION
    for other in (b"", content[:20], b"FSVD" + content[4:]):
        with pytest.raises(MalformedFrame):
            session_of(other)
    with pytest.raises(OtherVersion):
        session_of(content[:4] + b"\x02" + content[5:])


def test_a_frame_shows_no_bytes():
    frame = Frame(SESSION, 1, 0, 1, 6, b"canary")
    assert repr(frame) == "Frame(number=1, part=1/1, 6 bytes)"
