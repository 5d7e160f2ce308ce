"""The kits' files make a mutual TLS connection, and TLS itself refuses a certificate used in another's place.

Two ends in one process over memory, no sockets. The verifier is OpenSSL in its strictest setting.
"""

import ssl
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from fedsvd.identity.kit import Kit, check_peer
from fedsvd.identity.names import KitRole
from fedsvd.identity.temporary import temporary_federation


@pytest.fixture(scope="module")
def kits(tmp_path_factory):
    """Every role, valid now: the TLS library asks the machine's own clock."""
    place, now = tmp_path_factory.mktemp("federation"), datetime.now(UTC)
    folders = temporary_federation(
        place / "ours", ["a", "b"], ["csp.example.org"], with_authority=True, researcher="anna", now=now
    )
    stranger = temporary_federation(place / "theirs", ["a"], ["csp.example.org"], now=now)
    return {name: Kit.read(folder) for name, folder in (*folders.items(), ("stranger", stranger["party/a"]))}


def handshake(server, client, trusted=None, host="csp.example.org"):
    """Both ends of a TLS 1.3 connection with these kits, or ``SSLError``."""
    ends = []
    for kit, side in ((server, ssl.PROTOCOL_TLS_SERVER), (client, ssl.PROTOCOL_TLS_CLIENT)):
        context = ssl.SSLContext(side)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        context.verify_mode = ssl.CERT_REQUIRED
        if kit is not None:
            context.load_cert_chain(kit.certificate_path, kit.key_path)
        context.load_verify_locations(cadata=(trusted or server).ca_pem.decode())
        ends.append((context, ssl.MemoryBIO(), ssl.MemoryBIO()))
    (here, inward, outward), (there, back, forth) = ends
    listening = here.wrap_bio(inward, outward, server_side=True)
    dialling = there.wrap_bio(back, forth, server_hostname=host)
    for _ in range(6):
        for end in (dialling, listening):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
        inward.write(forth.read())
        back.write(outward.read())
    dialling.write(b"hello")
    inward.write(forth.read())
    assert listening.read() == b"hello"
    return listening, dialling


@pytest.mark.parametrize("name", ["party/a", "party/b", "authority/ta", "researcher/anna"])
def test_every_role_reaches_the_csp_over_mutual_tls(name, kits):
    listening, dialling = handshake(kits["csp/csp"], kits[name])
    seen = check_peer(kits["csp/csp"], listening.getpeercert(binary_form=True), set(KitRole), datetime.now(UTC))
    assert seen == kits[name].identity
    server = check_peer(kits[name], dialling.getpeercert(binary_form=True), {KitRole.CSP}, datetime.now(UTC))
    assert server == kits["csp/csp"].identity


@pytest.mark.parametrize(
    ("server", "client", "fault"),
    [
        ("csp/csp", "csp/csp", "purpose"),  # the CSP's certificate is not a client's
        ("party/a", "party/b", "purpose"),  # a party does not listen
        ("authority/ta", "party/a", "purpose"),
        ("csp/csp", "stranger", "signature failure|verify failed"),
    ],
)
def test_tls_refuses_a_certificate_in_anothers_place(server, client, fault, kits):
    with pytest.raises(ssl.SSLError, match=fault):
        handshake(kits[server], kits[client], kits["csp/csp"])


def test_tls_refuses_a_client_without_a_certificate(kits):
    with pytest.raises(ssl.SSLError, match="did not return a certificate"):
        handshake(kits["csp/csp"], None)


def test_tls_refuses_a_csp_at_another_address(kits):
    with pytest.raises(ssl.SSLError, match="Hostname mismatch"):
        handshake(kits["csp/csp"], kits["party/a"], host="other.example.org")
