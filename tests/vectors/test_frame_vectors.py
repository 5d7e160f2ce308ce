"""Known answers for messages and frames on the wire, checked by a second implementation.

The second implementation is below: it writes bytes with ``struct`` from a plain description, reads the format from its
specification (``wire/codec.py``, ``wire/frame.py``, first paragraphs) and shares no code with the product.
``frames.json`` was written by it (run this file to write it anew). If a test here fails, peers of the
same version no longer understand us: that is another version of the format.
"""

import hashlib
import json
import struct
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from tests.unit.wire.frames import cut, encode_frame

from fedsvd.protocol import messages
from fedsvd.protocol.parties import ALL, TA, Party, Role
from fedsvd.types import Digest, SessionId
from fedsvd.wire.codec import decode, encode
from fedsvd.wire.frame import decode_frame

VECTORS = Path(__file__).with_name("frames.json")
PLAN = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
SESSION = "f0e1d2c3b4a5968778695a4b3c2d1e0f"

# A description: the type's number, then its fields, each (kind, value); numbers that must be exact are text.
DESCRIPTIONS = {
    "Finished": [17, ("blob", "1d" * 32)],
    "Countersigned": [21, ("blob", "c5" * 64)],
    "Countersigned by a CSP without a key": [21, ("blob", "")],
    "RowsAgree": [6],
    "KeyOffer": [1, ("blob", "00ff" * 16), ("blob", ""), ("blob", "ab" * 64)],
    "KeyBook": [2, ("many", [[("party", [2, 1]), ("blob", "01"), ("blob", ""), ("blob", "02")]])],
    "Relay": [3, ("party", [2, 7]), ("blob", "c0ffee")],
    "Relay to all": [3, ("party", [2, 0]), ("blob", "beef")],
    "Relayed": [4, ("party", [0, 0]), ("blob", "")],
    "Gathered": [26, ("many", [[("party", [2, 1]), ("blob", "c0")], [("party", [2, 2]), ("blob", "")]])],
    "RowIds": [5, ("array", ["u", "C", [4], ["0", "1", "2", "18446744073709551615"]])],
    "SumShare": [
        7,
        ("text", "norm"),
        ("whole", 0),
        ("array", ["u", "C", [1, 2], ["9223372036854775808", "7"]]),
        ("array", ["u", "C", [3], ["1", "2", "18446744073709551615"]]),
        ("blob", "da" * 32),
    ],
    "SumShare without a commitment": [
        7,
        ("text", "null space"),
        ("whole", 12),
        ("array", ["u", "F", [2, 2], ["1", "3", "2", "4"]]),
        ("array", ["u", "C", [3], ["0", "0", "0"]]),
        ("blob", ""),
    ],
    "SumReply": [
        8,
        ("text", "norm"),
        ("whole", 0),
        ("array", ["u", "C", [1, 2], ["5", "6"]]),
        ("array", ["u", "C", [3], ["7", "8", "9"]]),
        ("many", [[("blob", "da" * 32)], [("blob", "db" * 32)]]),
    ],
    "SumReply after the first": [
        8,
        ("text", "gram"),
        ("whole", 3),
        ("array", ["u", "C", [1, 2], ["5", "6"]]),
        ("array", ["u", "C", [3], ["7", "8", "9"]]),
        ("many", []),
    ],
    "Ready": [9],
    "BatchRequest": [10, ("whole", 3)],
    "PaddedBatch": [11, ("whole", 3), ("array", ["u", "F", [2, 3], ["1", "4", "2", "5", "3", "6"]])],
    "Factors": [
        13,
        ("array", ["f", "C", [2, 2], ["0x1p+0", "0x0p+0", "0x0p+0", "-0x1p+0"]]),
        ("there", ("array", ["f", "C", [2], ["0x1.921fb54442d18p+1", "0x1p-1074"]])),
        ("real", "0x1p-53"),
        ("real", "inf"),
    ],
    "Factors without a spectrum": [
        13,
        ("array", ["f", "C", [1, 2], ["0x1.8p+0", "-0x0.0p+0"]]),
        ("missing", None),
        ("real", "0x0p+0"),
        ("real", "0x0p+0"),
    ],
    "Solution": [
        14,
        ("array", ["f", "C", [1, 1], ["0x1p+1023"]]),
        ("array", ["f", "C", [3, 0], []]),
        ("whole", 1),
        ("real", "0x0p+0"),
    ],
    "RowsRequest": [19, ("whole", 2)],
    "FactorRows": [20, ("whole", 2), ("array", ["f", "C", [1, 2], ["0x1p+0", "-0x1p-1"]])],
    "Challenge": [22, ("whole", 1), ("array", ["u", "F", [2, 2], ["1", "3", "2", "18446744073709551615"]])],
    "Product": [23, ("array", ["f", "C", [2], ["0x1.921fb54442d18p+1", "-0x1p-1074"]])],
    "IdHashes": [24, ("whole", 2), ("array", ["u", "C", [1, 2], ["18446744073709551615", "3"]])],
    "CommonRows": [25, ("whole", 0), ("array", ["u", "C", [3], ["4", "0", "18446744073709551615"]])],
    "Aborted": [18, ("text", "FSVD-413"), ("text", "Schlüssel")],
}


def write_field(kind: str, value: object) -> bytes:
    """One field, from its description."""
    if kind == "blob":
        return struct.pack("<Q", len(bytes.fromhex(value))) + bytes.fromhex(value)
    if kind == "text":
        return struct.pack("<Q", len(value.encode("utf-8"))) + value.encode("utf-8")
    if kind == "party":
        return struct.pack("<BI", *value)
    if kind == "whole":
        return struct.pack("<q", value)
    if kind == "real":
        return struct.pack("<d", float.fromhex(value))
    if kind == "missing":
        return b"\x00"
    if kind == "there":
        return b"\x01" + write_field(*value)
    if kind == "many":
        return struct.pack("<I", len(value)) + b"".join(write_field(*field) for item in value for field in item)
    code, order, shape, numbers = value
    head = code.encode() + order.encode() + struct.pack(f"<B{len(shape)}Q", len(shape), *shape)
    one = (
        (lambda text: struct.pack("<Q", int(text))) if code == "u" else (lambda t: struct.pack("<d", float.fromhex(t)))
    )
    return head + b"".join(map(one, numbers))


def write_message(description: list) -> bytes:
    number, *fields = description
    head = b"FSVD" + struct.pack("<BB", 3, number) + bytes.fromhex(PLAN)
    return head + b"".join(write_field(*field) for field in fields)


def write_frames(number: int, content: bytes, length: int) -> list[bytes]:
    parts = [content[start : start + length] for start in range(0, len(content), length)]
    heads = [
        b"FSVF" + struct.pack("<B16sQIIQ", 3, bytes.fromhex(SESSION), number, part, len(parts), len(content))
        for part in range(len(parts))
    ]
    return [head + checksum(head, rest) + rest for head, rest in zip(heads, parts, strict=True)]


def checksum(head: bytes, rest: bytes) -> bytes:
    """GMAC from its definition (NIST SP 800-38D): GHASH of the body, under the block of the nonce."""
    key = Cipher(AES(b"fedsvd/frame/1\x00\x00"), ECB()).encryptor()
    h = int.from_bytes(key.update(bytes(16)), "big")
    first = key.update(hashlib.sha256(head).digest()[:12] + b"\x00\x00\x00\x01")
    tag = 0
    for block in (
        *(rest[i : i + 16].ljust(16, b"\x00") for i in range(0, len(rest), 16)),
        struct.pack(">QQ", 8 * len(rest), 0),
    ):
        tag = times(tag ^ int.from_bytes(block, "big"), h)
    return (tag ^ int.from_bytes(first, "big")).to_bytes(16, "big")


def times(x: int, y: int) -> int:
    """The product in GCM's field of 2^128 elements; the first bit is the highest."""
    product = 0
    for bit in range(127, -1, -1):
        if x >> bit & 1:
            product ^= y
        y = y >> 1 ^ (0xE1 << 120 if y & 1 else 0)
    return product


def vectors() -> dict[str, object]:
    messages = {name: write_message(description).hex() for name, description in DESCRIPTIONS.items()}
    long = write_message([3, ("party", [0, 0]), ("blob", bytes(range(256)).hex() * 6)])
    framed = {
        "of one": [frame.hex() for frame in write_frames(0, write_message(DESCRIPTIONS["RowsAgree"]), 1024)],
        "of two": [frame.hex() for frame in write_frames(2**40, long, 1024)],
    }
    return {"plan": PLAN, "session": SESSION, "messages": messages, "frames": framed}


def real(*shape_and_values):
    shape, *values = shape_and_values
    return np.array(values, np.float64).reshape(shape)


def words(shape, *values):
    return np.array(values, np.uint64).reshape(shape)


# The same, as the product says it.
MESSAGES = {
    "Finished": messages.Finished(Digest(PLAN), b"\x1d" * 32),
    "Countersigned": messages.Countersigned(Digest(PLAN), b"\xc5" * 64),
    "Countersigned by a CSP without a key": messages.Countersigned(Digest(PLAN)),
    "RowsAgree": messages.RowsAgree(Digest(PLAN)),
    "KeyOffer": messages.KeyOffer(Digest(PLAN), b"\x00\xff" * 16, b"", b"\xab" * 64),
    "KeyBook": messages.KeyBook(Digest(PLAN), ((Party(Role.USER, 1), b"\x01", b"", b"\x02"),)),
    "Relay": messages.Relay(Digest(PLAN), Party(Role.USER, 7), b"\xc0\xff\xee"),
    "Relay to all": messages.Relay(Digest(PLAN), ALL, b"\xbe\xef"),
    "Relayed": messages.Relayed(Digest(PLAN), TA, b""),
    "Gathered": messages.Gathered(Digest(PLAN), ((Party(Role.USER, 1), b"\xc0"), (Party(Role.USER, 2), b""))),
    "RowIds": messages.RowIds(Digest(PLAN), words(4, 0, 1, 2, 2**64 - 1)),
    "SumShare": messages.SumShare(
        Digest(PLAN), "norm", 0, words((1, 2), 2**63, 7), words(3, 1, 2, 2**64 - 1), b"\xda" * 32
    ),
    "SumShare without a commitment": messages.SumShare(
        Digest(PLAN), "null space", 12, np.asfortranarray(words((2, 2), 1, 2, 3, 4)), words(3, 0, 0, 0)
    ),
    "SumReply": messages.SumReply(
        Digest(PLAN), "norm", 0, words((1, 2), 5, 6), words(3, 7, 8, 9), (b"\xda" * 32, b"\xdb" * 32)
    ),
    "SumReply after the first": messages.SumReply(Digest(PLAN), "gram", 3, words((1, 2), 5, 6), words(3, 7, 8, 9)),
    "Ready": messages.Ready(Digest(PLAN)),
    "BatchRequest": messages.BatchRequest(Digest(PLAN), 3),
    "PaddedBatch": messages.PaddedBatch(Digest(PLAN), 3, np.asfortranarray(words((2, 3), 1, 2, 3, 4, 5, 6))),
    "Factors": messages.Factors(
        Digest(PLAN), real((2, 2), 1, 0, 0, -1), real(2, np.pi, 5e-324), 2.0**-53, float("inf")
    ),
    "Factors without a spectrum": messages.Factors(Digest(PLAN), real((1, 2), 1.5, -0.0), None, 0.0, 0.0),
    "Solution": messages.Solution(Digest(PLAN), real((1, 1), 2.0**1023), np.zeros((3, 0)), 1, 0.0),
    "RowsRequest": messages.RowsRequest(Digest(PLAN), 2),
    "FactorRows": messages.FactorRows(Digest(PLAN), 2, real((1, 2), 1, -0.5)),
    "Challenge": messages.Challenge(Digest(PLAN), 1, np.asfortranarray(words((2, 2), 1, 2, 3, 2**64 - 1))),
    "Product": messages.Product(Digest(PLAN), real(2, np.pi, -5e-324)),
    "IdHashes": messages.IdHashes(Digest(PLAN), 2, words((1, 2), 2**64 - 1, 3)),
    "CommonRows": messages.CommonRows(Digest(PLAN), 0, words(3, 4, 0, 2**64 - 1)),
    "Aborted": messages.Aborted(Digest(PLAN), "FSVD-413", "Schlüssel"),
}
PINNED = json.loads(VECTORS.read_text()) if VECTORS.exists() else {"messages": {}, "frames": {}}


def alike(left, right):
    if isinstance(left, np.ndarray):
        return isinstance(right, np.ndarray) and (left.shape, left.dtype, left.tobytes()) == (
            right.shape,
            right.dtype,
            right.tobytes(),
        )
    if isinstance(left, tuple):
        return isinstance(right, tuple) and len(left) == len(right) and all(map(alike, left, right))
    return left == right


def test_the_pinned_vectors_are_those_of_the_second_implementation():
    assert vectors() == PINNED
    assert set(PINNED["messages"]) == set(MESSAGES)


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_is_written_as_it_is_pinned(name):
    assert b"".join(encode(MESSAGES[name])).hex() == PINNED["messages"][name]


@pytest.mark.parametrize("name", MESSAGES)
def test_the_pinned_bytes_are_read_as_the_message(name):
    message = decode(bytes.fromhex(PINNED["messages"][name]))
    assert type(message) is type(MESSAGES[name])
    assert alike(tuple(vars(message).values()), tuple(vars(MESSAGES[name]).values()))


def test_frames_are_cut_as_they_are_pinned():
    (one,) = PINNED["frames"]["of one"]
    agreed = list(cut(SessionId(SESSION), 0, encode(MESSAGES["RowsAgree"]), 1024))
    assert [encode_frame(frame).hex() for frame in agreed] == [one]
    relay = messages.Relay(Digest(PLAN), Party(Role.TA), bytes(range(256)) * 6)
    frames = list(cut(SessionId(SESSION), 2**40, encode(relay), 1024))
    assert [encode_frame(frame).hex() for frame in frames] == PINNED["frames"]["of two"]


def test_the_pinned_frames_are_read_as_their_parts():
    first, last = (decode_frame(bytes.fromhex(text)) for text in PINNED["frames"]["of two"])
    assert (first.session, first.number, first.part, first.parts) == (SESSION, 2**40, 0, 2)
    assert (last.part, last.size) == (1, len(first.body) + len(last.body))
    relay = decode(bytes(first.body) + bytes(last.body))
    assert relay.sealed == bytes(range(256)) * 6


if __name__ == "__main__":
    VECTORS.write_text(json.dumps(vectors(), indent=1) + "\n")
