"""Every pair of users shares one seed, nobody shares two, and tables that are off by one do not pass."""

import copy
import itertools
import pickle

import pytest

from fedsvd.errors import ConfigError, LocalProtocolError
from fedsvd.randomness.seed import Seed
from fedsvd.sealing.agree import AgreementKey
from fedsvd.secagg.keys import PADS, AgreedHere, PadKeys, pad_keys, pair_keys

K = 4
MINE = {user: AgreementKey(Seed(bytes([user]) * 32)) for user in range(1, K + 1)}
PUBLICS = {user: key.public for user, key in MINE.items()}


def keys_of_all(session="s", plan="p"):
    return {user: pad_keys(MINE[user], user, PUBLICS, session, plan) for user in MINE}


def test_both_users_of_a_pair_hold_the_same_seed_and_no_two_pairs_do():
    keys = keys_of_all()
    pairs = list(itertools.combinations(range(1, K + 1), 2))
    assert all(keys[i].seed(j) == keys[j].seed(i) for i, j in pairs)
    assert len({keys[i].seed(j).reveal() for i, j in pairs}) == len(pairs)
    assert [keys[2].user, keys[2].k, keys[2].peers] == [2, 4, (1, 3, 4)]


def test_users_of_one_process_hold_the_seeds_that_each_would_agree_on_alone_and_none_stays_behind():
    here = AgreedHere()
    together = {user: pad_keys(MINE[user], user, PUBLICS, "s", "p", here=here) for user in MINE}
    alone = keys_of_all()
    assert all(together[i].seed(j) == alone[i].seed(j) for i in MINE for j in MINE if i != j)
    assert repr(here) == "AgreedHere(waiting=0)"
    with pytest.raises(TypeError):
        copy.copy(here)


@pytest.mark.parametrize("change", ["session", "plan", "key"])
def test_users_of_one_process_share_no_seed_of_another_session_plan_or_key(change):
    here = AgreedHere()
    first = pad_keys(MINE[1], 1, PUBLICS, "s", "p", here=here)
    session, plan = "s2" if change == "session" else "s", "p2" if change == "plan" else "p"
    # User 2 is shown another key of user 1 than user 1 has.
    publics = {**PUBLICS, 1: AgreementKey(Seed(bytes([9]) * 32)).public} if change == "key" else PUBLICS
    other = pad_keys(MINE[2], 2, publics, session, plan, here=here)
    alone = pad_keys(MINE[2], 2, publics, session, plan)
    assert other.seed(1) == alone.seed(1) != first.seed(2)


def test_another_session_plan_or_purpose_has_other_seeds():
    seed = keys_of_all()[1].seed(2)
    assert seed != keys_of_all(session="s2")[1].seed(2)
    assert seed != keys_of_all(plan="p2")[1].seed(2)
    assert seed == pair_keys(MINE[1], 1, PUBLICS, "s", "p", PADS)[2]
    assert seed != pair_keys(MINE[1], 1, PUBLICS, "s", "p", "seal")[2]


def test_two_public_keys_swapped_on_the_way_break_the_pair_instead_of_joining_it():
    swapped = {**PUBLICS, 2: PUBLICS[3], 3: PUBLICS[2]}
    deceived = pad_keys(MINE[1], 1, swapped, "s", "p")
    honest = keys_of_all()
    assert {deceived.seed(2).reveal(), deceived.seed(3).reveal()}.isdisjoint(
        {honest[user].seed(1).reveal() for user in (2, 3)}
    )


@pytest.mark.parametrize("user", [0, 2, 5])
def test_a_user_who_is_not_at_its_own_place_is_refused(user):
    with pytest.raises(LocalProtocolError):
        pad_keys(MINE[1], user, PUBLICS, "s", "p")


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_table_counted_from_elsewhere_is_refused(shift):
    with pytest.raises(ConfigError):
        pad_keys(MINE[1], 1 + shift, {user + shift: key for user, key in PUBLICS.items()}, "s", "p")


def test_a_user_alone_is_refused():
    with pytest.raises(ConfigError, match="k >= 2"):
        pad_keys(MINE[1], 1, {1: PUBLICS[1]}, "s", "p")
    with pytest.raises(ConfigError, match="k >= 2"):
        PadKeys(1, {})


@pytest.mark.parametrize(("user", "peers"), [(1, [1, 2]), (0, [1, 2]), (1, [2, 4]), (3, [1, 3]), (4, [1, 2]), (1, [0])])
def test_dealt_seeds_must_be_for_exactly_the_other_users(user, peers):
    with pytest.raises(ConfigError, match="count users from 1"):
        PadKeys(user, {peer: Seed(bytes([peer]) * 32) for peer in peers})


def test_one_seed_dealt_for_two_pairs_is_refused():
    with pytest.raises(ConfigError, match="one seed with two users"):
        PadKeys(2, {1: Seed(bytes(32)), 3: Seed(bytes(32))})


def test_pad_keys_do_not_change_and_show_nothing():
    seeds = {2: Seed(b"\xab" * 32), 3: Seed(b"\xcd" * 32)}
    keys = PadKeys(1, seeds)
    assert repr(keys) == "PadKeys(user=1, k=3, <redacted>)"
    seeds[2] = Seed(bytes(32))
    assert keys.seed(2) == Seed(b"\xab" * 32)
    for name in ("user", "k", "_seeds", "new"):
        with pytest.raises(AttributeError):
            setattr(keys, name, 2)
    with pytest.raises(AttributeError):
        del keys.user
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            leak(keys)


@pytest.mark.parametrize("peer", [0, 1, 4])
def test_there_is_no_seed_with_oneself_or_a_stranger(peer):
    keys = PadKeys(1, {2: Seed(b"\xab" * 32), 3: Seed(b"\xcd" * 32)})
    with pytest.raises(LocalProtocolError):
        keys.seed(peer)
