"""Session keys and sealed messages between users and the TA (step 1): what the CSP relays and cannot read.

Each session's X25519 key is signed by the identity the plan pins, and the signature names session, plan, party, key and
commitment, so a CSP that swaps keys is caught. The *users' seed* always comes from user 1, so that a TA can neither
open nor forge a sum; the *mask seed* comes from the TA where there is one, else from user 1 (step 2). A dealer commits
to its seeds in its offer, and every user checks what it gets against that commitment. The TA does not wait for session
keys: it seals to the users' prekeys, and a user opens that with the private half of its own. The CSP never imports this
file.

*Prekeys* are what users leave behind for the TA, so that it can seal its messages and go before they come. A prekey is
a user's X25519 key for one sealed message, the TA's, in one attempt at one job. Its user signs it together with the
*ticket* that names job and attempt, and all prekeys stand in the plan, whose digest covers them. The TA seals to a key
only if the identity that the plan pins signed it: a CSP that puts in a key of its own, or an old one, is caught before
anything is sealed. Pads and sealed messages between users never use prekeys, whose private halves lie on disk for a
while.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from fedsvd.errors import NotSealed
from fedsvd.protocol.messages import KeyBook, KeyOffer
from fedsvd.protocol.parties import TA, Party, Role
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.relayed import deals
from fedsvd.randomness.seed import Seed
from fedsvd.sealing.agree import AgreementKey, pair_key
from fedsvd.sealing.seal import Opener, Sealer
from fedsvd.sealing.sign import SigningKey, framed, sign, verify

_PREKEY_PURPOSE = "prekey"
_PUBLIC, _SIGNATURE = 32, 64


def spelt_prekey(key: AgreementKey, me: Party, ticket: str, identity: SigningKey) -> str:
    """A prekey as it stands in a plan: the public half and its owner's signature, in hex."""
    return (key.public + sign(identity, _PREKEY_PURPOSE, _prekey_statement(me, ticket, key.public))).hex()


def expect_prekeys(plan: SessionPlan) -> dict[int, bytes]:
    """The public prekeys by user, all signed for the plan's ticket by the identities it pins; or ``NotSealed``."""
    if len(plan.prekeys) != plan.k or not plan.ticket:
        raise NotSealed("the plan does not carry a prekey of every user", "the CSP left some out: stop and ask")
    found = {}
    for owner, spelt in zip(plan.users, plan.prekeys, strict=True):
        public, signature = _split(spelt)
        verify(plan.identity(owner), _PREKEY_PURPOSE, _prekey_statement(owner, plan.ticket, public), signature)
        found[owner.index] = public
    if len(set(found.values())) < plan.k:
        raise NotSealed("two users have one prekey", "stop and ask them")
    return found


def expect_own_prekey(plan: SessionPlan, me: Party, key: AgreementKey | None) -> None:
    """Raise ``NotSealed`` unless the plan carries our own prekey for us."""
    if key is None or len(plan.prekeys) != plan.k or _split(plan.prekeys[me.index - 1])[0] != key.public:
        raise NotSealed("the plan holds another prekey for us", "the CSP altered it: stop and ask")


def _split(spelt: str) -> tuple[bytes, bytes]:
    try:
        content = bytes.fromhex(spelt)
    except ValueError:
        content = b""
    if len(content) != _PUBLIC + _SIGNATURE:
        raise NotSealed("a prekey in the plan is not one", "the CSP altered it: stop and ask")
    return content[:_PUBLIC], content[_PUBLIC:]


def _prekey_statement(me: Party, ticket: str, public: bytes) -> bytes:
    return framed(ticket.encode(), me.name.encode(), public)


_PURPOSE = "session key"


def commitment(seed: Seed) -> bytes:
    """What is published of a seed; says nothing of it, and binds to it."""
    return seed.derive("commitment").reveal()


@dataclass(frozen=True)
class Directory:
    """The public keys of a session by number of the party, commitments to seeds, and a digest of all of these."""

    publics: Mapping[int, bytes]
    commitments: Mapping[Party, bytes]
    book: bytes


def read_directory(plan: SessionPlan, message: KeyBook) -> Directory:
    """Every party's key, or ``NotSealed``: one missing, doubled or not signed by its owner."""
    expected = [party for party in plan.parties if party.role is not Role.CSP]
    if [party for party, _, _, _ in message.offers] != expected:
        raise NotSealed("the key directory does not list the plan's parties", "the CSP altered it: stop and ask")
    book = hashlib.sha256()
    for party, public, commits_to, signature in message.offers:
        statement = _statement(plan, party, public, commits_to)
        verify(plan.identity(party), _PURPOSE, statement, signature)
        book.update(framed(statement))
    publics = {party.index: public for party, public, _, _ in message.offers}
    return Directory(publics, {party: commits_to for party, _, commits_to, _ in message.offers}, book.digest())


class SessionKeys:
    """One party's session key, and its sealed messages to and from the others once it has read their keys."""

    def __init__(
        self, me: Party, plan: SessionPlan, secret: Seed, identity: SigningKey, prekey: AgreementKey | None = None
    ) -> None:
        self.me = me
        self.prekey = prekey
        self.mine = AgreementKey(secret.derive("agreement"))
        self._commitments: Mapping[Party, bytes] = {}
        self.publics: dict[int, bytes] = {}
        self.book = b""  # SHA-256 of all keys and commitments of the session, once they are read
        self._plan = plan
        self.identity = identity
        self._sealers: dict[Party, Sealer] = {}
        self._openers: dict[Party, Opener] = {}

    def __repr__(self) -> str:
        return f"SessionKeys({self.me})"

    def offer(self, commits_to: bytes = b"") -> KeyOffer:
        """Our key, signed; the dealer's with its commitment."""
        statement = _statement(self._plan, self.me, self.mine.public, commits_to)
        return KeyOffer(self._plan.digest, self.mine.public, commits_to, sign(self.identity, _PURPOSE, statement))

    def read_prekeys(self) -> None:
        """Take in the keys that the plan carries: all of them at the TA, our own at a user; or raise ``NotSealed``."""
        if self.me == TA:
            self.publics = expect_prekeys(self._plan)
        else:
            expect_own_prekey(self._plan, self.me, self.prekey)

    def read(self, found: Directory) -> None:
        """Take in every party's key, or raise ``NotSealed`` where ours is another one there."""
        if found.publics[self.me.index] != self.mine.public:
            raise NotSealed("the key directory holds another key for us", "the CSP altered it: stop and ask")
        self.publics, self._commitments, self.book = dict(found.publics), found.commitments, found.book

    def seal(self, to: Party, plaintext: bytes) -> bytes:
        """A sealed message that only ``to`` can read."""
        if to not in self._sealers:
            self._sealers[to] = Sealer(self._pair(to), self.me.index, to.index)
        return self._sealers[to].seal(plaintext)

    def open(self, origin: Party, sealed: bytes) -> bytes:
        """The message that ``origin`` sealed, or ``NotSealed``."""
        if origin not in self._openers:
            self._openers[origin] = Opener(self._pair(origin), origin.index, self.me.index)
        return self._openers[origin].open(sealed)

    def open_seeds(self, origin: Party, sealed: bytes) -> dict[str, Seed]:
        """The seeds that ``origin`` deals, each checked against its commitment."""
        names, content = deals(self._plan, origin), self.open(origin, sealed)
        if len(content) != 32 * len(names):
            raise NotSealed("a dealer's message has another length than its seeds", "stop and ask the dealer")
        seeds = {name: Seed(content[32 * place : 32 * place + 32]) for place, name in enumerate(names)}
        if b"".join(map(commitment, seeds.values())) != self._commitments[origin]:
            raise NotSealed("a seed is not the one its dealer committed to", "stop and ask the dealer")
        return seeds

    def _pair(self, other: Party) -> Seed:
        mine = self.prekey if other == TA else self.mine
        if mine is None:
            raise NotSealed(
                "a sealed message from a TA, and no prekey to open it with", "stop and ask the operator of the CSP"
            )
        return pair_key(
            mine,
            self.publics[other.index],
            me=self.me.index,
            them=other.index,
            session=self._plan.session,
            plan=self._plan.digest,
            purpose="letters",
        )


def _statement(plan: SessionPlan, party: Party, public: bytes, commits_to: bytes) -> bytes:
    return framed(plan.session.encode(), plan.digest.encode(), party.name.encode(), public, commits_to)
