"""Keys that two parties share: X25519 (RFC 7748), then HKDF-SHA256 (RFC 5869); step 1 of the specification.

A pair key belongs to one session, one plan, one pair of parties and one purpose: all four enter the derivation together
with both public keys, in an order that does not depend on who computes. Public keys are taken as given; that they are
their owners' is for ``sign`` to show. There is no source of randomness here: a private key is made of a seed that the
caller hands in and uses for nothing else.
"""

from typing import NoReturn

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedsvd.errors import ConfigError
from fedsvd.randomness.seed import SIZE, Seed
from fedsvd.sealing.sign import framed, refusal
from fedsvd.types import Digest, SessionId

_DOMAIN = b"fedsvd/pair/1"


class AgreementKey:
    """One party's X25519 key pair for one session; only the public half can be read."""

    __slots__ = ("_private", "public")

    def __init__(self, seed: Seed) -> None:
        self._private = X25519PrivateKey.from_private_bytes(seed.reveal())
        self.public = self._private.public_key().public_bytes_raw()

    def __repr__(self) -> str:
        return "AgreementKey(<redacted>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an agreement key is never pickled")


def shared_secret(mine: AgreementKey, theirs_public: bytes) -> Seed:
    """The X25519 secret of two key pairs, the same from either end; for ``pair_key`` only.

    It is a curve point, not a uniform string, and it is the same for all purposes: never derive from it.
    A point of low order makes it zero whichever party holds the private key, and is refused.
    """
    try:
        return Seed(mine._private.exchange(X25519PublicKey.from_public_bytes(theirs_public)))
    except (ValueError, TypeError):
        raise refusal() from None


def pair_key(
    mine: AgreementKey,
    theirs_public: bytes,
    *,
    me: int,
    them: int,
    session: SessionId,
    plan: Digest,
    purpose: str,
) -> Seed:
    """The one key of this (session, plan, pair, purpose), the same from either end.

    ``me`` and ``them`` are party indices as every party counts them. A public key that comes back as
    the peer's own is a reflection, and is refused.
    """
    if me == them or min(me, them) < 0:
        raise ConfigError(
            f"a pair key needs two different parties, got {me} and {them}", "count parties once, from the plan"
        )
    if not purpose or not session or not plan:
        raise ConfigError("a pair key needs a session, a plan and a purpose", "name all three")
    secret = shared_secret(mine, theirs_public)
    if theirs_public == mine.public:
        raise refusal()
    (low, low_public), (high, high_public) = sorted([(me, mine.public), (them, bytes(theirs_public))])
    salt = framed(_DOMAIN, session.encode(), plan.encode())
    info = framed(purpose.encode(), _index(low), _index(high), low_public, high_public)
    return Seed(HKDF(algorithm=hashes.SHA256(), length=SIZE, salt=salt, info=info).derive(secret.reveal()))


def _index(party: int) -> bytes:
    return int(party).to_bytes(8, "big")
