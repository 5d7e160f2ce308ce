"""Pads hide each share, cancel exactly in the sum of all, and are used once."""

import copy
import hashlib
import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.summing import Session, planned
from tests.tolerances import ACCEPTED_UNSEEDED, IMPOSSIBLE

from fedsvd.errors import ConfigError, LocalProtocolError, ShapeError
from fedsvd.randomness.keystream import Keystream
from fedsvd.randomness.seed import Seed, path
from fedsvd.sealing.agree import AgreementKey
from fedsvd.secagg import pads
from fedsvd.secagg.aggregate import RunningSum
from fedsvd.secagg.batches import CHUNK
from fedsvd.secagg.fixed_point import decode, encode, exponent
from fedsvd.secagg.keys import PadKeys, pad_keys
from fedsvd.secagg.pads import SHORT, DrawnHere, PadsOnce, add_group_pad, claimed, pad, pad_sum, remove_group_pad
from fedsvd.secagg.sums import SumKind

GROUP = Seed(b"\x77" * 32)


def dealt(k, salt=0):
    """Pad keys of k users, one random seed per pair."""
    rng = np.random.default_rng((k, salt))
    seeds = {frozenset(pair): Seed(rng.bytes(32)) for pair in itertools.combinations(range(1, k + 1), 2)}
    users = range(1, k + 1)
    return {i: PadKeys(i, {j: seeds[frozenset((i, j))] for j in users if j != i}) for i in users}


def padded(payload, keys, stream="Y", batch=0):
    return pad(payload.copy(), keys, stream, batch, PadsOnce())


def uniformity(words):
    """The p-value of a chi-square test that all byte values are equally frequent."""
    return stats.chisquare(np.bincount(np.ascontiguousarray(words).view(np.uint8).ravel(), minlength=256)).pvalue


@settings(max_examples=25, deadline=None)
@given(
    k=st.integers(2, 50),
    shape=st.tuples(st.integers(1, 7), st.integers(1, 9)),
    batch=st.integers(0, 2**40),
    order=st.randoms(use_true_random=False),
)
def test_the_padded_shares_of_all_users_sum_to_the_sum_of_the_encodings(k, shape, batch, order):
    rng = np.random.default_rng(k)
    Y = rng.uniform(-1, 1, size=(k, *shape))
    f = exponent(1.0, terms=k)
    codes = encode(Y, f, terms=k)
    keys = dealt(k)
    running = RunningSum(shape, k)
    users = list(keys)
    order.shuffle(users)
    for user in users:
        running.add(user, padded(codes[user - 1], keys[user], "Y", batch))
    np.testing.assert_array_equal(running.total(), np.add.reduce(codes, axis=0))
    np.testing.assert_allclose(decode(running.total(), f), Y.sum(axis=0), rtol=0, atol=k * 2.0**-52)


@pytest.mark.parametrize("k", [2, 3, 50])
def test_keys_agreed_by_the_users_cancel_too(k):
    mine = {user: AgreementKey(Seed(user.to_bytes(32, "big"))) for user in range(1, k + 1)}
    publics = {user: key.public for user, key in mine.items()}
    total = np.zeros(11, np.uint64)
    for user, key in mine.items():
        share = padded(np.full(11, user, np.uint64), pad_keys(key, user, publics, "s", "p"))
        assert not np.any(share == user)
        total += share
    np.testing.assert_array_equal(total, k * (k + 1) // 2)


def test_the_lower_user_adds_and_the_higher_subtracts_the_stream_of_the_pair():
    # Written out for k = 3, word by word, with Python's integers.
    p12, p13, p23 = (Seed(bytes([n]) * 32) for n in (12, 13, 23))
    users = [PadKeys(1, {2: p12, 3: p13}), PadKeys(2, {1: p12, 3: p23}), PadKeys(3, {1: p13, 2: p23})]
    a, b, c = (
        [int(word) for word in Keystream(seed.derive("pad", "pair", "Y", 4)).words(5)] for seed in (p12, p13, p23)
    )
    expected = [
        [(10 + x + y) % 2**64 for x, y in zip(a, b, strict=True)],
        [(10 - x + y) % 2**64 for x, y in zip(a, c, strict=True)],
        [(10 - x - y) % 2**64 for x, y in zip(b, c, strict=True)],
    ]
    ours = [padded(np.full(5, 10, np.uint64), keys, "Y", 4).tolist() for keys in users]
    assert ours == expected


@pytest.mark.parametrize("size", [1, CHUNK - 1, CHUNK, 2 * CHUNK + 3])
def test_pads_cancel_across_chunks_and_memory_layouts(size):
    keys = dealt(2)
    one = padded(np.zeros((size, 2), np.uint64), keys[1])
    two = pad(np.zeros((size, 2), np.uint64, order="F"), keys[2], "Y", 0, PadsOnce())
    wide = np.zeros((size, 5), np.uint64)
    three = pad(wide[:, 1:3], keys[2], "Y", 0, PadsOnce())
    assert not np.any(one + two)
    np.testing.assert_array_equal(two, three)
    assert not wide[:, [0, 3, 4]].any()


@pytest.mark.parametrize("k", [2, 5])
def test_a_padded_share_alone_is_uniform_and_a_bare_one_is_not(k):
    Y = np.random.default_rng(k).normal(size=(64, 1024))
    codes = encode(Y, exponent(64.0))
    assert uniformity(codes) < IMPOSSIBLE
    for keys in dealt(k).values():
        assert uniformity(padded(codes, keys)) > ACCEPTED_UNSEEDED
        assert uniformity(padded(np.zeros_like(codes), keys)) > ACCEPTED_UNSEEDED


def test_all_shares_but_one_are_uniform_together():
    codes = encode(np.random.default_rng(1).normal(size=(4, 1 << 15)), exponent(64.0))
    shares = np.array([padded(codes[user - 1], keys) for user, keys in dealt(4).items()])
    for absent in range(4):
        assert uniformity(np.add.reduce(np.delete(shares, absent, axis=0))) > ACCEPTED_UNSEEDED
    assert uniformity(np.add.reduce(shares)) < IMPOSSIBLE


def test_no_two_batches_streams_pairs_sessions_or_kinds_share_a_pad():
    zeros = np.zeros(1000, np.uint64)
    seen = [
        padded(zeros, dealt(3)[1]),
        padded(zeros, dealt(3)[2]),
        padded(zeros, dealt(3, salt=1)[1]),
        padded(zeros, dealt(3)[1], batch=1),
        padded(zeros, dealt(3)[1], batch=10),
        padded(zeros, dealt(3)[1], stream="y"),
        padded(zeros, dealt(3)[1], stream="Y1"),
        add_group_pad(zeros.copy(), GROUP, "Y", 0, PadsOnce()),
        add_group_pad(zeros.copy(), GROUP, "Y", 1, PadsOnce()),
        pad(zeros.copy(), PadKeys(1, {2: GROUP}), "Y", 0, PadsOnce()),
        zeros,
    ]
    words = np.concatenate(seen[:-1])
    assert np.unique(words).size == words.size
    # Nor does one pad continue another: no difference of two is constant.
    assert all(np.unique(a - b).size == 1000 for a, b in itertools.combinations(seen, 2))


WRONG_SUMS = {
    "a share of another batch": lambda keys: padded(np.zeros(50, np.uint64), keys[2], batch=1),
    "a share of another stream": lambda keys: padded(np.zeros(50, np.uint64), keys[2], stream="y"),
    "a share of another session": lambda keys: padded(np.zeros(50, np.uint64), dealt(2, salt=1)[2]),
    "the same side twice": lambda keys: padded(np.zeros(50, np.uint64), keys[1]),
    "entries in another order": lambda keys: padded(np.zeros(50, np.uint64), keys[2])[::-1],
}


@pytest.mark.parametrize("share", WRONG_SUMS.values(), ids=WRONG_SUMS.keys())
def test_a_share_that_does_not_belong_leaves_noise_not_a_sum(share):
    keys = dealt(2)
    total = padded(np.zeros(50, np.uint64), keys[1]) + share(keys)
    assert np.all(total != 0)


def test_the_same_batch_of_a_stream_is_never_padded_twice():
    once, keys = PadsOnce(), dealt(3)[2]
    pad(np.zeros(4, np.uint64), keys, "Y", 0, once)
    pad(np.zeros(4, np.uint64), keys, "Y", 1, once)
    pad(np.zeros(4, np.uint64), keys, "y", 0, once)
    for payload in (np.zeros(4, np.uint64), np.ones(1, np.uint64)):
        with pytest.raises(LocalProtocolError, match="already padded"):
            pad(payload, keys, "Y", 0, once)
        assert set(payload.tolist()) <= {0, 1}
    with pytest.raises(LocalProtocolError):
        pad(np.zeros(4, np.uint64), keys, "Y", np.int64(1), once)


def test_a_group_pad_is_spent_once_beside_the_pads_of_the_pairs():
    once, keys = PadsOnce(), dealt(3)[1]
    share = add_group_pad(np.zeros(4, np.uint64), GROUP, "mean", 0, once)
    pad(share, keys, "mean", 0, once)
    with pytest.raises(LocalProtocolError):
        add_group_pad(np.zeros(4, np.uint64), GROUP, "mean", 0, once)


def test_what_is_spent_cannot_be_copied_or_read_out():
    once = PadsOnce()
    pad(np.zeros(4, np.uint64), dealt(2)[1], "Y", 0, once)
    assert repr(once) == "PadsOnce(spent=1)"
    for leak in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            leak(once)


@pytest.mark.parametrize("k", [2, 7])
@pytest.mark.parametrize("adder", [1, 2])
def test_a_users_only_sum_is_noise_to_the_csp_and_exact_to_the_users(k, adder):
    Y = np.random.default_rng(k).normal(size=(k, 3 * CHUNK))
    f = exponent(64.0, terms=k)
    codes = encode(Y, f, terms=k)
    running = RunningSum((3 * CHUNK,), k)
    for user, keys in dealt(k).items():
        share, once = codes[user - 1].copy(), PadsOnce()
        if user == adder:
            add_group_pad(share, GROUP, "norms", 0, once)
        running.add(user, pad(share, keys, "norms", 0, once))
    seen_by_csp = running.total()
    assert uniformity(seen_by_csp) > ACCEPTED_UNSEEDED
    total = remove_group_pad(seen_by_csp.copy(), GROUP, "norms", 0)
    np.testing.assert_array_equal(total, np.add.reduce(codes, axis=0))
    np.testing.assert_allclose(decode(total, f), Y.sum(axis=0), rtol=0, atol=k * 2.0**-50)


@pytest.mark.parametrize(
    ("seed", "stream", "batch"), [(Seed(bytes(32)), "norms", 0), (GROUP, "norm", 0), (GROUP, "norms", 1)]
)
def test_a_group_pad_goes_off_only_with_its_own_seed_stream_and_batch(seed, stream, batch):
    total = add_group_pad(np.full(100, 5, np.uint64), GROUP, "norms", 0, PadsOnce())
    assert not np.any(remove_group_pad(total.copy(), seed, stream, batch) == 5)
    np.testing.assert_array_equal(remove_group_pad(total, GROUP, "norms", 0), 5)


def test_padding_happens_in_place():
    payload = np.zeros(10, np.uint64)
    assert pad(payload, dealt(2)[1], "Y", 0, PadsOnce()) is payload
    assert add_group_pad(payload, GROUP, "Y", 0, PadsOnce()) is payload
    assert remove_group_pad(payload, GROUP, "Y", 0) is payload


def read_only():
    payload = np.zeros(3, np.uint64)
    payload.flags.writeable = False
    return payload


@pytest.mark.parametrize("payload", [np.zeros(3), np.zeros(3, np.int64), read_only()])
def test_only_writeable_ring_words_are_padded_and_a_refusal_spends_nothing(payload):
    once = PadsOnce()
    with pytest.raises(ShapeError):
        pad(payload, dealt(2)[1], "Y", 0, once)
    pad(np.zeros(3, np.uint64), dealt(2)[1], "Y", 0, once)


@pytest.mark.parametrize(("stream", "batch"), [("", 0), ("Y", -1)])
def test_a_pad_without_a_name_is_refused(stream, batch):
    with pytest.raises(ConfigError):
        padded(np.zeros(3, np.uint64), dealt(2)[1], stream, batch)


@pytest.mark.parametrize("k", [2, 4])
def test_pads_that_are_put_on_part_by_part_are_those_of_the_whole_batch(k):
    words = np.random.default_rng(k).integers(0, 2**64, size=70_001, dtype=np.uint64)
    for keys in dealt(k).values():
        once, found = PadsOnce(), words.copy()
        pads = claimed(keys, "Y", 3, once)
        for start, stop in ((66_000, 70_001), (0, 1), (1, 131), (131, 66_000)):  # in any order, of any parity
            pads.onto(found[start:stop], start)
        np.testing.assert_array_equal(found, padded(words, keys, "Y", 3))
        assert repr(pads) == f"Pads(peers={k - 1})"
        with pytest.raises(LocalProtocolError, match="already padded"):
            claimed(keys, "Y", 3, once)
        with pytest.raises(LocalProtocolError, match="already padded"):
            pad(found, keys, "Y", 3, once)


@pytest.mark.parametrize("halves", [1, 2])
def test_threads_put_the_pad_of_the_users_on_as_one_does(halves):
    words = np.random.default_rng(halves).integers(0, 2**64, size=(70_001, halves), dtype=np.uint64)
    whole = [sum(int(half) << 64 * at for at, half in enumerate(row)) for row in words[-3:]]
    stream = Keystream.of(GROUP, "pad", "users-only", "Y", 3).words(words.size).reshape(words.shape)
    pads = [sum(int(half) << 64 * at for at, half in enumerate(row)) for row in stream[-3:]]
    with ThreadPoolExecutor(3) as pool:
        found = add_group_pad(words.copy(), GROUP, "Y", 3, PadsOnce(), pool.map, halves=halves)
        last = [sum(int(half) << 64 * at for at, half in enumerate(row)) for row in found[-3:]]
        assert last == [(a + b) % (1 << 64 * halves) for a, b in zip(whole, pads, strict=True)]
        np.testing.assert_array_equal(found, add_group_pad(words.copy(), GROUP, "Y", 3, PadsOnce(), halves=halves))
        np.testing.assert_array_equal(remove_group_pad(found, GROUP, "Y", 3, pool.map, halves=halves), words)


def words_of(value, count):
    """An integer as so many uint64, low first."""
    return [value >> 64 * at & 0xFFFFFFFFFFFFFFFF for at in range(count)]


@pytest.mark.parametrize(("halves", "bits"), [(1, 128), (2, 192), (2, 128), (5, 128)])
def test_payload_and_tag_of_a_short_sum_have_one_stream_under_the_pairs_key(halves, bits):
    # Written out for k = 3 with Python's integers, on the cipher of another call: a new one for each pad.
    p12, p13, p23 = (Seed(bytes([n]) * 32) for n in (12, 13, 23))
    users = [PadKeys(1, {2: p12, 3: p13}), PadKeys(2, {1: p12, 3: p23}), PadKeys(3, {1: p13, 2: p23})]
    count, start = 4, hashlib.sha256(path("pad", "pair", "norm", 2)).digest()[:12]

    def stream(seed):
        counter = modes.CTR(start + bytes(4))
        cipher = Cipher(algorithms.AES(seed.derive("pad", "sums").reveal()), counter).encryptor()
        drawn = np.frombuffer(cipher.update(bytes(8 * (count * halves + 3))), "<u8").tolist()
        parts = [drawn[at * halves : (at + 1) * halves] for at in range(count)] + [drawn[count * halves :]]
        return [sum(word << 64 * at for at, word in enumerate(part)) for part in parts]

    p12, p13, p23 = map(stream, (p12, p13, p23))
    added = [
        [x + y for x, y in zip(p12, p13, strict=True)],
        [y - x for x, y in zip(p12, p23, strict=True)],
        [-x - y for x, y in zip(p13, p23, strict=True)],
    ]
    above = [[(1, p12), (1, p13)], [(-1, p12), (1, p23)], [(-1, p13), (-1, p23)]]
    for keys, drawn, signed in zip(users, added, above, strict=True):
        payload, tag = np.full((count, halves), 2**64 - 1, np.uint64), np.array([7, 2**64 - 1, 9], np.uint64)
        padded_tag = pad_sum(payload, tag, bits, keys, "norm", 2, PadsOnce(), halves)
        ones = 2 ** (64 * halves) - 1
        assert payload.tolist() == [words_of((ones + pad) % 2 ** (64 * halves), halves) for pad in drawn[:-1]]
        low = (7 + ((2**64 - 1) << 64) + (9 << 128) % 2**bits + drawn[-1]) % 2**bits
        high = (((9 << 128) >> bits) + sum(sign * (pad[-1] >> bits) for sign, pad in signed)) % 2 ** (192 - bits)
        assert padded_tag.tolist() == words_of(low + (high << bits), 3)
        assert tag.tolist() == [7, 2**64 - 1, 9]


def test_two_sums_whose_streams_would_start_alike_are_not_both_padded(monkeypatch):
    once, keys, tag = PadsOnce(), dealt(3)[1], np.zeros(3, np.uint64)
    monkeypatch.setattr(pads, "path", lambda *labels: b"labels that were sought for it")
    pad_sum(np.zeros((4, 2), np.uint64), tag, 192, keys, "one", 0, once, 2)
    payload = np.zeros((4, 2), np.uint64)
    with pytest.raises(LocalProtocolError, match="already padded"):
        pad_sum(payload, tag, 192, keys, "another", 0, once, 2)
    assert not payload.any()


def test_a_sum_is_padded_once_whether_it_is_short_or_long():
    once, keys, tag = PadsOnce(), dealt(3)[1], np.zeros(3, np.uint64)
    pad_sum(np.zeros((4, 2), np.uint64), tag, 192, keys, "norm", 0, once, 2)
    for refused in (
        lambda: pad_sum(np.zeros((4, 2), np.uint64), tag, 192, keys, "norm", 0, once, 2),
        lambda: pad(np.zeros((9000, 2), np.uint64), keys, "norm", 0, once, halves=2),
    ):
        with pytest.raises(LocalProtocolError, match="already padded"):
            refused()
    with pytest.raises(ShapeError, match="at most"):
        pad_sum(np.zeros((9000, 2), np.uint64), tag, 192, keys, "norm", 1, once, 2)


@pytest.mark.parametrize("length", [3, SHORT // 2, SHORT // 2 + 1])
def test_tags_and_words_of_short_and_long_sums_cancel(length):
    k, plan = 6, planned(SumKind.TOTAL, length)
    rng = np.random.default_rng(length)
    payloads = [rng.integers(0, 2**60, plan.shape(0), np.uint64) for _ in range(k)]
    found = Session(k).opened(plan, payloads)
    np.testing.assert_array_equal(found[:, 0], np.add.reduce([row[:, 0] for row in payloads]))


def test_users_of_one_process_draw_the_keys_of_a_tag_once_and_no_others():
    here, seed, labels = DrawnHere(), Seed(b"\x05" * 32), path("tag", "norm", 0)
    first, second = (PadsOnce(here).keys(seed, labels, 9) for _ in range(2))
    assert first is second
    np.testing.assert_array_equal(first, PadsOnce().keys(seed, labels, 9))
    for other in ((GROUP, labels, 9), (seed, path("tag", "norm", 1), 9), (seed, labels, 8)):
        np.testing.assert_array_equal(PadsOnce(here).keys(*other), PadsOnce().keys(*other))
    assert repr(here) == "DrawnHere(<redacted>)"
    with pytest.raises(TypeError, match="never copied"):
        copy.copy(here)
