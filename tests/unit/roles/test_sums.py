"""A user's end of sums: what scripts ask for comes back exact, to the users who may read it, and to no one else."""

from fractions import Fraction

import numpy as np
import pytest
from tests.summing import dealt
from tests.tolerances import digits_lost

from fedsvd.errors import FixedPointOverflow, LocalProtocolError, ShapeError, SumAltered
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import CLASSES
from fedsvd.protocol.tasks import Item, Mode, Scheme, Split, Task, Trust
from fedsvd.randomness.seed import Seed
from fedsvd.roles.user.sums import (
    NORM_WIDTH,
    SumInHand,
    SumsOfUser,
    any_of,
    any_user,
    bound_sum,
    folded_sum,
    rounded_sum,
    short_sum,
    total_sum,
    wide_sum,
    wide_sum_of_floats,
)
from fedsvd.secagg.aggregate import TaggedSum
from fedsvd.secagg.pads import PadsOnce
from fedsvd.secagg.sums import PlannedSum, SumKind, even_batches
from fedsvd.secagg.tagged import tag_seed
from fedsvd.tasks.declared import declared
from fedsvd.types import SessionId

K = 3
USERS, RECEIVER = Seed(b"u" * 32), 2
UNIT = 2.0**-1074
PLAN = SessionPlan(
    SessionId("s"),
    Task.SVD,
    Split.VERTICAL,
    Scheme.SUM,
    Trust.PEERS,
    m=4,
    counts=(2, 2, 2),
    release=(Item.COMPONENTS, Item.SPECTRUM),
    mode=Mode.B,
    **declared(Task.SVD).facts(Split.VERTICAL),
)


def own(i):
    """The seed that never leaves user i."""
    return Seed(bytes([100 + i]) * 32)


def ends():
    """The three users' ends of one session; user 2 receives the sums that one user opens."""
    seeds = {"users": USERS, "tags": tag_seed(own(RECEIVER))}
    return {i: SumsOfUser(keys, seeds, own(i), PadsOnce()) for i, keys in dealt(K).items()}


def planned(kind, length, name="sum", receiver=None):
    return PlannedSum(name, kind, even_batches(kind, length), 100 if kind is SumKind.TOTAL else 1074, receiver)


def replies(users, plan, requests, batch=0):
    """What an honest CSP answers to the users' shares of a batch."""
    running = TaggedSum(plan.kind, plan.batches[batch], K)
    for i, end in users.items():
        running.add(i, *end.share(plan, batch, requests[i].share(batch)))
    return running.total()


def summed(plan, scripts):
    """What each user's script returns after one honest sum."""
    users = ends()
    requests = {i: next(script) for i, script in scripts.items()}
    assert {request.name for request in requests.values()} == {plan.name}
    replied = [replies(users, plan, requests, batch) for batch in range(len(plan.batches))]
    found = {}
    for i, script in scripts.items():
        opened = [users[i].open(plan, batch, *reply) for batch, reply in enumerate(replied)]
        total, read = np.concatenate(opened), requests[i].read
        with pytest.raises(StopIteration) as end:
            script.send(total if read is None else read(total))
        found[i] = end.value.value
    return found


VALUES = {i: np.array([1e300, 0.1 * i, -1e-300, i]) for i in range(1, K + 1)}


def test_numbers_of_any_magnitude_are_added_exactly_but_for_noise_in_each_last_digit():
    found = summed(planned(SumKind.WIDE, 4), {i: wide_sum_of_floats("sum", VALUES[i], own(i)) for i in VALUES})
    exact = [sum(Fraction(float(VALUES[i][j])) for i in VALUES) for j in range(4)]
    for total in found.values():
        assert total.tolist() == found[1].tolist()
        for value, right, one in zip(total.tolist(), exact, VALUES[3], strict=True):
            assert abs(Fraction(value) - right) <= 2 * K * Fraction(float(np.spacing(np.abs(one)))) + Fraction(UNIT)


def test_integers_are_added_to_the_last_digit_where_their_noise_is_known():
    own_integers = {i: [i << 2000, -(i << 40), 7] for i in range(1, K + 1)}
    widths = [3, 3, 3]
    found = summed(
        planned(SumKind.WIDE, 3), {i: wide_sum("sum", own_integers[i], widths, own(i)) for i in own_integers}
    )
    exact = [sum(own_integers[i][j] for i in own_integers) for j in range(3)]
    assert all(abs(total - right) <= K << 3 for total, right in zip(found[2], exact, strict=True))
    assert found[1] == found[2] == found[3]


def test_a_total_is_right_to_its_noise_and_the_noise_is_there():
    values = {i: np.array([0.25 * i, -1.0, 1 / 3]) for i in range(1, K + 1)}
    scripts = {i: total_sum(PLAN, "sum", values[i], own(i), NORM_WIDTH) for i in values}
    found = summed(planned(SumKind.TOTAL, 3), scripts)[2]
    error = np.abs(found - [1.5, -3.0, 1.0])
    assert error.max() <= K * 2.0 ** (NORM_WIDTH - 100)
    assert error.max() >= 2.0 ** (NORM_WIDTH - 100) / 8


def test_a_check_is_right_to_a_few_deviations():
    values = {i: np.full(4, 2.0**-30 * i) for i in range(1, K + 1)}
    scripts = {i: folded_sum("sum", values[i], own(i), 2.0**-40, 2.0**-20) for i in values}
    found = summed(PlannedSum("sum", SumKind.BOUND, (4,), 0), scripts)[1]
    error = np.abs(found - 6 * 2.0**-30)
    assert 0.0 < error.max() <= 8 * K * 2.0**-40


def test_of_a_check_that_is_far_off_users_read_the_last_digits_and_none_of_its_size():
    """Equal modulo 2^12 tolerances, totals are opened as equal numbers: digits above are in no word that is sent."""
    limit, found = 2.0**-20, []
    for size in (0, 1, 5, 1000):
        values = {i: np.array([0.25 * limit + (size * 2.0**12 * limit if i == 2 else 0.0)]) for i in range(1, K + 1)}
        scripts = {i: folded_sum("sum", values[i], own(i), 2.0**-60, 0.75 * limit) for i in values}
        found.append(summed(PlannedSum("sum", SumKind.BOUND, (1,), 0), scripts)[1][0])
    assert len(set(found)) == 1
    assert abs(found[0] - 0.75 * limit) <= 8 * K * 2.0**-60


def test_numbers_are_rounded_at_random_to_their_mean():
    values = {i: np.full(4000, 0.3 * i) for i in range(1, K + 1)}
    scripts = {i: rounded_sum(PLAN, "sum", values[i], -1, own(i)) for i in values}
    found = summed(PlannedSum("sum", SumKind.TOTAL, (4000,), 0), scripts)[2]
    assert set(np.unique(found)) <= set(np.arange(0.5, 4.0, 0.5))
    assert np.abs(found - 1.8).max() < 1.5
    assert abs(found.mean() - 1.8) < 8 * 0.5 / np.sqrt(4000)  # eight deviations of a mean


@pytest.mark.parametrize("setting", [(), (1,), (3,), (1, 2, 3)])
def test_users_learn_that_some_user_finds_a_check_violated_and_not_how_many_do(setting):
    plan = PlannedSum("sum", SumKind.BOUND, (1,), 0)
    found = summed(plan, {i: any_user("sum", i in setting, own(i)) for i in range(1, K + 1)})
    assert set(found.values()) == {bool(setting)}


def test_each_flag_is_an_or_over_all_users():
    plan = PlannedSum("sum", SumKind.BOUND, (4,), 0)
    flags = {1: [True, False, False, True], 2: [True, False, False, False], 3: [False, False, True, False]}
    found = summed(plan, {i: any_of("sum", np.array(flags[i]), own(i)) for i in flags})
    assert all(each.tolist() == [True, False, True, True] for each in found.values())


@pytest.mark.parametrize(
    ("exponents", "least"),
    [
        ((3, -40, None), 16),
        ((None, None, -1039), -1024),
        ((None, -1071, None), None),
        ((16, 17, 2), 32),
        ((None, None, None), None),
    ],
)
def test_the_common_unit_is_the_least_class_that_no_user_reaches(exponents, least):
    scripts = {i: bound_sum("sum", exponents[i - 1], own(i)) for i in range(1, K + 1)}
    assert set(summed(PlannedSum("sum", SumKind.BOUND, (CLASSES,), 0), scripts).values()) == {least}


def test_a_sum_of_several_batches_is_joined_in_order(monkeypatch):
    monkeypatch.setattr("fedsvd.secagg.sums.MOST_WORDS", 5)
    values = {i: np.arange(12.0) for i in range(1, K + 1)}
    plan = planned(SumKind.TOTAL, 12)
    assert plan.batches == (4, 4, 4)
    found = summed(plan, {i: total_sum(PLAN, "sum", values[i] / 16, own(i), 3) for i in values})[3]
    np.testing.assert_allclose(found, 3 * np.arange(12.0) / 16, rtol=0, atol=digits_lost(-9))


@pytest.mark.parametrize("kind", [kind for kind in SumKind if kind is not SumKind.SHARED])
def test_without_the_users_seed_a_total_is_noise(kind):
    """The CSP adds the shares up and sees this: no value, no zero, not even that two sums are equal."""
    users, seen = ends(), []
    for name in ("first", "second"):
        plan = planned(kind, 120, name)
        running = TaggedSum(kind, 120, K)
        for i, end in users.items():
            running.add(i, *end.share(plan, 0, np.zeros(plan.shape(0), np.uint64)))
        payload, tag = running.total()
        seen += [payload.ravel(), tag]
    words = np.concatenate(seen)
    assert len(set(words.tolist())) == words.size
    ones = np.unpackbits(words.view(np.uint8)).mean()
    assert abs(ones - 0.5) < 5 * 0.5 / np.sqrt(64 * words.size)


def test_one_receiver_reads_what_no_one_else_can():
    users, plan = ends(), planned(SumKind.TOTAL, 2, "scores", receiver=RECEIVER)
    scripts = {i: total_sum(PLAN, "scores", np.array([i / 8, 0.25]), own(i), 3) for i in users}
    requests = {i: next(script) for i, script in scripts.items()}
    reply = replies(users, plan, requests)
    with pytest.raises(StopIteration) as end:
        scripts[RECEIVER].send(requests[RECEIVER].read(users[RECEIVER].open(plan, 0, *reply)))
    np.testing.assert_allclose(end.value.value, [0.75, 0.75], rtol=0, atol=digits_lost(-9))
    for other in (1, 3):
        with pytest.raises(LocalProtocolError, match="opened by user 2 alone"):
            users[other].open(plan, 0, *reply)
        with pytest.raises(StopIteration) as end:
            scripts[other].send(None)
        assert end.value.value is None


def test_what_is_made_of_a_total_is_made_once_for_users_that_hold_the_same_batches():
    users, plan, memo, made = ends(), planned(SumKind.TOTAL, 2), {}, []
    batches = [np.ones((2, 2), np.uint64), np.zeros((2, 2), np.uint64)]

    def read(total):
        made.append(len(total))
        return total.astype(float)

    def found(user, batches):
        in_hand = SumInHand(users[user], plan, user, lambda batch: batches[batch])
        for batch in batches:
            in_hand.take(batch)
        return in_hand.read(read, memo, 3)

    first, second, other = found(1, batches), found(2, batches), found(3, [batches[1].copy(), batches[1]])
    assert first is second
    assert made == [4, 4]
    assert not np.array_equal(first, other)
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 2.0


def test_a_share_is_made_once():
    end, plan = ends()[1], planned(SumKind.TOTAL, 2)
    end.share(plan, 0, np.zeros((2, 2), np.uint64))
    with pytest.raises(LocalProtocolError, match="already padded"):
        end.share(plan, 0, np.zeros((2, 2), np.uint64))


def test_a_batch_of_the_upload_is_padded_once_and_its_pads_cancel():
    users, words = ends(), np.arange(6, dtype=np.uint64).reshape(3, 2)
    padded = [end.padded(words.copy(), "upload", 4) for end in users.values()]
    np.testing.assert_array_equal(np.add.reduce(padded), 3 * words)
    assert not any(np.array_equal(share, words) for share in padded)
    with pytest.raises(LocalProtocolError, match="already padded"):
        users[1].padded(words.copy(), "upload", 4)


@pytest.mark.parametrize(("length", "woken"), [(1_000, False), (1 << 18, True)])
def test_threads_are_woken_for_long_sums_alone_and_change_no_bit(length, woken):
    plan, values, calls = planned(SumKind.SHORT, length), np.linspace(-0.9, 0.9, length), list[int]()

    def each(work, parts):
        calls.append(length)
        return map(work, parts)

    def shared(threads):
        seeds = {"users": USERS, "tags": tag_seed(own(RECEIVER))}
        end = SumsOfUser(dealt(K)[1], seeds, own(1), PadsOnce(), threads)
        payload = next(short_sum("sum", values, 0, own(1), each=threads)).share(0)
        return (*end.share(plan, 0, payload), end.padded(payload.copy(), "upload", 0))

    for alone, together in zip(shared(None), shared(each), strict=True):
        np.testing.assert_array_equal(together, alone)
    assert bool(calls) == woken


def test_a_number_beyond_what_the_words_hold_is_an_overflow_and_not_a_wrong_sum():
    script = total_sum(PLAN, "sum", np.array([2.0**30]), own(1), 3)
    with pytest.raises(FixedPointOverflow):
        next(script).share(0)


@pytest.mark.parametrize("shape", [(1, 67), (3, 67), (2,), (2, 3), (2, 2)])
def test_a_reply_of_another_shape_is_an_altered_sum(shape):
    with pytest.raises(SumAltered):
        ends()[1].open(planned(SumKind.WIDE, 2), 0, np.zeros(shape, np.uint64), np.zeros(3, np.uint64))


def test_a_share_of_another_shape_is_refused_at_home():
    with pytest.raises(ShapeError):
        ends()[1].share(planned(SumKind.TOTAL, 2), 0, np.zeros((3, 2), np.uint64))


def test_the_reply_itself_is_left_alone_and_an_end_shows_whose_it_is():
    users, plan = ends(), planned(SumKind.TOTAL, 2)
    scripts = {i: total_sum(PLAN, "sum", np.ones(2) / 4, own(i), 3) for i in users}
    payload, tag = replies(users, plan, {i: next(script) for i, script in scripts.items()})
    before = payload.copy(), tag.copy()
    users[1].open(plan, 0, payload, tag)
    np.testing.assert_array_equal(payload, before[0])
    np.testing.assert_array_equal(tag, before[1])
    assert repr(users[1]) == "SumsOfUser(user=1)"
