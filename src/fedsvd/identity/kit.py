"""A kit: the folder with which a role takes part, and what it believes about others.

    tls-key.pem, signing-key   made here by ``request``, never leave, mode 0600
    certificate.pem, ca.pem    ours, and the operator's, as ``accept`` took them
    pins.toml, revoked.pem     other owners' keys; certificates that are worth nothing any more
    policy.toml                what a party allows to be released

Keys are checked against certificates when a kit is read. Pins and the revocation list are read at every check of a
peer, so that a revoked peer stops at the next connection, without a restart.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import NoReturn

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from fedsvd.errors import ConfigError, NotAuthenticated, StorageError
from fedsvd.identity.certificates import (
    expect_issued,
    expect_valid,
    expires_in,
    federation_of,
    fingerprint_of,
    is_rehearsal,
    list_number,
    load_certificate,
    load_revocation_list,
    utc,
)
from fedsvd.identity.claims import Claim, read_claim, spki
from fedsvd.identity.names import Identity, KitRole, ungrouped
from fedsvd.identity.pins import expect_no_other_pin, expect_pin, read_pins
from fedsvd.identity.request import (
    NEXT_TLS_KEY,
    REQUEST,
    SIGNING_KEY,
    TLS_KEY,
    Request,
    expect_apart_from_operator,
    make_request,
    read_request,
    read_signing_key,
    read_tls_key,
)
from fedsvd.sealing.sign import SigningKey
from fedsvd.storage import private

CERTIFICATE = "certificate.pem"
CA = "ca.pem"
REVOKED = "revoked.pem"
WARN_BEFORE = timedelta(days=30)


@dataclass(frozen=True, repr=False)
class Kit:
    """A role's own identity, and where the rest of its kit lies."""

    directory: Path
    identity: Identity
    certificate: x509.Certificate
    ca: x509.Certificate
    signing_key: SigningKey = field(repr=False)
    key_path: Path

    def __repr__(self) -> str:
        return f"Kit({self.identity})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a kit is never pickled")

    @classmethod
    def read(cls, directory: Path) -> "Kit":
        """The kit in a folder; its keys, certificate and federation belong together, or this raises."""
        if not (directory / CERTIFICATE).exists():
            raise _without_certificate(directory)
        _expect_complete(directory)
        certificate, ca = (load_certificate(private.read(directory / name)) for name in (CERTIFICATE, CA))
        claim = expect_issued(certificate, ca)
        expect_apart_from_operator(directory, claim.identity.role)
        signing_key = read_signing_key(directory)
        if signing_key.public != claim.identity.signing_public:
            raise StorageError(f"the keys in {directory} are not those of its certificate", "restore your backup")
        return cls(directory, claim.identity, certificate, ca, signing_key, _key_of(directory, claim))

    @property
    def certificate_path(self) -> Path:
        return self.directory / CERTIFICATE

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def ca_pem(self) -> bytes:
        return self.ca.public_bytes(Encoding.PEM)

    @property
    def rehearsal(self) -> bool:
        """Whether this kit belongs to a rehearsal, not to a federation."""
        return is_rehearsal(self.ca)

    def tls_key_pem(self) -> bytes:
        """The private TLS key, for the TLS library and for nothing else; read when asked for, and not cached."""
        return private.read_secret(self.key_path)

    def pins(self) -> dict[str, str]:
        """Member (``role/id``) to fingerprint as they stand in the file now, and our own: no one else is us."""
        return {**read_pins(self.directory), str(self.identity): self.identity.fingerprint}

    def expect_pinned(self, member: str, key: bytes | x509.Certificate | Identity) -> None:
        """Raise ``NotAuthenticated`` unless this member is pinned to this Ed25519 key, bare or in a certificate."""
        if isinstance(key, bytes) and len(key) != 32:
            key = load_certificate(key)
        if isinstance(key, x509.Certificate):
            key = read_claim(key).identity
        if isinstance(key, Identity):
            if str(key) != member:
                raise NotAuthenticated(f"this is the certificate of {key}, not of {member}")
            key = key.signing_public
        expect_pin(self.pins(), member, key)

    def revocations(self) -> x509.CertificateRevocationList | None:
        """The operator's list as it stands in the file now."""
        path = self.directory / REVOKED
        return load_revocation_list(private.read(path), self.ca) if path.exists() else None

    def warnings(self, now: datetime) -> list[str]:
        """What the kit's owner should see to before it stops working."""
        found = []
        ours = ("this kit's certificate", self.certificate, "renew it: fedsvd join renew")
        theirs = ("the operator's certificate", self.ca, "ask the operator for the next one")
        # A rehearsal lasts for days, and is not renewed.
        before = timedelta(0) if self.rehearsal else WARN_BEFORE
        for what, certificate, fix in (ours, theirs):
            left = expires_in(certificate, now)
            if left < before:
                fix = "rehearse again in a new folder" if self.rehearsal else fix
                when = "has expired" if left < timedelta(0) else f"expires in {left.days} days"
                found.append(f"{what} {when}; {fix}")
        revoked = self.revocations()
        if revoked is not None and (revoked.next_update_utc or utc(now)) < utc(now):
            found.append("the revocation list is old; ask the operator for the current one")
        return found


def request_of(
    kit_dir: Path,
    ca_pem: bytes,
    ca_fingerprint: str | None,
    role: KitRole | str,
    party_id: str,
    addresses: Sequence[str] = (),
) -> Request:
    """A new kit and its request, for the federation of an operator whose fingerprint was read out.

    The fingerprint covers the operator's key and the federation's id, so neither is typed again: the operator's
    certificate stays in the kit, and ``accept`` takes an answer from that operator alone.
    """
    if ca_fingerprint is None:
        raise ConfigError("the operator's certificate has to be compared with what was read out", "--fingerprint")
    ca = _accepted_ca(kit_dir, ca_pem, ca_fingerprint)
    made = make_request(kit_dir, federation_of(ca), role, party_id, addresses)
    private.replace(kit_dir / CA, ca.public_bytes(Encoding.PEM))
    return made


def accept(
    kit_dir: Path,
    certificate_pem: bytes,
    ca_pem: bytes | None = None,
    ca_fingerprint: str | None = None,
    *,
    now: datetime,
) -> Kit:
    """The kit, with the certificate that its request was for; everything is checked before anything is written.

    The operator's certificate comes with a fingerprint that was given out of band. A renewal needs neither: the
    operator is the one accepted before, and stays it.
    """
    asked = read_request(private.read(kit_dir / REQUEST)).claim
    expect_apart_from_operator(kit_dir, asked.identity.role)
    ca = _accepted_ca(kit_dir, ca_pem, ca_fingerprint)
    if federation_of(ca) != asked.identity.federation:
        raise NotAuthenticated("this operator is that of another federation", "ask for the certificate of yours")
    certificate = load_certificate(certificate_pem)
    if expect_issued(certificate, ca) != asked:
        raise NotAuthenticated(
            f"this certificate is not the answer to the request of {asked.identity}",
            "name, keys and addresses must be those that were asked for: ask the operator",
        )
    expect_valid(ca, now, "the operator's certificate")
    expect_valid(certificate, now)
    key = _key_of(kit_dir, asked)
    private.replace(kit_dir / CA, ca.public_bytes(Encoding.PEM))
    private.replace(kit_dir / CERTIFICATE, certificate.public_bytes(Encoding.PEM))
    # In this order: were it cut off here, the kit finds its key under either name.
    key.replace(kit_dir / TLS_KEY)
    return Kit.read(kit_dir)


def accept_revocations(kit_dir: Path, list_pem: bytes) -> None:
    """Take the operator's newest revocation list into the kit; an older one than ours is refused."""
    kit = Kit.read(kit_dir)
    new, old = load_revocation_list(list_pem, kit.ca), kit.revocations()
    if old is not None and list_number(new) < list_number(old):
        raise NotAuthenticated("this revocation list is older than the kit's", "ask the operator for the current one")
    private.replace(kit_dir / REVOKED, list_pem)


def check_peer(
    kit: Kit, certificate: bytes | x509.Certificate, expected_roles: Collection[KitRole], now: datetime
) -> Identity:
    """Who this peer is: of our federation, in one of these roles, today, not revoked, and the one we pinned if any."""
    document = load_certificate(certificate)
    identity = expect_issued(document, kit.ca).identity
    expect_valid(kit.ca, now, "the operator's certificate")
    expect_valid(document, now, f"the certificate of {identity}")
    if identity.role not in expected_roles:
        expected = " or ".join(expected_roles)
        raise NotAuthenticated(f"{identity} is not a {expected}", "use the kit of that role")
    revoked = kit.revocations()
    if revoked is not None and revoked.get_revoked_certificate_by_serial_number(document.serial_number) is not None:
        raise NotAuthenticated(f"the certificate of {identity} was revoked", "ask the operator")
    expect_no_other_pin(kit.pins(), str(identity), identity.signing_public)
    return identity


def _accepted_ca(kit_dir: Path, ca_pem: bytes | None, fingerprint: str | None) -> x509.Certificate:
    """The operator's certificate: the one we have, or a first one, or a renewed one of the same key."""
    ours = load_certificate(private.read(kit_dir / CA)) if (kit_dir / CA).exists() else None
    if ca_pem is None and ours is not None:
        return ours
    if ca_pem is None or (fingerprint is None and ours is None):
        raise ConfigError("the operator's certificate and its fingerprint are needed", "ca.pem, and --fingerprint")
    ca = load_certificate(ca_pem)
    if fingerprint is not None and fingerprint_of(ca) != ungrouped(fingerprint):
        raise NotAuthenticated(
            "the operator's certificate does not have the fingerprint that was given",
            "ask again; if it differs still, another person is posing as the operator",
        )
    if ours is not None and fingerprint_of(ours) != fingerprint_of(ca):
        raise NotAuthenticated("this kit belongs to another operator", "make a new kit for another federation")
    return ca


def _without_certificate(kit_dir: Path) -> StorageError:
    """Why this folder has no certificate, as far as the folder shows."""
    if not kit_dir.is_dir():
        return StorageError(f"there is no folder {kit_dir}", "check --kit, or make a kit: fedsvd join request")
    fault = f"there is no certificate in {kit_dir}"
    if not (kit_dir / REQUEST).exists():
        return StorageError(f"{fault}, nor a request for one", "check --kit, or make a kit: fedsvd join request")
    fix = "the operator's answer to request.pem goes into the kit with fedsvd join accept --certificate FILE"
    return StorageError(fault, fix)


def _expect_complete(kit_dir: Path) -> None:
    """Raise ``StorageError`` for a file that every kit has and this one has not."""
    again = f"fedsvd join accept --kit {kit_dir} --certificate {kit_dir / CERTIFICATE} --ca FILE --fingerprint DIGITS"
    accepted = f"ask the operator for ca.pem, and take it in: {again}"
    restore = "restore the kit from your backup; without one, make a new kit: fedsvd join request"
    for name, what, fix in (
        (CA, "the operator's certificate", accepted),
        (SIGNING_KEY, "the private key that signs", restore),
        (TLS_KEY, "the private key of its certificate", restore),
    ):
        there = (kit_dir / name).exists() or (name == TLS_KEY and (kit_dir / NEXT_TLS_KEY).exists())
        if not there:
            raise StorageError(f"{kit_dir / name}, {what}, is missing", fix)


def _key_of(kit_dir: Path, claim: Claim) -> Path:
    """The file of the TLS key in this claim."""
    for path in (kit_dir / TLS_KEY, kit_dir / NEXT_TLS_KEY):
        if path.exists() and spki(read_tls_key(path).public_key()) == claim.tls_public:
            return path
    raise StorageError(f"the TLS key in {kit_dir} is not that of its certificate", "restore your backup")
