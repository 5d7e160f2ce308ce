"""The CSP relays keys and letters, and can do no more: what it swaps, forges, repeats or misdirects is caught.

In every case the session ends before a single share, padded or not, has been uploaded.
"""

from dataclasses import replace

import pytest

from fedsvd.errors import FedSVDError, NotSealed, UnexpectedMessage
from fedsvd.protocol.letters import SessionKeys, commitment
from fedsvd.protocol.messages import Aborted, KeyBook, KeyOffer, PaddedBatch, Relayed
from fedsvd.protocol.parties import CSP, TA, user
from fedsvd.protocol.tasks import Trust
from fedsvd.randomness.seed import Seed
from fedsvd.sealing.agree import AgreementKey
from fedsvd.sealing.sign import SigningKey
from fedsvd.testing.links import altering

from .cases import predict, svd

ONE, TWO, THREE = user(1), user(2), user(3)
EVE = Seed(b"E" * 32)


def swapped(book, party, public=None, commits_to=None, signature=None):
    """The book of keys with one entry altered."""
    offers = []
    for holder, old_public, old_commitment, old_signature in book.offers:
        if holder == party:
            old_public = public or old_public
            old_commitment = old_commitment if commits_to is None else commits_to
            old_signature = signature or old_signature
        offers.append((holder, old_public, old_commitment, old_signature))
    return replace(book, offers=tuple(offers))


def forged(federation, party, commits_to=b""):
    """Eve's key for ``party``, signed as a party of this session would, by an identity the plan does not pin."""
    eve = SessionKeys(party, federation.plan, EVE, SigningKey(EVE))
    return eve.offer(commits_to)


def caught(federation, meddle, error=NotSealed):
    """Nothing of the data has left any site when the fraud is found."""
    with pytest.raises(error) as refusal:
        federation.run(meddle=meddle)
    spoken = [type(message) for _, _, message in federation.sent]
    assert PaddedBatch not in set(spoken)
    return refusal.value, spoken


@pytest.mark.parametrize("trust", Trust)
@pytest.mark.parametrize("victim", [ONE, TWO])
def test_a_csp_in_the_middle_that_swaps_a_key_is_caught(trust, victim):
    federation = svd(trust=trust)
    target = TWO if victim == ONE else ONE

    def meddle(book):
        return (swapped(book, target, public=AgreementKey(EVE).public),)

    caught(federation, altering(KeyBook, meddle, to=victim))
    assert {type(message) for origin, _, message in federation.sent if origin == victim} == {KeyOffer, Aborted}


@pytest.mark.parametrize("trust", Trust)
def test_a_key_signed_by_somebody_the_plan_does_not_pin_is_caught(trust):
    federation = svd(trust=trust)

    def meddle(book):
        offer = forged(federation, TWO)
        return (swapped(book, TWO, offer.public, offer.commitment, offer.signature),)

    caught(federation, altering(KeyBook, meddle, to=ONE))


@pytest.mark.parametrize("trust", Trust)
def test_a_swapped_dealer_is_caught(trust):
    federation = svd(trust=trust)
    dealer = TA if trust is Trust.AUTHORITY else ONE

    def meddle(book):
        offer = forged(federation, dealer, commitment(EVE))
        return (swapped(book, dealer, offer.public, offer.commitment, offer.signature),)

    caught(federation, altering(KeyBook, meddle, to=TWO))


def test_another_commitment_does_not_fit_the_dealers_signature():
    federation = svd()
    caught(federation, altering(KeyBook, lambda book: (swapped(book, ONE, commits_to=commitment(EVE)),), to=TWO))


def test_an_altered_signature_is_caught():
    federation = svd()
    caught(federation, altering(KeyBook, lambda book: (swapped(book, ONE, signature=bytes(64)),), to=TWO))


def test_an_offer_altered_on_its_way_to_the_csp_is_caught():
    federation = svd()
    eve = AgreementKey(EVE).public
    caught(federation, altering(KeyOffer, lambda offer: (replace(offer, public=eve),), origin=TWO))


def test_our_own_key_is_looked_for_in_the_book():
    """Signed or not, a key that is not ours under our name is a man in the middle."""
    federation = svd()

    def meddle(book):
        machine = federation.machines[TWO]
        stale = SessionKeys(TWO, federation.plan, EVE, machine._inputs.identity).offer()
        return (swapped(book, TWO, stale.public, stale.commitment, stale.signature),)

    error, _ = caught(federation, altering(KeyBook, meddle, to=TWO))
    assert "another key for us" in str(error)


@pytest.mark.parametrize(
    "change",
    [
        lambda offers: offers[:1],
        lambda offers: offers[::-1],
        lambda offers: (*offers, offers[0]),
        lambda offers: (offers[0], offers[0]),
        lambda offers: ((TA, *offers[0][1:]), *offers),
        lambda offers: (),
    ],
    ids=["one missing", "reordered", "one twice", "one for another", "a TA nobody planned", "empty"],
)
def test_a_book_that_does_not_list_the_plans_parties_is_refused(change):
    federation = svd()
    caught(federation, altering(KeyBook, lambda book: (replace(book, offers=change(book.offers)),), to=TWO))


def test_a_dealer_that_tells_one_user_another_seed_is_caught():
    """User 1 commits to one seed and deals another: two halves of a federation would mask differently."""
    federation = svd()

    def meddle(book):
        federation.machines[ONE]._group = EVE
        return (book,)

    error, _ = caught(federation, altering(KeyBook, meddle, to=ONE))
    assert "committed" in str(error)
    assert federation.machines[TWO].failure is error


@pytest.mark.parametrize("trust", Trust)
@pytest.mark.parametrize(
    "change",
    [
        lambda sealed: sealed[:-1] + bytes([sealed[-1] ^ 1]),
        lambda sealed: bytes([sealed[0] ^ 1]) + sealed[1:],
        lambda sealed: sealed[:-1],
        lambda sealed: sealed + b"\x00",
        lambda sealed: b"",
    ],
    ids=["last bit", "first bit", "shorter", "longer", "empty"],
)
def test_an_altered_letter_does_not_open(trust, change):
    federation = svd(trust=trust)
    caught(federation, altering(Relayed, lambda letter: (replace(letter, sealed=change(letter.sealed)),), to=TWO))


def test_a_letter_for_another_user_does_not_open():
    federation = svd(3)
    letters = {}

    def meddle(letter):
        letters.setdefault("first", letter)
        return (letters["first"],)

    # User 3 gets what was sealed to user 2.
    caught(federation, altering(Relayed, meddle))


def test_a_letter_under_another_name_does_not_count():
    federation = svd(3)
    caught(
        federation, altering(Relayed, lambda letter: (replace(letter, origin=THREE),), to=TWO), error=UnexpectedMessage
    )


def test_a_letter_of_another_session_does_not_open():
    other = svd(insecure_seed=bytes(32))
    other.run()
    (_, old), *_ = other.views.of(TWO, Relayed)
    federation = svd()
    caught(federation, altering(Relayed, lambda letter: (replace(letter, sealed=old.sealed),), to=TWO))


def test_the_letter_of_the_seed_played_again_as_the_letter_of_signs_does_not_open():
    federation, letters = svd(), []

    def meddle(letter):
        letters.append(letter)
        return (replace(letter, sealed=letters[0].sealed),)

    with pytest.raises(NotSealed):
        federation.run(meddle=altering(Relayed, meddle, to=TWO))
    assert len(letters) == 2


def test_signs_come_from_user_one_alone():
    federation, letters = svd(3), []

    def meddle(letter):
        letters.append(letter)
        return (letter,) if len(letters) == 1 else (replace(letter, origin=THREE),)

    with pytest.raises(UnexpectedMessage):
        federation.run(meddle=altering(Relayed, meddle, to=TWO))


def test_a_letter_of_signs_has_the_length_of_the_rank():
    federation, letters = svd(), []

    def meddle(letter):
        letters.append(letter)
        if len(letters) == 1:
            return (letter,)
        sealed = federation.machines[ONE]._keys.seal(TWO, b"\x00\x00")
        return (replace(letter, sealed=sealed),)

    with pytest.raises(FedSVDError) as refusal:
        federation.run(meddle=altering(Relayed, meddle, to=TWO))
    assert refusal.value.code == "FSVD-416"


@pytest.mark.parametrize("length", [0, 31, 40])
def test_a_ta_whose_letter_is_not_a_seed_and_slices_is_refused(length):
    """In the paper's scheme the letter also carries Q_i: a wrong number of bytes is not a matrix."""
    federation = svd(scheme="paper")

    def meddle(letter):
        ta = federation.machines[TA]
        return (replace(letter, sealed=ta._keys.seal(TWO, ta._group.reveal().ljust(length, b"\x00")[:length])),)

    with pytest.raises(FedSVDError) as refusal:
        federation.run(meddle=altering(Relayed, meddle, to=TWO))
    assert refusal.value.code in ("FSVD-416", "FSVD-100")


@pytest.mark.parametrize("make", [svd, lambda: svd(trust=Trust.AUTHORITY), predict])
def test_the_csp_hears_no_seed(make):
    federation = make()
    federation.run()
    machines = federation.machines
    secrets = [machines[party]._inputs.secret for party in federation.plan.users]
    groups = {machine._group.reveal() for party, machine in machines.items() if party != CSP}
    assert len(groups) == 1
    secrets = {seed.reveal() for seed in secrets} | groups
    for _, message in federation.views.heard[CSP]:
        for value in vars(message).values():
            content = value if isinstance(value, bytes) else getattr(value, "tobytes", bytes)()
            assert not any(secret in content for secret in secrets)
