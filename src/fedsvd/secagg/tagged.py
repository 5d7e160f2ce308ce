"""A user's side of authenticated sums: share and tag, and the total, opened or refused (specification, section 2).

    share       tag the integers, add the group pad (one user), add the pair pads
    open_total  remove the group pad, compare the tag, and only then hand out the total

The keys alpha of a tag and the group pad follow from the users' seed, which neither the CSP nor a TA has. Where one
user alone receives the sum they follow from that user's own seed: it deals ``tag_seed`` to the senders, sealed,
and never sends the seed of the pad. The CSP's side is ``aggregate.TaggedSum``; it never imports this file.

*Tags.* ``tag = sum_j alpha_j x_j`` modulo 2^bits, with a secret key alpha_j, uniform on 0 .. 2^64 - 1, for every signed
integer x_j. It is linear, so the tags of all shares add up to the tag of the total, and the CSP adds them without
knowing a key. A change of the total by d and of the tag by e passes iff ``sum_j alpha_j d_j = e``. A signed digit of
64 bits changes by an odd number times at most 2^63, a word of 128 by one times at most 2^127. Modulo 2^128 and 2^192
these leave 64 bits of alpha d, so at most one key in 2^64 lets any given change pass, whatever the data. Modulo 2^64,
or modulo a prime, some change would pass much more often (``tests/adversary/test_altered_sums.py`` runs both).
Shares of a short sum may wrap on the way; its total may not, and one that did is refused like an altered one.

Not covered: a CSP together with a user who holds the keys alpha can alter a sum, and with a sender one for a receiver.
"""

import hmac
from dataclasses import dataclass

import numpy as np

from fedsvd.errors import LocalProtocolError, ShapeError, SumAltered
from fedsvd.kernels import carried
from fedsvd.randomness.keystream import Each
from fedsvd.randomness.seed import Seed, path
from fedsvd.secagg.keys import PadKeys
from fedsvd.secagg.pads import (
    SHORT,
    PadsOnce,
    add_group_pad,
    add_group_pad_to_tag,
    pad,
    pad_sum,
    pad_tag,
    remove_group_pad,
    remove_group_pad_from_tag,
    segment_of,
)
from fedsvd.secagg.sums import MOST_WORDS, TAG_WORDS, PlannedSum, SumKind, tag_value, tag_words
from fedsvd.types import Ring

_CHUNK = 1 << 12  # integers; their limbs stay in the second-level cache
_LONG = 1 << 17  # integers that are worth several threads
_LIMB = 16


def tag(integers: Ring, alpha: Ring, bits: int, each: Each | None = None) -> int:
    """``sum_j alpha_j x_j`` modulo 2^bits, x_j the signed integer in row j of ``integers``, shape (n, halves).

    The bytes of an array are its limbs of 16 bits, and the leading one of each integer is read as signed. Products of
    limbs add up in float64 without rounding: 16 + 16 bits and at most 2^20 terms are less than 53.
    """
    if integers.ndim != 2 or alpha.shape != integers.shape[:1] or len(alpha) > MOST_WORDS:
        raise ShapeError(f"{len(alpha)} keys for integers of shape {integers.shape}, at most {MOST_WORDS}")
    if each is not None and len(alpha) > _LONG:
        step, parts = segment_of(len(alpha)), list[int]()

        def part(start: int) -> None:
            parts.append(tag(integers[start : start + step], alpha[start : start + step], bits))

        for _ in each(part, range(0, len(alpha), step)):
            pass
        return sum(parts) % (1 << bits)
    if (found := carried.tag(integers, alpha)) is not None:
        return tag_value(found) % (1 << bits)
    count, limbs = len(alpha), 4 * integers.shape[1]
    unsigned = np.ascontiguousarray(integers, "<u8").view("<u2")
    leading = unsigned.view("<i2")[:, -1]
    keys = np.ascontiguousarray(alpha, "<u8").view("<u2").reshape(count, 4)
    products = np.zeros((limbs, 4))
    x, a = np.empty((min(_CHUNK, count), limbs)), np.empty((min(_CHUNK, count), 4))
    for start in range(0, count, _CHUNK):
        size = min(_CHUNK, count - start)
        x[:size] = unsigned[start : start + size]
        x[:size, -1] = leading[start : start + size]
        a[:size] = keys[start : start + size]
        products += x[:size].T @ a[:size]
    total = 0
    for place, row in enumerate(products.astype(np.int64).tolist()):
        total += sum(value << (_LIMB * (place + j)) for j, value in enumerate(row))
    return total % (1 << bits)


@dataclass(frozen=True, eq=False)
class SumSeeds:
    """What tags and group pads of sums follow from; who holds no ``group`` seed can make a share, not open a total."""

    alpha: Seed
    group: Seed | None

    @classmethod
    def of_users(cls, users_seed: Seed) -> "SumSeeds":
        """For the sums that all users open."""
        return cls(users_seed, users_seed)

    @classmethod
    def of_receiver(cls, own: Seed) -> "SumSeeds":
        """For the sums that this user alone opens; ``own`` never leaves it."""
        return cls(tag_seed(own), own.derive("receiver", "pads"))

    @classmethod
    def of_sender(cls, dealt: Seed) -> "SumSeeds":
        """For the sums that another user opens, from the ``tag_seed`` it dealt."""
        return cls(dealt, None)


def tag_seed(own: Seed) -> Seed:
    """What a receiver deals to the senders of its sums, sealed, once a session."""
    return own.derive("receiver", "tags")


def share(
    planned: PlannedSum,
    batch: int,
    payload: Ring,
    keys: PadKeys,
    seeds: SumSeeds,
    once: PadsOnce,
    each: Each | None = None,
) -> tuple[Ring, Ring]:
    """This user's share of a batch and its tag, shape (3,), both padded; ``payload`` is left as it is.

    Every (name, batch) is shared once: a second share would show the difference of two plaintexts.
    """
    name, bits, halves = planned.name, planned.kind.tag_bits, _halves(planned)
    shape = planned.shape(batch)
    if payload.shape != shape or payload.dtype != np.uint64:
        raise ShapeError(f"{name!r}: a share is {payload.dtype} of {payload.shape}, expected uint64 of {shape}")
    if planned.pads_group > keys.k:
        raise LocalProtocolError(f"the receiver of the sum {name!r} is not among users 1 .. {keys.k}")
    padded, padded_tag = payload.copy(), tag_words(_tag(planned, batch, payload, seeds, once, each))
    if keys.user == planned.pads_group and planned.kind is not SumKind.SHARED:
        group = _group(planned, seeds)
        add_group_pad(padded, group, name, batch, once, each, halves=halves)
        padded_tag = add_group_pad_to_tag(padded_tag, bits, group, name, batch, once)
    if payload.size <= SHORT:
        return padded, pad_sum(padded, padded_tag, bits, keys, name, batch, once, halves)
    pad(padded, keys, name, batch, once, each, halves=halves)
    return padded, pad_tag(padded_tag, bits, keys, name, batch, once)


def open_total(
    planned: PlannedSum, batch: int, payload: Ring, total_tag: Ring, seeds: SumSeeds, each: Each | None = None
) -> Ring:
    """The total of a batch behind the CSP's reply, or ``SumAltered``; the reply is left as it is.

    There is one refusal with one text, whatever was changed: a detail would inform the CSP about its attempt.
    """
    name, bits = planned.name, planned.kind.tag_bits
    fits = payload.shape == planned.shape(batch) and total_tag.shape == (TAG_WORDS,)
    if not fits or payload.dtype != np.uint64 or total_tag.dtype != np.uint64:
        raise _altered(planned)
    if planned.kind is SumKind.SHARED:
        return payload.copy()  # the CSP's own part is in it, under masks that no tag can follow
    group = _group(planned, seeds)
    total = remove_group_pad(payload.copy(), group, name, batch, each, halves=_halves(planned))
    received = tag_value(remove_group_pad_from_tag(total_tag, bits, group, name, batch)) % (1 << bits)
    expected = _tag(planned, batch, total, seeds, PadsOnce(), each)
    if not hmac.compare_digest(received.to_bytes(24, "big"), expected.to_bytes(24, "big")):
        raise _altered(planned)
    return total


def _tag(planned: PlannedSum, batch: int, payload: Ring, seeds: SumSeeds, once: PadsOnce, each: Each | None) -> int:
    """Every digit of a wide number has a key of its own, so that no digit can be moved into the next."""
    if planned.kind is SumKind.SHARED:
        return 0
    integers = payload.reshape(-1, _halves(planned))
    alpha = once.keys(seeds.alpha, path("tag", planned.name, batch), len(integers), each)
    return tag(integers, alpha, planned.kind.tag_bits, each)


def _halves(planned: PlannedSum) -> int:
    return 1 if planned.kind is SumKind.WIDE else planned.kind.columns


def _group(planned: PlannedSum, seeds: SumSeeds) -> Seed:
    if seeds.group is None:
        raise LocalProtocolError(f"the sum {planned.name!r} is opened by user {planned.receiver} alone")
    return seeds.group


def _altered(planned: PlannedSum) -> SumAltered:
    return SumAltered(
        f"the sum {planned.name!r} is not what the users sent",
        "stop, and ask the operator of the CSP; nothing was computed from this sum",
    )
