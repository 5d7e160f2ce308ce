"""Trouble in the middle of a study: lines, peers, disks and clocks that fail, and callers that have no business here.

Every case ends right, at once or after ``resume``, or broken with a code at every member: never a hang, never a wrong
result, nothing lost. What the transport alone must survive is in ``test_transport_trouble.py`` and
``test_transport_callers.py``; ``make chaos`` prints the table of all cases and outcomes.
"""

import re
import signal
import subprocess
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import sleep

import grpc
import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from tests.e2e.federations import PARTIES, PATIENCE, federation_in_trouble, job_file
from tests.e2e.outcomes import LONGEST, agreed, begun, broken_everywhere, settled, spoken
from tests.network import self_signed_pair
from tests.proxies import Proxy

from fedsvd.errors import FedSVDError, NotAuthenticated, StorageError
from fedsvd.identity.authority import Authority
from fedsvd.identity.certificates import make_certificate
from fedsvd.identity.names import KitRole
from fedsvd.identity.request import CA_KEY, TLS_KEY, make_request, read_tls_key
from fedsvd.identity.temporary import temporary_federation
from fedsvd.service.progress import ProgressReporter
from fedsvd.service.serve import serve
from fedsvd.service.site import Site
from fedsvd.transport.calls import ASK, PUSH
from fedsvd.transport.pinned_connection import PinnedConnection

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")]
MEMBERS = tuple(f"party/{name}" for name in PARTIES)
LARGER = 6000  # rows: a party's results then take more bytes than all its records of a job


@pytest.fixture
def federation(tmp_path):
    with federation_in_trouble(tmp_path) as federation:
        yield federation


@pytest.fixture
def held(monkeypatch):
    """Party b stands still when it has said that it is in this stage, until it may go on."""
    gate = Gate()
    say = ProgressReporter.stage

    def stage(teller, name):
        say(teller, name)
        gate.look(name)

    monkeypatch.setattr(ProgressReporter, "stage", stage)
    yield gate
    gate.go_on.set()


class Gate:
    """Where every role waits in a stage, once."""

    def __init__(self):
        self.name, self.there, self.go_on = "summing", threading.Event(), threading.Event()

    def look(self, name):
        if name == self.name:
            self.there.set()
            self.go_on.wait(LONGEST)

    def open(self):
        self.name = None
        self.go_on.set()


def ended_right(federation, client, id, attempt):
    done = settled(client, id, {"done", "broken"})
    assert done.state == "done", done.failures
    assert done.attempt == attempt
    federation.expect_right()


def resumed_right(federation, client, id):
    """The codes the broken job had; after ``resume`` it ends right."""
    codes = broken_everywhere(federation, client, id)
    federation.approve_again(client.job(id))
    client.resume(id)
    ended_right(federation, client, id, 2)
    return f"{spoken(codes)}; {agreed(codes)}resumed, right"


# --- lines and peers --------------------------------------------------------------------------------------------------


def half_closed(proxy):
    proxy.half_close()


def stalled(proxy):
    proxy.flows.clear()


def mend(proxy):
    proxy.refuses = False
    proxy.flows.set()


@pytest.mark.chaos("half-closed connections", "a party's connections, once, in the middle", "dialled again; right")
@pytest.mark.parametrize("times", [1, 3])
def test_half_closed_lines_are_dialled_again_and_the_job_ends_right(federation, held, times):
    federation.lay_data().start("csp/csp", "party/a", "party/c")
    with Proxy(federation.port) as proxy, federation.client() as client:
        federation.via["party/b"] = proxy.address
        federation.start("party/b")
        id = client.submit(job_file()).id
        assert held.there.wait(LONGEST)
        for _ in range(times):
            proxy.half_close()
            sleep(0.2)
        held.open()
        ended_right(federation, client, id, 1)


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(
            half_closed, marks=pytest.mark.chaos("half-closed connections", "a party's connections, for good")
        ),
        pytest.param(
            stalled, marks=pytest.mark.chaos("a stalled peer", "a party's connections carry nothing any more")
        ),
    ],
)
def test_a_line_that_does_not_come_back_breaks_the_job_and_resume_ends_right(
    federation, held, trouble, record_property
):
    federation.lay_data().start("csp/csp", "party/a", "party/c")
    with Proxy(federation.port) as proxy, federation.client() as client:
        federation.via["party/b"] = proxy.address
        federation.start("party/b")
        id = client.submit(job_file()).id
        assert held.there.wait(LONGEST)
        proxy.refuses = True
        trouble(proxy)
        held.open()
        settled(client, id, {"broken"})
        sleep(PATIENCE)  # and b itself has lost its patience
        mend(proxy)
        record_property("outcome", resumed_right(federation, client, id))


@pytest.mark.chaos("a stalled peer", "a party's process stands still (SIGSTOP)")
def test_a_process_that_stands_still_is_missed_and_resume_ends_right(federation, record_property):
    federation.lay_data().start("csp/csp", "party/a", "party/c")
    process = federation.start_with_fault("party/b", "stutters")  # slow enough to be caught in the middle
    with federation.client() as client:
        id = client.submit(job_file()).id
        begun(client, id, "party/b")
        process.send_signal(signal.SIGSTOP)
        settled(client, id, {"broken"})
        process.send_signal(signal.SIGCONT)
        record_property("outcome", resumed_right(federation, client, id))


@pytest.mark.chaos("duplicate and reordered chunks", "every call of a party twice and out of order", "right, at once")
def test_a_party_that_says_everything_twice_and_out_of_order_changes_nothing(federation):
    federation.lay_data(rows=LARGER).start("csp/csp", "party/a", "party/c")
    federation.start_with_fault("party/b", "stutters")
    with federation.client() as client:
        id = client.submit(job_file()).id
        ended_right(federation, client, id, 1)


@pytest.mark.chaos("a peer with another plan", "a party that plays a plan that was not agreed")
def test_a_peer_with_another_plan_is_found_out_and_nothing_is_released(federation, record_property):
    federation.lay_data().start("csp/csp", "party/a", "party/c")
    federation.start_with_fault("party/b", "plans-otherwise")
    with federation.client() as client:
        id = client.submit(job_file()).id
        codes = broken_everywhere(federation, client, id)
        assert "FSVD-413" in codes.values()
        assert not any((federation.kits[name] / "results").exists() for name in MEMBERS)
        federation.kill("party/b")
        federation.start("party/b")
        record_property("outcome", resumed_right(federation, client, id))


# --- disks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "most",
    [
        pytest.param(
            100_000, marks=pytest.mark.chaos("a full disk", "a party cannot write its record of earlier data")
        ),
        pytest.param(40_000, marks=pytest.mark.chaos("a full disk", "a party cannot write its scratch files")),
        pytest.param(500, marks=pytest.mark.chaos("a full disk", "a party cannot write its ledger")),
    ],
)
def test_a_party_with_a_full_disk_says_so_and_resume_ends_right(federation, most, record_property):
    federation.lay_data(rows=LARGER).start("csp/csp", "party/a", "party/c")
    federation.start_with_fault("party/b", f"fills:{most}")
    with federation.client() as client:
        id = client.submit(job_file()).id
        assert broken_everywhere(federation, client, id)["party/b"] == StorageError.code
        federation.kill("party/b")
        federation.start("party/b")
        record_property("outcome", resumed_right(federation, client, id))


@pytest.mark.chaos("a full disk", "a party's results are on a tmpfs without space (ENOSPC)")
def test_a_party_whose_file_system_is_full_says_so_and_resume_ends_right(federation, tmp_path, record_property):
    inside = ["unshare", "--map-root-user", "--mount"]
    probe = subprocess.run([*inside, "mount", "-t", "tmpfs", "x", str(tmp_path)], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("no file system can be mounted here")
    federation.lay_data(rows=LARGER).start("csp/csp", "party/a", "party/c")
    results = federation.kits["party/b"] / "results"
    results.mkdir()
    mount = f'mount -t tmpfs -o size=16k x "{results}" && exec "$@"'
    federation.start_with_fault("party/b", "fills:-1", before=[*inside, "sh", "-c", mount, "sh"])
    with federation.client() as client:
        id = client.submit(job_file()).id
        codes = broken_everywhere(federation, client, id)
        assert codes["party/b"] == StorageError.code
        federation.kill("party/b")
        federation.start("party/b")
        record_property("outcome", resumed_right(federation, client, id))


@pytest.mark.parametrize(
    "most",
    [
        pytest.param(most, marks=pytest.mark.chaos("a full disk", f"the CSP cannot write its book, {when}"))
        for most, when in (
            (3_000, "as members enlist"),
            (5_000, "as the session begins"),
        )
    ],
)
def test_a_csp_with_a_full_disk_says_so_and_resume_ends_right(federation, most, record_property):
    federation.lay_data()
    federation.start_with_fault("csp/csp", f"fills:{most}")
    federation.start(*MEMBERS)
    with federation.client() as client:
        id = client.submit(job_file()).id
        codes = broken_everywhere(federation, client, id)
        assert StorageError.code in codes.values()
    federation.kill("csp/csp")
    federation.start("csp/csp")  # what it could not write down it has forgotten, but not that the job is not done
    with federation.client() as client:
        settled(client, id, {"broken"})
        federation.approve_again(client.job(id))
        client.resume(id)
        ended_right(federation, client, id, 2)
    record_property("outcome", f"{spoken(codes)}; resumed, right")


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, marks=pytest.mark.chaos("a full disk", f"the CSP cannot write its book, {when}"))
        for number, when in ((1, "as the first member ends"), (3, "as the last member ends"))
    ],
)
def test_a_csp_whose_disk_is_full_at_the_end_says_so_and_the_job_is_done_when_it_has_space(
    federation, number, record_property
):
    federation.lay_data()
    federation.start_with_fault("csp/csp", f"fills-ending:{number}")
    federation.start(*MEMBERS)
    with federation.client() as client:
        id = client.submit(job_file()).id
        broken = settled(client, id, {"broken"})
        assert [(failure.who, failure.code) for failure in broken.failures] == [("csp", StorageError.code)]
    federation.kill("csp/csp")
    federation.start("csp/csp")
    with federation.client() as client:
        ended_right(federation, client, id, 1)
    record_property("outcome", f"{StorageError.code} at csp; done when it has space, nothing resumed")


@pytest.mark.chaos(
    "a full disk", "the CSP cannot take a job in", f"{StorageError.code} to the researcher; nothing begun"
)
def test_a_csp_with_no_space_for_a_job_refuses_it(federation):
    federation.lay_data()
    federation.start_with_fault("csp/csp", "fills:300")
    with federation.client() as client:
        with pytest.raises(FedSVDError, match="disk space") as refused:
            client.submit(job_file())
        assert refused.value.code == StorageError.code
        assert client.jobs() == []


# --- clocks -----------------------------------------------------------------------------------------------------------

DAY = 24 * 3600


@pytest.mark.chaos("clock skew", "a party's clock is 10 minutes off", "a warning at the party; right")
@pytest.mark.parametrize("minutes", [10, -10])
def test_clocks_that_differ_a_little_are_told_of_and_the_job_ends_right(federation, minutes):
    federation.lay_data().start("csp/csp", "party/a", "party/c")
    federation.start_with_fault("party/b", f"clock:{60 * minutes}")
    with federation.client() as client:
        id = client.submit(job_file()).id
        ended_right(federation, client, id, 1)
    apart = re.search(r"the clocks here and at the CSP are (\d+) s apart", federation.log("party/b"))
    assert apart is not None
    assert abs(int(apart[1]) - 600) < 60


@pytest.mark.parametrize(
    "days",
    [
        pytest.param(30, marks=pytest.mark.chaos("clock skew", "a party's clock is 30 days ahead")),
        pytest.param(-30, marks=pytest.mark.chaos("clock skew", "a party's clock is 30 days behind")),
    ],
)
def test_a_party_with_a_wrong_clock_stops_with_a_code_and_the_others_wait(federation, days, record_property):
    federation.lay_data().start("csp/csp", "party/a", "party/c")
    process = federation.start_with_fault("party/b", f"clock:{days * DAY}")
    with federation.client() as client:
        id = client.submit(job_file()).id
        assert process.wait(LONGEST) == 1
        (code,) = set(re.findall(r"FSVD-\d+", federation.log("party/b").splitlines()[-1]))
        assert client.job(id).state == "recruiting"
        federation.start("party/b")  # its clock put right
        ended_right(federation, client, id, 1)
    record_property("outcome", f"{code} at party/b, which ends; the others wait; right when its clock is")


@pytest.mark.parametrize(
    ("days", "words"),
    [
        pytest.param(*case[2:], id=case[1], marks=pytest.mark.chaos(*case[:2]))
        for case in (
            ("clock skew", "an operator's clock 2 days ahead: no certificate is valid yet", 2, "valid only from"),
            ("bad certificates", "a kit whose certificate has expired", -30, "has expired"),
        )
    ],
)
def test_a_role_whose_certificate_is_not_valid_today_says_so_and_ends(tmp_path, days, words, record_property):
    kits = temporary_federation(tmp_path, PARTIES, now=datetime.now(UTC) + timedelta(days=days))
    for name in ("csp/csp", "party/a"):
        where = {"listen": "127.0.0.1:0"} if name == "csp/csp" else {"csp": "127.0.0.1:9"}
        with pytest.raises(NotAuthenticated, match=words):
            serve(Site.at(kits[name]), KitRole(name.partition("/")[0]), threading.Event(), print, **where)
    record_property("outcome", f"{NotAuthenticated.code} at every role, which ends; nothing is begun")


# --- callers with no business here ------------------------------------------------------------------------------------


def plaintext(federation):
    with grpc.insecure_channel(federation.csp) as channel, pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary(ASK)(b"{}", timeout=LONGEST)
    return f"gRPC {refused.value.code().name}"


def refused_line(federation, body=b"{}", method=ASK, **changes):
    dialling = replace(Site.at(federation.kits["party/a"]).dialling(federation.csp, 2.0), **changes)
    line = PinnedConnection(dialling)
    try:
        with pytest.raises(FedSVDError) as refused:
            line.call(method, body)
    finally:
        line.close()
    return refused.value.code


def self_signed(federation):
    key, certificate = self_signed_pair()
    return refused_line(federation, key=key, certificate=certificate)


def expired(federation):
    operator, place = Authority(federation.root / "kits" / "operator"), federation.root / "late"
    request = make_request(place, operator.federation, "party", "late", ())
    key = read_tls_key(operator.directory / CA_KEY)
    certificate = make_certificate(request.claim, operator.ca, key, datetime.now(UTC) - timedelta(days=3), 1)
    pem = certificate.public_bytes(Encoding.PEM)
    return refused_line(federation, key=(place / TLS_KEY).read_bytes(), certificate=pem)


def wrong_role(federation):
    theirs = Site.at(federation.kits["csp/csp"]).dialling(federation.csp)
    return refused_line(federation, key=theirs.key, certificate=theirs.certificate)


def oversized(federation):
    return refused_line(federation, bytes(16 << 20), PUSH)


@pytest.mark.parametrize(
    "caller",
    [
        pytest.param(caller, marks=pytest.mark.chaos(kind, case))
        for caller, kind, case in (
            (plaintext, "a plaintext client", "calls while a study runs"),
            (self_signed, "bad certificates", "a self-signed certificate calls while a study runs"),
            (expired, "bad certificates", "an expired certificate calls while a study runs"),
            (wrong_role, "bad certificates", "the CSP's own certificate, in a party's role, calls while a study runs"),
            (oversized, "an oversized frame", "16 MiB in one call while a study runs"),
        )
    ],
)
def test_a_caller_with_no_business_here_is_refused_and_the_study_ends_right(federation, held, caller, record_property):
    federation.lay_data().start("csp/csp", *MEMBERS)
    with federation.client() as client:
        id = client.submit(job_file()).id
        assert held.there.wait(LONGEST)
        code = caller(federation)
        held.open()
        ended_right(federation, client, id, 1)
    record_property("outcome", f"refused ({code}); the study is right")
