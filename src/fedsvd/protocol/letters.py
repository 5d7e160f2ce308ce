"""Session keys and sealed letters between users and the TA (step 1): what the CSP relays and cannot read.

Each session's X25519 key is signed by the identity the plan pins, and the signature names session, plan, party, key and
commitment, so a CSP that swaps keys is caught. The dealer of the group seed (user 1, or the TA) commits to it in its
offer: every user checks the seed it gets against the same commitment. The TA does not wait for session keys: it seals
to the users' prekeys, and a user opens what it wrote with the private half of its own. The CSP never imports this file.
"""

from fedsvd.errors import NotSealed
from fedsvd.protocol.messages import KeyBook, KeyOffer
from fedsvd.protocol.parties import TA, Party, Role, user
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.prekeys import expect_own_prekey, expect_prekeys
from fedsvd.protocol.tasks import Trust
from fedsvd.randomness.seed import Seed
from fedsvd.sealing.agree import AgreementKey, pair_key
from fedsvd.sealing.framing import framed
from fedsvd.sealing.seal import Opener, Sealer
from fedsvd.sealing.sign import SigningKey, sign, verify

_PURPOSE = "session key"


def dealer(plan: SessionPlan) -> Party:
    """Who deals the group seed."""
    return TA if plan.trust is Trust.AUTHORITY else user(1)


def commitment(group: Seed) -> bytes:
    """What the dealer publishes of the group seed; says nothing of it, and binds to it."""
    return group.derive("commitment").reveal()


class SessionKeys:
    """One party's session key, and its letters to and from the others once it has read their keys."""

    def __init__(
        self, me: Party, plan: SessionPlan, secret: Seed, identity: SigningKey, prekey: AgreementKey | None = None
    ) -> None:
        self.me = me
        self.prekey = prekey
        self.mine = AgreementKey(secret.derive("agreement"))
        self.commitment = b""
        self.publics: dict[int, bytes] = {}
        self._plan = plan
        self._identity = identity
        self._sealers: dict[Party, Sealer] = {}
        self._openers: dict[Party, Opener] = {}

    def __repr__(self) -> str:
        return f"SessionKeys({self.me})"

    def offer(self, commits_to: bytes = b"") -> KeyOffer:
        """Our key, signed; the dealer's with its commitment."""
        statement = _statement(self._plan, self.me, self.mine.public, commits_to)
        return KeyOffer(self._plan.digest, self.mine.public, commits_to, sign(self._identity, _PURPOSE, statement))

    def read_prekeys(self) -> None:
        """Take in the keys that the plan carries: all of them at the TA, our own at a user; or raise ``NotSealed``."""
        if self.me == TA:
            self.publics = expect_prekeys(self._plan)
        else:
            expect_own_prekey(self._plan, self.me, self.prekey)

    def read(self, book: KeyBook) -> None:
        """Take in everybody's key, or raise ``NotSealed``: one missing, doubled or not signed by its owner."""
        expected = [party for party in self._plan.parties if party.role is not Role.CSP]
        if [party for party, _, _, _ in book.offers] != expected:
            raise NotSealed("the book of keys does not list the plan's parties", "the CSP altered it: stop and ask")
        for party, public, commits_to, signature in book.offers:
            statement = _statement(self._plan, party, public, commits_to)
            verify(self._plan.identity(party), _PURPOSE, statement, signature)
            if party == self.me and public != self.mine.public:
                raise NotSealed("the book of keys holds another key for us", "the CSP altered it: stop and ask")
            self.publics[party.index] = public
            if party == dealer(self._plan):
                self.commitment = commits_to

    def seal(self, to: Party, letter: bytes) -> bytes:
        """A letter that only ``to`` can read."""
        if to not in self._sealers:
            self._sealers[to] = Sealer(self._pair(to), self.me.index, to.index)
        return self._sealers[to].seal(letter)

    def open(self, origin: Party, sealed: bytes) -> bytes:
        """The letter ``origin`` wrote, or ``NotSealed``."""
        if origin not in self._openers:
            self._openers[origin] = Opener(self._pair(origin), origin.index, self.me.index)
        return self._openers[origin].open(sealed)

    def open_group_seed(self, letter: bytes) -> Seed:
        """The group seed at the head of the dealer's letter, checked against its commitment."""
        group = Seed(letter[:32])
        if commitment(group) != self.commitment:
            raise NotSealed("the group seed is not the one its dealer committed to", "stop and ask the dealer")
        return group

    def _pair(self, other: Party) -> Seed:
        mine = self.prekey if other == TA else self.mine
        if mine is None:
            raise NotSealed("a letter from a TA, and no prekey to open it with", "stop and ask the CSP")
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
