"""Messages as bytes and back; never pickle (ADR 0009).

    magic "FSVD" | version u8 | type u8 | plan digest 32 bytes | fields in order

A field's type follows from the message's type, so the bytes carry values only: fixed-width integers and floats,
length-prefixed text and bytes, arrays with a header (``reader.py``), counted tuples, and a presence byte where a value
may be missing. Types that a role says only to itself have no number and cannot be sent.
"""

import struct
from collections.abc import Callable, Iterable
from typing import Any

from fedsvd.errors import FedSVDError, LocalProtocolError
from fedsvd.protocol import messages
from fedsvd.protocol.messages import Message
from fedsvd.protocol.parties import Party, Role
from fedsvd.protocol.plan import PROTOCOL
from fedsvd.types import Digest
from fedsvd.wire.reader import Reader, decode_array, encode_array, malformed
from fedsvd.wire.version import expect_byte

_MAGIC = b"FSVD"
_HEAD = struct.Struct("<4sBB32s")
MOST_ITEMS = 1 << 24  # blocks of a mask: 50 million columns in blocks of ten are 5 million
_MOST_TEXT = 1 << 16

Parts = list[bytes | memoryview]
Write = Callable[[Any], Parts]
Read = Callable[[Reader], Any]
Field = tuple[Write, Read]


def _number(form: str, kind: type) -> Field:
    packed = struct.Struct(form)

    def read(reader: Reader) -> Any:
        return kind(packed.unpack(reader.take(packed.size))[0])

    return (lambda value: [packed.pack(value)]), read


def _blob(most: int) -> Field:
    def read(reader: Reader) -> bytes:
        (size,) = struct.unpack("<Q", reader.take(8))
        if size > most:
            raise malformed()
        return bytes(reader.take(size))

    return (lambda value: [struct.pack("<Q", len(value)), value]), read


def _text() -> Field:
    write, read = _blob(_MOST_TEXT)
    return (lambda value: write(value.encode())), (lambda reader: read(reader).decode())


def _party() -> Field:
    roles = tuple(Role)

    def read(reader: Reader) -> Party:
        role, index = struct.unpack("<BI", reader.take(5))
        if role >= len(roles):
            raise malformed()
        return Party(roles[role], index)

    return (lambda party: [struct.pack("<BI", roles.index(party.role), party.index)]), read


def _array(kind: str, *dimensions: int) -> Field:
    def read(reader: Reader) -> Any:
        array = decode_array(reader)
        # The header could say otherwise, and no handler is written for numbers of another kind or shape.
        if array.dtype.kind != kind or array.ndim not in dimensions:
            raise malformed()
        return array

    return encode_array, read


def _optional(inner: Field) -> Field:
    write, read = inner

    def maybe(reader: Reader) -> Any:
        flag = bytes(reader.take(1))
        if flag not in (b"\x00", b"\x01"):
            raise malformed()
        return read(reader) if flag == b"\x01" else None

    return (lambda value: [b"\x00"] if value is None else [b"\x01", *write(value)]), maybe


def _record(*inner: Field) -> Field:
    def write(values: Any) -> Parts:
        return [part for (put, _), value in zip(inner, values, strict=True) for part in put(value)]

    return write, (lambda reader: tuple(read(reader) for _, read in inner))


def _many(inner: Field) -> Field:
    write, read = inner

    def counted(reader: Reader) -> tuple[Any, ...]:
        (count,) = struct.unpack("<I", reader.take(4))
        # Every item takes at least a byte, so a count beyond what is left is a lie.
        if count > min(MOST_ITEMS, reader.left):
            raise malformed()
        return tuple(read(reader) for _ in range(count))

    def put(values: Any) -> Parts:
        return [struct.pack("<I", len(values)), *(part for value in values for part in write(value))]

    return put, counted


_INT, _FLOAT, _TEXT, _PARTY = _number("<q", int), _number("<d", float), _text(), _party()
_KEY, _SEALED = _blob(4096), _blob(1 << 40)
_VECTOR, _MATRIX = _array("f", 1), _array("f", 2)
_HASHES, _TAG, _PADDED = _array("u", 1), _array("u", 1), _array("u", 2)

_FIELDS: dict[type[Message], tuple[int, tuple[Field, ...]]] = {
    messages.KeyOffer: (1, (_KEY, _KEY, _KEY)),
    messages.KeyBook: (2, (_many(_record(_PARTY, _KEY, _KEY, _KEY)),)),
    messages.Relay: (3, (_PARTY, _SEALED)),
    messages.Relayed: (4, (_PARTY, _SEALED)),
    messages.RowIds: (5, (_HASHES,)),
    messages.RowsAgree: (6, ()),
    messages.SumShare: (7, (_TEXT, _INT, _PADDED, _TAG, _KEY)),
    messages.SumReply: (8, (_TEXT, _INT, _PADDED, _TAG, _many(_KEY))),
    messages.Ready: (9, ()),
    messages.BatchRequest: (10, (_INT,)),
    messages.PaddedBatch: (11, (_INT, _PADDED)),
    messages.Factors: (13, (_MATRIX, _optional(_VECTOR), _FLOAT, _FLOAT)),
    # 15 and 16 were equation 6's, in 0.2.0.
    messages.Solution: (14, (_MATRIX, _MATRIX, _INT, _FLOAT)),
    messages.Finished: (17, (_KEY,)),
    messages.Aborted: (18, (_TEXT, _TEXT)),
    messages.RowsRequest: (19, (_INT,)),
    messages.FactorRows: (20, (_INT, _MATRIX)),
    messages.Countersigned: (21, (_KEY,)),
    messages.Challenge: (22, (_INT, _PADDED)),
    messages.Product: (23, (_VECTOR,)),
    messages.IdHashes: (24, (_INT, _PADDED)),
    messages.CommonRows: (25, (_INT, _TAG)),
    messages.Gathered: (26, (_many(_record(_PARTY, _KEY)),)),
}
_TYPES = {number: kind for kind, (number, _) in _FIELDS.items()}


def encode(message: Message) -> Parts:
    """The message as a list of byte strings, to be sent one after the other; arrays are not copied."""
    if type(message) not in _FIELDS:
        raise LocalProtocolError(f"{type(message).__name__} is not sent between parties")
    number, fields = _FIELDS[type(message)]
    parts: Parts = [_HEAD.pack(_MAGIC, PROTOCOL, number, bytes.fromhex(message.plan))]
    for (write, _), value in zip(fields, _values(message), strict=True):
        parts += write(value)
    return parts


def decode(body: bytes | memoryview) -> Message:
    """The message these bytes are, or ``MalformedFrame``."""
    try:
        reader = Reader(body)
        magic, version, number, digest = _HEAD.unpack(reader.take(_HEAD.size))
        if magic != _MAGIC:
            raise malformed()
        expect_byte(version)
        if number not in _TYPES:
            raise malformed()
        kind = _TYPES[number]
        values = [read(reader) for _, read in _FIELDS[kind][1]]
        reader.end()
        return kind(Digest(digest.hex()), *values)
    except FedSVDError:
        raise
    except (ValueError, TypeError, OverflowError, struct.error, MemoryError):
        raise malformed() from None


def _values(message: Message) -> Iterable[Any]:
    return (value for name, value in vars(message).items() if name != "plan")
