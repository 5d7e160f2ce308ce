"""Asking to be let into a federation: keys are made here and stay here; only the request leaves.

A request is a PKCS #10 one whose TLS key signs it whole and whose Ed25519 key signs the claim in it, so it proves that
the applicant holds both. The operator gets its fingerprint out of band, by telephone say: that, and not the mail
it came by, is what makes it the applicant's.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from fedsvd.errors import ConfigError, NotAuthenticated, StorageError
from fedsvd.identity.claims import UNREADABLE, Claim, alternative_names, make_claim, read_claim
from fedsvd.identity.names import KitRole, Name, grouped
from fedsvd.policy.policy_file import POLICY, write_default_policy
from fedsvd.randomness.seed import SIZE, Seed
from fedsvd.sealing.sign import SigningKey
from fedsvd.storage import private

REQUEST = "request.pem"
TLS_KEY, NEXT_TLS_KEY = "tls-key.pem", "next-tls-key.pem"
SIGNING_KEY = "signing-key"
CA_KEY = "ca-key.pem"  # lies in the operator's folder alone


@dataclass(frozen=True)
class Request:
    """What goes to the operator (``pem``) and what is read out."""

    pem: bytes
    claim: Claim

    def __repr__(self) -> str:
        return f"Request({self.claim.identity})"

    @property
    def fingerprint(self) -> str:
        """Of this request, for the operator, in groups."""
        return grouped(self.claim.fingerprint)

    @property
    def key_fingerprint(self) -> str:
        """Of the key that signs, for the other owners to pin, in groups."""
        return grouped(self.claim.identity.fingerprint)


def make_request(
    kit_dir: Path, federation: str, role: KitRole | str, party_id: str, addresses: Sequence[str] = ()
) -> Request:
    """Fresh keys in ``kit_dir``, and the request for a certificate of them; a kit that is there is never touched."""
    name = Name(federation, _role(role), party_id)
    expect_apart_from_operator(kit_dir, name.role)
    for taken in (TLS_KEY, SIGNING_KEY, REQUEST):
        if (kit_dir / taken).exists():
            raise StorageError(
                f"{kit_dir} holds a kit already", "name another folder, or renew its certificate: fedsvd join renew"
            )
    tls, seed = ec.generate_private_key(ec.SECP256R1()), Seed.fresh()
    claim = make_claim(name, tls.public_key(), SigningKey(seed), addresses)
    private.private_folder(kit_dir)
    private.create(kit_dir / TLS_KEY, _key_pem(tls))
    private.create(kit_dir / SIGNING_KEY, seed.reveal())
    if name.role is KitRole.PARTY and not (kit_dir / POLICY).exists():
        write_default_policy(kit_dir / POLICY)
    return _write_request(kit_dir, claim, tls)


def renew(kit_dir: Path, *, addresses: Iterable[str] | None = None, new_tls_key: bool = True) -> Request:
    """The request for this kit's next certificate: the same identity, so no one has to pin anything again.

    The kit stays in use as it is until the next certificate is accepted. Asked again before that, the request is for
    the same keys, so that an approval on its way is not wasted.
    """
    claim = read_request(private.read(kit_dir / REQUEST)).claim
    path = kit_dir / (NEXT_TLS_KEY if new_tls_key or (kit_dir / NEXT_TLS_KEY).exists() else TLS_KEY)
    if not path.exists():
        private.create(path, _key_pem(ec.generate_private_key(ec.SECP256R1())))
    tls = read_tls_key(path)
    hosts = claim.addresses if addresses is None else addresses
    name = Name(claim.identity.federation, claim.identity.role, claim.identity.party_id)
    return _write_request(kit_dir, make_claim(name, tls.public_key(), read_signing_key(kit_dir), hosts), tls)


def read_request(pem: bytes) -> Request:
    """A request whose sender holds both keys in it; anything else is ``NotAuthenticated``."""
    try:
        document = x509.load_pem_x509_csr(pem)
        genuine = document.is_signature_valid
    except UNREADABLE:
        genuine = False
    if not genuine:
        raise NotAuthenticated("this is not a request, or was changed on its way", "send the file request.pem again")
    return Request(pem, read_claim(document))


def read_tls_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """The private TLS key in a file that only its owner can open."""
    try:
        key = load_pem_private_key(private.read_secret(path), password=None)
        if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1):
            return key
    except UNREADABLE:
        pass
    # From None and without the parser's words, which may quote what they could not read.
    raise StorageError(f"{path} does not hold a P-256 key", "restore it from your backup, or make a new kit") from None


def read_signing_key(kit_dir: Path) -> SigningKey:
    """The kit's Ed25519 key."""
    secret = private.read_secret(kit_dir / SIGNING_KEY)
    if len(secret) != SIZE:
        raise StorageError(f"{kit_dir / SIGNING_KEY} is damaged", "restore it from your backup, or make a new kit")
    return SigningKey(Seed(secret))


def expect_apart_from_operator(kit_dir: Path, role: KitRole) -> None:
    """A CSP's kit does not lie where certificates are signed: an operator that does both could pose as any party."""
    place = kit_dir.absolute()
    if role is KitRole.CSP and any((folder / CA_KEY).exists() for folder in (place, *place.parents)):
        raise ConfigError(
            f"{kit_dir} lies in the folder of the federation's operator, who must not be the CSP",
            "make the CSP's kit on the CSP's machine",
        )


def _role(role: KitRole | str) -> KitRole:
    try:
        return KitRole(role)
    except ValueError:
        raise ConfigError(f"{str(role)[:80]!r} is not a role", f"one of {', '.join(KitRole)}") from None


def _write_request(kit_dir: Path, claim: Claim, tls: ec.EllipticCurvePrivateKey) -> Request:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, claim.identity.party_id)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    builder = builder.add_extension(alternative_names(claim), critical=False)
    pem = builder.sign(tls, hashes.SHA256()).public_bytes(Encoding.PEM)
    private.replace(kit_dir / REQUEST, pem)
    return Request(pem, claim)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
