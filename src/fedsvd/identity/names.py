"""Who a member is in a federation, as names and fingerprints.

A name is ``fedsvd://<federation>/<role>/<id>`` and is never used for two things: an id belongs to one role. The role
``authority`` is the Trusted Authority that deals masks; the operator who signs certificates has no role in a study and
no name here, only the federation's. Fingerprints are SHA-256, read out in groups of four.

There are three, and none passes for another. The *key's* stays the same for life and is what owners pin. The
*request's* is that of one request and is what the applicant reads to the operator. The *federation's* is that of the
operator's key and is what the operator reads to the applicant.
"""

import hashlib
import re
from dataclasses import dataclass, field
from enum import StrEnum

from fedsvd.errors import ConfigError
from fedsvd.sealing.sign import framed

SCHEME = "fedsvd://"
# The same names as in a job file: they become names of folders, and parts of a URI without escapes.
_ID = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?")
_FEDERATION = re.compile(r"[0-9a-f]{32}")
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


class KitRole(StrEnum):
    """What a certificate is good for; no certificate is good for two."""

    AUTHORITY = "authority"
    CSP = "csp"
    PARTY = "party"
    RESEARCHER = "researcher"


@dataclass(frozen=True)
class Name:
    """One place in one federation."""

    federation: str
    role: KitRole
    party_id: str

    def __post_init__(self) -> None:
        if not _FEDERATION.fullmatch(self.federation):
            raise ConfigError("a federation's id is 32 hexadecimal digits", "copy it from the operator's invitation")
        expect_id(self.party_id)

    def __str__(self) -> str:
        return f"{self.role}/{self.party_id}"

    @property
    def uri(self) -> str:
        return f"{SCHEME}{self.federation}/{self.role}/{self.party_id}"


@dataclass(frozen=True)
class Identity(Name):
    """A name and the Ed25519 key that signs under it."""

    signing_public: bytes = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """The key's fingerprint, the one that owners pin."""
        return key_fingerprint(self.signing_public)


def expect_id(party_id: str) -> None:
    """Raise ``ConfigError`` unless this can be the id of a party."""
    if not _ID.fullmatch(party_id):
        raise ConfigError(
            f"{party_id[:80]!r} cannot be an id", "1 to 64 letters a to z and digits, and . _ - between them"
        )


def parse_uri(uri: str) -> Name:
    """The name that a URI spells, or ``ConfigError``."""
    federation, _, rest = uri.removeprefix(SCHEME).partition("/")
    role, _, party_id = rest.partition("/")
    if not uri.startswith(SCHEME) or role not in tuple(KitRole):
        raise ConfigError("not the name of a role in a federation", "party/hospital-b, say")
    return Name(federation, KitRole(role), party_id)


def key_fingerprint(signing_public: bytes) -> str:
    """What owners pin: it outlives certificates and TLS keys, which the key itself vouches for."""
    return _digest(b"fedsvd/key/1", signing_public)


def request_fingerprint(tls_public: bytes, signing_public: bytes) -> str:
    """What an applicant reads to the operator: both keys of one request, so that an old one does not pass for it."""
    return _digest(b"fedsvd/request/1", tls_public, signing_public)


def federation_fingerprint(tls_public: bytes, federation: str) -> str:
    """What the operator reads to an applicant: the key that signs certificates, and the federation's id."""
    return _digest(b"fedsvd/federation/1", tls_public, federation.encode())


def grouped(fingerprint: str) -> str:
    """A fingerprint as people read it: sixteen groups of four digits."""
    return " ".join(fingerprint[start : start + 4] for start in range(0, len(fingerprint), 4))


def ungrouped(text: str) -> str:
    """A fingerprint as people write it, whatever stands between the digits; all of it, or ``ConfigError``."""
    digits = re.sub(r"[\s:-]", "", text).lower()
    if not _FINGERPRINT.fullmatch(digits):
        raise ConfigError(
            f"a fingerprint has 64 hexadecimal digits, this text has {len(digits)} characters", "compare all of it"
        )
    return digits


def _digest(domain: bytes, *parts: bytes) -> str:
    return hashlib.sha256(framed(domain, *parts)).hexdigest()
