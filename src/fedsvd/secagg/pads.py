"""Pads that hide a share and cancel in the sum (steps 3 and 5 of the specification; section 3.2 of the paper).

Every pair i < j of neighbours (``neighbours.py``; up to 17 users all are) shares a stream of words per (stream, batch):
user i adds it and user j subtracts it, modulo 2^64, so that a payload alone is uniform and the sum of all k is the sum
of the encodings, bit for bit.
A users-only sum carries one more pad, added by exactly one user and removed by those who know its seed; to the
CSP the sum itself is then uniform. With ``halves = 2`` the payload holds words of Z_2^128, shape (n, 2), and a pad is
two uint64 a word, added with the carry between them. Tags have pads of their own, three uint64 each: the first 24 bytes
that HKDF derives for them, for a cipher of its own would cost more than all else that a short sum needs.

Law of this file: a pad is used once. Two plaintexts under one pad show their difference, so every pad is
claimed from a ``PadsOnce`` first, and a claim cannot be undone. The CSP never imports this file.
"""

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from fedsvd.errors import ConfigError, LocalProtocolError, ShapeError
from fedsvd.kernels.words import add, subtract
from fedsvd.randomness.keystream import Each, Keystream, fill_words
from fedsvd.randomness.seed import Seed, path
from fedsvd.secagg.batches import chunks
from fedsvd.secagg.keys import PadKeys
from fedsvd.secagg.sums import TAG_WORDS, tag_value, tag_words
from fedsvd.secagg.words128 import add_into, subtract_into, sum_of
from fedsvd.types import Ring

_PAIR = "pair"
_USERS_ONLY = "users-only"
_TAG = " tag"  # of a pair, or users-only: the pads of a tag are another stream than the payload's
_SEGMENT, _LEAST_SEGMENT = 1 << 20, 1 << 15  # words of a payload that one thread pads at a time, at most and at least
_SHORT = 1 << 12  # words of a payload whose pads are added up before they are put on
_SEGMENTS = 32  # of a payload, where that makes no shorter ones: two for each of sixteen threads
_WORTH_THREADS = 1 << 18  # words of a sum; waking threads for fewer takes longer than they save


class DrawnHere:
    """Short streams that users of one process share: drawn by the first that needs one, the same at all of them.

    Both users of a pair draw the same pad. Where both are here the second takes what the first has drawn, and it is
    stored no longer. Between institutions each user draws by itself.
    """

    def __init__(self) -> None:
        self._pads: dict[tuple[bytes, bytes], bytes] = {}
        self._last: tuple[tuple[bytes, bytes, int], Ring] | None = None

    def __repr__(self) -> str:
        return f"DrawnHere(waiting={len(self._pads)})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("pads are never copied")

    def pad(self, seed: Seed, labels: bytes, draw: Callable[[Seed], bytes]) -> bytes:
        """What ``draw`` makes of the seed along these labels; for each user of a pair once."""
        key = seed.reveal(), labels
        drawn = self._pads.pop(key, None)
        if drawn is None:
            drawn = self._pads[key] = draw(seed.along(labels))
        return drawn

    def keys(self, seed: Seed, labels: bytes, count: int, each: Each | None = None) -> Ring:
        """The first words along these labels: of the sum in hand, whose keys all users have. Not to be changed."""
        key = seed.reveal(), labels, count
        if self._last is None or self._last[0] != key:
            self._last = key, _keys(seed.along(labels), count, each)
        return self._last[1]


class PadsOnce:
    """What one user has padded in one session; the same (stream, batch) is never padded again."""

    def __init__(self, here: DrawnHere | None = None) -> None:
        self._claims: dict[tuple[str, str, int], object] = {}
        self._here = here

    def drawn(self, seed: Seed, labels: bytes, draw: Callable[[Seed], bytes]) -> bytes:
        """What ``draw`` makes of the seed along these labels, by the other user of the pair where that is here."""
        return draw(seed.along(labels)) if self._here is None else self._here.pad(seed, labels, draw)

    def keys(self, seed: Seed, labels: bytes, count: int, each: Each | None = None) -> Ring:
        """The first words along these labels, which all users of a sum have."""
        if self._here is None:
            return _keys(seed.along(labels), count, each)
        return self._here.keys(seed, labels, count, each)

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
    if payload.size <= _SHORT:
        once.claim(_PAIR, stream, batch)
        labels, size = path("pad", _PAIR, stream, batch), payload.size

        def draw(seed: Seed) -> bytes:
            return Keystream(seed).raw(size)

        for plus in (True, False):
            seeds = [keys.seed(peer) for peer in keys.peers if (keys.user < peer) == plus]
            if seeds:
                drawn = [once.drawn(seed, labels, draw) for seed in seeds]
                _combine(payload, sum_of(drawn, halves).reshape(payload.shape), plus, halves)
        return payload
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
    signed = [(keys.user < peer, _words(keys.seed(peer), _PAIR, stream, batch)) for peer in keys.peers]
    # Chunk by chunk outside, peer by peer inside: the payload passes through memory once, not k - 1 times.
    for (part,) in chunks(payload):
        for plus, words in signed:
            _combine(part, words.words(part.size).reshape(part.shape), plus, halves)
    return payload


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
    if words.size > _SHORT and words.flags.c_contiguous:
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
    """The tag, three uint64, with the pads of all peers: modulo 2^bits below, modulo 2^(192 - bits) above."""
    once.claim(_PAIR + _TAG, stream, batch)
    labels = path("pad", _PAIR + _TAG, stream, batch)
    pads = [(once.drawn(keys.seed(peer), labels, Seed.reveal), 1 if keys.user < peer else -1) for peer in keys.peers]
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
