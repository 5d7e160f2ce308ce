"""Session keys: signed for one session and party, and sealed messages that only their addressee opens."""

from dataclasses import replace

import pytest
from tests.unit.protocol.plans import small_plan

from fedsvd.errors import NotSealed
from fedsvd.protocol.keys import SessionKeys, commitment, read_directory, spelt_prekey
from fedsvd.protocol.messages import KeyBook
from fedsvd.protocol.parties import TA, user
from fedsvd.protocol.relayed import dealer, deals
from fedsvd.protocol.tasks import Item, Split, Task, Trust
from fedsvd.randomness.seed import Seed
from fedsvd.sealing.agree import AgreementKey
from fedsvd.sealing.sign import SigningKey
from fedsvd.tasks.declared import declared, with_steps

ONE, TWO = user(1), user(2)
PARTIES = (TA, ONE, TWO)
GROUP, USERS = Seed(b"g" * 32), Seed(b"u" * 32)


def secret(party):
    return Seed(bytes([7 + party.index]) * 32)


def identity(party):
    return SigningKey(Seed(bytes([70 + party.index]) * 32))


def prekey(party):
    return AgreementKey(Seed(bytes([170 + party.index]) * 32))


PLAN = small_plan(
    identities=tuple(identity(party).public.hex() for party in (ONE, TWO, TA)),
    ticket="job/1",
    prekeys=tuple(spelt_prekey(prekey(party), party, "job/1", identity(party)) for party in (ONE, TWO)),
)


def bound(plan, offers):
    """The book of these offers."""
    return KeyBook(plan.digest, tuple((p, o.public, o.commitment, o.signature) for p, o in offers.items()))


def keys(plan=PLAN):
    """Every party's keys, each having read the same directory."""
    held = made(plan)
    commits = {TA: commitment(GROUP), ONE: commitment(USERS), TWO: b""}
    offers = {party: held[party].offer(commits[party]) for party in PARTIES}
    book = bound(plan, offers)
    for party, one in held.items():
        one.read_prekeys()
        if party != TA:
            one.read(read_directory(plan, book))
    return held


def made(plan=PLAN):
    """Every party's keys, none having read anything."""
    held = {party: SessionKeys(party, plan, secret(party), identity(party), prekey(party)) for party in (ONE, TWO)}
    return {TA: SessionKeys(TA, plan, secret(TA), identity(TA)), **held}


def test_the_dealer_is_user_1_or_the_ta():
    assert dealer(PLAN) == TA
    assert dealer(replace(PLAN, trust=Trust.PEERS)) == ONE


def test_a_sealed_message_opens_at_its_addressee_and_nowhere_else():
    held = keys()
    sealed = held[TA].seal(ONE, b"dear user 1")
    assert b"dear" not in sealed
    assert held[ONE].open(TA, sealed) == b"dear user 1"
    with pytest.raises(NotSealed):
        held[TWO].open(TA, held[TA].seal(ONE, b"dear user 1"))


def test_sealed_messages_have_an_order_and_open_once():
    held = keys()
    first, second = held[ONE].seal(TWO, b"first"), held[ONE].seal(TWO, b"second")
    assert held[TWO].open(ONE, first) == b"first"
    with pytest.raises(NotSealed):
        held[TWO].open(ONE, first)
    assert held[TWO].open(ONE, second) == b"second"


def test_a_sealed_message_that_overtook_another_does_not_open():
    held = keys()
    held[ONE].seal(TWO, b"first")
    with pytest.raises(NotSealed):
        held[TWO].open(ONE, held[ONE].seal(TWO, b"second"))


def test_a_sealed_message_does_not_open_in_the_other_direction():
    held = keys()
    with pytest.raises(NotSealed):
        held[ONE].open(TWO, held[ONE].seal(TWO, b"mine"))


@pytest.mark.parametrize("change", [{"session": "two"}, {"memory": 5}], ids=repr)
def test_an_offer_is_signed_for_its_session_and_its_plan(change):
    stale = SessionKeys(TWO, PLAN, secret(TWO), identity(TWO)).offer()
    plan = replace(PLAN, **change)
    held = made(plan)
    offers = [held[TA].offer(commitment(GROUP)), held[ONE].offer(), stale]
    book = bound(plan, dict(zip(PARTIES, offers, strict=True)))
    with pytest.raises(NotSealed):
        held[ONE].read(read_directory(plan, book))


def test_an_offer_is_signed_for_its_party():
    """User 2's key under user 1's name, by user 2: the identity is wrong."""
    held = made()
    offers = [held[TA].offer(commitment(GROUP)), held[TWO].offer(), held[TWO].offer()]
    book = bound(PLAN, dict(zip(PARTIES, offers, strict=True)))
    with pytest.raises(NotSealed):
        held[TWO].read(read_directory(PLAN, book))


def test_user_1_deals_the_users_seed_and_the_ta_never_does():
    assert deals(PLAN, TA) == ("masks",)
    assert deals(PLAN, ONE) == ("users",)
    assert deals(PLAN, TWO) == ()
    peers = replace(PLAN, trust=Trust.PEERS)
    assert deals(peers, ONE) == ("users", "masks")
    assert deals(peers, TA) == ()


@pytest.mark.parametrize("trust", list(Trust))
def test_a_user_who_alone_opens_a_sum_deals_the_seed_of_its_tags(trust):
    scored = {"task": Task.LR, **declared(Task.LR).facts(Split.VERTICAL), "targets": 1, "label_user": 2, "trust": trust}
    release = (Item.COEFFICIENTS, Item.INTERCEPT, Item.SCORE)
    assert deals(with_steps(replace(PLAN, **scored, release=release)), TWO) == ("tags",)
    assert deals(with_steps(replace(PLAN, **scored, release=release[:2])), TWO) == ("tags",)  # of its check
    assert deals(with_steps(replace(PLAN, **{**scored, "task": Task.PREDICT})), TWO) == ("tags",)
    assert deals(with_steps(replace(PLAN, **{**scored, "task": Task.PREDICT, "label_user": 1})), ONE)[-1] == "tags"


def test_a_seed_is_the_one_its_dealer_committed_to():
    held = keys()
    seeds = held[ONE].open_seeds(TA, held[TA].seal(ONE, GROUP.reveal()))
    assert {name: seed.reveal() for name, seed in seeds.items()} == {"masks": GROUP.reveal()}
    for content in (b"h" * 32, b"", b"g" * 31, USERS.reveal(), GROUP.reveal() + b"more"):
        held = keys()
        with pytest.raises(NotSealed):
            held[ONE].open_seeds(TA, held[TA].seal(ONE, content))


def test_the_users_seed_is_not_taken_from_the_ta():
    """Even one that user 1 committed to: a TA that could deal it would open every sum together with the CSP."""
    held = keys()
    with pytest.raises(NotSealed):
        held[TWO].open_seeds(TA, held[TA].seal(TWO, USERS.reveal()))
    seeds = held[TWO].open_seeds(ONE, held[ONE].seal(TWO, USERS.reveal()))
    assert set(seeds) == {"users"}


def test_a_commitment_says_nothing_and_binds():
    assert commitment(GROUP) == commitment(Seed(b"g" * 32))
    assert commitment(GROUP) != commitment(Seed(b"h" * 32))
    assert commitment(GROUP) != GROUP.reveal()
    assert len(commitment(GROUP)) == 32


def test_the_tas_sealed_message_needs_the_prekey_and_no_other_key_of_its_reader():
    held = keys()
    sealed = held[TA].seal(ONE, b"dear user 1")
    held[ONE].prekey = None
    with pytest.raises(NotSealed):
        held[ONE].open(TA, sealed)
    held[ONE].prekey = held[ONE].mine
    with pytest.raises(NotSealed):
        held[ONE].open(TA, sealed)


def test_sealed_messages_between_users_do_not_use_prekeys():
    held = keys()
    held[ONE].prekey = held[TWO].prekey = None
    assert held[TWO].open(ONE, held[ONE].seal(TWO, b"dear user 2")) == b"dear user 2"


def test_keys_show_whose_they_are_and_nothing_else():
    assert repr(keys()[ONE]) == "SessionKeys(user 1)"
