"""Pads that hide a share and cancel in the sum (steps 3 and 5 of the specification; section 3.2 of the paper).

Every pair i < j of neighbours (``neighbours.py``; up to 17 users all are) shares a stream of words per (stream, batch):
user i adds it and user j subtracts it, modulo 2^64, so that a payload alone is uniform and the sum of all k is the sum
of the encodings, bit for bit.
A users-only sum carries one more pad, added by exactly one user and removed by those who know its seed; to the
CSP the sum itself is then uniform. With ``halves = 2`` the payload holds words of Z_2^128, shape (n, 2), and a pad is
two uint64 a word, added with the carry between them. Tags have pads of their own, three uint64 each.

Uploads and long sums have a key for each batch. A sum of at most ``SHORT`` words has one short stream a pair, all of
them under one key (ADR 0200): words for its payload, and three more for its tag. They differ in the block they start
from, 12 bytes of SHA-256 of their labels.

Law of this file: a pad is used once. Two plaintexts under one pad show their difference, so every pad is
claimed from a ``PadsOnce`` first, and a claim cannot be undone; nor is a start claimed twice, whatever its labels. The
CSP never imports this file.
"""

import hashlib
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from fedsvd.errors import ConfigError, LocalProtocolError, ShapeError
from fedsvd.kernels.words import add, subtract
from fedsvd.randomness.keystream import START, Each, Keystream, ShortStreams, fill_words
from fedsvd.randomness.seed import Seed, path
from fedsvd.secagg.batches import chunks
from fedsvd.secagg.keys import PadKeys
from fedsvd.secagg.sums import TAG_WORDS, tag_value, tag_words
from fedsvd.secagg.words128 import add_into, combine_rows, subtract_into
from fedsvd.types import Ring

_PAIR = "pair"
_USERS_ONLY = "users-only"
_TAG = " tag"  # of a pair, or users-only: the pads of a tag are another stream than the payload's
_SEGMENT, _LEAST_SEGMENT = 1 << 20, 1 << 15  # words of a payload that one thread pads at a time, at most and at least
SHORT = 1 << 12
"""Words of a sum that has one stream a pair for its payload and its tag."""
_TOGETHER = 1 << 12  # words of a payload that the pads of all peers are put on at once: these stay in a cache
_SEGMENTS = 32  # of a payload, where that makes no shorter ones: two for each of sixteen threads
_WORTH_THREADS = 1 << 18  # words of a sum; waking threads for fewer takes longer than they save


class DrawnHere:
    """Keys of tags of the sum in hand, which all users have: drawn by the first user of this process that needs them.

    Between institutions each user draws by itself.
    """

    def __init__(self) -> None:
        self._last: tuple[tuple[bytes, bytes, int], Ring] | None = None

    def __repr__(self) -> str:
        return "DrawnHere(<redacted>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("keys of tags are never copied")

    def keys(self, seed: Seed, labels: bytes, count: int, each: Each | None = None) -> Ring:
        """The first words along these labels. Not to be changed."""
        key = seed.reveal(), labels, count
        if self._last is None or self._last[0] != key:
            self._last = key, _keys(seed.along(labels), count, each)
        return self._last[1]


class PadsOnce:
    """What one user has padded in one session; the same (stream, batch) is never padded again."""

    def __init__(self, here: DrawnHere | None = None) -> None:
        self._claims: dict[tuple[str, str, int], object] = {}
        self._starts: dict[bytes, object] = {}
        self._here = here

    def keys(self, seed: Seed, labels: bytes, count: int, each: Each | None = None) -> Ring:
        """The first words along these labels, which all users of a sum have."""
        if self._here is None:
            return _keys(seed.along(labels), count, each)
        return self._here.keys(seed, labels, count, each)

    def claim(self, kind: str, stream: str, batch: int) -> None:
        """Spend the pad of this (kind, stream, batch), or raise ``LocalProtocolError`` if it is spent."""
        self._spend(self._claims, (kind, stream, batch), stream, batch)

    def start(self, stream: str, batch: int) -> bytes:
        """Where the short streams of this batch start, which is thereby spent."""
        self.claim(_PAIR, stream, batch)
        start = hashlib.sha256(path("pad", _PAIR, stream, batch)).digest()[:START]
        # Of labels that were sought for it two may have the same 12 bytes: the second ends the session.
        self._spend(self._starts, start, stream, batch)
        return start

    @staticmethod
    def _spend(spent: dict[Any, object], what: object, stream: str, batch: int) -> None:
        token = object()
        # One setdefault, not a test and then an insertion: two threads must not both pass.
        if spent.setdefault(what, token) is not token:
            raise LocalProtocolError(
                f"batch {batch} of stream {stream!r} is already padded",
                "re-send the bytes that were padded, or start a new session",
            )

    def __repr__(self) -> str:
        return f"PadsOnce(spent={len(self._claims)})"

    def __reduce__(self) -> NoReturn:
        # A copy would let each half spend the same pad.
        raise TypeError("what is spent is never copied")


def _keys(seed: Seed, count: int, each: Each | None) -> Ring:
    if each is None or count <= _LEAST_SEGMENT:
        return Keystream(seed).words(count)
    keys = np.empty(count, np.uint64)
    fill_words(seed, keys, each, segment=segment_of(count))
    return keys


def pad(
    payload: Ring, keys: PadKeys, stream: str, batch: int, once: PadsOnce, each: Each | None = None, *, halves: int = 1
) -> Ring:
    """``payload`` with the pads of all peers, in place: plus towards higher users, minus towards lower.

    With ``each``, segments of a contiguous payload are padded by as many threads as it brings.
    """
    batch = _checked(payload, stream, batch, halves)
    if halves & (halves - 1):
        # Words of five halves, of shared sums: no segment of a power of two ends between two of them.
        once.claim(_PAIR, stream, batch)
        for peer in keys.peers:
            pads_of_peer = _words(keys.seed(peer), _PAIR, stream, batch).words(payload.size)
            _combine(payload, pads_of_peer.reshape(payload.shape), keys.user < peer, halves)
        return payload
    if each is not None and payload.flags.c_contiguous:
        claimed(keys, stream, batch, once, halves=halves).onto_all(payload, each)
        return payload
    once.claim(_PAIR, stream, batch)
    peers = sorted(keys.peers, key=lambda peer: peer < keys.user)  # those that are added come first
    streams, plus = [_words(keys.seed(peer), _PAIR, stream, batch) for peer in peers], _higher(keys)
    # Chunk by chunk outside, all peers inside: the payload passes through memory once, not k - 1 times.
    rows = np.empty((len(peers), min(_TOGETHER, payload.size) + 2), np.uint64)  # a stream needs one more cipher block
    lines = [row.view(np.uint8).data for row in rows]
    for (part,) in chunks(payload, most=_TOGETHER):
        for words, line in zip(streams, lines, strict=True):
            words.bytes_into(part.size, line)
        _add_rows(part, rows[:, : part.size], plus, halves)
    return payload


def pad_sum(
    payload: Ring, tag: Ring, bits: int, keys: PadKeys, stream: str, batch: int, once: PadsOnce, halves: int = 1
) -> Ring:
    """``payload``, of at most ``SHORT`` words, with the pads of all peers, in place; and its tag with them, as new.

    The tag counts modulo 2^bits below and modulo 2^(192 - bits) above: no carry of it may show in what lies above it.
    """
    batch = _checked(payload, stream, batch, halves)
    if payload.size > SHORT or bits % 64:
        raise ShapeError(
            f"{payload.size} words, a tag of {bits} bits; a short sum has at most {SHORT}, and whole words"
        )
    start, size, (streams, plus) = once.start(stream, batch), payload.size, keys.streams()
    rows = ShortStreams.rows(streams, start, size + TAG_WORDS)
    _add_rows(payload, rows[:, :size], plus, halves)
    padded, below = tag.copy(), bits // 64
    combine_rows(padded[None, :below], rows[:, size : size + below], plus)
    if below < TAG_WORDS:
        combine_rows(padded[None, below:], rows[:, size + below :], plus)
    return padded


def claimed(keys: PadKeys, stream: str, batch: int, once: PadsOnce, *, halves: int = 1) -> "Pads":
    """The pads of all peers for one batch, which are thereby spent: to be put on while its words are made."""
    once.claim(_PAIR, stream, batch)
    seeds = [(keys.user < peer, keys.seed(peer).derive("pad", _PAIR, stream, batch)) for peer in keys.peers]
    return Pads(tuple(seeds), halves)


@dataclass(frozen=True, repr=False)
class Pads:
    """One user's pads of one batch; each of its words is to get them once."""

    seeds: tuple[tuple[bool, Seed], ...]  # whether they are added, and what they follow from
    halves: int = 1

    def __repr__(self) -> str:
        return f"Pads(peers={len(self.seeds)})"

    def onto_all(self, payload: Ring, each: Each | None) -> None:
        """All words of the batch with their pads, in place, segments by as many threads as there are."""
        flat = payload.reshape(-1)
        step = segment_of(flat.size)
        for _ in (each or map)(lambda start: self.onto(flat[start : start + step], start), range(0, flat.size, step)):
            pass

    def onto(self, part: Ring, start: int) -> None:
        """The words of the batch from number ``start`` on, contiguous, with their pads, in place."""
        for plus, seed in self.seeds:
            begin = 0
            for pads in Keystream(seed, start).pieces(part.size):
                _combine(part[begin : begin + pads.size], pads, plus, self.halves)
                begin += pads.size


def add_group_pad(
    payload: Ring, seed: Seed, stream: str, batch: int, once: PadsOnce, each: Each | None = None, *, halves: int = 1
) -> Ring:
    """``payload`` plus the users-only pad, in place; exactly one user of a sum does this, before ``pad``.

    ``seed`` is the group seed when all users may read the sum, the receiver's own when one user may.
    """
    batch = _checked(payload, stream, batch, halves)
    once.claim(_USERS_ONLY, stream, batch)
    return _with_group_pad(payload, seed, stream, batch, True, each, halves)


def remove_group_pad(
    total: Ring, seed: Seed, stream: str, batch: int, each: Each | None = None, *, halves: int = 1
) -> Ring:
    """``total`` less the users-only pad, in place: the sum of the encodings."""
    batch = _checked(total, stream, batch, halves)
    return _with_group_pad(total, seed, stream, batch, False, each, halves)


def _with_group_pad(
    words: Ring, seed: Seed, stream: str, batch: int, plus: bool, each: Each | None, halves: int
) -> Ring:
    if words.size > SHORT and words.flags.c_contiguous:
        Pads(((plus, seed.derive("pad", _USERS_ONLY, stream, batch)),), halves).onto_all(words, each)
        return words
    pads = _words(seed, _USERS_ONLY, stream, batch)
    for (part,) in chunks(words):
        _combine(part, pads.words(part.size).reshape(part.shape), plus, halves)
    return words


def threads_for(count: int, each: Each | None) -> Each | None:
    """``each`` where that number of words of a sum is worth several threads, else None."""
    return each if count >= _WORTH_THREADS else None


def segment_of(count: int) -> int:
    """Words of a long array that one thread works on at a time."""
    return min(_SEGMENT, max(_LEAST_SEGMENT, count // _SEGMENTS // _LEAST_SEGMENT * _LEAST_SEGMENT))


def pad_tag(tag: Ring, bits: int, keys: PadKeys, stream: str, batch: int, once: PadsOnce) -> Ring:
    """The tag of a long sum, three uint64, with the pads of all peers: the first 24 bytes that HKDF derives for it.

    Modulo 2^bits below, modulo 2^(192 - bits) above.
    """
    once.claim(_PAIR + _TAG, stream, batch)
    labels = path("pad", _PAIR + _TAG, stream, batch)
    pads = [(keys.seed(peer).along(labels).reveal(), 1 if keys.user < peer else -1) for peer in keys.peers]
    return _with_tag_pads(tag, bits, pads)


def add_group_pad_to_tag(tag: Ring, bits: int, seed: Seed, stream: str, batch: int, once: PadsOnce) -> Ring:
    """The tag plus its users-only pad; exactly one user of a sum does this."""
    once.claim(_USERS_ONLY + _TAG, stream, batch)
    return _with_tag_pads(tag, bits, [(seed.derive("pad", _USERS_ONLY + _TAG, stream, batch).reveal(), 1)])


def remove_group_pad_from_tag(tag: Ring, bits: int, seed: Seed, stream: str, batch: int) -> Ring:
    """The tag less its users-only pad."""
    return _with_tag_pads(tag, bits, [(seed.derive("pad", _USERS_ONLY + _TAG, stream, batch).reveal(), -1)])


def _with_tag_pads(tag: Ring, bits: int, signed: Iterable[tuple[bytes, int]]) -> Ring:
    """Both parts modulo their own power of two: no carry of the tag may show in what lies above it."""
    below = tag_value(tag)
    above = below >> bits
    for derived, sign in signed:
        pads = sign * int.from_bytes(derived[: 8 * TAG_WORDS], "little")
        below, above = below + pads, above + sign * (abs(pads) >> bits)
    return tag_words(above % (1 << (64 * TAG_WORDS - bits)) << bits | below % (1 << bits))


def _higher(keys: PadKeys) -> int:
    return sum(peer > keys.user for peer in keys.peers)


def _add_rows(part: Ring, rows: Ring, plus: int, halves: int) -> None:
    """``part`` with the first ``plus`` rows of pads added and the others subtracted, in place."""
    words = np.ascontiguousarray(part).reshape(-1, halves)
    combine_rows(words, rows, plus)
    if not np.shares_memory(words, part):
        part[...] = words.reshape(part.shape)


def _combine(part: Ring, pads: Ring, plus: bool, halves: int) -> None:
    if halves == 1:
        (add if plus else subtract)(part, pads)
    else:
        (add_into if plus else subtract_into)(part.reshape(-1, halves), pads.reshape(-1, halves))


def _words(seed: Seed, kind: str, stream: str, batch: int) -> Keystream:
    return Keystream.of(seed, "pad", kind, stream, batch)


def _checked(payload: Ring, stream: str, batch: int, halves: int) -> int:
    """The batch as a plain integer, once payload and labels are what a pad can be put on."""
    if payload.dtype != np.uint64 or not payload.flags.writeable:
        raise ShapeError(f"a pad goes on writeable uint64 words, got {payload.dtype}", "encode first")
    if halves != 1 and not (payload.flags.c_contiguous and payload.shape[1:] == (halves,)):
        raise ShapeError(f"words of {halves} halves are contiguous, of shape (n, {halves}), got {payload.shape}")
    number = int(operator.index(batch))
    if not stream or number < 0:
        raise ConfigError(f"a pad needs a stream's name and a batch >= 0, got {stream!r} and {number}")
    return number
