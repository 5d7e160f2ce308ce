"""Known answers for authenticated sums: shares, tags and totals, checked by a second implementation.

The second implementation is below, in Python's integers, on the AES and HKDF of ``test_randomness_vectors``; of the
product it uses nothing. ``sums.json`` was written by it (run this file to write it anew) and pins what parties of
different versions must agree on: how numbers become words, what keys and pads are, and how a tag is computed.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from tests.vectors.test_randomness_vectors import aes_256, derived

from fedsvd.randomness.keystream import Keystream
from fedsvd.randomness.seed import Seed
from fedsvd.secagg import bound, noise, wide
from fedsvd.secagg.aggregate import TaggedSum
from fedsvd.secagg.keys import PadKeys
from fedsvd.secagg.neighbours import neighbours
from fedsvd.secagg.pads import PadsOnce
from fedsvd.secagg.sums import PlannedSum, SumKind
from fedsvd.secagg.tagged import SumSeeds, open_total, share, tag_seed
from fedsvd.secagg.words128 import from_integers, to_integers, to_words

VECTORS = Path(__file__).with_name("sums.json")
USERS_SEED = bytes(range(32))
OWN = {user: bytes([0xA0 + user]) * 32 for user in (1, 2, 3)}
PAIRS = {(1, 2): b"\x12" * 32, (1, 3): b"\x13" * 32, (2, 3): b"\x23" * 32}
BITS = {"wide": 128, "total": 192, "bound": 128, "short": 128}
SINGLE = ("wide", "short")  # words of 64 bits
CASES = [
    {"name": "mean", "kind": "wide", "batch": 0, "receiver": None},
    {"name": "norm", "kind": "total", "batch": 1, "receiver": None},
    {"name": "bound", "kind": "bound", "batch": 0, "receiver": None},
    {"name": "score", "kind": "total", "batch": 0, "receiver": 3},
    {"name": "step", "kind": "short", "batch": 2, "receiver": None},
]
INTEGERS = {
    "mean": [[1, -(2**1500) - 7], [2**32 - 1, 2**1500], [-(2**2100), 2**1074]],
    "norm": [[0.75, -(2.0**-101)], [0.1, 3 * 2.0**-101], [-1.0, 2.0**-60]],  # numbers, in steps of 2^-100
    "bound": [3, None, -20],  # exponents
    "score": [[5, -(2**120)], [-6, 2**119], [2**126, -1]],
    "step": [[2**62, -(2**62), 7], [2**62 + 5, -(2**62) - 9, -1], [-(2**62) - 1, 2**62 + 3, 2**61]],  # wrap on the way
}

WIDTHS = [3, 50, 63, 64, 1030, 3]


def words_of(secret, count, start=bytes(12)):
    """Words of the stream from the block that begins with ``start``."""
    blocks = [aes_256(secret, start + number.to_bytes(4, "big")) for number in range(-(-count // 2))]
    return [int.from_bytes(block[at : at + 8], "little") for block in blocks for at in (0, 8)][:count]


def start_of(name, batch):
    """Where the pair's stream of a short sum starts: of SHA-256 of what HKDF's one block would be made of."""
    labels = b"".join(
        kind + len(text).to_bytes(4, "big") + text
        for kind, text in ((b"s", b"pad"), (b"s", b"pair"), (b"s", name.encode()), (b"i", str(batch).encode()))
    )
    return hashlib.sha256(b"fedsvd/seed/1\0" + labels + b"\x01").digest()[:12]


def digits_of(value):
    """67 signed digits of 32 bits."""
    return [(1 if value >= 0 else -1) * (abs(value) >> 32 * place & 0xFFFFFFFF) for place in range(67)]


def rounded(value):
    """A float64 in steps of 2^-100, half to even, by integers alone."""
    top, bottom = value.as_integer_ratio()
    whole, rest = divmod(top << 100, bottom)
    return whole + (2 * rest > bottom or (2 * rest == bottom and whole % 2))


def plaintext(case, user):
    """The signed integers that a user sums: digits of 64 bits, or words of 128."""
    given = INTEGERS[case["name"]][user - 1]
    if case["name"] == "mean":
        return [digit for value in given for digit in digits_of(value)]
    if case["name"] == "norm":
        return [rounded(value) for value in given]
    if case["name"] in ("score", "step"):
        return given
    drawn = words_of(derived(OWN[user], ("bound",)), 266)
    reached = [given is not None and given > power for power in range(-1088, 1025, 16)]
    return [(drawn[2 * i] if above else 0) + (drawn[2 * i + 1] << 64) for i, above in enumerate(reached)]


def shown(row):
    return {"payload": [f"{word:x}" for word in row["payload"]], "tag": f"{row['tag']:x}"}


def second(case):
    """Everything that is pinned about one sum, in Python's integers."""
    kind, name, batch = case["kind"], case["name"], case["batch"]
    halves = 1 if kind in SINGLE else 2
    bits, size = BITS[kind], 2 ** (64 * halves)
    keys = group = USERS_SEED
    if case["receiver"]:
        keys, group = (derived(OWN[case["receiver"]], ("receiver", use)) for use in ("tags", "pads"))
    integers = {user: plaintext(case, user) for user in OWN}
    alpha = words_of(derived(keys, ("tag", name, batch)), len(integers[1]))

    def pads(secret, use):
        words = halves * len(integers[1])
        if use == "pair":  # a short sum: one stream of the pair's for words and tag, from a block of its own
            drawn = words_of(derived(secret, ("pad", "sums")), words + 3, start_of(name, batch))
            tag = sum(word << 64 * at for at, word in enumerate(drawn[words:]))
        else:
            drawn = words_of(derived(secret, ("pad", use, name, batch)), words)
            tag = int.from_bytes(derived(secret, ("pad", f"{use} tag", name, batch))[:24], "little")
        drawn = drawn[:words]
        joined = [
            sum(drawn[halves * i + half] << 64 * half for half in range(halves)) for i in range(len(drawn) // halves)
        ]
        return joined, tag

    def combined(words, tag, pad, sign):
        pad_words, pad_tag = pad
        above = (tag >> bits) + sign * (pad_tag >> bits)
        below = (tag + sign * pad_tag) % 2**bits
        words = [(word + sign * other) % size for word, other in zip(words, pad_words, strict=True)]
        return words, (above % 2 ** (192 - bits) << bits) + below

    shares, tags = [], []
    for user in OWN:
        words = [value % size for value in integers[user]]
        tag = sum(a * x for a, x in zip(alpha, integers[user], strict=True)) % 2**bits
        tags.append(tag)
        if user == (case["receiver"] or 1):
            words, tag = combined(words, tag, pads(group, "users-only"), 1)
        for pair, secret in PAIRS.items():
            if user in pair:
                words, tag = combined(words, tag, pads(secret, "pair"), 1 if user == pair[0] else -1)
        shares.append({"payload": words, "tag": tag})
    half = size // 2
    total = [(sum(column) + half) % size - half for column in zip(*integers.values(), strict=True)]
    reply = {
        "payload": [sum(column) % size for column in zip(*(row["payload"] for row in shares), strict=True)],
        "tag": sum(row["tag"] for row in shares) % 2**192,
    }
    return {
        **case,
        "alpha": [f"{word:x}" for word in alpha[:8]],
        "bare_tags": [f"{tag:x}" for tag in tags],
        "shares": [shown(row) for row in shares],
        "reply": shown(reply),
        "total": [f"{value:x}" for value in total],
    }


def noise_vector():
    """Integers of noise from one stream: the leading bits of each group of words, read as signed."""
    words, at, drawn = words_of(OWN[1], 60), 0, []
    for width in WIDTHS:
        count = width // 64 + 1
        value = sum(word << 64 * i for i, word in enumerate(words[at : at + count]))
        value -= (value >> 64 * count - 1) << 64 * count
        drawn.append(f"{value >> 64 * count - 1 - width:x}")
        at += count
    return {"noise": drawn}


def neighbours_vector():
    """Users on a circle in the order of the words of one stream: who stands within eight places of users 1 and 20."""
    words = words_of(derived(USERS_SEED, ("neighbours",)), 20)
    circle = [place + 1 for _, place in sorted((word, place) for place, word in enumerate(words))]
    near = {user: [circle[(circle.index(user) + step) % 20] for step in range(-8, 9) if step] for user in (1, 20)}
    return {"neighbours": {str(user): sorted(found) for user, found in near.items()}}


def written():
    return {"sums": [second(case) for case in CASES], **noise_vector(), **neighbours_vector()}


@pytest.fixture(scope="module", params=range(len(CASES)), ids=[case["name"] for case in CASES])
def pinned(request):
    return json.loads(VECTORS.read_text())["sums"][request.param]


def payload_of(case, user):
    given = INTEGERS[case["name"]][user - 1]
    if case["name"] == "mean":
        return wide.encode_integers(given)
    if case["name"] == "norm":
        return to_words(np.array(given), 100, terms=3)
    if case["name"] == "score":
        return from_integers(given)
    if case["name"] == "step":
        return from_integers(given, 1)
    return bound.encode(given, Keystream(Seed(OWN[user]).derive("bound")))


def hexadecimal(payload, kind):
    rows = payload.reshape(-1, 1) if kind in SINGLE else payload
    size = 2 ** (64 * rows.shape[1])
    return [f"{value % size:x}" for value in to_integers(rows)]


def seeds_of(case, user):
    if not case["receiver"]:
        return SumSeeds.of_users(Seed(USERS_SEED))
    own = Seed(OWN[case["receiver"]])
    return SumSeeds.of_receiver(own) if user == case["receiver"] else SumSeeds.of_sender(tag_seed(own))


def test_shares_tags_replies_and_totals_are_the_pinned_ones(pinned):
    kind, batch = SumKind(pinned["kind"]), pinned["batch"]
    length = len(payload_of(pinned, 1))
    plan = PlannedSum(pinned["name"], kind, (length,) * (batch + 1), 100, pinned["receiver"])
    running = TaggedSum(kind, length, 3)
    for user, row in zip(OWN, pinned["shares"], strict=True):
        peers = {sum(pair) - user: Seed(secret) for pair, secret in PAIRS.items() if user in pair}
        payload = payload_of(pinned, user)
        padded, tag = share(plan, batch, payload, PadKeys(user, peers), seeds_of(pinned, user), PadsOnce())
        assert hexadecimal(padded, pinned["kind"]) == row["payload"]
        assert f"{to_integers(tag[None])[0] % 2**192:x}" == row["tag"]
        running.add(user, padded, tag)
    payload, tag = running.total()
    assert hexadecimal(payload, pinned["kind"]) == pinned["reply"]["payload"]
    assert f"{to_integers(tag[None])[0] % 2**192:x}" == pinned["reply"]["tag"]
    total = open_total(plan, batch, payload, tag, seeds_of(pinned, pinned["receiver"] or 1))
    rows = total.reshape(-1, 1) if kind is SumKind.WIDE else total
    assert [f"{value:x}" for value in to_integers(rows)] == pinned["total"]


def test_noise_is_the_pinned_one():
    stored = json.loads(VECTORS.read_text())["noise"]
    assert [f"{value:x}" for value in noise.uniform_integers(WIDTHS, Keystream(Seed(OWN[1])))] == stored


def test_neighbours_are_the_pinned_ones():
    stored = json.loads(VECTORS.read_text())["neighbours"]
    order = Seed(USERS_SEED).derive("neighbours")
    assert {user: list(neighbours(20, int(user), order)) for user in stored} == stored


def test_the_pinned_vectors_are_those_of_the_second_implementation():
    assert json.loads(VECTORS.read_text()) == written()


def test_the_bare_tags_add_up_to_the_tag_of_the_total(pinned):
    """Of the pinned numbers alone: what a user compares."""
    bits = BITS[pinned["kind"]]
    assert len(pinned["bare_tags"]) == 3
    keys = USERS_SEED if not pinned["receiver"] else derived(OWN[pinned["receiver"]], ("receiver", "tags"))
    total = [int(value, 16) for value in pinned["total"]]
    alpha = words_of(derived(keys, ("tag", pinned["name"], pinned["batch"])), len(total))
    expected = sum(a * x for a, x in zip(alpha, total, strict=True)) % 2**bits
    assert sum(int(tag, 16) for tag in pinned["bare_tags"]) % 2**bits == expected


if __name__ == "__main__":
    VECTORS.write_text(json.dumps(written(), indent=1) + "\n")
