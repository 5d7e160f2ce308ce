"""The CSP relays keys and sealed messages, and can do no more: what it swaps, forges, repeats or misdirects is caught.

In every case the session ends before a single share, padded or not, has been uploaded.
"""

import importlib
from dataclasses import replace

import pytest

from fedsvd.errors import FedSVDError, NotSealed, UnexpectedMessage
from fedsvd.protocol.keys import SessionKeys, commitment
from fedsvd.protocol.messages import Aborted, KeyBook, KeyOffer, PaddedBatch, Relayed
from fedsvd.protocol.parties import CSP, TA, user
from fedsvd.protocol.tasks import Mode, Trust
from fedsvd.randomness.seed import Seed
from fedsvd.roles.user.agreement import Group
from fedsvd.sealing.agree import AgreementKey
from fedsvd.sealing.sign import SigningKey
from fedsvd.testing.federation import altering

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
def test_a_key_signed_by_one_the_plan_does_not_pin_is_caught(trust):
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
        stale = SessionKeys(TWO, federation.plan, EVE, machine.inputs.identity).offer()
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
        federation.machines[ONE].seeds["users"] = EVE
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
def test_an_altered_sealed_message_does_not_open(trust, change):
    federation = svd(trust=trust)
    caught(federation, altering(Relayed, lambda letter: (replace(letter, sealed=change(letter.sealed)),), to=TWO))


def test_a_sealed_message_for_another_user_does_not_open():
    federation = svd(3)
    letters = {}

    def meddle(letter):
        letters.setdefault("first", letter)
        return (letters["first"],)

    # User 3 gets what was sealed to user 2.
    caught(federation, altering(Relayed, meddle))


def test_a_sealed_message_under_another_name_does_not_count():
    federation = svd(3)
    caught(
        federation, altering(Relayed, lambda letter: (replace(letter, origin=THREE),), to=TWO), error=UnexpectedMessage
    )


def test_a_sealed_message_of_another_session_does_not_open():
    other = svd(insecure_seed=bytes(32))
    other.run()
    (_, old), *_ = other.views.of(TWO, Relayed)
    federation = svd()
    caught(federation, altering(Relayed, lambda letter: (replace(letter, sealed=old.sealed),), to=TWO))


COMMON = {"answer": svd, "signs": lambda k=2: svd(k, mode=Mode.B)}
"""What user 1 decides for all: U and S where the users open the sum, else the signs of U."""


def after_the_seed(change, to=TWO, passed=1):
    """Every sealed message to a user but the first, which brings the seed, becomes what ``change`` makes of it."""
    letters = []

    def meddle(letter):
        letters.append(letter)
        return (letter,) if len(letters) <= passed else (change(letter, letters),)

    return altering(Relayed, meddle, to=to)


@pytest.mark.parametrize("purpose", COMMON)
def test_the_message_of_the_seed_played_again_as_one_to_all_users_does_not_open(purpose):
    with pytest.raises(NotSealed):
        COMMON[purpose]().run(meddle=after_the_seed(lambda letter, letters: replace(letter, sealed=letters[0].sealed)))


@pytest.mark.parametrize("purpose", COMMON)
def test_what_user_1_decides_comes_from_user_1_alone(purpose):
    """Under another name it is refused; put in another's turn it does not open."""
    federation, renamed = COMMON[purpose](3), []

    def rename(letter, letters):
        renamed.append(letter)
        return replace(letter, origin=THREE)

    # In mode B the other two users' digests of the CSP's answer come between the seed and the signs.
    passed = 3 if purpose == "signs" else 1
    with pytest.raises(UnexpectedMessage, match="where one of user 1 is awaited"):
        federation.run(meddle=after_the_seed(rename, passed=passed))
    assert federation.machines[TWO].stage == "RELAYING"
    group = federation.machines[TWO].group
    group.receive(THREE, renamed[0].sealed)
    with pytest.raises(NotSealed):
        group.opened(THREE, purpose, 4096)


@pytest.mark.parametrize("purpose", COMMON)
def test_a_message_to_all_users_that_was_altered_does_not_open(purpose):
    def flipped(letter, letters):
        return replace(letter, sealed=letter.sealed[:-1] + bytes([letter.sealed[-1] ^ 1]))

    with pytest.raises(NotSealed):
        COMMON[purpose]().run(meddle=after_the_seed(flipped))


@pytest.mark.parametrize("purpose", COMMON)
@pytest.mark.parametrize("content", [b"", bytes(7), bytes(4096)], ids=["none", "7 bytes", "4096 bytes"])
def test_what_user_1_decides_has_the_length_that_the_plan_says(purpose, content):
    """Of user 1 itself it is not accepted otherwise: nothing is read beyond what fits."""
    federation = COMMON[purpose]()

    def other(letter, letters):
        (sealed,) = federation.machines[ONE].group.sealed(purpose, content)
        return replace(letter, sealed=sealed)

    with pytest.raises(UnexpectedMessage, match="length"):
        federation.run(meddle=after_the_seed(other, passed=2 if purpose == "signs" else 1))


def test_more_messages_to_all_users_than_the_plan_has_are_refused():
    federation = svd()
    with pytest.raises((UnexpectedMessage, NotSealed)):
        federation.run(
            meddle=altering(Relayed, lambda letter: [letter] * (1 if len(letter.sealed) < 60 else 9), to=TWO)
        )


@pytest.mark.parametrize("make", [svd, lambda k: svd(k, mode=Mode.B), lambda k: svd(k, trust=Trust.AUTHORITY), predict])
def test_no_key_seals_two_messages(make, monkeypatch):
    """Section 2.7: one message to a key among all users, and one to a number between two parties."""
    used, sealed = [], []
    for module in ("fedsvd.roles.user.agreement", "fedsvd.sealing.seal"):
        namespace = importlib.import_module(module)
        seal = namespace.seal

        def noted(key, number, *rest, seal=seal, module=module):
            used.append((key.reveal(), number))
            sealed.append(module)
            return seal(key, number, *rest)

        monkeypatch.setattr(namespace, "seal", noted)
    make(3).run()
    assert len(set(used)) == len(used)
    group = [key for (key, _), module in zip(used, sealed, strict=True) if module.endswith("agreement")]
    assert len(set(group)) == len(group) >= 6  # k digests, k signatures: each under a key of its own


def test_a_message_is_sealed_to_its_sender_and_purpose():
    """The same users' seed; another sender, purpose or number is another key, another session other associated data."""
    federation, other = svd(3), svd(3, insecure_seed=bytes(32))
    federation.run()
    other.run()
    one, two, three = (federation.machines[party].group for party in (ONE, TWO, THREE))
    (sealed,) = one.sealed("agreeing", b"digest")
    two.receive(ONE, sealed)
    assert two.opened(ONE, "agreeing", 64) == b"digest"
    for party, purpose in ((ONE, "signing"), (THREE, "agreeing")):
        machine = federation.machines[TWO]
        fresh = Group(TWO, federation.plan, machine.seeds["users"], machine.inputs.identity)
        fresh.receive(party, sealed)
        with pytest.raises(NotSealed):
            fresh.opened(party, purpose, 64)
    stranger = other.machines[TWO].group
    stranger.receive(ONE, sealed)
    with pytest.raises(NotSealed):
        stranger.opened(ONE, "agreeing", 64)
    assert repr(three) == "Group(user 3)"


@pytest.mark.parametrize("length", [0, 31, 40])
def test_a_ta_whose_sealed_message_is_not_a_seed_is_refused(length):
    federation = svd(trust=Trust.AUTHORITY)

    def meddle(letter):
        ta = federation.machines[TA]
        return (replace(letter, sealed=ta.keys.seal(TWO, ta.seed.reveal().ljust(length, b"\x00")[:length])),)

    with pytest.raises(FedSVDError) as refusal:
        federation.run(meddle=altering(Relayed, meddle, to=TWO))
    assert refusal.value.code in ("FSVD-416", "FSVD-100")


@pytest.mark.parametrize("make", [svd, lambda: svd(trust=Trust.AUTHORITY), predict])
def test_the_csp_hears_no_seed(make):
    federation = make()
    federation.run()
    machines = federation.machines
    secrets = [machines[party].inputs.secret for party in federation.plan.users]
    dealt = [machines[party].seeds for party in federation.plan.users]
    assert all(
        {name: seed.reveal() for name, seed in seeds.items()} == {n: s.reveal() for n, s in dealt[0].items()}
        for seeds in dealt
    )
    assert {"users", "masks"} <= set(dealt[0])
    secrets = {seed.reveal() for seed in secrets} | {seed.reveal() for seed in dealt[0].values()}
    for _, message in federation.views.received[CSP]:
        for value in vars(message).values():
            content = value if isinstance(value, bytes) else getattr(value, "tobytes", bytes)()
            assert not any(secret in content for secret in secrets)
