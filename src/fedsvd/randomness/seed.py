"""Seeds: 32 secret bytes from which masks, pads and rotations follow.

A seed never shows its bytes in ``repr``, cannot be pickled, and is not used twice: each purpose has a seed of
its own, derived by label through HKDF-SHA256 (RFC 5869).
"""

import hmac
from functools import lru_cache
from typing import NoReturn

from fedsvd.errors import ConfigError
from fedsvd.randomness.entropy import fresh_bytes

SIZE = 32
_DOMAIN = b"fedsvd/seed/1\x00"


class Seed:
    """Thirty-two secret bytes; equal only to themselves, readable only through ``reveal``."""

    __slots__ = ("_secret",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, secret: bytes) -> None:
        secret = bytes(secret)
        if len(secret) != SIZE:
            raise ConfigError(f"a seed has {SIZE} bytes, got {len(secret)}")
        self._secret = secret

    @classmethod
    def fresh(cls) -> "Seed":
        """A seed from the operating system's entropy."""
        return cls(fresh_bytes(SIZE))

    def derive(self, *labels: str | int) -> "Seed":
        """The seed for one purpose, e.g. ``seed.derive("left", "window", 3)``.

        Labels are length-prefixed and typed, so that ("a", "b"), ("ab",) and (1,), ("1",) differ.
        """
        return self.along(path(*labels))

    def along(self, labelled: bytes) -> "Seed":
        """The same for labels that ``path`` has joined: for one purpose of many seeds."""
        # HKDF's expand step of one block is this HMAC (RFC 5869, 2.3); a library's objects around it cost ten times it.
        return Seed(hmac.digest(self._secret, labelled, "sha256"))

    def reveal(self) -> bytes:
        """The bytes themselves, for a cipher or a sealed message; never for a log."""
        return self._secret

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Seed) and hmac.compare_digest(self._secret, other._secret)

    def __repr__(self) -> str:
        return "Seed(<redacted>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a seed is never pickled")


@lru_cache(maxsize=1 << 12, typed=True)  # labels are public, and each user of a process asks for the same
def path(*labels: str | int) -> bytes:
    """The labels as HKDF's expand step takes them, with the number of its one block behind them."""
    return _DOMAIN + b"".join(map(_encode, labels)) + b"\x01"


def _encode(label: str | int) -> bytes:
    kind, text = (b"i", str(label)) if isinstance(label, int) else (b"s", label)
    body = text.encode()
    return kind + len(body).to_bytes(4, "big") + body
