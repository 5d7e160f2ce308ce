"""Prekeys: what users leave behind for the TA, so that it can seal its messages and go before they come (step 1).

A prekey is a user's X25519 key for one sealed message, the TA's, in one attempt at one job. Its user signs it together
with the
*ticket* that names job and attempt, and all prekeys stand in the plan, whose digest covers them. The TA seals to a key
only if the identity that the plan pins signed it: a CSP that puts in a key of its own, or an old one, is caught before
anything is sealed. Pads and sealed messages between users never use prekeys, whose private halves lie on disk for a
while.
"""

from fedsvd.errors import NotSealed
from fedsvd.protocol.parties import Party
from fedsvd.protocol.plan import SessionPlan
from fedsvd.sealing.agree import AgreementKey
from fedsvd.sealing.framing import framed
from fedsvd.sealing.sign import SigningKey, sign, verify

_PURPOSE = "prekey"
_PUBLIC, _SIGNATURE = 32, 64


def spelt_prekey(key: AgreementKey, me: Party, ticket: str, identity: SigningKey) -> str:
    """A prekey as it stands in a plan: the public half and its owner's signature, in hex."""
    return (key.public + sign(identity, _PURPOSE, _statement(me, ticket, key.public))).hex()


def expect_prekeys(plan: SessionPlan) -> dict[int, bytes]:
    """The public prekeys by user, all signed for the plan's ticket by the identities it pins; or ``NotSealed``."""
    if len(plan.prekeys) != plan.k or not plan.ticket:
        raise NotSealed("the plan does not carry a prekey of every user", "the CSP left some out: stop and ask")
    found = {}
    for user, spelt in zip(plan.users, plan.prekeys, strict=True):
        public, signature = _split(spelt)
        verify(plan.identity(user), _PURPOSE, _statement(user, plan.ticket, public), signature)
        found[user.index] = public
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


def _statement(me: Party, ticket: str, public: bytes) -> bytes:
    return framed(ticket.encode(), me.name.encode(), public)
