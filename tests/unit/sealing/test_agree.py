"""Two parties get one key for one purpose, and nobody else's key is equal to it."""

import copy
import itertools
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsvd.errors import ConfigError, NotSealed
from fedsvd.randomness.seed import Seed
from fedsvd.sealing.agree import AgreementKey, pair_key, shared_secret

SECRET = bytes(range(32))
ONE, TWO, THREE = (AgreementKey(Seed(bytes([n]) * 32)) for n in (1, 2, 3))
USUAL = {"me": 1, "them": 2, "session": "s", "plan": "p", "purpose": "pads"}

# The points of order 1, 2, 4 and 8 on the curve and its twist (u = 0, 1, -1 and the two of order 8), and
# the same numbers written with p or 2p added where that still fits 255 bits.
PRIME = 2**255 - 19
ORDER_8 = (
    0x00B8495F16056286FDB1329CEB8D09DA6AC49FF1FAE35616AEB8413B7C7AEBE0,
    0x57119FD0DD4E22D8868E1C58C45C44045BEF839C55B1D0B1248C50A3BC959C5F,
)


def key(end=ONE, public=TWO.public, **changes):
    return pair_key(end, public, **{**USUAL, **changes})


@settings(max_examples=30, deadline=None)
@given(
    seeds=st.tuples(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32)),
    parties=st.tuples(st.integers(0, 100), st.integers(0, 100)),
    session=st.text(min_size=1),
    plan=st.text(min_size=1),
    purpose=st.text(min_size=1),
)
def test_both_ends_get_the_same_key(seeds, parties, session, plan, purpose):
    if seeds[0] == seeds[1] or parties[0] == parties[1]:
        return
    mine, theirs = (AgreementKey(Seed(seed)) for seed in seeds)
    if mine.public == theirs.public:  # X25519 clamps: some different seeds are one key
        return
    names = {"session": session, "plan": plan, "purpose": purpose}
    here = pair_key(mine, theirs.public, me=parties[0], them=parties[1], **names)
    there = pair_key(theirs, mine.public, me=parties[1], them=parties[0], **names)
    assert here == there
    assert shared_secret(mine, theirs.public) == shared_secret(theirs, mine.public)


def test_every_session_plan_purpose_pair_and_peer_has_a_key_of_its_own():
    keys = [
        key(),
        key(session="s2"),
        key(plan="p2"),
        key(purpose="seal"),
        key(me=3),
        key(them=3),
        key(public=THREE.public),
        key(end=THREE),
        shared_secret(ONE, TWO.public),
    ]
    assert all(a != b for a, b in itertools.combinations(keys, 2))


def test_a_mix_up_of_who_is_who_gives_another_key():
    # User 1 believes to be user 2: its key must not meet the one its peer computes.
    assert key(ONE, TWO.public, me=2, them=1) != key(TWO, ONE.public, me=2, them=1)


def test_shifting_a_letter_between_session_plan_and_purpose_changes_the_key():
    assert key(session="ab", plan="c") != key(session="a", plan="bc")
    assert key(plan="pq", purpose="ads") != key(plan="p", purpose="qads")


@pytest.mark.parametrize("u", [0, 1, PRIME - 1, PRIME, PRIME + 1, *ORDER_8])
def test_a_point_of_low_order_is_refused(u):
    with pytest.raises(NotSealed):
        shared_secret(ONE, u.to_bytes(32, "little"))


@pytest.mark.parametrize("public", [b"", b"\x09" * 31, b"\x09" * 33])
def test_a_public_key_of_another_length_is_refused_without_detail(public):
    with pytest.raises(NotSealed) as refused:
        key(public=public)
    with pytest.raises(NotSealed) as low_order:
        key(public=bytes(32))
    assert str(refused.value) == str(low_order.value)
    assert refused.value.__cause__ is None


def test_ones_own_public_key_sent_back_is_refused():
    with pytest.raises(NotSealed):
        key(ONE, ONE.public)


@pytest.mark.parametrize("changes", [{"them": 1}, {"me": -1}, {"purpose": ""}, {"session": ""}, {"plan": ""}])
def test_a_key_without_two_parties_a_session_a_plan_and_a_purpose_is_refused(changes):
    with pytest.raises(ConfigError):
        key(**changes)


def test_an_agreement_key_shows_and_copies_nothing():
    mine = AgreementKey(Seed(SECRET))
    assert repr(mine) == str(mine) == "AgreementKey(<redacted>)"
    assert not hasattr(mine, "__dict__")
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            leak(mine)
