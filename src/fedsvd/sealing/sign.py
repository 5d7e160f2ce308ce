"""Signatures by provisioned identity keys: Ed25519 (RFC 8032), bound to a purpose.

What is signed is never the bare message but (domain, purpose, message), each with its length, so that a
signature given for one purpose is worth nothing for another. In step 1 users sign their session keys so that
the CSP, which relays them, cannot sit in the middle; the message there must name the session and the signer.

What ``agree``, ``seal`` and this file share is here too: an unambiguous way to join byte strings, and the one refusal.
Law of this package: a failure to open or to verify shows a peer nothing but that it failed. There is one error
with one text for a wrong key, a flipped bit, a replay, a short message and a bad point alike.
"""

from typing import NoReturn

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from fedsvd.errors import ConfigError, NotSealed
from fedsvd.randomness.seed import Seed


def framed(*parts: bytes) -> bytes:
    """The parts joined, each after its length, so that no two different lists give the same bytes."""
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def refusal() -> NotSealed:
    """The one error of this package; it carries no detail, for a detail would be an oracle."""
    return NotSealed(
        "a key, seal or signature does not verify",
        "start a new session; if it happens again, compare certificate fingerprints with the sender",
    )


_DOMAIN = b"fedsvd/sign/1"


class SigningKey:
    """One party's Ed25519 identity key; only the public half can be read."""

    __slots__ = ("_private", "public")

    def __init__(self, seed: Seed) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(seed.reveal())
        self.public = self._private.public_key().public_bytes_raw()

    def __repr__(self) -> str:
        return "SigningKey(<redacted>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a signing key is never pickled")


def sign(key: SigningKey, purpose: str, message: bytes) -> bytes:
    """The signature of ``message`` for this purpose, 64 bytes; the same each time."""
    if not purpose:
        raise ConfigError("a signature needs a purpose", "name what the signature is for")
    return key._private.sign(_signed(purpose, message))


def verify(public: bytes, purpose: str, message: bytes, signature: bytes) -> None:
    """Raise ``NotSealed`` unless the holder of ``public`` signed ``message`` for this purpose."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _signed(purpose, message))
    except (InvalidSignature, ValueError, TypeError):
        raise refusal() from None


def _signed(purpose: str, message: bytes) -> bytes:
    return framed(_DOMAIN, purpose.encode(), message)
