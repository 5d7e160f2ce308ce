"""Messages that only one other party can read or write: AES-256-GCM (NIST SP 800-38D).

Nonce discipline, the law of this file: the nonce *is* the message number, and one key never seals one number
twice, for two messages under one nonce give away both and the authentication key. Therefore each direction of
a pair has a key of its own (both ends count from zero), a ``Sealer`` only counts up, and a key has one
``Sealer`` in its life; random nonces would need randomness, which this package does not have. A sealed message is

    version (1 byte) | number (8 bytes, big-endian) | ciphertext | tag (16 bytes)

with version, number and the caller's associated bytes authenticated. Messages open in the order they were
sealed: a replayed, dropped or reordered message is refused like a forged one.
"""

import itertools

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fedsvd.errors import ConfigError, LocalProtocolError
from fedsvd.randomness.seed import Seed
from fedsvd.sealing.sign import framed, refusal

VERSION = 1
MAX_MESSAGES = 1 << 32
MAX_BYTES = (1 << 31) - (1 << 16)  # the library underneath takes less than 2^31 bytes, tag included
_DOMAIN = b"fedsvd/seal/1"
_HEADER = 9  # version, number
OVERHEAD = _HEADER + 16  # bytes that a seal adds: header and tag


def seal(key: Seed, number: int, plaintext: bytes, associated: bytes = b"") -> bytes:
    """``plaintext`` as message ``number`` under ``key``: never call twice with one (key, number)."""
    if not 0 <= number < MAX_MESSAGES:
        raise LocalProtocolError(f"a key seals messages 0 .. {MAX_MESSAGES - 1}, got {number}", "agree on a new key")
    _check_size(plaintext)
    header = _header(number)
    body = AESGCM(key.reveal()).encrypt(_nonce(number), plaintext, framed(_DOMAIN, header, associated))
    return header + body


def open_sealed(key: Seed, number: int, sealed: bytes, associated: bytes = b"") -> bytes:
    """The plaintext of message ``number``; ``NotSealed`` if anything at all is not as it was sealed."""
    try:
        header = _header(number)
        if sealed[:_HEADER] != header:
            raise refusal()
        opener = AESGCM(key.reveal())
        return opener.decrypt(_nonce(number), sealed[_HEADER:], framed(_DOMAIN, header, associated))
    except (InvalidTag, ValueError, TypeError, OverflowError):
        raise refusal() from None


class Sealer:
    """The writing end from ``sender`` to ``receiver`` under their pair key; numbers are used once."""

    def __init__(self, pair: Seed, sender: int, receiver: int) -> None:
        self._key = _direction(pair, sender, receiver)
        self._numbers = itertools.count()

    def __repr__(self) -> str:
        return "Sealer(<redacted>)"

    def seal(self, plaintext: bytes, associated: bytes = b"") -> bytes:
        """``plaintext`` sealed as the next message."""
        # Before the number is spent: a message refused here must leave no gap for the reading end.
        _check_size(plaintext)
        return seal(self._key, next(self._numbers), plaintext, associated)


class Opener:
    """The reading end of a ``Sealer`` made with the same three arguments; a refusal leaves it unchanged."""

    def __init__(self, pair: Seed, sender: int, receiver: int) -> None:
        self._key = _direction(pair, sender, receiver)
        self._number = 0

    def __repr__(self) -> str:
        return "Opener(<redacted>)"

    def open(self, sealed: bytes, associated: bytes = b"") -> bytes:
        """The plaintext of the next message; each opens once, in order."""
        plaintext = open_sealed(self._key, self._number, sealed, associated)
        self._number += 1
        return plaintext


def _direction(pair: Seed, sender: int, receiver: int) -> Seed:
    if sender == receiver:
        raise ConfigError(f"party {sender} cannot seal to itself", "name the sender first, the receiver second")
    return pair.derive("seal", int(sender), int(receiver))


def _check_size(plaintext: bytes) -> None:
    if len(plaintext) > MAX_BYTES:
        raise ConfigError(f"a sealed message holds at most {MAX_BYTES} bytes, got {len(plaintext)}", "send it in parts")


def _header(number: int) -> bytes:
    return bytes([VERSION]) + number.to_bytes(8, "big")


def _nonce(number: int) -> bytes:
    return number.to_bytes(12, "big")
