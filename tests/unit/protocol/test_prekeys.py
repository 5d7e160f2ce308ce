"""Prekeys in a plan: signed by their users for one ticket, one to each user, or nothing is sealed to them."""

from dataclasses import replace

import pytest
from tests.unit.protocol.plans import small_plan

from fedsvd.errors import NotSealed
from fedsvd.protocol.keys import expect_own_prekey, expect_prekeys, spelt_prekey
from fedsvd.protocol.parties import user
from fedsvd.randomness.seed import Seed
from fedsvd.sealing.agree import AgreementKey
from fedsvd.sealing.sign import SigningKey

USERS = ONE, TWO = user(1), user(2)
IDENTITIES = {party: SigningKey(Seed(bytes([party.index]) * 32)) for party in (ONE, TWO, user(3))}
KEYS = {party: AgreementKey(Seed(bytes([100 + party.index]) * 32)) for party in USERS}
TICKET = "8f3a/2"


def spelt(key=KEYS[TWO], me=TWO, ticket=TICKET, signer=TWO):
    return spelt_prekey(key, me, ticket, IDENTITIES[signer])


PLAN = small_plan(
    identities=tuple(IDENTITIES[user(i)].public.hex() for i in (1, 2, 3)),
    ticket=TICKET,
    prekeys=(spelt(KEYS[ONE], ONE, signer=ONE), spelt()),
)


def test_the_plans_prekeys_are_those_of_its_users():
    assert expect_prekeys(PLAN) == {1: KEYS[ONE].public, 2: KEYS[TWO].public}


def test_the_digest_of_a_plan_covers_ticket_and_prekeys():
    others = [replace(PLAN, ticket="8f3a/3"), replace(PLAN, prekeys=PLAN.prekeys[::-1])]
    assert len({plan.digest for plan in (PLAN, *others)}) == 3


@pytest.mark.parametrize(
    "second",
    [
        spelt(signer=ONE),
        spelt(me=ONE),
        spelt(ticket="8f3a/1"),
        spelt(ticket="9c41/2"),
        spelt(key=KEYS[ONE]),
        KEYS[ONE].public.hex() + spelt()[64:],
        spelt()[:-2] + "00",
        spelt()[:-2],
        spelt() + "00",
        "not hexadecimal",
        "",
    ],
    ids=[
        "signed by another user",
        "signed for another user's place",
        "of another attempt",
        "of another job",
        "the key of another user",
        "another key under the signature",
        "an altered signature",
        "shorter",
        "longer",
        "no hex",
        "empty",
    ],
)
def test_a_prekey_that_its_user_did_not_sign_for_this_ticket_is_refused(second):
    with pytest.raises(NotSealed):
        expect_prekeys(replace(PLAN, prekeys=(PLAN.prekeys[0], second)))


@pytest.mark.parametrize("prekeys", [(), PLAN.prekeys[:1], (*PLAN.prekeys, PLAN.prekeys[0])])
def test_a_plan_without_a_prekey_of_every_user_is_refused(prekeys):
    with pytest.raises(NotSealed):
        expect_prekeys(replace(PLAN, prekeys=prekeys))


def test_a_plan_without_a_ticket_is_refused():
    unsigned = tuple(spelt_prekey(KEYS[party], party, "", IDENTITIES[party]) for party in USERS)
    with pytest.raises(NotSealed):
        expect_prekeys(replace(PLAN, ticket="", prekeys=unsigned))


def test_a_user_knows_its_own_prekey():
    expect_own_prekey(PLAN, TWO, KEYS[TWO])
    for plan, key in ((PLAN, None), (PLAN, KEYS[ONE]), (replace(PLAN, prekeys=()), KEYS[TWO])):
        with pytest.raises(NotSealed):
            expect_own_prekey(plan, TWO, key)
