"""X.509: the operator's own certificate, those it signs, the list of those it revoked, and what each must look like.

Keys are ECDSA on P-256, because the TLS of gRPC takes no Ed25519 certificates. A certificate is for servers (the CSP,
the one role that listens) or for clients (all others), never for both, so TLS itself separates the CSP's from the
rest. The operator signs roles directly and no one in between. Files and registers are not here; the clock is an
argument.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from ipaddress import ip_address
from typing import cast
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_der_public_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedsvd.errors import ConfigError, NotAuthenticated
from fedsvd.identity.claims import UNREADABLE, Claim, alternative_names, read_claim, spki
from fedsvd.identity.names import SCHEME, KitRole, federation_fingerprint
from fedsvd.randomness.entropy import fresh_bytes

SKEW = timedelta(minutes=5)  # a certificate is valid a little before it was made: clocks differ
_LIST_IS_FRESH = timedelta(days=90)
_REHEARSAL = "REHEARSAL: throw-away keys of one person"
REHEARSAL = (
    "REHEARSAL: throw-away keys that one person holds, good for this machine only. "
    "Do not use data here that one person may not hold."
)
_NO_USE = dict.fromkeys(
    ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only", "decipher_only"),
    False,
)


def utc(now: datetime) -> datetime:
    """The time to the second, in UTC; a time without a zone is refused, for it would be a local one."""
    if now.tzinfo is None:
        raise ConfigError("a time without a time zone", "datetime.now(UTC)")
    return now.astimezone(UTC).replace(microsecond=0)


def make_ca(
    key: ec.EllipticCurvePrivateKey, federation: str, name: str, now: datetime, days: int, rehearsal: bool = False
) -> x509.Certificate:
    """The operator's certificate of itself: it may sign certificates of roles, and no further authority.

    That of a rehearsal has a unit of that name in its subject, hence in the issuer of every certificate it signs.
    """
    unit = [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, _REHEARSAL)] if rehearsal else []
    subject = x509.Name([*unit, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(f"{SCHEME}{federation}")])
    builder = _builder(subject, key.public_key(), now, days).issuer_name(subject)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    return builder.add_extension(names, critical=False).sign(key, hashes.SHA256())


def make_certificate(
    claim: Claim,
    ca: x509.Certificate,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    days: int,
    organisation: str | None = None,
) -> x509.Certificate:
    """The claim under the operator's signature, and the organisation that the operator says it belongs to."""
    names = [x509.NameAttribute(NameOID.COMMON_NAME, claim.identity.party_id)]
    if organisation:
        names.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation))
    subject = x509.Name(names)
    tls = cast(ec.EllipticCurvePublicKey, load_der_public_key(claim.tls_public))  # read_claim saw to it
    identifier = ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    signer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
    builder = _builder(subject, tls, now, min(days, (ca.not_valid_after_utc - utc(now)).days)).issuer_name(ca.subject)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(_purpose(claim.identity.role), critical=True)
    builder = builder.add_extension(signer, critical=False)
    return builder.add_extension(alternative_names(claim), critical=False).sign(key, hashes.SHA256())


def make_revocation_list(
    serials: Iterable[tuple[int, datetime]],
    number: int,
    ca: x509.Certificate,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
) -> x509.CertificateRevocationList:
    """The signed list of revoked certificates; a later list has a larger number."""
    builder = x509.CertificateRevocationListBuilder().issuer_name(ca.subject)
    builder = builder.last_update(now).next_update(now + _LIST_IS_FRESH)
    builder = builder.add_extension(x509.CRLNumber(number), critical=False)
    for serial, when in serials:
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(when)
        builder = builder.add_revoked_certificate(entry.build())
    return builder.sign(key, hashes.SHA256())


def load_certificate(content: bytes | x509.Certificate) -> x509.Certificate:
    """A certificate from PEM or DER."""
    if isinstance(content, x509.Certificate):
        return content
    try:
        pem = content.lstrip().startswith(b"-----")
        return x509.load_pem_x509_certificate(content) if pem else x509.load_der_x509_certificate(content)
    except UNREADABLE:
        raise NotAuthenticated("this is not a certificate", "send the file that was issued, unchanged") from None


def organisation_of(certificate: bytes | x509.Certificate) -> str | None:
    """The organisation in a certificate's subject, where the operator named one."""
    found = load_certificate(certificate).subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return str(found[0].value) if found else None


def load_revocation_list(content: bytes, ca: x509.Certificate) -> x509.CertificateRevocationList:
    """A revocation list that the operator signed, or ``NotAuthenticated``."""
    return _signed_list(content, ca.public_bytes(Encoding.DER))


# Read anew at every call of a peer, and nearly always the same bytes.
@lru_cache(maxsize=8)
def _signed_list(content: bytes, ca_der: bytes) -> x509.CertificateRevocationList:
    ca = x509.load_der_x509_certificate(ca_der)
    try:
        revoked = x509.load_pem_x509_crl(content)
        if revoked.issuer == ca.subject and revoked.is_signature_valid(_ca_key(ca)):
            revoked.extensions.get_extension_for_class(x509.CRLNumber)
            return revoked
    except UNREADABLE:
        pass
    raise NotAuthenticated(
        "this revocation list was not signed by the federation's operator", "ask the operator for it"
    )


def federation_of(ca: x509.Certificate) -> str:
    """The id of the federation whose operator this is; ``NotAuthenticated`` unless it is one."""
    try:
        ca.verify_directly_issued_by(ca)
        limits = ca.extensions.get_extension_for_class(x509.BasicConstraints).value
        names = ca.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        (uri,) = names.get_values_for_type(x509.UniformResourceIdentifier)
        if limits.ca and limits.path_length == 0 and uri.startswith(SCHEME) and _ca_key(ca):
            return uri.removeprefix(SCHEME)
    except UNREADABLE:
        pass
    raise NotAuthenticated("this is not the certificate of a federation's operator", "ask the operator for ca.pem")


def is_rehearsal(ca: x509.Certificate) -> bool:
    """Whether this federation is a rehearsal: one person holds all its keys, and it stays on one machine."""
    units = ca.subject.get_attributes_for_oid(NameOID.ORGANIZATIONAL_UNIT_NAME)
    return any(unit.value == _REHEARSAL for unit in units)


def expect_here(ca: x509.Certificate, address: str) -> None:
    """Raise ``NotAuthenticated`` where a rehearsal would leave this machine: ``address`` is a host, or host:port."""
    if is_rehearsal(ca) and not _is_loopback(address):
        raise NotAuthenticated(
            f"this is a rehearsal, and {address} is not on this machine",
            "a rehearsal stays on 127.0.0.1; found a federation for other machines: fedsvd federation init",
        )


def _is_loopback(address: str) -> bool:
    bare = address.count(":") > 1 and not address.startswith("[")  # an IPv6 address without a port
    host = address if bare else urlsplit(f"//{address}").hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def fingerprint_of(ca: x509.Certificate) -> str:
    """What the operator reads to applicants: it stays when the operator's certificate is renewed."""
    federation = federation_of(ca)
    return federation_fingerprint(spki(_ca_key(ca)), federation)


def expect_issued(certificate: x509.Certificate, ca: x509.Certificate) -> Claim:
    """The claim of a certificate that the operator signed for a role; time and revocation are not looked at."""
    return _issued(certificate.public_bytes(Encoding.DER), ca.public_bytes(Encoding.DER))


def expect_valid(certificate: x509.Certificate, now: datetime, what: str = "this certificate") -> None:
    """Raise ``NotAuthenticated`` outside the certificate's period."""
    now, first, last = utc(now), certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < first:
        raise NotAuthenticated(f"{what} is valid only from {first:%Y-%m-%d %H:%M} UTC on", "compare the clocks")
    if now > last:
        raise NotAuthenticated(f"{what} has expired on {last:%Y-%m-%d %H:%M} UTC", "renew it: fedsvd join renew")


def list_number(revoked: x509.CertificateRevocationList) -> int:
    """Which of the operator's lists this is: the later, the larger."""
    return revoked.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number


def expires_in(certificate: x509.Certificate | bytes, now: datetime) -> timedelta:
    """How long a certificate still holds; negative once it has expired."""
    return load_certificate(certificate).not_valid_after_utc - utc(now)


# Peers show their certificates at every call; what the bytes alone decide is decided once for each.
@lru_cache(maxsize=1024)
def _issued(certificate_der: bytes, ca_der: bytes) -> Claim:
    certificate, ca = map(x509.load_der_x509_certificate, (certificate_der, ca_der))
    federation = federation_of(ca)
    try:
        certificate.verify_directly_issued_by(ca)
    except UNREADABLE:
        raise NotAuthenticated(
            "this certificate was not issued by the federation's operator", "use the kit of this federation"
        ) from None
    claim = read_claim(certificate)
    if claim.identity.federation != federation:
        raise NotAuthenticated("this certificate is of another federation", "use the kit of this federation")
    _expect_shape(certificate, claim.identity.role)
    return claim


def _expect_shape(certificate: x509.Certificate, role: KitRole) -> None:
    """The uses of a certificate are those of its role, and no others."""
    try:
        limits = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        purpose = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except UNREADABLE:
        raise NotAuthenticated(f"this certificate does not say what it is for, a {role}'s must") from None
    if limits.ca or purpose != _purpose(role):
        raise NotAuthenticated(f"this certificate is not for the use of a {role}", "use the kit of that role")


def _purpose(role: KitRole) -> x509.ExtendedKeyUsage:
    listens = role is KitRole.CSP
    return x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH if listens else ExtendedKeyUsageOID.CLIENT_AUTH])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    signs = signs_certificates
    return x509.KeyUsage(digital_signature=not signs, key_cert_sign=signs, crl_sign=signs, **_NO_USE)


def _builder(
    subject: x509.Name, public: ec.EllipticCurvePublicKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    serial = int.from_bytes(fresh_bytes(20), "big") >> 1
    identifier = x509.SubjectKeyIdentifier.from_public_key(public)
    builder = x509.CertificateBuilder().subject_name(subject).public_key(public).serial_number(serial)
    builder = builder.not_valid_before(utc(now) - SKEW).not_valid_after(utc(now) + timedelta(days=days))
    return builder.add_extension(identifier, critical=False)


def _ca_key(ca: x509.Certificate) -> ec.EllipticCurvePublicKey:
    public = ca.public_key()
    if not isinstance(public, ec.EllipticCurvePublicKey):
        raise TypeError("an operator's key is on P-256")
    return public
