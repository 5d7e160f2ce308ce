"""The operator of a federation: signs certificates, writes the register, revokes.

Not a role of the protocol: the operator takes part in no study, and must not be the CSP, which could then pose as any
party whose key no one pinned. Nothing is signed unless the operator gives the fingerprint that the applicant read out.
What was issued is never issued again: letting one more party in changes no other certificate.

The operator's register: one line for every certificate issued or revoked, added and never changed.

What it refuses, it refuses so that a name means one key and a key means one name: an id has one role for ever, a key
serves one name, a revoked key is never certified again, and a name with a live certificate gets another for a new TLS
key on purpose only (renewal), for a new identity only after the old one was revoked.
"""

import dataclasses
import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import NoReturn

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from fedsvd.errors import ConfigError, NotAuthenticated, StorageError
from fedsvd.identity.certificates import (
    expect_here,
    expect_valid,
    federation_of,
    fingerprint_of,
    list_number,
    load_certificate,
    load_revocation_list,
    make_ca,
    make_certificate,
    make_revocation_list,
    utc,
)
from fedsvd.identity.claims import Claim
from fedsvd.identity.names import KitRole, grouped, key_fingerprint, ungrouped
from fedsvd.identity.request import CA_KEY, read_request, read_tls_key
from fedsvd.randomness.entropy import fresh_bytes
from fedsvd.storage import private

REGISTER = "issued.jsonl"


@dataclass(frozen=True)
class Issued:
    """One certificate as the register remembers it; digests of public keys, no secrets."""

    role: KitRole
    party_id: str
    serial: int
    key: str  # the fingerprint of the identity
    request: str  # the fingerprint of the request, hence of both keys
    tls: str  # SHA-256 of the TLS key
    issued: datetime
    expires: datetime
    certificate: str
    revoked: datetime | None = None
    barred: bool = False  # the identity itself was revoked, not one certificate of it

    def live(self, now: datetime) -> bool:
        return self.revoked is None and now <= self.expires

    @property
    def name(self) -> str:
        return f"{self.role}/{self.party_id}"


def read_register(folder: Path) -> list[Issued]:
    """Every certificate there ever was, in order of issue."""
    path = folder / REGISTER
    content = private.read(path) if path.exists() else b""
    found: dict[int, Issued] = {}
    for number, line in enumerate(content[: content.rfind(b"\n") + 1].splitlines(), start=1):
        try:
            _replay(found, json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise StorageError(f"line {number} of {path} is damaged", "restore it from your backup") from None
    return list(found.values())


def add_issued(folder: Path, issued: Issued) -> None:
    """Remember a certificate, before it is handed out."""
    values = {name: value for name, value in asdict(issued).items() if name not in ("revoked", "barred")}
    _add(folder, {"event": "issued", **values})


def add_revoked(folder: Path, issued: Issued, now: datetime, barred: bool) -> None:
    """Remember that a certificate is worth nothing from now on, and its identity neither if ``barred``."""
    _add(folder, {"event": "revoked", "serial": issued.serial, "at": now, "barred": barred})


def expect_may_issue(register: list[Issued], claim: Claim, tls: str, now: datetime, renew: bool) -> None:
    """Raise unless a certificate for this claim leaves one key per name and one name per key."""
    identity, key = claim.identity, key_fingerprint(claim.identity.signing_public)
    for old in register:
        same_name = (old.role, old.party_id) == (identity.role, identity.party_id)
        same_key = old.key == key or old.tls == tls
        if old.party_id.lower() == identity.party_id.lower() and not same_name:
            raise ConfigError(f"the id is that of {old.name}, who is another holder", "choose another id")
        if same_key and not same_name:
            raise NotAuthenticated(f"this key is that of {old.name}: one key, one role", "make a kit for each role")
        if (old.key == key and old.barred) or (old.tls == tls and old.revoked is not None):
            raise NotAuthenticated(f"this key of {old.name} was revoked", "make a new kit, with new keys")
        if same_name and old.live(now) and old.key != key:
            raise NotAuthenticated(
                f"{old.name} has a certificate for another identity key",
                "revoke it first if that kit is lost; otherwise another person is posing as its holder",
            )
        if same_name and old.live(now) and old.tls != tls and not renew:
            raise NotAuthenticated(
                f"{old.name} has a certificate for another TLS key", "approve it as a renewal, if it is one"
            )


def _replay(found: dict[int, Issued], record: dict[str, object]) -> None:
    event = record.pop("event")
    if event == "issued":
        times = {name: datetime.fromisoformat(str(record.pop(name))) for name in ("issued", "expires")}
        serial = int(str(record.pop("serial")))
        role = KitRole(str(record.pop("role")))
        texts = {name: str(value) for name, value in record.items()}
        found[serial] = Issued(role=role, serial=serial, **times, **texts)  # type: ignore[arg-type]
    elif event == "revoked":
        old = found[int(str(record["serial"]))]
        when = datetime.fromisoformat(str(record["at"]))
        found[old.serial] = dataclasses.replace(old, revoked=when, barred=bool(record["barred"]))
    else:
        raise ValueError(event)


def _add(folder: Path, record: dict[str, object]) -> None:
    line = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in record.items()}
    # A serial number has more digits than a number in JSON is sure to preserve.
    private.append_line(folder / REGISTER, json.dumps({**line, "serial": str(line["serial"])}).encode())


CA = "ca.pem"
REVOKED = "revoked.pem"
CA_DAYS = 7300
DAYS = 397


class Authority:
    """A federation's operator at work in its folder; its key is read when something is signed, and not cached."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ca = load_certificate(private.read(directory / CA))
        self.federation = federation_of(self.ca)

    def __repr__(self) -> str:
        return f"Authority(federation={self.federation})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an operator is never pickled")

    @property
    def ca_pem(self) -> bytes:
        return self.ca.public_bytes(Encoding.PEM)

    @property
    def fingerprint(self) -> str:
        """What applicants receive out of band, in groups."""
        return grouped(fingerprint_of(self.ca))

    def approve(
        self,
        request_pem: bytes,
        *,
        role: KitRole | str,
        party_id: str,
        fingerprint: str,
        now: datetime,
        days: int = DAYS,
        renew: bool = False,
        organisation: str | None = None,
    ) -> bytes:
        """A certificate in PEM, for the role and id that the operator names and the fingerprint that it was given."""
        now = utc(now)
        if days < 1:
            raise ConfigError(f"a certificate for {days} days", "give it a day or more")
        expect_valid(self.ca, now, "the operator's own certificate")
        claim = read_request(request_pem).claim
        self._expect_meant(claim, role, party_id, fingerprint)
        for address in claim.addresses:
            expect_here(self.ca, address)
        tls = hashlib.sha256(claim.tls_public).hexdigest()
        with private.locked(self.directory):
            expect_may_issue(self.register(), claim, tls, now, renew)
            certificate = make_certificate(claim, self.ca, self._key(), now, days, organisation)
            pem = certificate.public_bytes(Encoding.PEM)
            add_issued(self.directory, _entry(claim, certificate, tls, now))
        return pem

    def revoke(self, role: KitRole | str, party_id: str, *, now: datetime, keep_newest: bool = False) -> bytes:
        """The revocation list in PEM, now with every live certificate of this name on it.

        ``keep_newest`` is for a TLS key that was lost and has been renewed since: the identity stays good.
        """
        now = utc(now)
        with private.locked(self.directory):
            known = [one for one in self.register() if (one.role, one.party_id) == (role, party_id)]
            if not known:
                raise ConfigError(f"no certificate was issued to {role}/{party_id}", "see the register for the names")
            for issued in known[: -1 if keep_newest else None]:
                if issued.live(now):
                    add_revoked(self.directory, issued, now, barred=not keep_newest)
            return self._sign_list(now)

    def revocation_list(self, *, now: datetime) -> bytes:
        """The revocation list in PEM, signed anew: kits warn when theirs is old."""
        with private.locked(self.directory):
            return self._sign_list(utc(now))

    def register(self) -> list[Issued]:
        """Every certificate there ever was."""
        return read_register(self.directory)

    def _expect_meant(self, claim: Claim, role: KitRole | str, party_id: str, fingerprint: str) -> None:
        given, identity = ungrouped(fingerprint), claim.identity
        if given == identity.fingerprint:
            raise NotAuthenticated(
                "this is the fingerprint of the applicant's key, which owners pin, not that of the request",
                "ask the applicant for the request's",
            )
        if given != claim.fingerprint:
            raise NotAuthenticated(
                "the request's fingerprint is not the one the applicant read out",
                "ask again; if it differs still, another request was put in its place",
            )
        if identity.federation != self.federation:
            raise NotAuthenticated("this request is for another federation", f"the id of this one is {self.federation}")
        if (identity.role, identity.party_id) != (role, party_id):
            raise NotAuthenticated(f"this is a request of {identity}, not of {role}/{party_id}", "ask the applicant")

    def _key(self) -> ec.EllipticCurvePrivateKey:
        return read_tls_key(self.directory / CA_KEY)

    def _sign_list(self, now: datetime) -> bytes:
        path = self.directory / REVOKED
        number = int(now.timestamp())
        if path.exists():
            number = max(number, list_number(load_revocation_list(private.read(path), self.ca)) + 1)
        serials = [(one.serial, one.revoked) for one in self.register() if one.revoked is not None]
        revoked = make_revocation_list(serials, number, self.ca, self._key(), now)
        pem = revoked.public_bytes(Encoding.PEM)
        private.replace(path, pem)
        return pem


def init_federation(
    directory: Path, name: str, *, now: datetime, days: int = CA_DAYS, rehearsal: bool = False
) -> Authority:
    """A new federation with an id for ever, and its operator's key in ``directory``."""
    if not 1 <= len(name) <= 64 or not name.isprintable():
        raise ConfigError("a federation's name has 1 to 64 printable characters", "name it as people call it")
    if days < 1:
        raise ConfigError(f"an operator's certificate for {days} days", "give it years")
    if directory.exists() and any(directory.iterdir()):
        raise StorageError(f"{directory} is not empty, and is left as it is", "name a new folder")
    key = ec.generate_private_key(ec.SECP256R1())
    ca = make_ca(key, fresh_bytes(16).hex(), name, utc(now), days, rehearsal)
    private.private_folder(directory)
    private.create(directory / CA_KEY, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    private.create(directory / CA, ca.public_bytes(Encoding.PEM))
    authority = Authority(directory)
    authority.revocation_list(now=now)
    return authority


def _entry(claim: Claim, certificate: x509.Certificate, tls: str, now: datetime) -> Issued:
    return Issued(
        role=claim.identity.role,
        party_id=claim.identity.party_id,
        serial=certificate.serial_number,
        key=claim.identity.fingerprint,
        request=claim.fingerprint,
        tls=tls,
        issued=now,
        expires=certificate.not_valid_after_utc,
        certificate=certificate.public_bytes(Encoding.PEM).decode(),
    )
