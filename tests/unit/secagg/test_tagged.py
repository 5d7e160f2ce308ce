"""Users add up words, digits and bounds through a CSP, and open exactly the sum; each batch once."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.summing import Session, planned

from fedsvd.errors import LocalProtocolError, RepeatedShare, ShapeError, SumAltered
from fedsvd.randomness.seed import Seed
from fedsvd.secagg import wide
from fedsvd.secagg.aggregate import TaggedSum, WordSum
from fedsvd.secagg.pads import DrawnHere, PadsOnce, pad
from fedsvd.secagg.sums import PlannedSum, SumKind
from fedsvd.secagg.tagged import SumSeeds, open_total, share, tag_seed
from fedsvd.secagg.words128 import from_integers, to_integers


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(2, 12))
def test_words_of_all_users_open_to_their_exact_sum(data, k):
    most = 2**127 // k - 1
    length = data.draw(st.integers(1, 5))
    rows = [data.draw(st.lists(st.integers(-most, most), min_size=length, max_size=length)) for _ in range(k)]
    total = Session(k).opened(planned(SumKind.TOTAL, length), [from_integers(row) for row in rows])
    assert to_integers(total) == [sum(column) for column in zip(*rows, strict=True)]


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(2, 6))
def test_wide_numbers_of_all_users_open_to_their_exact_sum(data, k):
    number = st.integers(-(2**2130), 2**2130)
    rows = [data.draw(st.lists(number, min_size=2, max_size=2)) for _ in range(k)]
    total = Session(k).opened(planned(SumKind.WIDE, 2), [wide.encode_integers(row) for row in rows])
    assert wide.decode_integers(total) == [sum(column) for column in zip(*rows, strict=True)]


def test_several_batches_have_pads_and_keys_of_their_own():
    plan = PlannedSum("gram", SumKind.TOTAL, (3, 3, 2), 126)
    session, words = Session(2), from_integers([1, 2, 3])
    first, second = (session.reply(plan, [words, words], batch) for batch in (0, 1))
    assert not np.any(first[0] == second[0])
    for batch, reply in ((0, first), (1, second)):
        assert to_integers(open_total(plan, batch, *reply, session.seeds)) == [2, 4, 6]
    assert to_integers(session.opened(plan, [words[:2], words[1:]], 2)) == [3, 5]


def test_a_batch_is_shared_once_and_what_was_refused_before_is_not_spent():
    session, plan = Session(2), planned(SumKind.TOTAL, 2)
    one, once = from_integers([1, 2]), PadsOnce()
    for wrong in (one[:1], one.astype(np.int64), one.ravel()):
        with pytest.raises(ShapeError):
            share(plan, 0, wrong, session.keys[1], session.seeds, once)
    share(plan, 0, one, session.keys[1], session.seeds, once)
    with pytest.raises(LocalProtocolError, match="already padded"):
        share(plan, 0, one, session.keys[1], session.seeds, once)
    # The same name in the ring of digits is the same stream of pads.
    with pytest.raises(LocalProtocolError, match="already padded"):
        pad(np.zeros(4, np.uint64), session.keys[1], "sum", 0, once)


def test_neither_a_payload_nor_a_reply_is_written_to():
    session, plan = Session(2), planned(SumKind.TOTAL, 2)
    payload = from_integers([1, -2])
    payload.flags.writeable = False
    reply = session.reply(plan, [payload, payload])
    before = [part.copy() for part in reply]
    open_total(plan, 0, *reply, session.seeds)
    np.testing.assert_array_equal(
        np.concatenate([part.ravel() for part in reply]), np.concatenate([part.ravel() for part in before])
    )


@pytest.mark.parametrize("kind", [SumKind.SHORT, SumKind.TOTAL, SumKind.WIDE])
@pytest.mark.parametrize("threads", [1, 4])
def test_threads_share_and_open_a_long_batch_as_one_does(kind, threads):
    length = {SumKind.SHORT: 300_001, SumKind.TOTAL: 150_001, SumKind.WIDE: 2_101}[kind]
    session, plan, rng = Session(3), planned(kind, length), np.random.default_rng(2)
    payloads = [rng.integers(0, 2**60, plan.shape(0), np.uint64) for _ in range(3)]
    alone, running = Session(3).reply(plan, payloads), TaggedSum(plan.kind, length, 3)
    with ThreadPoolExecutor(threads) as pool:
        for (user, keys), payload in zip(session.keys.items(), payloads, strict=True):
            running.add(user, *share(plan, 0, payload, keys, session.seeds, PadsOnce(DrawnHere()), pool.map))
        for one, other in zip(alone, running.total(), strict=True):
            np.testing.assert_array_equal(one, other)
        found = open_total(plan, 0, *alone, session.seeds, pool.map)
        np.testing.assert_array_equal(found, open_total(plan, 0, *alone, session.seeds))
        changed = alone[0].copy()
        changed[-1, 0] ^= np.uint64(1)  # in the last thread's part
        with pytest.raises(SumAltered):
            open_total(plan, 0, changed, alone[1], session.seeds, pool.map)


def test_a_sum_for_one_receiver_opens_there_and_nowhere_else():
    session, plan = Session(3), planned(SumKind.TOTAL, 2, "score", receiver=3)
    own = Seed(b"\x33" * 32)
    receiver, sender = SumSeeds.of_receiver(own), SumSeeds.of_sender(tag_seed(own))
    running = TaggedSum(plan.kind, 2, 3)
    for user, keys in session.keys.items():
        seeds = receiver if user == 3 else sender
        running.add(user, *share(plan, 0, from_integers([user, -user]), keys, seeds, PadsOnce()))
    assert to_integers(open_total(plan, 0, *running.total(), receiver)) == [6, -6]
    with pytest.raises(LocalProtocolError, match="user 3 alone"):
        open_total(plan, 0, *running.total(), sender)
    with pytest.raises(SumAltered):
        open_total(plan, 0, *running.total(), session.seeds)


def test_a_receiver_that_takes_no_part_is_refused():
    session, plan = Session(2), planned(SumKind.TOTAL, 1, receiver=3)
    with pytest.raises(LocalProtocolError, match="not among users"):
        share(plan, 0, from_integers([1]), session.keys[1], session.seeds, PadsOnce())


@pytest.mark.parametrize("kind", SumKind)
def test_a_reply_of_another_form_is_refused_like_an_altered_one(kind):
    session, plan = Session(2), planned(kind, 4)
    zero = np.zeros(plan.shape(0), np.uint64)
    payload, tag = session.reply(plan, [zero, zero])
    forms = [(payload[:3], tag), (payload.ravel(), tag), (payload.astype(np.int64), tag)]
    forms += [(payload, tag[:2]), (payload, tag[None]), (payload, tag.astype(float))]
    texts = set()
    for form in forms:
        with pytest.raises(SumAltered) as caught:
            open_total(plan, 0, *form, session.seeds)
        texts.add(str(caught.value))
    assert len(texts) == 1


def test_the_csp_takes_one_share_of_each_user_and_a_refused_one_changes_nothing():
    session, plan = Session(3), planned(SumKind.TOTAL, 2)
    shares = session.shares(plan, [from_integers([user, 1]) for user in (1, 2, 3)])
    running = TaggedSum(plan.kind, 2, 3)
    running.add(2, *shares[1])
    words, tag = shares[0]
    refused = [
        (2, words, tag, RepeatedShare),
        (1, words[:1], tag, ShapeError),
        (1, words.astype(float), tag, ShapeError),
        (1, words, tag[:2], ShapeError),
        (1, words, tag.astype(np.int64), ShapeError),
        (4, words, tag, LocalProtocolError),
    ]
    for user, payload, its_tag, error in refused:
        with pytest.raises(error):
            running.add(user, payload, its_tag)
    assert running.missing == (1, 3)
    with pytest.raises(LocalProtocolError, match="missing"):
        running.total()
    running.add(3, *shares[2])
    running.add(1, *shares[0])
    assert running.complete
    assert to_integers(open_total(plan, 0, *running.total(), session.seeds)) == [6, 3]


def test_words_without_a_tag_add_up_at_the_csp():
    """A sum that the CSP may open: pair pads alone, which cancel with the carries between halves."""
    session, rows = Session(4), [[2**126, -5], [-(2**126), 2**70], [7, -(2**100)], [2**64 - 1, 2**64]]
    running = WordSum(2, 4)
    for user, row in enumerate(rows, 1):
        running.add(user, pad(from_integers(row), session.keys[user], "gram", 0, PadsOnce(), halves=2))
    assert to_integers(running.total()) == [sum(column) for column in zip(*rows, strict=True)]
    # Pads that were added half by half would lose these carries.
    apart = np.add.reduce(
        [pad(from_integers(row), session.keys[i], "gram", 0, PadsOnce(), halves=2) for i, row in enumerate(rows, 1)]
    )
    assert to_integers(apart) != to_integers(running.total())


def test_words_are_padded_only_in_their_own_shape():
    keys = Session(2).keys[1]
    for wrong in (np.zeros(4, np.uint64), np.zeros((2, 3), np.uint64), np.zeros((2, 4), np.uint64)[:, ::2]):
        with pytest.raises(ShapeError, match="halves"):
            pad(wrong, keys, "gram", 0, PadsOnce(), halves=2)
