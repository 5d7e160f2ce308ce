"""Messages to the holder of a signing key, without a session: a box that only the pinned key opens (ADR 0069).

A kit has one long-lived key that owners compare and pin, an Ed25519 key. Its point has a twin on the curve of X25519
(RFC 7748, section 4.1), so the same pin says to whom a box is sealed. The sender makes a key pair for one box and
forgets it; AES-256-GCM seals under what HKDF-SHA256 makes of their secret and of both public keys. Nothing here proves
who sent a box: what is inside is signed. One key pair that signs and opens such boxes is as secure as two (Thormarker,
"On using the same key pair for Ed25519 and an X25519 based KEM", 2021); the two uses have domains of their own.
"""

import hashlib

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedsvd.randomness.seed import SIZE, Seed
from fedsvd.sealing.agree import AgreementKey, shared_secret
from fedsvd.sealing.seal import open_sealed, seal
from fedsvd.sealing.sign import SigningKey, framed, refusal

_DOMAIN = b"fedsvd/box/1"
_FIELD = 2**255 - 19


def seal_to(public: bytes, once: Seed, plaintext: bytes, associated: bytes = b"") -> bytes:
    """``plaintext`` for the holder of this Ed25519 key alone; ``once`` is a fresh seed, used for nothing else."""
    sender = AgreementKey(once)
    secret = shared_secret(sender, agreement_public(public))
    return sender.public + seal(_key(secret, sender.public, public), 0, plaintext, associated)


def open_box(key: SigningKey, box: bytes, associated: bytes = b"") -> bytes:
    """What was sealed to this key; ``NotSealed`` if anything is not as it was sealed."""
    sender, sealed = box[:SIZE], box[SIZE:]
    secret = shared_secret(_agreement_key(key), sender)
    return open_sealed(_key(secret, sender, key.public), 0, sealed, associated)


def agreement_public(public: bytes) -> bytes:
    """The X25519 public key of an Ed25519 key: u = (1 + y) / (1 - y)."""
    # The highest bit is the sign of x, which the other curve does not have.
    y = int.from_bytes(public, "little") & ((1 << 255) - 1)
    try:
        if len(public) != SIZE or y >= _FIELD:
            raise ValueError
        return ((1 + y) * pow(1 - y, -1, _FIELD) % _FIELD).to_bytes(SIZE, "little")
    except ValueError:
        raise refusal() from None


def _agreement_key(key: SigningKey) -> AgreementKey:
    # Ed25519 multiplies by the first half of this hash (RFC 8032, section 5.1.5); X25519 clamps it in the same way.
    return AgreementKey(Seed(hashlib.sha512(key._private.private_bytes_raw()).digest()[:SIZE]))


def _key(secret: Seed, sender: bytes, receiver: bytes) -> Seed:
    info = framed(_DOMAIN, sender, receiver)
    return Seed(HKDF(algorithm=hashes.SHA256(), length=SIZE, salt=_DOMAIN, info=info).derive(secret.reveal()))
