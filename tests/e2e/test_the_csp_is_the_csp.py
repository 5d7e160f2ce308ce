"""Whom a member takes for the CSP, over real sockets: the one that is pinned and not revoked, and nobody else.

The operator's signature is not enough. Here the operator itself turns, or its key is stolen: it signs a second CSP for
the same name and address.
"""

from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from tests.network import Network, listening, make_kits, no_answer, unpin

from fedsvd.errors import NotAuthenticated
from fedsvd.identity.authority import Authority
from fedsvd.identity.certificates import make_certificate
from fedsvd.identity.kit import accept, accept_revocations
from fedsvd.identity.request import CA_KEY, TLS_KEY, make_request, read_tls_key, renew
from fedsvd.identity.temporary import LOOPBACK
from fedsvd.protocol.messages import BatchRequest
from fedsvd.protocol.parties import CSP, user
from fedsvd.service.site import Site
from fedsvd.transport import pinned_connection
from fedsvd.transport.calls import ASK
from fedsvd.transport.grpc_client import Dialled
from fedsvd.transport.grpc_server import Exchange
from fedsvd.transport.pinned_connection import PinnedConnection
from fedsvd.types import Digest

SHORT = 20.0  # seconds of patience; refusals do not wait for it


def now():
    return datetime.now(UTC)


@pytest.fixture
def folder(tmp_path):
    return tmp_path


@pytest.fixture
def network(folder):
    with listening(make_kits(folder)) as network:
        yield network


def second_csp(folder, name="csp"):
    """Key and certificate of another CSP of this name, truly signed by the operator, behind its register's back."""
    operator, place = Authority(folder / "operator"), folder / "second"
    request = make_request(place, operator.federation, "csp", name, LOOPBACK)
    ca_key = read_tls_key(operator.directory / CA_KEY)
    certificate = make_certificate(request.claim, operator.ca, ca_key, now(), 1)
    return (place / TLS_KEY).read_bytes(), certificate.public_bytes(Encoding.PEM)


class Parrot(Exchange):
    """An impostor that answers who it is with another's certificate."""

    says = b""

    def _greet(self, body, caller, on_break):
        return self.says


@contextmanager
def impostor(network, key, certificate, says=None):
    setting = replace(network.site.listening("127.0.0.1:0"), key=key, certificate=certificate)
    exchange = Parrot(setting, network.site.authenticate, no_answer)
    exchange.says = says or certificate
    exchange.start()
    try:
        yield f"127.0.0.1:{exchange.port}"
    finally:
        exchange.stop(0.0)


def ask(network: Network, address=None, kit="party/a"):
    line = PinnedConnection(Site.at(network.kits[kit]).dialling(address or network.address, SHORT))
    try:
        return line.call(ASK, b"{}")
    finally:
        line.close()


def test_the_csp_itself_is_taken_for_the_csp(network):
    assert ask(network) == b"null"


def test_a_second_csp_that_the_operator_signed_is_refused(network, folder):
    with impostor(network, *second_csp(folder)) as address:
        with pytest.raises(NotAuthenticated, match="not the key that csp/csp is pinned to"):
            ask(network, address)
        links = network.open((user(1),))
        with pytest.raises(NotAuthenticated):
            Dialled(Site.at(network.kits["party/a"]).dialling(address, SHORT), links.session)


def test_one_that_shows_the_true_certificate_without_its_key_is_refused(network, folder):
    true = network.site.kit.certificate_pem
    with (
        impostor(network, *second_csp(folder), says=true) as address,
        pytest.raises(NotAuthenticated, match="does not have its key"),
    ):
        ask(network, address)


def test_a_second_csp_under_another_name_is_refused(network, folder):
    with (
        impostor(network, *second_csp(folder, "csp-2")) as address,
        pytest.raises(NotAuthenticated, match="csp-2 is not pinned"),
    ):
        ask(network, address)


@pytest.mark.parametrize("says", [b"", b"no certificate", b"-----BEGIN CERTIFICATE-----\n"])
def test_one_that_says_nothing_of_itself_is_refused(network, folder, says):
    with impostor(network, *second_csp(folder), says=says or b" ") as address, pytest.raises(NotAuthenticated):
        ask(network, address)


def test_a_party_that_answers_as_the_csp_is_refused(network, folder):
    says = Site.at(network.kits["party/b"]).kit.certificate_pem
    with (
        impostor(network, *second_csp(folder), says=says) as address,
        pytest.raises(NotAuthenticated, match="is not a csp"),
    ):
        ask(network, address)


def test_a_csp_that_was_met_before_is_not_believed_elsewhere(network, folder):
    """The line knows the CSP already, and asks nobody; the impostor's connections do not come about."""
    known = Site.at(network.kits["party/a"]).dialling(network.address, SHORT)
    line = PinnedConnection(known)
    assert line.call(ASK, b"{}") == b"null"
    line.close()
    true = network.site.kit.certificate_pem
    with impostor(network, *second_csp(folder), says=true) as address:
        elsewhere = PinnedConnection(replace(known, address=address))
        with pytest.raises(NotAuthenticated, match="does not have its key"):
            elsewhere.call(ASK, b"{}")
        elsewhere.close()


def test_a_revoked_csp_is_refused_at_once_and_by_open_lines_too(network, folder, monkeypatch):
    line = PinnedConnection(network.dialling(user(1)))
    assert line.call(ASK, b"{}") == b"null"
    revoked = Authority(folder / "operator").revoke("csp", "csp", now=now())
    assert ask(network) == b"null"  # nobody has told this party yet
    accept_revocations(network.kits["party/a"], revoked)
    with pytest.raises(NotAuthenticated, match="csp/csp was revoked"):
        ask(network)
    monkeypatch.setattr(pinned_connection, "monotonic", lambda: monotonic() + 2.0)  # a check holds for a second
    with pytest.raises(NotAuthenticated, match="csp/csp was revoked"):
        line.call(ASK, b"{}")
    line.close()
    assert ask(network, kit="party/b") == b"null"


def test_a_kit_that_has_pinned_others_takes_no_csp_that_it_has_not(network):
    unpin(network.kits["party/a"], "csp/csp")
    with pytest.raises(NotAuthenticated, match="csp is not pinned"):
        ask(network)


def test_before_the_first_pin_the_operators_word_is_all_there_is(network, folder):
    (network.kits["party/a"] / "pins.toml").write_text("")
    with impostor(network, *second_csp(folder)) as address:
        assert ask(network, address) == b"null"
        with pytest.raises(NotAuthenticated):
            ask(network, address, kit="party/b")


def test_an_open_line_goes_on_when_the_csp_comes_back_with_a_renewed_certificate(folder):
    kits = make_kits(folder)
    with listening(kits) as before:
        address = before.address
        line = PinnedConnection(before.dialling(user(1)))
        assert line.call(ASK, b"{}") == b"null"
        first = line.csp
    operator, kit = Authority(folder / "operator"), kits["csp/csp"]
    request = renew(kit)
    said = {"role": "csp", "party_id": "csp", "fingerprint": request.fingerprint}
    accept(kit, operator.approve(request.pem, **said, now=now(), renew=True), now=now())
    with listening(kits, address) as after:
        assert line.call(ASK, b"{}") == b"null"
        assert line.csp != first
        assert line.csp == after.site.kit.certificate_pem
        links, end = after.pair()
        end.send(CSP, BatchRequest(Digest("0" * 64), 3))
        assert links.receive(SHORT)[1].batch == 3
    line.close()
