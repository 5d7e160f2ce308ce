"""``certificate.json``: what all users and the CSP signed of a study, in every results folder; written and verified.

A study that matched records or prepared tables together first has one of that session too (``certificate-match.json``,
``certificate-prepare.json``).

    format        fedsvd-certificate/2
    body          session, digest of the plan, roster by keys, data commitments, digest of what was released, checks
    signatures    of the body in canonical JSON by every user, and of its SHA-256 by the CSP; Ed25519, in hex
    local         unsigned, from the party that wrote the file: names of the parties, errors, bytes, seconds, memory

The signatures prove that the holders of these keys took part in one session and saw the same; whose keys they are is
what an owner pinned (``--kit``). What opens a party's data commitment stays in its kit's state folder.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsvd.errors import NotAuthenticated, NotSealed, StorageError
from fedsvd.identity.names import grouped, key_fingerprint
from fedsvd.protocol.parties import CSP, user
from fedsvd.roles.user.agreement import FORMAT, PURPOSE, Agreement
from fedsvd.sealing.sign import verify
from fedsvd.storage import private

CERTIFICATE = "certificate.json"
BEFORE = "certificate-{}.json"
"""Of a session before the study, by its task."""

_LARGEST = 1 << 24
_TEXT = (str,)
_KEYS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("format", "session", "plan", "task", "scheme", "csp_identity", "release"), _TEXT),
    **dict.fromkeys(("identities", "commitments", "sums"), (list,)),
    "protocol": (int,),
    "mode": (str, type(None)),
}


@dataclass(frozen=True)
class Signed:
    """A certificate whose signatures hold: its body, and who signed it."""

    body: Mapping[str, Any]
    signers: Mapping[str, str]  # "user-1" ... "csp", and the fingerprint of the key
    names: Mapping[str, str]  # of the same, where a kit has pinned their keys


def save_certificate(
    folder: Path, agreement: Agreement, names: tuple[str, ...], local: Mapping[str, Any], file_name: str = CERTIFICATE
) -> None:
    """Write ``certificate.json``; ``local`` is the writer's own account, which no one signed."""
    record = {
        "format": FORMAT,
        "body": json.loads(agreement.body),
        "signatures": {party: signature.hex() for party, signature in agreement.signatures.items()},
        "local": {"parties": list(names), **local},
    }
    with private.new_file(folder / file_name) as file:
        file.write(json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n")


def verify_certificate(path: Path, pins: Mapping[str, str] | None = None) -> Signed:
    """The certificate in a file, all of whose signatures hold; with ``pins`` every signer is a pinned one.

    ``StorageError`` for what is no certificate, ``NotSealed`` for a signature that does not hold, ``NotAuthenticated``
    for a signer who is not pinned.
    """
    record = _read(path)
    body, signatures = record["body"], record["signatures"]
    signed = canonical(body)
    keys = {user(i).name: key for i, key in enumerate(body["identities"], start=1)}
    if set(signatures) != {*keys, *((CSP.name,) if body["csp_identity"] else ())}:
        raise NotSealed(f"{path.name} is not signed by exactly the parties that it names", _FIX)
    for party, key in keys.items():
        _expect_signature(path, party, key, signed, signatures[party])
    if body["csp_identity"]:
        keys[CSP.name] = body["csp_identity"]
        _expect_signature(path, CSP.name, keys[CSP.name], hashlib.sha256(signed).digest(), signatures[CSP.name])
    signers = {party: key_fingerprint(bytes.fromhex(key)) for party, key in keys.items()}
    return Signed(body, signers, {} if pins is None else _pinned(path, signers, pins))


_FIX = "it was altered, or is not from this study: ask the other parties for theirs"


def canonical(body: Mapping[str, Any]) -> bytes:
    """The body as it is signed: sorted keys, no spaces."""
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def _pinned(path: Path, signers: Mapping[str, str], pins: Mapping[str, str]) -> dict[str, str]:
    known = {fingerprint: name for name, fingerprint in pins.items()}
    for party, fingerprint in signers.items():
        if fingerprint not in known:
            raise NotAuthenticated(
                f"{path.name} is signed by a key of {party} that this kit has not pinned: {grouped(fingerprint)}",
                "compare it with its owner, then pin it: fedsvd join pin",
            )
    return {party: known[fingerprint] for party, fingerprint in signers.items()}


def _expect_signature(path: Path, party: str, key: str, message: bytes, signature: str) -> None:
    try:
        verify(bytes.fromhex(key), PURPOSE, message, bytes.fromhex(signature))
    except (NotSealed, ValueError):
        raise NotSealed(f"the signature of {party} in {path.name} does not hold", _FIX) from None


def _read(path: Path) -> dict[str, Any]:
    """The file, of the right form; keys that are repeated or unknown are refused."""
    content = private.read(path)
    try:
        if len(content) > _LARGEST:
            raise ValueError
        record = json.loads(content, object_pairs_hook=_once)
        body, signatures = record["body"], record["signatures"]
        listed = (*body["identities"], *body["commitments"], *body["sums"], *signatures.values())
        right = (
            record["format"] == FORMAT == body["format"]
            and set(body) == set(_KEYS)
            and all(type(body[key]) in kinds for key, kinds in _KEYS.items())
            and all(isinstance(item, str) for item in listed)
            and len(body["commitments"]) == len(body["identities"]) >= 2
        )
        if not right:
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise StorageError(f"{path} is not a certificate of this version of fedsvd", "give certificate.json") from None
    return dict(record)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found
