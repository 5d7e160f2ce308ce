"""A federation whose members are made as between institutions, and a forger who signs whatever is asked."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedsvd.identity.authority import Authority, init_federation
from fedsvd.identity.kit import Kit, accept
from fedsvd.identity.request import Request, make_request

NOW = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
ADDRESSES = {"csp": ("csp.example.org:7443", "127.0.0.1")}


@dataclass
class Members:
    """An operator and the folders of those who ask it for certificates."""

    place: Path
    operator: Authority

    def ask(self, role: str, party_id: str, folder: str | None = None) -> Request:
        where = self.place / (folder or f"{role}-{party_id}")
        return make_request(where, self.operator.federation, role, party_id, ADDRESSES.get(role, ()))

    def answer(self, request: Request, now: datetime = NOW, **how: object) -> bytes:
        """The operator's answer to a request, all it was told being true."""
        who = request.claim.identity
        told = {"role": who.role, "party_id": who.party_id, "fingerprint": request.fingerprint, **how}
        return self.operator.approve(request.pem, now=now, **told)

    def join(self, role: str, party_id: str, folder: str | None = None, **how: object) -> Kit:
        request = self.ask(role, party_id, folder)
        where = self.place / (folder or f"{role}-{party_id}")
        pem = self.answer(request, **how)
        return accept(where, pem, self.operator.ca_pem, self.operator.fingerprint, now=NOW)


@pytest.fixture
def now() -> datetime:
    return NOW


@pytest.fixture
def members(tmp_path) -> Members:
    return Members(tmp_path, init_federation(tmp_path / "operator", "Test federation", now=NOW))


@pytest.fixture
def others(tmp_path) -> Members:
    """A second federation of the very same name."""
    return Members(tmp_path / "elsewhere", init_federation(tmp_path / "elsewhere" / "op", "Test federation", now=NOW))


@pytest.fixture
def forge():
    """Signs a certificate with any names and uses under any key, as a rogue operator would."""

    def forged(
        names: x509.SubjectAlternativeName | None,
        public: ec.EllipticCurvePublicKey,
        issuer: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        uses=(ExtendedKeyUsageOID.CLIENT_AUTH,),
        ca: bool = False,
    ) -> bytes:
        builder = x509.CertificateBuilder().issuer_name(issuer).public_key(public).serial_number(7)
        builder = builder.subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "forged")]))
        builder = builder.not_valid_before(NOW - timedelta(days=1)).not_valid_after(NOW + timedelta(days=100))
        builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        if uses:
            builder = builder.add_extension(x509.ExtendedKeyUsage(list(uses)), critical=True)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)

    return forged


@pytest.fixture
def ca_key():
    """The operator's private key, read as the operator can."""

    def read(operator: Authority) -> ec.EllipticCurvePrivateKey:
        key = load_pem_private_key((operator.directory / "ca-key.pem").read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return key

    return read


def names_in(certificate: bytes | x509.Certificate) -> x509.SubjectAlternativeName:
    document = certificate if isinstance(certificate, x509.Certificate) else x509.load_pem_x509_certificate(certificate)
    return document.extensions.get_extension_for_class(x509.SubjectAlternativeName).value


@pytest.fixture
def names_of():
    return names_in
