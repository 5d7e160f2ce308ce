"""Pads that hide a share and cancel in the sum (steps 4 and 6 of the protocol; section 3.2 of the paper).

Every pair i < j of users shares a stream of words per (stream, batch): user i adds it and user j subtracts it,
modulo 2^64, so that a payload alone is uniform and the sum of all k is the sum of the encodings, bit for bit.
A users-only sum carries one more pad, added by exactly one user and removed by those who know its seed; to the
CSP the sum itself is then uniform.

Law of this file: a pad is used once. Two plaintexts under one pad show their difference, so every pad is
claimed from a ``PadsOnce`` first, and a claim cannot be undone. The CSP never imports this file.
"""

import operator
from typing import NoReturn

import numpy as np

from fedsvd.errors import ConfigError, LocalProtocolError, ShapeError
from fedsvd.randomness.keystream import Each, Keystream
from fedsvd.randomness.seed import Seed
from fedsvd.secagg.batches import chunks
from fedsvd.secagg.keys import PadKeys
from fedsvd.types import Ring

_PAIR = "pair"
_USERS_ONLY = "users-only"
_SEGMENT = 1 << 20  # words of a payload that one thread pads at a time


class PadsOnce:
    """What one user has padded in one session; the same (stream, batch) is never padded again."""

    def __init__(self) -> None:
        self._claims: dict[tuple[str, str, int], object] = {}

    def claim(self, kind: str, stream: str, batch: int) -> None:
        """Spend the pad of this (kind, stream, batch), or raise ``LocalProtocolError`` if it is spent."""
        token = object()
        # One setdefault, not a test and then an insertion: two threads must not both pass.
        if self._claims.setdefault((kind, stream, batch), token) is not token:
            raise LocalProtocolError(
                f"batch {batch} of stream {stream!r} is already padded",
                "re-send the bytes that were padded, or start a new session",
            )

    def __repr__(self) -> str:
        return f"PadsOnce(spent={len(self._claims)})"

    def __reduce__(self) -> NoReturn:
        # A copy would let each half spend the same pad.
        raise TypeError("what is spent is never copied")


def pad(payload: Ring, keys: PadKeys, stream: str, batch: int, once: PadsOnce, each: Each | None = None) -> Ring:
    """``payload`` with the pads of all peers, in place: plus towards higher users, minus towards lower.

    With ``each``, segments of a contiguous payload are padded by as many threads as it brings.
    """
    batch = _checked(payload, stream, batch)
    once.claim(_PAIR, stream, batch)
    if each is not None and payload.flags.c_contiguous:
        _pad_by_segments(payload.reshape(-1), keys, stream, batch, each)
        return payload
    signed = [
        (np.add if keys.user < peer else np.subtract, _words(keys.seed(peer), _PAIR, stream, batch))
        for peer in keys.peers
    ]
    # Chunk by chunk outside, peer by peer inside: the payload passes through memory once, not k - 1 times.
    for (part,) in chunks(payload):
        for combine, words in signed:
            combine(part, words.words(part.size).reshape(part.shape), out=part)
    return payload


def _pad_by_segments(flat: Ring, keys: PadKeys, stream: str, batch: int, each: Each) -> None:
    seeds = [(peer, keys.seed(peer).derive("pad", _PAIR, stream, batch)) for peer in keys.peers]

    def segment(start: int) -> None:
        part = flat[start : start + _SEGMENT]
        signed = [(np.add if keys.user < peer else np.subtract, Keystream(seed, start)) for peer, seed in seeds]
        for combine, stream in signed:
            begin = 0
            for pads in stream.pieces(part.size):
                piece = part[begin : begin + pads.size]
                combine(piece, pads, out=piece)
                begin += pads.size

    for _ in each(segment, range(0, flat.size, _SEGMENT)):
        pass


def add_group_pad(payload: Ring, seed: Seed, stream: str, batch: int, once: PadsOnce) -> Ring:
    """``payload`` plus the users-only pad, in place; exactly one user of a sum does this, before ``pad``.

    ``seed`` is the group seed when all users may read the sum, the receiver's own when one user may.
    """
    batch = _checked(payload, stream, batch)
    once.claim(_USERS_ONLY, stream, batch)
    words = _words(seed, _USERS_ONLY, stream, batch)
    for (part,) in chunks(payload):
        np.add(part, words.words(part.size).reshape(part.shape), out=part)
    return payload


def remove_group_pad(total: Ring, seed: Seed, stream: str, batch: int) -> Ring:
    """``total`` less the users-only pad, in place: the sum of the encodings."""
    batch = _checked(total, stream, batch)
    words = _words(seed, _USERS_ONLY, stream, batch)
    for (part,) in chunks(total):
        np.subtract(part, words.words(part.size).reshape(part.shape), out=part)
    return total


def _words(seed: Seed, kind: str, stream: str, batch: int) -> Keystream:
    return Keystream(seed.derive("pad", kind, stream, batch))


def _checked(payload: Ring, stream: str, batch: int) -> int:
    """The batch as a plain integer, once payload and labels are what a pad can be put on."""
    if payload.dtype != np.uint64 or not payload.flags.writeable:
        raise ShapeError(f"a pad goes on writeable uint64 words, got {payload.dtype}", "encode first")
    number = int(operator.index(batch))
    if not stream or number < 0:
        raise ConfigError(f"a pad needs a stream's name and a batch >= 0, got {stream!r} and {number}")
    return number
