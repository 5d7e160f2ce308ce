"""What a certificate says of its holder, and the holder's own signature under it.

    fedsvd://<federation>/<role>/<id>    the name
    fedsvd-key:<hex>                     the Ed25519 key that signs under this name
    fedsvd-proof:<hex>                   that key's signature of the name, the TLS key and the addresses
    DNS names and IP addresses           where the CSP listens; no other role has any

All stand in the subject's alternative names, in a request and in the certificate alike. The proof is why pinning the
Ed25519 key pins the TLS key as well: an operator who signs certificates cannot join a pinned key to a TLS key of their
own.
"""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.utils import CryptographyDeprecationWarning

from fedsvd.errors import ConfigError, FedSVDError, NotAuthenticated
from fedsvd.identity.names import Identity, KitRole, Name, parse_uri, request_fingerprint
from fedsvd.sealing.sign import SigningKey, framed, sign, verify

_KEY, _PROOF = "fedsvd-key:", "fedsvd-proof:"
_PURPOSE = "certificate"
_LABEL = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)")
# What the library says to bytes that are not what they should be.
UNREADABLE = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    InvalidSignature,
    x509.InvalidVersion,
    x509.ExtensionNotFound,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
    CryptographyDeprecationWarning,  # where warnings are errors; the bytes are refused a moment later where not
)
Document = x509.Certificate | x509.CertificateSigningRequest


@dataclass(frozen=True)
class Claim:
    """Everything the holder of a certificate says of itself, under its own signature."""

    identity: Identity
    tls_public: bytes  # SubjectPublicKeyInfo, DER
    addresses: tuple[str, ...]
    proof: bytes

    def __repr__(self) -> str:
        return f"Claim({self.identity})"

    @property
    def fingerprint(self) -> str:
        """That of a request with this claim."""
        return request_fingerprint(self.tls_public, self.identity.signing_public)


def make_claim(name: Name, tls: ec.EllipticCurvePublicKey, key: SigningKey, addresses: Iterable[str]) -> Claim:
    """The claim that the holder of both keys makes."""
    hosts = tuple(dict.fromkeys(_host(address) for address in addresses))
    if bool(hosts) is not (name.role is KitRole.CSP):
        raise ConfigError(
            f"{len(hosts)} addresses for {name}", "give the CSP the addresses it listens at, and no other role any"
        )
    public = spki(tls)
    identity = Identity(name.federation, name.role, name.party_id, key.public)
    return Claim(identity, public, hosts, sign(key, _PURPOSE, _signed(identity, public, hosts)))


def alternative_names(claim: Claim) -> x509.SubjectAlternativeName:
    """The claim as it stands in a request or certificate."""
    identity = claim.identity
    uris = (identity.uri, f"{_KEY}{identity.signing_public.hex()}", f"{_PROOF}{claim.proof.hex()}")
    return x509.SubjectAlternativeName(
        [*map(x509.UniformResourceIdentifier, uris), *(_general_name(host) for host in claim.addresses)]
    )


def read_claim(document: Document) -> Claim:
    """The claim in a request or certificate, its proof verified; anything odd is ``NotAuthenticated``."""
    try:
        return _read(document)
    except (FedSVDError, *UNREADABLE):
        raise _not_ours() from None


def spki(public: ec.EllipticCurvePublicKey) -> bytes:
    """The DER form of a public key that certificates carry."""
    return public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _read(document: Document) -> Claim:
    tls = document.public_key()
    if not isinstance(tls, ec.EllipticCurvePublicKey) or not isinstance(tls.curve, ec.SECP256R1):
        raise _not_ours()
    names = document.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    name, key, proof = names.get_values_for_type(x509.UniformResourceIdentifier)
    hosts = tuple(str(entry.value) for entry in names if isinstance(entry, x509.DNSName | x509.IPAddress))
    place = parse_uri(name)
    public, signature = bytes.fromhex(key.removeprefix(_KEY)), bytes.fromhex(proof.removeprefix(_PROOF))
    identity = Identity(place.federation, place.role, place.party_id, public)
    claim = Claim(identity, spki(tls), hosts, signature)
    verify(public, _PURPOSE, _signed(identity, claim.tls_public, hosts), signature)
    # One claim has one spelling: what is not spelt our way, or says more than we read, is not ours.
    if alternative_names(claim) != names or bool(hosts) is not (place.role is KitRole.CSP):
        raise _not_ours()
    return claim


def _signed(identity: Identity, tls_public: bytes, hosts: tuple[str, ...]) -> bytes:
    return framed(identity.uri.encode(), tls_public, *(host.encode() for host in hosts))


def _host(address: str) -> str:
    """The host in ``host``, ``host:port``, ``[v6]`` or ``[v6]:port``, in its one spelling."""
    bare = re.fullmatch(r"\[([^\]]*)\](?::\d{1,5})?", address) or re.fullmatch(r"([^:]*)(?::\d{1,5})?", address)
    host = bare[1] if bare else address
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in host.split(".")):
            raise ConfigError(
                f"{address[:80]!r} is not a host", "csp.example.org:7443, 192.0.2.7 or [2001:db8::7]"
            ) from None
        return host.lower()


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _not_ours() -> NotAuthenticated:
    return NotAuthenticated(
        "this is not a certificate or request of a federation", "make it with this software, and send it unchanged"
    )
