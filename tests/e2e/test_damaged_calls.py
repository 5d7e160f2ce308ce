"""Damaged calls to a real CSP, with a certificate and without: each is refused or answered, and sessions go on."""

import json
import random
import socket

import grpc
import pytest
from tests.e2e.federations import two_parties
from tests.mutations import damaged
from tests.network import GENEROUS, listening, make_kits
from tests.unit.wire.frames import cut
from tests.unit.wire.said import EXAMPLES, body

from fedsvd.errors import NotAuthenticated
from fedsvd.protocol.messages import BatchRequest
from fedsvd.protocol.parties import CSP, user
from fedsvd.transport.calls import GREET, JOIN, LEAVE, METHODS, PULL, PUSH, bundle
from fedsvd.types import Digest
from fedsvd.wire.version import MARK

REFUSALS = {code for code in grpc.StatusCode if code not in (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL)}
QUESTIONS = [
    json.dumps({**MARK, "ask": ask, "with": values}).encode()
    for ask, values in (
        ("jobs", {}),
        ("job", {"id": "8f3a"}),
        ("submit", {"file": {"job": {"name": "x", "task": "svd"}, "party": [{"name": "a"}, {"name": "b"}]}}),
        ("enlist", {"id": "8f3a", "attempt": 1, "facts": {"rows": 5, "columns": 2}}),
        ("now", {}),
    )
]


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    with listening(make_kits(tmp_path_factory.mktemp("federation"))) as network:
        yield network


def _expect_all_is_well(network):
    links, end = network.pair()
    end.send(CSP, BatchRequest(Digest("0" * 64), 3))
    assert links.receive(GENEROUS)[1].batch == 3


def _bodies(links):
    """Real calls to damage."""
    session = bytes.fromhex(links.session)
    frames = [bundle([*cut(links.session, n, [body(message)], 1024)][:2]) for n, message in enumerate(EXAMPLES)]
    calls = [(PUSH, frame if isinstance(frame, bytes) else b"".join(frame)) for frame in frames]
    return [*calls, (JOIN, session * 2), (PULL, session + bytes(28)), (LEAVE, session + bytes(9)), (GREET, b"")]


def _with_a_certificate(network, count, seed):
    draw, codes = random.Random(seed), []
    dialling = network.dialling(user(1))
    credentials = grpc.ssl_channel_credentials(dialling.ca, dialling.key, dialling.certificate)
    with grpc.secure_channel(network.address, credentials) as channel:
        links = network.open((user(1),))
        calls = _bodies(links)
        for number in range(count):
            method, content = calls[draw.randrange(len(calls))]
            try:
                channel.unary_unary(method)(damaged(content, draw) or b"x", timeout=5.0)
                codes.append(None)
            except grpc.RpcError as refused:
                codes.append(refused.code())
            if number % 20 == 19:  # a damaged frame ends its session
                links.close()
                links = network.open((user(1),))
                calls = _bodies(links)
    return codes


def _without(network, count, seed):
    draw = random.Random(seed)
    hello = bytes.fromhex("160301020001000 1fc0303".replace(" ", "")) + draw.randbytes(512)
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9)
    for _ in range(count):
        content = damaged(draw.choice((hello, preface, b"GET / HTTP/1.1\r\n\r\n", draw.randbytes(200))), draw)
        with socket.create_connection(("127.0.0.1", int(network.address.rpartition(":")[2])), timeout=5.0) as line:
            line.sendall(content or b"x")


def test_damaged_calls_are_refused_and_other_sessions_go_on(network):
    codes = _with_a_certificate(network, 60, "quick")
    assert set(codes) <= REFUSALS | {None}
    _without(network, 60, "quick")
    with grpc.insecure_channel(network.address) as channel, pytest.raises(grpc.RpcError):
        channel.unary_unary(METHODS[0])(b"", timeout=GENEROUS)
    _expect_all_is_well(network)


@pytest.mark.slow
@pytest.mark.chaos("damaged calls", "2,500 with a certificate, 2,500 without", "refused; other sessions go on")
def test_five_thousand_damaged_calls_are_refused_and_other_sessions_go_on(network):
    codes = _with_a_certificate(network, 2500, "all")
    assert set(codes) <= REFUSALS | {None}
    _without(network, 2500, "all")
    _expect_all_is_well(network)


@pytest.mark.slow
def test_damaged_questions_to_a_csp_are_answered_by_an_error_of_ours(tmp_path):
    draw = random.Random("questions")
    with two_parties(tmp_path) as federation, federation.csp_node() as node:
        for caller in ("researcher/res", "party/a"):
            for _ in range(1250):
                try:
                    answer = json.loads(node.answer(caller, damaged(draw.choice(QUESTIONS), draw)))
                except NotAuthenticated:  # a call that this caller may not make ends with a status, without an answer
                    assert caller == "party/a"
                    continue
                assert "answer" in answer or answer["error"]["code"] not in ("FSVD-000", ""), answer
