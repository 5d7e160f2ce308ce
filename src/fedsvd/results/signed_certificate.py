"""``certificate.json``: what all users and the CSP signed of a study, in every results folder; written and verified.

A study that matched records or prepared tables together first has one of that session too (``certificate-match.json``,
``certificate-prepare.json``).

    format        fedsvd-certificate/3
    body          session, digest of the plan, roster by keys, data commitments, digest of what was released, checks,
                  commitments to every user's files and to those that hold what all share (ADR 0052)
    signatures    of the body in canonical JSON by every user, and of its SHA-256 by the CSP; Ed25519, in hex
    local         unsigned, from the party that wrote the file: names of the parties, errors, bytes, seconds, memory;
                  the files next to it and the salts that open its commitments to them

The signatures prove that the holders of these keys took part in one session and saw the same; whose keys they are is
what an owner pinned (``--kit``). The files next to it are compared in ``signed_files.py``. What opens a party's data
commitment stays in its kit's state folder.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedsvd.errors import NotAuthenticated, NotSealed, StorageError
from fedsvd.identity.names import KitRole, grouped, key_fingerprint
from fedsvd.protocol.outputs import Output
from fedsvd.protocol.parties import CSP, user
from fedsvd.protocol.tasks import Split
from fedsvd.results.file_tree import Leaf, shared_among
from fedsvd.results.result import PartyResult
from fedsvd.roles.user.agreement import FORMAT, PURPOSE, Agreement
from fedsvd.sealing.sign import verify
from fedsvd.storage import private

CERTIFICATE = "certificate.json"
BEFORE = "certificate-{}.json"
"""Of a session before the study, by its task."""

_LARGEST = 1 << 24
_TEXT = (str,)
_KEYS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("format", "session", "plan", "task", "scheme", "csp_identity", "release", "order"), _TEXT),
    **dict.fromkeys(("identities", "commitments", "sums", "files", "shared_files"), (list,)),
    **dict.fromkeys(("protocol", "bits"), (int,)),
    "mode": (str, type(None)),
}


@dataclass(frozen=True)
class Signed:
    """A certificate whose signatures hold: its body, and who signed it."""

    body: Mapping[str, Any]
    signers: Mapping[str, str]  # "user-1" ... "csp", and the fingerprint of the key
    names: Mapping[str, str]  # of the same, ``role/id``, where a kit has pinned their keys


def save_certificate(
    folder: Path, agreement: Agreement, names: tuple[str, ...], local: Mapping[str, Any], file_name: str = CERTIFICATE
) -> None:
    """Write ``certificate.json``; ``local`` is the writer's own account, which no one signed."""
    with private.new_file(folder / file_name) as file:
        file.write(certificate_text(agreement, names, local))


def earlier_leaves(before: Mapping[str, Agreement], names: tuple[str, ...]) -> dict[str, Leaf]:
    """The certificates of the sessions before a study, by their tasks, as files that are signed in it."""
    written = {BEFORE.format(task): certificate_text(agreement, names, {}) for task, agreement in before.items()}
    return {name: Leaf(len(text), hashlib.sha256(text).hexdigest()) for name, text in written.items()}


def certificate_text(agreement: Agreement, names: tuple[str, ...], local: Mapping[str, Any]) -> bytes:
    """``certificate.json`` as it is written."""
    record = {
        "format": FORMAT,
        "body": json.loads(agreement.body),
        "signatures": {party: signature.hex() for party, signature in agreement.signatures.items()},
        "local": {"parties": list(names), **local},
    }
    return json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def verify_certificate(path: Path, pins: Mapping[str, str] | None = None) -> Signed:
    """The certificate in a file, all of whose signatures hold; with ``pins`` every signer is pinned in its role.

    No key may sign in two places, and a CSP must have signed.

    ``StorageError`` for what is no certificate, ``NotSealed`` for a signature that does not hold, ``NotAuthenticated``
    for a signer who is not pinned.
    """
    record = read_certificate(path)
    keys = expect_all_signed(record, path.name)
    signers = {party: key_fingerprint(bytes.fromhex(key)) for party, key in keys.items()}
    return Signed(record["body"], signers, {} if pins is None else _pinned(path, signers, pins))


def expect_all_signed(record: Mapping[str, Any], name: str) -> dict[str, str]:
    """Every party of a certificate and its key; ``NotSealed`` unless all of them signed it, and a CSP did."""
    body, signatures = record["body"], record["signatures"]
    signed = canonical(body)
    keys = {user(i).name: key for i, key in enumerate(body["identities"], start=1)}
    if not body["csp_identity"]:
        raise NotSealed(f"{name} names no key of a CSP: none has signed it", FIX)
    keys[CSP.name] = body["csp_identity"]
    repeated = [party for party, key in keys.items() if list(keys.values()).count(key) > 1]
    if repeated:
        raise NotSealed(f"{name} has one key in several places: {', '.join(repeated)}", FIX)
    if set(signatures) != set(keys):
        raise NotSealed(f"{name} is not signed by exactly the parties that it names", FIX)
    for party, key in keys.items():
        message = hashlib.sha256(signed).digest() if party == CSP.name else signed
        _expect_signature(name, party, key, message, signatures[party])
    return keys


def agreement_of(record: Mapping[str, Any]) -> Agreement:
    """What all signed, from a certificate; without what opens any commitment."""
    signatures = {party: bytes.fromhex(signature) for party, signature in record["signatures"].items()}
    return Agreement(canonical(record["body"]), signatures)


def opened_files(result: PartyResult) -> dict[str, Any]:
    """For ``local``: the files of a party's folder, and what opens the commitments to them."""
    if result.agreement is None or not result.agreement.opens or result.index is None:
        return {}
    opens = {kind: salt.hex() for kind, salt in result.agreement.opens.items()}
    return {
        "index": result.index,
        "opens": opens,
        "files": {name: asdict(leaf) for name, leaf in result.leaves.items()},
        "shared_only": {name: asdict(leaf) for name, leaf in result.shared_only.items()},
    }


def save_shared(source: Path, folder: Path, outputs: Sequence[Output], split: Split) -> None:
    """Write a party's certificate again for a folder of what all share: without its own files and their salt."""
    record = read_certificate(source)
    local = dict(record["local"])
    if "opens" in local:
        leaves = {name: Leaf(**about) for name, about in local["files"].items()}
        only = {name: Leaf(**about) for name, about in local.pop("shared_only").items()}
        shared = {name: asdict(leaf) for name, leaf in shared_among(leaves, only, outputs, split).items()}
        local |= {"opens": {"shared": local["opens"]["shared"]}, "files": shared}
    with private.new_file(folder / source.name) as file:
        text = json.dumps({**record, "local": local}, indent=1, ensure_ascii=False, allow_nan=False)
        file.write(text.encode() + b"\n")


FIX = "it was altered, or is not from this study: ask the other parties for theirs"


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
        role = KitRole.CSP if party == CSP.name else KitRole.PARTY
        if known[fingerprint].partition("/")[0] != role:
            raise NotAuthenticated(
                f"{path.name} is signed as {party} by the key of {known[fingerprint]}, which is not a {role}",
                "it is not from an honest study: ask the other parties for theirs",
            )
    return {party: known[fingerprint] for party, fingerprint in signers.items()}


def _expect_signature(name: str, party: str, key: str, message: bytes, signature: str) -> None:
    try:
        verify(bytes.fromhex(key), PURPOSE, message, bytes.fromhex(signature))
    except (NotSealed, ValueError):
        raise NotSealed(f"the signature of {party} in {name} does not hold", FIX) from None


def read_certificate(path: Path) -> dict[str, Any]:
    """The file, of the right form; keys that are repeated or unknown are refused."""
    return certificate_record(private.read(path), path)


def certificate_record(content: bytes, place: Path | str) -> dict[str, Any]:
    """The same of a text, which is at this place or from there."""
    try:
        if len(content) > _LARGEST:
            raise ValueError
        record = private.plain_json(content)
        body, signatures = record["body"], record["signatures"]
        listed = (*body["identities"], *body["commitments"], *body["sums"], *signatures.values())
        listed = (*listed, *body["files"], *body["shared_files"])
        right = (
            record["format"] == FORMAT == body["format"]
            and set(body) == set(_KEYS)
            and all(type(body[key]) in kinds for key, kinds in _KEYS.items())
            and all(isinstance(item, str) for item in listed)
            and len(body["commitments"]) == len(body["identities"]) >= 2
            and len(body["files"]) == len(body["shared_files"]) == len(body["identities"])
        )
        if not right:
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise StorageError(f"{place} is not a certificate of this version of fedsvd", "give certificate.json") from None
    return dict(record)
