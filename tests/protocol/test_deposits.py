"""The TA leaves sealed messages and goes; the CSP stores them, and can do nothing else with them.

A curious or dishonest CSP swaps prekeys, delivers old sealed messages, another job's, another user's, or none. In every
case the session ends before a single share has been uploaded.
"""

from dataclasses import replace

import pytest

from fedsvd.engine.simulate import Simulation
from fedsvd.errors import NotSealed, RepeatedShare, UnexpectedMessage
from fedsvd.protocol.keys import spelt_prekey
from fedsvd.protocol.machine import Abort, Finish, Send
from fedsvd.protocol.messages import Begin, KeyBook, KeyOffer, PaddedBatch, Relay, Relayed
from fedsvd.protocol.parties import CSP, TA, user
from fedsvd.protocol.tasks import Trust
from fedsvd.randomness.seed import Seed
from fedsvd.roles.trusted_authority import TrustedAuthority
from fedsvd.sealing.agree import AgreementKey
from fedsvd.sealing.sign import SigningKey
from fedsvd.testing.federation import altering, starving
from fedsvd.transport.loopback import Hub

from .cases import svd
from .test_sealed_messages import caught

ONE, TWO, THREE = user(1), user(2), user(3)
EVE = Seed(b"E" * 32)


def dealt(k=2, **asked):
    return svd(k, trust=Trust.AUTHORITY, **asked)


def test_the_ta_seals_everything_at_once_and_hears_nobody():
    federation = dealt(3)
    federation.run()
    assert TA not in federation.views.received
    said = [(type(message), to) for origin, to, message in federation.sent if origin == TA]
    assert said == [(KeyOffer, CSP), *[(Relay, CSP)] * 3]


@pytest.mark.parametrize("scheme", ["auto", "mask"])
def test_users_who_begin_when_the_ta_is_gone_end_with_the_same_bits(scheme):
    federation = dealt(3, scheme=scheme)
    expected = federation.run()
    session = federation.assemble()
    simulation = Simulation(session.machines, Hub(), record=True)
    simulation.begin([TA])
    simulation.deliver()
    assert session.machines[1].over
    assert set(simulation.so_far.views.received) == {CSP}
    simulation.begin(session.plan.users)
    simulation.deliver()
    run = simulation.so_far
    assert TA not in run.views.received
    for party, right in zip(session.plan.users, expected, strict=True):
        assert run.results[party].U.tobytes() == right.U.tobytes()
        assert run.results[party].Vt_i.tobytes() == right.Vt_i.tobytes()


def ta_of(federation, **changes):
    """A TA to which the CSP has shown another plan."""
    session = federation.assemble()
    ta = session.machines[1]
    return TrustedAuthority(replace(session.plan, **changes), EVE, ta.keys.identity)


def swapped(plan, spelt):
    return (plan.prekeys[0], spelt, *plan.prekeys[2:])


def test_a_csp_that_swaps_a_prekey_gets_nothing_sealed_to_it():
    federation = dealt()
    plan = federation.assemble().plan
    own = AgreementKey(EVE)
    for spelt in (
        spelt_prekey(own, TWO, plan.ticket, SigningKey(EVE)),
        own.public.hex() + plan.prekeys[1][64:],
        plan.prekeys[0],
    ):
        ta = ta_of(federation, prekeys=swapped(plan, spelt))
        (effect,) = ta.receive(TA, Begin(ta.plan.digest))
        assert isinstance(effect, Abort)
        assert isinstance(effect.error, NotSealed)


def test_a_csp_that_brings_an_old_prekey_gets_nothing_sealed_to_it():
    """User 2 did sign it, for another session: a thief of its private half must not have this seed."""
    federation, other = dealt(), dealt(insecure_seed=bytes(32))
    old = other.assemble().machines[3]
    plan = federation.assemble().plan
    stale = spelt_prekey(old.inputs.prekey, TWO, old.plan.ticket, federation.assemble().machines[3].inputs.identity)
    ta = ta_of(federation, prekeys=swapped(plan, stale))
    (effect,) = ta.receive(TA, Begin(ta.plan.digest))
    assert isinstance(effect.error, NotSealed)


def test_a_user_whose_prekey_was_swapped_says_so_at_once():
    federation = dealt()
    session = federation.assemble()
    stranger = AgreementKey(EVE)
    second = session.machines[3]
    plan = replace(
        session.plan,
        prekeys=swapped(session.plan, spelt_prekey(stranger, TWO, session.plan.ticket, second.inputs.identity)),
    )
    two = type(second)(TWO, plan, second.inputs)
    (effect,) = two.receive(TWO, Begin(plan.digest))
    assert isinstance(effect.error, NotSealed)
    assert "another prekey for us" in str(effect.error)


def letters_of(federation):
    federation.run()
    return {to: federation.views.of(to, Relayed)[0][1] for to in federation.plan.users}


@pytest.mark.parametrize("share", ["nothing", "the prekeys"])
def test_a_sealed_message_of_an_earlier_session_does_not_open(share):
    """Another job, or an earlier attempt; even if, against all rules, the prekey were still the same."""
    earlier = dealt(insecure_seed=bytes(32))
    old = letters_of(earlier)[TWO]
    federation = dealt()
    if share == "the prekeys":
        assemble = federation.assemble

        def careless():
            session = assemble()
            two = session.machines[3]
            two.keys.prekey = earlier.machines[TWO].keys.prekey
            two.keys.read_prekeys = lambda: None
            return session

        federation.assemble = careless
    caught(federation, altering(Relayed, lambda letter: (replace(letter, sealed=old.sealed),), to=TWO))


def test_the_tas_offer_of_an_earlier_session_does_not_count():
    earlier = dealt(insecure_seed=bytes(32))
    earlier.run()
    (old,) = [message for origin, _, message in earlier.sent if origin == TA and isinstance(message, KeyOffer)]
    federation = dealt()
    caught(federation, altering(KeyOffer, lambda offer: (replace(old, plan=offer.plan),), origin=TA))


def test_a_whole_earlier_deposit_does_not_count():
    earlier = dealt(insecure_seed=bytes(32))
    earlier.run()
    old = [message for origin, _, message in earlier.sent if origin == TA]

    def meddle(origin, to, message):
        return (replace(old.pop(0), plan=message.plan),) if origin == TA else (message,)

    caught(dealt(), meddle)


def test_the_sealed_message_of_another_user_does_not_open():
    federation, kept = dealt(3), {}

    def meddle(letter):
        kept.setdefault("first", letter)
        return (kept["first"],)

    caught(federation, altering(Relayed, meddle))


def test_a_sealed_message_of_the_tas_under_a_users_name_does_not_count():
    federation = dealt(3)
    meddle = altering(Relayed, lambda letter: (replace(letter, origin=ONE),), to=TWO)
    caught(federation, meddle, error=NotSealed)


def test_a_ta_that_deals_another_seed_than_it_committed_to_is_caught():
    federation = dealt()
    assemble = federation.assemble

    def faithless():
        session = assemble()
        ta = session.machines[1]
        honest = ta.keys.offer
        ta.keys.offer = lambda commits_to: honest(bytes(32))
        return session

    federation.assemble = faithless
    error, _ = caught(federation, None)
    assert "committed" in str(error)


def test_two_sealed_messages_for_one_user_are_refused():
    federation, kept = dealt(), []

    def meddle(letter):
        kept.append(letter)
        return (replace(letter, to=ONE),)

    caught(federation, altering(Relay, meddle, origin=TA), error=RepeatedShare)


def test_a_sealed_message_for_nobody_is_refused():
    federation = dealt()
    meddle = altering(Relay, lambda letter: (replace(letter, to=THREE),), origin=TA)
    caught(federation, meddle, error=UnexpectedMessage)


def test_no_user_hears_a_sealed_message_before_the_book_however_late_it_comes():
    for pick in (None, starving(TA), starving(ONE)):
        federation = dealt(3)
        federation.run(*(() if pick is None else (pick,)))
        for party in federation.plan.users:
            kinds = [type(message) for _, message in federation.views.received[party]]
            assert kinds[:2] == [KeyBook, Relayed]


def test_the_csp_sends_nothing_before_everything_is_in():
    """A user that comes first waits; the CSP does not hand out half a book."""
    session = dealt().assemble()
    csp, ta, one, two = session.machines
    begun = {machine.me: machine.receive(machine.me, Begin(session.plan.digest)) for machine in (ta, one, two)}
    (dealing,) = begun[TA]
    begun[TA] = ta.computed(dealing.work())
    assert isinstance(begun[TA][-1], Finish)
    order = [(ONE, begun[ONE][0]), (TA, begun[TA][0]), (TA, begun[TA][1]), (TWO, begun[TWO][0])]
    for party, effect in order:
        assert csp.receive(party, effect.message) == ()
    handed = csp.receive(TA, begun[TA][2].message)
    assert [(type(effect.message), effect.to) for effect in handed if isinstance(effect, Send)] == [
        (KeyBook, ONE),
        (KeyBook, TWO),
        (Relayed, ONE),
        (Relayed, TWO),
    ]
    assert PaddedBatch not in {type(effect.message) for effect in handed}
