"""Who may call the CSP, over real sockets: nobody without a certificate of this federation, role and day; and whom a
member calls. What is refused changes nothing for the others.
"""

import struct
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from tests.network import CALLERS, GENEROUS, Network, listening, make_kits, new_session, self_signed_pair, until

from fedsvd.errors import MalformedFrame, NotAuthenticated, PeerLost, TimedOut, TransportError
from fedsvd.identity.authority import Authority
from fedsvd.identity.certificates import make_certificate
from fedsvd.identity.kit import accept_revocations
from fedsvd.identity.request import CA_KEY, TLS_KEY, make_request, read_tls_key
from fedsvd.protocol.messages import BatchRequest
from fedsvd.protocol.parties import CSP, TA, user
from fedsvd.service.site import Site
from fedsvd.transport.calls import ASK, METHODS, PUSH, bundle
from fedsvd.transport.grpc_client import Dialled, Dialling
from fedsvd.transport.links import Outbox
from fedsvd.transport.pinned_connection import PinnedConnection
from fedsvd.transport.session import SessionLinks
from fedsvd.types import Digest
from fedsvd.wire.frame import LARGEST_FRAME

PLAN = Digest("0" * 64)
SHORT = 1.0  # seconds of patience where the end is known to be a refusal


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("federation")


@pytest.fixture(scope="module")
def network(folder):
    with listening(make_kits(folder)) as network:
        yield network


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """The kits of another federation."""
    return make_kits(tmp_path_factory.mktemp("elsewhere"))


@pytest.fixture(autouse=True)
def hang_up(network):
    yield
    network.close()


def dialling_with(network: Network, kit, **changes) -> Dialling:
    site = Site.at(kit)
    return replace(site.dialling(network.address), patience=SHORT, **changes)


def issued(folder, party_id: str, when: datetime) -> tuple[bytes, bytes]:
    """Key and certificate for a day from ``when`` on, truly of the operator."""
    operator, place = Authority(folder / "operator"), folder / f"issued-{party_id}"
    request = make_request(place, operator.federation, "party", party_id, ())
    certificate = make_certificate(request.claim, operator.ca, read_tls_key(operator.directory / CA_KEY), when, 1)
    return (place / TLS_KEY).read_bytes(), certificate.public_bytes(Encoding.PEM)


def expect_all_is_well(network: Network) -> None:
    """A session of other parties goes on as if nothing had been."""
    links, end = network.pair()
    end.send(CSP, BatchRequest(PLAN, 3))
    assert links.receive(GENEROUS)[1].batch == 3


@pytest.mark.chaos("a plaintext client", "every call", "refused (gRPC UNAVAILABLE); other sessions go on")
def test_a_plaintext_client_gets_nowhere(network):
    with grpc.insecure_channel(network.address) as channel:
        for method in METHODS:
            with pytest.raises(grpc.RpcError) as refused:
                channel.unary_unary(method)(b"", timeout=GENEROUS)
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    expect_all_is_well(network)


@pytest.mark.chaos("bad certificates", "none", "refused (gRPC UNAVAILABLE); other sessions go on")
def test_a_client_without_a_certificate_gets_nowhere(network):
    trusts = grpc.ssl_channel_credentials(network.dialling(user(1)).ca)
    with grpc.secure_channel(network.address, trusts) as channel:
        for method in METHODS:
            with pytest.raises(grpc.RpcError) as refused:
                channel.unary_unary(method)(b"", timeout=GENEROUS)
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    expect_all_is_well(network)


@pytest.mark.chaos("bad certificates", "self-signed", "FSVD-502 at the caller; other sessions go on")
def test_a_self_signed_certificate_gets_nowhere(network):
    key, certificate = self_signed_pair()
    links = network.open((user(1),))
    with pytest.raises(TimedOut, match="nothing got through"):
        Dialled(replace(network.dialling(user(1), patience=SHORT), key=key, certificate=certificate), links.session)
    expect_all_is_well(network)


@pytest.mark.chaos("bad certificates", "of another federation", "FSVD-502 at the caller; other sessions go on")
def test_a_certificate_of_another_federation_gets_nowhere(network, elsewhere):
    theirs, ours = dialling_with(network, elsewhere["party/a"]), network.dialling(user(1))
    links = network.open((user(1),))
    with pytest.raises(TimedOut, match="nothing got through"):
        Dialled(replace(theirs, ca=ours.ca), links.session)
    expect_all_is_well(network)


@pytest.mark.chaos("bad certificates", "expired, or not valid yet", "an error of the line at the caller")
@pytest.mark.parametrize(("name", "days"), [("past", -3), ("future", 3)])
def test_a_certificate_of_another_time_gets_nowhere(network, folder, name, days):
    key, certificate = issued(folder, name, datetime.now(UTC) + timedelta(days=days))
    links = network.exchange.open(new_session(), {f"party/{name}": user(1)})
    with pytest.raises(TransportError):
        Dialled(replace(network.dialling(user(1), patience=SHORT), key=key, certificate=certificate), links.session)
    key, certificate = issued(folder, f"no-{name}", datetime.now(UTC))
    links = network.exchange.open(new_session(), {f"party/no-{name}": user(1)})
    Dialled(replace(network.dialling(user(1)), key=key, certificate=certificate), links.session).close()


@pytest.mark.chaos(
    "bad certificates", "the CSP's own, in a party's role", "FSVD-502 at the caller; other sessions go on"
)
def test_the_csps_own_certificate_is_not_one_to_call_with(network):
    links = network.open((user(1),))
    with pytest.raises(TimedOut, match="nothing got through"):
        Dialled(dialling_with(network, network.kits["csp/csp"]), links.session)
    expect_all_is_well(network)


@pytest.mark.chaos(
    "bad certificates",
    "of a party, authority or researcher that takes no part",
    "FSVD-503 at the caller; the session goes on",
)
@pytest.mark.parametrize("stranger", ["party/c", "authority/ta", "researcher/res"])
def test_who_takes_no_part_in_a_session_is_refused_by_name_and_ends_nothing(network, stranger):
    links = network.open((user(1), user(2)))
    one = network.dial(user(1), links.session)
    with pytest.raises(NotAuthenticated, match=stranger):
        Dialled(dialling_with(network, network.kits[stranger]), links.session)
    box = Outbox(links.session)
    box.put([b"rubbish"])
    line = PinnedConnection(dialling_with(network, network.kits[stranger]))
    with pytest.raises(NotAuthenticated, match=stranger):
        line.call(PUSH, bundle([box.frame(0, 0)]))
    line.close()
    one.send(CSP, BatchRequest(PLAN, 5))
    assert links.receive(GENEROUS)[1].batch == 5


def test_one_partys_frames_never_pass_for_anothers(network):
    links = network.open((user(1), user(2)))
    one, two = network.dial(user(1), links.session), network.dial(user(2), links.session)
    for number in range(5):
        one.send(CSP, BatchRequest(PLAN, number))
        two.send(CSP, BatchRequest(PLAN, 100 + number))
    heard = [links.receive(GENEROUS) for _ in range(10)]
    assert [message.batch for party, message in heard if party == user(1)] == [0, 1, 2, 3, 4]
    assert [message.batch for party, message in heard if party == user(2)] == [100, 101, 102, 103, 104]


def test_a_frame_of_a_session_that_is_not_there_is_refused(network):
    _, end = network.pair()
    line = PinnedConnection(network.dialling(user(1), patience=SHORT))
    box = Outbox(new_session())
    box.put([b"rubbish"])
    with pytest.raises(PeerLost, match="no such session"):
        line.call(PUSH, bundle([box.frame(0, 0)]))
    line.close()
    end.send(CSP, BatchRequest(PLAN, 0))
    end.flush()


@pytest.mark.chaos("an oversized frame", "2 MiB and a byte; 16 MiB", "FSVD-414 at the caller; other sessions go on")
@pytest.mark.parametrize("size", [LARGEST_FRAME + 1, LARGEST_FRAME + 10_000, 16 << 20])
def test_an_oversized_frame_is_refused_on_entry(network, size):
    links, end = network.pair()
    box = Outbox(links.session)
    box.put([bytes(1 << 20)])
    line = PinnedConnection(network.dialling(user(1), patience=SHORT))
    with pytest.raises(MalformedFrame):
        line.call(PUSH, struct.pack("<I", size) + bundle([box.frame(0, 0)])[4:].ljust(size, b"\x00"))
    line.close()
    end.close()
    expect_all_is_well(network)


@pytest.mark.chaos(
    "damaged chunks", "a wrong checksum", "FSVD-414 at the CSP, FSVD-501 at the member; the session is over"
)
def test_a_frame_with_a_wrong_checksum_ends_the_session_at_both_ends(network):
    links, end = network.pair()
    box = Outbox(links.session)
    box.put([b"hello"])
    line = PinnedConnection(network.dialling(user(1), patience=SHORT))
    with pytest.raises(MalformedFrame):
        line.call(PUSH, bundle([box.frame(0, 0)])[:-1] + b"O")
    line.close()
    with pytest.raises(MalformedFrame):
        links.receive(GENEROUS)
    links.close()
    with pytest.raises(PeerLost, match="over"):
        end.receive(GENEROUS)


def test_a_question_too_long_and_a_call_that_nobody_knows_are_refused(network):
    line = PinnedConnection(network.dialling(user(1), patience=SHORT))
    with pytest.raises(MalformedFrame):
        line.call(ASK, b"x" * (LARGEST_FRAME + 10_000))
    line.close()
    dialling = network.dialling(user(1))
    credentials = grpc.ssl_channel_credentials(dialling.ca, dialling.key, dialling.certificate)
    with grpc.secure_channel(network.address, credentials) as channel, pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary("/fedsvd.v1.Exchange/Steal")(b"", timeout=GENEROUS)
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_member_does_not_speak_to_a_csp_of_another_federation(network, elsewhere):
    distrusts = replace(network.dialling(user(1)), ca=dialling_with(network, elsewhere["party/a"]).ca)
    links = network.open((user(1),))
    with pytest.raises(NotAuthenticated, match="certificate"):
        Dialled(distrusts, links.session)


def test_a_member_does_not_speak_to_a_csp_whose_certificate_is_for_another_address(tmp_path):
    with listening(make_kits(tmp_path, csp_addresses=("csp.example.org",))) as network:
        links = network.open((user(1),))
        with pytest.raises(NotAuthenticated, match="address"):
            Dialled(network.dialling(user(1)), links.session)


def test_a_key_that_is_not_its_certificates_is_an_error_at_once(network):
    key, _ = self_signed_pair()
    links = network.open((user(1),))
    with pytest.raises(NotAuthenticated, match="key"):
        Dialled(replace(network.dialling(user(1)), key=key), links.session)


@pytest.mark.chaos("bad certificates", "revoked in the middle of a session", "FSVD-503 at the party; the others go on")
def test_a_revoked_party_stops_at_its_next_call_and_in_the_middle_of_a_session_within_a_second(tmp_path):
    kits = make_kits(tmp_path)
    with listening(kits) as network:
        links = network.open((user(1), user(2), TA))
        one, two = network.dial(user(1), links.session), network.dial(user(2), links.session)
        one.send(CSP, BatchRequest(PLAN, 1))
        assert links.receive(GENEROUS)[0] == user(1)
        revoked = Authority(tmp_path / "operator").revoke("party", "a", now=datetime.now(UTC))
        line = PinnedConnection(network.dialling(user(1)))
        assert line.call(ASK, b"x") == b"null"
        accept_revocations(kits["csp/csp"], revoked)
        with pytest.raises(NotAuthenticated, match="revoked"):
            line.call(ASK, b"x")
        line.close()
        with pytest.raises(NotAuthenticated, match="revoked"):
            one.receive(GENEROUS)
        with pytest.raises(NotAuthenticated, match="revoked"):
            one.send(CSP, BatchRequest(PLAN, 3))
        two.send(CSP, BatchRequest(PLAN, 4))
        sender, message = links.receive(GENEROUS)
        assert (sender, message.batch) == (user(2), 4)
        with pytest.raises(NotAuthenticated, match=CALLERS[user(1)]):
            network.dial(user(1), links.session)
        until(lambda: silent(links), "a call that waited from before is over soon")


def silent(links: SessionLinks) -> bool:
    """Whether user 1 is missed."""
    try:
        links.expect_signs_of_life(-1.0, but=(TA, user(2)))
    except TimedOut as error:
        return "user 1" in str(error)
    return False
