"""Shared results on their way to the researcher: sealed by every party, passed on by the CSP, opened by the pinned key.

After the last signature every party seals a *notice* to the key that it pinned for the researcher who signed the job
(``sealing/box.py``): the digest of the study's certificate, whether its owner agrees, and, if so, the root of the files
that all parties share, under its signature. A notice of a party that does not agree has the same length. The first
party adds the certificate itself, once for all: it grows with the parties, and so must not stand in every notice. The
first party also seals the files, in parts, under a key that follows from one share of every party: a share goes
with the notice of the party that agrees, so that the researcher opens the files if all agree, and not otherwise
(ADR 0069). Shares follow from the salt that users have and the CSP has not.

The CSP sees who sent how many bytes. What it alters, leaves out, or takes from another job does not open here.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import nan
from pathlib import Path

from fedsvd.errors import NotAuthenticated, NotSealed, SplitView, StorageError
from fedsvd.identity.kit import Kit, check_peer
from fedsvd.identity.names import KitRole
from fedsvd.protocol.certificate import Certificate
from fedsvd.protocol.parties import user
from fedsvd.randomness.seed import SIZE, Seed
from fedsvd.results.handed_over import (
    AGREED,
    PURPOSE,
    files_to_hand_over,
    handed_result,
    packed,
    root_of_files,
    statement,
    unpacked,
    write_handed_over,
)
from fedsvd.results.signed_certificate import (
    CERTIFICATE,
    agreement_of,
    certificate_record,
    certificate_text,
    expect_all_signed,
    read_certificate,
)
from fedsvd.results.write import Draw
from fedsvd.roles.user.agreement import Agreement
from fedsvd.sealing.box import open_box, seal_to
from fedsvd.sealing.seal import open_sealed, seal
from fedsvd.sealing.sign import framed, sign, verify
from fedsvd.service.enlist import party_caller
from fedsvd.service.mailbox import LARGEST_PART, MOST_PARTS
from fedsvd.service.records import JobRecord
from fedsvd.service.submitter import submitter_of
from fedsvd.storage import private
from fedsvd.types import Digest

_DECLINED = "not agreed"
_TOO_LARGE = "too large"
_WIDTH = max(map(len, (AGREED, _DECLINED, _TOO_LARGE)))
_DOMAIN = b"fedsvd/handover/1"
_PART = LARGEST_PART - 1024  # bytes of files in one message; sealing adds a few
_NOTHING = bytes(SIZE)
_ASK = "ask the operator of the CSP, and that party; the party's own results are not touched by this"
Fetch = Callable[[str, int], bytes | None]  # the message of this number from this member, if it has sent one


@dataclass(frozen=True, repr=False)
class Handover:
    """What one party sends: its notice first, then the files in parts, where it is the one that sends them."""

    state: str
    root: str  # of the files that it agrees to, in hexadecimal; zeros where it does not
    messages: tuple[bytes, ...]


@dataclass(frozen=True, repr=False)
class _Notice:
    """What one party says of a study, opened and verified."""

    agreement: Agreement | None  # in the notice of the first party alone
    body: bytes  # SHA-256 of what all signed of the study
    key: str  # that signed the notice, in hexadecimal
    state: str
    root: bytes
    share: bytes
    salt: bytes
    parts: int
    signature: bytes


# --- at a party -------------------------------------------------------------------------------------------------------


def sealed_for(kit: Kit, record: JobRecord, folder: Path, agreed: bool) -> Handover:
    """What this party sends to the researcher who signed a job that has ended here, from its results folder.

    ``NotAuthenticated`` unless that key is the pinned one.
    """
    researcher = submitter_of(kit, record)
    kit.expect_pinned(str(researcher), researcher)
    said = read_certificate(folder / CERTIFICATE)
    agreement, local = agreement_of(said), said["local"]
    state, content, root, share = _DECLINED, b"", _NOTHING, _NOTHING
    shared, place = Seed(bytes.fromhex(local["opens"]["shared"])), int(local["index"])
    if agreed:
        files = files_to_hand_over(folder)
        content = packed(files)
        state = AGREED if len(content) <= MOST_PARTS * _PART else _TOO_LARGE
    if state == AGREED:
        root, share = root_of_files(files), _share(shared, place)
    salt = Seed.fresh().reveal()  # so that no key seals twice, however often this is sent
    parts = _cut(content) if state == AGREED and place == 1 else []
    names = tuple(party.name for party in record.job.parties)
    notice = {
        "study": certificate_text(agreement, names, {}).decode() if place == 1 else "",
        "body": hashlib.sha256(agreement.body).hexdigest(),
        "certificate": kit.certificate_pem.decode(),
        "state": state.ljust(_WIDTH),
        "root": root.hex(),
        "share": share.hex(),
        "salt": salt.hex(),
        "parts": f"{len(parts):08d}",
        "signature": sign(
            kit.signing_key, PURPOSE, statement(hashlib.sha256(agreement.body).digest(), state, root)
        ).hex(),
    }
    me = str(kit.identity)
    box = seal_to(researcher.signing_public, Seed.fresh(), json.dumps(notice).encode(), _context(record, me))
    key = _key(salt, [_share(shared, i) for i in range(1, len(record.job.parties) + 1)])
    sealed = [seal(key, n, part, _context(record, me)) for n, part in enumerate(parts)]
    return Handover(state, root.hex(), (box, *sealed))


def _cut(content: bytes) -> list[bytes]:
    return [content[start : start + _PART] for start in range(0, len(content), _PART)]


def _share(shared: Seed, place: int) -> bytes:
    """What user ``place`` adds to the key of the files; all users can compute it, and it alone sends it."""
    return shared.derive("handed over", place).reveal()


def _key(salt: bytes, shares: Sequence[bytes]) -> Seed:
    return Seed(hashlib.sha256(framed(_DOMAIN, salt, *shares)).digest())


def _context(record: JobRecord, member: str) -> bytes:
    """What a message belongs to: one job as it was signed, and one sender."""
    return framed(_DOMAIN, record.id.encode(), record.asked.digest.encode(), member.encode())


# --- at the researcher ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Taken:
    """What a researcher has of a job that is done: a results folder, or why there is none; and the certificate."""

    folder: Path | None = None
    why: str = ""
    certificate: Certificate | None = None  # of a study whose signatures hold; the first party sends it


def take(kit: Kit, record: JobRecord, fetch: Fetch, target: Path, draw: Draw | None = None) -> Taken:
    """Open and verify what the parties of a job sent us, and write it to a new folder if all agree.

    ``NotSealed`` for what does not open or was not signed, ``SplitView`` where parties signed different things.
    """
    record.asked.expect_signed(kit.identity.signing_public, record.signature)
    names = [party.name for party in record.job.parties]
    sent = {name: fetch(party_caller(name), 0) for name in names}
    notices = {name: _opened(kit, record, i, names, box) for i, (name, box) in enumerate(sent.items(), 1) if box}
    certificate = _certificate(record, notices)
    missing = [name for name in names if name not in notices]
    declined = [name for name, notice in notices.items() if notice.state == _DECLINED]
    large = [name for name, notice in notices.items() if notice.state == _TOO_LARGE]
    reasons = (
        (declined, "not agreed to hand over what all share"),
        (missing, "sent nothing for the researcher"),
        (large, f"results of more than {MOST_PARTS * _PART >> 20} MiB, which are not sent"),
    )
    whys = [f"{_listed(who)} {'has' if len(who) == 1 else 'have'} {what}" for who, what in reasons if who]
    if whys:
        return Taken(why="; ".join(whys), certificate=certificate)
    _expect_same_root(notices)
    _write(record, notices, fetch, target, draw)
    return Taken(target, certificate=certificate)


def _opened(kit: Kit, record: JobRecord, place: int, names: Sequence[str], box: bytes) -> _Notice:
    """A party's notice, sealed to us for this job and signed by the key that its certificate binds."""
    member = party_caller(names[place - 1])
    try:
        said = private.plain_json(open_box(kit.signing_key, box, _context(record, member)))
        agreement = _study(record, str(said["study"]), len(names)) if place == 1 else None
        body, root, share = (bytes.fromhex(said[key]) for key in ("body", "root", "share"))
        salt, signature = (bytes.fromhex(said[key]) for key in ("salt", "signature"))
        state, parts = str(said["state"]).strip(), int(said["parts"])
        identity = check_peer(kit, str(said["certificate"]).encode(), (KitRole.PARTY,), datetime.now(UTC))
        if str(identity) != member:
            raise NotAuthenticated(f"what came as {member}'s is not under its key", _ASK)
        if parts > MOST_PARTS or (agreement is not None and hashlib.sha256(agreement.body).digest() != body):
            raise ValueError
        verify(identity.signing_public, PURPOSE, statement(body, state, root), signature)
    except (NotSealed, StorageError, KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError):
        raise NotSealed(f"what the CSP shows as sent by {member} is not what it sealed for this job", _ASK) from None
    return _Notice(agreement, body, identity.signing_public.hex(), state, root, share, salt, parts, signature)


def _study(record: JobRecord, text: str, parties: int) -> Agreement:
    """The certificate of the study in the first party's notice: signed by all, of this job's plan."""
    study = certificate_record(text.encode(), "the certificate of the study")
    expect_all_signed(study, "the certificate of the study")
    if len(study["body"]["identities"]) != parties or study["body"]["plan"] != record.plan_digest:
        raise ValueError
    return agreement_of(study)


def _certificate(record: JobRecord, notices: Mapping[str, _Notice]) -> Certificate | None:
    """That of the study, the same for every notice; what was measured stands in a result alone."""
    _expect_one({name: notice.body for name, notice in notices.items()}, "have certificates of different sessions")
    names = [party.name for party in record.job.parties]
    first = notices.get(names[0])
    if first is None or first.agreement is None:
        return None
    keys = dict(zip(names, json.loads(first.agreement.body)["identities"], strict=True))
    for name, notice in notices.items():
        if keys[name] != notice.key:
            raise NotAuthenticated(f"what came as {party_caller(name)}'s is not under its key in the study", _ASK)
    digest = Digest(record.plan_digest)
    return Certificate(plan_digest=digest, residual=None, orthogonality=nan, rank=0, versions={})


def _expect_same_root(notices: Mapping[str, _Notice]) -> None:
    _expect_one({name: notice.root for name, notice in notices.items()}, "signed different results for the researcher")


def _expect_one(said: Mapping[str, bytes], what: str) -> None:
    """Raise ``SplitView`` with the parties by what they said, unless they said the same."""
    groups: dict[bytes, list[str]] = {}
    for name, text in said.items():
        groups.setdefault(text, []).append(name)
    if len(groups) > 1:
        sides = " against ".join(", ".join(names) for names in sorted(groups.values(), key=len, reverse=True))
        raise SplitView(
            f"the parties {what}: {sides}",
            "nothing is taken; ask them to compare: fedsvd verify in each party's results folder, versions first",
        )


def _write(record: JobRecord, notices: Mapping[str, _Notice], fetch: Fetch, target: Path, draw: Draw | None) -> None:
    first = record.job.parties[0].name
    notice, member = notices[first], party_caller(first)
    key = _key(notice.salt, [each.share for each in notices.values()])
    parts = []
    for number in range(notice.parts):
        sealed = fetch(member, 1 + number)
        if sealed is None:
            raise NotSealed(f"part {number + 1} of {notice.parts} that {member} sent is missing", "ask the CSP")
        parts.append(open_sealed(key, number, sealed, _context(record, member)))
    files = unpacked(b"".join(parts))
    if root_of_files(files) != notice.root:
        raise NotSealed(f"the files of {member} are not those that the parties signed", "ask that party")
    plan = handed_result(files).plan
    if plan.digest != record.plan_digest or plan.job != record.bound:
        raise NotSealed("the results are of another job than the one that you signed", "ask the CSP")
    assert notice.agreement is not None  # the first party's
    signatures = {user(i).name: each.signature for i, each in enumerate(notices.values(), start=1)}
    write_handed_over(target, files, notice.agreement, signatures, draw)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
