"""The operator of a federation: signs certificates, writes the register, revokes.

Not a role of the protocol: the operator takes part in no study, and must not be the CSP, which could then pose as any
party whose key no one pinned. Nothing is signed unless the operator gives the fingerprint that the applicant read out.
What was issued is never issued again: letting one more party in changes no other certificate.
"""

import hashlib
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
from fedsvd.identity.names import KitRole, grouped, ungrouped
from fedsvd.identity.register import Issued, add_issued, add_revoked, expect_may_issue, read_register
from fedsvd.identity.request import CA_KEY, read_request, read_tls_key
from fedsvd.randomness.entropy import fresh_bytes
from fedsvd.storage import private

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
