"""A hundred thousand damaged inputs: each is a message or the one error, soon, and in little memory.

Damage is done to real messages, so that most of it reaches deep into the reading: bits, bytes, lengths, cuts, joints of
two messages, and numbers that programs stumble over. "Soon" is not measured in seconds, which a busy machine would
stretch, but counted: a reader is asked for bytes at most a few times for each byte that came.
"""

import random
import struct
import tracemalloc
from collections import Counter

import pytest
from tests.unit.wire.frames import cut, encode_frame
from tests.unit.wire.said import EXAMPLES, body

from fedsvd.errors import MalformedFrame, OtherVersion
from fedsvd.protocol.messages import Message
from fedsvd.protocol.plan import PROTOCOL
from fedsvd.types import SessionId
from fedsvd.wire import codec
from fedsvd.wire.frame import Assembly, Frame, decode_frame
from fedsvd.wire.reader import Reader

INPUTS = 100_000
LIMIT = 64 << 10  # beyond 64 times what came
EDGES = [0, 1, 2, 255, 256, 4096, 2**16, 2**20, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**61, 2**63 - 1, 2**63, 2**64 - 1]
MESSAGES = [body(message) for message in EXAMPLES]
FRAMES = [
    encode_frame(frame)
    for number, content in enumerate([*MESSAGES, bytes(3000)])
    for frame in cut(SessionId("5e" * 16), number, [content], 1024)
]


class Counting(Reader):
    """A reader that counts how often it is asked."""

    asked = 0

    def take(self, count: int) -> memoryview:
        Counting.asked += 1
        return super().take(count)


def damaged(rng: random.Random, corpus: list[bytes]) -> bytes:
    """A real one after one to four accidents."""
    content = bytearray(rng.choice(corpus))
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(content) + 1)
        kind = rng.randrange(8)
        if kind == 0 and place < len(content):
            content[place] ^= 1 << rng.randrange(8)
        elif kind == 1 and place < len(content):
            content[place] = rng.randrange(256)
        elif kind == 2:
            del content[place:]
        elif kind == 3:
            del content[place : place + rng.randint(1, 16)]
        elif kind == 4:
            content[place:place] = rng.randbytes(rng.randint(1, 16))
        elif kind == 5:
            content[place : place + 8] = struct.pack("<Q", rng.choice(EDGES))
        elif kind == 6:
            content[place : place + 4] = struct.pack("<I", rng.choice(EDGES) & 0xFFFFFFFF)
        else:
            content[place:] = rng.choice(corpus)[place:]
    return bytes(content)


def survive(read, rng, corpus, inputs):
    """How many inputs were read and how many refused; nothing else happened, and nothing grew."""
    outcomes, worst = Counter(), 0
    tracemalloc.start()
    try:
        for _ in range(inputs):
            content = damaged(rng, corpus)
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            try:
                found = read(content)
            except MalformedFrame:
                found = None
            except OtherVersion:
                assert content[4] != PROTOCOL  # the one other error, of the one byte that says the version
                found = None
            worst = max(worst, tracemalloc.get_traced_memory()[1] - before - 64 * len(content))
            outcomes[type(found)] += 1
    finally:
        tracemalloc.stop()
    assert worst < LIMIT
    assert outcomes.total() == inputs
    return outcomes


def read_message(content: bytes) -> Message:
    Counting.asked = 0
    try:
        return codec.decode(content)
    finally:
        assert Counting.asked <= 2 * len(content) + 8


def read_frame(content: bytes) -> Frame:
    frame = decode_frame(content)
    Assembly(frame, 1 << 20).add(frame)
    return frame


@pytest.mark.parametrize("inputs", [3_000, pytest.param(INPUTS, marks=pytest.mark.slow)])
def test_a_damaged_message_is_a_message_or_the_one_error(inputs, monkeypatch):
    monkeypatch.setattr(codec, "Reader", Counting)
    outcomes = survive(read_message, random.Random(inputs), MESSAGES, inputs)
    assert all(kind is type(None) or issubclass(kind, Message) for kind in outcomes)
    # The damage is neither too rough nor too gentle to find anything.
    assert 0.05 * inputs < inputs - outcomes[type(None)] < 0.95 * inputs
    assert len(outcomes) > 15


@pytest.mark.parametrize("inputs", [1_000, pytest.param(INPUTS, marks=pytest.mark.slow)])
def test_a_damaged_frame_is_a_frame_or_the_one_error(inputs):
    outcomes = survive(read_frame, random.Random(inputs), FRAMES, inputs)
    assert set(outcomes) == {Frame, type(None)}
