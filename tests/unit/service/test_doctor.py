"""The doctor finds each fault it names, says how to put it right, and finds nothing where nothing is wrong."""

import shutil
import socket
import ssl
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.e2e.federations import free_port
from tests.network import unpin

from fedsvd.identity.authority import Authority, init_federation
from fedsvd.identity.kit import Kit, accept, accept_revocations
from fedsvd.identity.pins import pin
from fedsvd.identity.request import make_request
from fedsvd.service import api
from fedsvd.service.csp import CspNode
from fedsvd.service.doctor import examine
from fedsvd.service.doctor_checks import Host, examine_machine, proxy_for, this_machine
from fedsvd.service.site import Site
from fedsvd.studies.job_file import job_from

GENEROUS = 60.0
NOW = datetime.now(UTC)
FIT = Host(1 << 40, 1 << 36, 4, [{"internal_api": "openblas", "version": "0.3", "num_threads": 4}], True)
JOB = {
    "job": {
        "name": "study",
        "task": "lr",
        "split": "vertical",
        "label": "outcome",
        "label_party": "a",
        "id": "patient",
    },
    "party": [{"name": name} for name in "abc"],
}


def make_kit(operator: Authority, folder: Path, role: str, name: str, *, now=NOW, days=397, addresses=()) -> Path:
    request = make_request(folder, operator.federation, role, name, addresses)
    approved = {"role": role, "party_id": name, "fingerprint": request.fingerprint}
    pem = operator.approve(request.pem, **approved, now=now, days=days)
    accept(folder, pem, operator.ca_pem, operator.fingerprint, now=now)
    accept_revocations(folder, operator.revocation_list(now=now))
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An operator's folder, and kits of a CSP, three parties and a researcher who have pinned each other."""
    root = tmp_path_factory.mktemp("federation")
    operator = init_federation(root / "operator", "a federation", now=NOW)
    kits = {"csp": make_kit(operator, root / "csp", "csp", "csp", addresses=["127.0.0.1"])}
    kits |= {name: make_kit(operator, root / name, "party", name) for name in "abc"}
    kits["res"] = make_kit(operator, root / "res", "researcher", "res")
    for kit in kits.values():
        for other in kits.values():
            if other != kit:
                pin(kit, str(Kit.read(other).identity), Kit.read(other).identity.fingerprint)
    return root


@pytest.fixture(scope="module")
def csp(made):
    """A CSP that listens."""
    with listening(made / "csp") as address:
        yield address


@contextmanager
def listening(kit: Path, kind=CspNode):
    site = Site.at(kit)
    node = kind(site.listening("127.0.0.1:0"), site.authenticate, site.state, patience=GENEROUS)
    node.start()
    try:
        yield f"127.0.0.1:{node.port}"
    finally:
        node.stop()


@pytest.fixture
def kit(made, csp, tmp_path):
    """Party a's kit, to be spoilt, with a table and a site.toml that are well."""
    return spoilable(made, "a", csp, tmp_path)


def spoilable(made, name, csp, tmp_path) -> Path:
    kit = tmp_path / "kit"
    shutil.copytree(made / name, kit)
    kit.chmod(0o700)
    (kit / "site.toml").write_text(f'[csp]\naddress = "{csp}"\n[data]\ndefault = "table.csv"\n')
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(40, 12)), columns=[f"x{j}" for j in range(12)])
    table.insert(0, "patient", [f"p{i}" for i in range(40)])
    table["outcome"] = rng.normal(size=40)
    table.to_csv(kit / "table.csv", index=False)
    return kit


def found(kit, name, *, job=None, **how):
    """What is wrong under this name, and that it comes with a fix; the names of everything else that is wrong."""
    how = {"machine": FIT, "now": NOW, **how}
    wrong = [check for check in examine(kit, job=None if job is None else job_from(job, Path()), **how) if not check.ok]
    (check,) = (check for check in wrong if check.name == name)
    assert check.fix
    return f"{check.text} | {check.fix}", {each.name for each in wrong} - {name}


def job_with(**changes):
    return {**JOB, "job": {**JOB["job"], **changes}}


def test_nothing_is_wrong_where_nothing_is_wrong(kit):
    checks = list(examine(kit, job=job_from(JOB, Path()), now=NOW, machine=FIT))
    assert [check for check in checks if not check.ok] == []
    names = [check.name for check in checks]
    ours = ["modes", "kit", "expiry", "site.toml", "policy"]
    network = ["address", "DNS", "TCP", "TLS", "role", "answer", "clock", "version"]
    assert names == [*ours, *network, "disk", "memory", "BLAS", "data", "release", "members"]


def test_a_researcher_and_a_csp_are_examined_for_what_they_need(made, csp, tmp_path):
    for name in ("res", "csp"):
        kit = spoilable(made, name, csp, tmp_path / name)
        (kit / "site.toml").write_text(
            f'[csp]\naddress = "{csp}"\n' if name == "res" else '[csp]\nlisten = "127.0.0.1:0"\n'
        )
        checks = list(examine(kit, job=job_from(JOB, Path()), now=NOW, machine=FIT))
        assert [check for check in checks if not check.ok] == []
        assert not {"policy", "data", "members"} & {check.name for check in checks}


def test_nothing_is_changed_and_nothing_is_written_beside_the_state(kit):
    before = {path: path.read_bytes() for path in kit.iterdir() if path.is_file()}
    list(examine(kit, job=job_from(JOB, Path()), now=NOW, machine=FIT))
    assert {path: path.read_bytes() for path in kit.iterdir() if path.is_file()} == before


# --- the kit ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["tls-key.pem", "signing-key"])
def test_keys_that_others_can_read(kit, key):
    (kit / key).chmod(0o640)
    text, _ = found(kit, "modes")
    assert f"chmod 600 {kit / key}" in text


def test_a_kit_that_others_can_write_into(kit):
    kit.chmod(0o777)
    text, others = found(kit, "modes")
    assert f"chmod 700 {kit}" in text
    assert others == set()


def test_no_kit_at_all(tmp_path):
    text, _ = found(tmp_path, "kit")
    assert "fedsvd join request" in text


def test_keys_of_another_certificate(kit, made):
    shutil.copy(made / "b" / "signing-key", kit / "signing-key")
    text, _ = found(kit, "kit")
    assert "are not those of its certificate" in text


def test_a_certificate_that_is_about_to_expire(made, csp, tmp_path):
    shutil.copytree(made / "operator", tmp_path / "operator")
    kit = make_kit(Authority(tmp_path / "operator"), tmp_path / "kit", "researcher", "ben", days=20)
    text, others = found(kit, "expiry", csp=csp)
    assert "this kit's certificate expires in 20 days" in text
    assert "fedsvd join renew" in text
    assert others == set()


def test_a_certificate_that_has_expired_and_an_operators_that_has(kit):
    wrong = [check for check in examine(kit, now=NOW + timedelta(days=8000), machine=FIT) if check.name == "expiry"]
    texts = " ".join(check.text for check in wrong)
    assert "this kit's certificate has expired" in texts
    assert "the operator's certificate has expired" in texts


def test_an_old_revocation_list(kit):
    text, _ = found(kit, "expiry", now=NOW + timedelta(days=100))
    assert "the revocation list is old" in text


@pytest.mark.parametrize(
    ("content", "word"), [("not toml", "is not TOML"), ("[cps]\n", "'cps'"), ("results = 5\n", "not a text")]
)
def test_a_site_file_that_cannot_be_used(kit, content, word):
    (kit / "site.toml").write_text(content)
    text, _ = found(kit, "site.toml")
    assert word in text


def test_a_policy_with_a_misspelt_rule(kit):
    (kit / "policy.toml").write_text("record = 5\n")
    text, _ = found(kit, "policy")
    assert "did you mean records" in text


# --- the network ------------------------------------------------------------------------------------------------------


def test_no_address(kit):
    (kit / "site.toml").write_text('[data]\ndefault = "table.csv"\n')
    text, _ = found(kit, "address")
    assert "[csp] address" in text


def test_an_address_without_a_port(kit):
    text, _ = found(kit, "address", csp="csp.example.org")
    assert "is not host:port" in text


def test_a_name_that_nobody_knows(kit):
    text, others = found(kit, "DNS", csp="no-such-host.invalid:7443")
    assert "no-such-host.invalid" in text
    assert others == set()


def test_a_port_where_nobody_listens(kit):
    text, others = found(kit, "TCP", csp=f"127.0.0.1:{free_port()}")
    assert "let connections out" in text
    assert others == set()


@contextmanager
def answering(talk):
    """A server that talks to one caller after the other as it likes."""
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(0.2)
    over = threading.Event()

    def serve():
        while not over.is_set():
            try:
                line, _ = server.accept()
            except OSError:
                continue
            line.settimeout(GENEROUS)
            with line:
                try:
                    talk(line)
                except OSError:
                    continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        over.set()
        thread.join(GENEROUS)
        server.close()


def test_something_else_listens_there(kit):
    with answering(lambda line: line.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")) as port:
        text, _ = found(kit, "TLS", csp=f"127.0.0.1:{port}")
    assert "something else listens there" in text


def test_a_csp_of_another_federation(kit, tmp_path):
    stranger = init_federation(tmp_path / "stranger", "others", now=NOW)
    theirs = make_kit(stranger, tmp_path / "theirs", "csp", "csp", addresses=["127.0.0.1"])
    with listening(theirs) as address:
        text, _ = found(kit, "TLS", csp=address)
    assert "is not of this federation" in text


def test_a_csp_whose_certificate_has_expired(tmp_path):
    past = NOW - timedelta(days=10)
    operator = init_federation(tmp_path / "operator", "ten days ago", now=past)
    theirs = make_kit(operator, tmp_path / "csp", "csp", "csp", now=past, days=1, addresses=["127.0.0.1"])
    ours = make_kit(operator, tmp_path / "res", "researcher", "res", now=past)
    with listening(theirs) as address:
        text, _ = found(ours, "TLS", csp=address)
    assert "has expired" in text


def test_a_csp_reached_under_a_name_that_is_not_its_own(kit, csp):
    text, _ = found(kit, "SAN", csp=csp.replace("127.0.0.1", "localhost"))
    assert "fedsvd join renew --address localhost" in text


def test_a_party_that_poses_as_the_csp(kit, made):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made / "b" / "certificate.pem", made / "b" / "tls-key.pem")

    def talk(line):
        with context.wrap_socket(line, server_side=True) as secured:
            secured.recv(1)

    with answering(talk) as port:
        text, _ = found(kit, "role", csp=f"127.0.0.1:{port}")
    assert "not a CSP's" in text


def test_a_csp_that_was_revoked(kit, made, csp, tmp_path):
    shutil.copytree(made / "operator", tmp_path / "operator")
    accept_revocations(kit, Authority(tmp_path / "operator").revoke("csp", "csp", now=NOW))
    text, _ = found(kit, "role")
    assert "was revoked" in text


def test_a_csp_with_another_key_than_the_pinned_one(kit):
    pin(kit, "csp/csp", "ab" * 32, instead=True)
    text, _ = found(kit, "role")
    assert "not the key that csp/csp is pinned to" in text


def test_a_party_that_the_csp_turns_away(kit, made, tmp_path):
    shutil.copytree(made / "operator", tmp_path / "operator")
    shutil.copytree(made / "csp", tmp_path / "csp", ignore=shutil.ignore_patterns("state"))
    accept_revocations(tmp_path / "csp", Authority(tmp_path / "operator").revoke("party", "a", now=NOW))
    with listening(tmp_path / "csp") as address:
        text, _ = found(kit, "answer", csp=address)
    assert "the certificate of party/a was revoked" in text


class Late(CspNode):
    def handle(self, verb, caller, asked):
        answer = super().handle(verb, caller, asked)
        late = (datetime.now(UTC) - timedelta(minutes=10)).isoformat()
        return answer.model_copy(update={"now": late}) if verb is api.NOW else answer


class Old(CspNode):
    def handle(self, verb, caller, asked):
        answer = super().handle(verb, caller, asked)
        return answer.model_copy(update={"fedsvd": "0.0.9"}) if verb is api.NOW else answer


@pytest.mark.parametrize(
    ("kind", "name", "word"), [(Late, "clock", "600 s ahead"), (Old, "version", "0.0.9 at the CSP")]
)
def test_a_csp_with_another_clock_or_version(kit, made, tmp_path, kind, name, word):
    shutil.copytree(made / "csp", tmp_path / "csp", ignore=shutil.ignore_patterns("state"))
    with listening(tmp_path / "csp", kind) as address:
        text, others = found(kit, name, csp=address)
    assert word in text
    assert others == set()


def test_a_port_that_is_taken(made, csp, tmp_path):
    kit = spoilable(made, "csp", csp, tmp_path)
    with answering(lambda line: None) as port:
        (kit / "site.toml").write_text(f'[csp]\nlisten = "127.0.0.1:{port}"\n')
        text, _ = found(kit, "port")
    assert f"cannot listen at 127.0.0.1:{port}" in text


def test_a_proxy_that_refuses(kit, csp, monkeypatch):
    with answering(lambda line: line.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")) as port:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
        monkeypatch.delenv("no_proxy", raising=False)
        text, _ = found(kit, "TCP")
    assert f"the proxy 127.0.0.1 refuses {csp}: HTTP/1.1 403 Forbidden" in text


def relay(origin, to):
    try:
        while block := origin.recv(65536):
            to.sendall(block)
        to.shutdown(socket.SHUT_WR)
    except OSError:
        return


def test_a_proxy_that_lets_us_through(kit, monkeypatch):
    asked = []

    def tunnel(line):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += line.recv(1)
        asked.append(head.decode())
        host, port = head.split()[1].decode().rsplit(":", 1)
        with socket.create_connection((host, int(port))) as onward:
            line.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=relay, args=(onward, line), daemon=True)
            back.start()
            relay(line, onward)
            back.join(GENEROUS)

    with answering(tunnel) as port:
        monkeypatch.setenv("https_proxy", f"http://anna:secret@127.0.0.1:{port}")
        monkeypatch.delenv("no_proxy", raising=False)
        checks = [
            check for check in examine(kit, now=NOW, machine=FIT) if check.name in ("TCP", "TLS", "role", "answer")
        ]
    assert [check.ok for check in checks] == [True] * 4
    assert "Proxy-Authorization: Basic YW5uYTpzZWNyZXQ=" in asked[0]
    assert "secret" not in str(checks)


@pytest.mark.parametrize(
    ("environment", "proxy"),
    [
        ({}, None),
        ({"http_proxy": "http://p"}, "http://p"),
        ({"https_proxy": "http://s", "http_proxy": "http://p"}, "http://s"),
        ({"grpc_proxy": "http://g", "https_proxy": "http://s"}, "http://g"),
        ({"https_proxy": "http://s", "no_proxy": "localhost,example.org"}, None),
        ({"https_proxy": "http://s", "no_proxy": ".example.org"}, None),
        ({"https_proxy": "http://s", "no_proxy": "ample.org"}, "http://s"),
        ({"https_proxy": "http://s", "no_grpc_proxy": "elsewhere", "no_proxy": "example.org"}, "http://s"),
    ],
)
def test_the_proxy_is_the_one_that_the_transport_takes(environment, proxy):
    assert proxy_for("csp.example.org", environment) == proxy


# --- the machine ------------------------------------------------------------------------------------------------------


def with_machine(**changes) -> Host:
    return Host(**{**FIT.__dict__, **changes})


@pytest.mark.parametrize(
    ("name", "machine", "word"),
    [
        ("disk", with_machine(disk_free=1 << 20), "free space"),
        ("memory", with_machine(memory_free=1 << 20), "[job] memory"),
        ("BLAS", with_machine(blas=[]), "install NumPy"),
        ("BLAS", with_machine(cores=2), "OPENBLAS_NUM_THREADS=2"),
    ],
)
def test_a_machine_that_is_not_fit(kit, name, machine, word):
    text, others = found(kit, name, machine=machine)
    assert word in text
    assert others == set()


def test_loops_that_were_not_compiled_are_said_and_are_no_fault():
    *_, blas = examine_machine(with_machine(compiled=False), 1 << 20)
    assert blas.ok
    assert "C compiler" in blas.text
    *_, blas = examine_machine(with_machine(compiled=True), 1 << 20)
    assert "C compiler" not in blas.text


def test_cores_that_an_affinity_withholds_and_the_setting_of_threads_are_shown():
    machine = with_machine(installed=64, setting="OPENBLAS_NUM_THREADS=2")
    *_, blas = examine_machine(machine, 1 << 20)
    assert f"threads on {machine.cores} cores of 64, by its affinity" in blas.text
    assert "OPENBLAS_NUM_THREADS=2" in blas.text


def test_a_job_that_wants_more_memory_than_there_is(kit):
    text, _ = found(kit, "memory", job=job_with(memory="100 TB"))
    assert "[job] memory" in text


def test_this_machine_is_described_by_what_it_is(tmp_path):
    machine = this_machine(tmp_path)
    assert machine.disk_free == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.2)
    assert 1 <= machine.cores <= machine.installed
    assert machine.memory_free is None or machine.memory_free > 0
    assert all(each["num_threads"] >= 1 for each in machine.blas)


# --- data and job -----------------------------------------------------------------------------------------------------


def test_data_that_is_not_there(kit):
    (kit / "table.csv").unlink()
    assert "there is no file" in found(kit, "data")[0]
    assert "there is no file" in found(kit, "data", job=JOB)[0]


def test_no_data_for_this_job(kit, csp):
    (kit / "site.toml").write_text(f'[csp]\naddress = "{csp}"\n[data]\nother = "table.csv"\n')
    assert "names no data for the job study" in found(kit, "data", job=JOB)[0]


@pytest.mark.parametrize(("change", "word"), [({"label": "income"}, "income"), ({"id": "customer"}, "customer")])
def test_a_column_that_is_missing(kit, change, word):
    assert word in found(kit, "data", job=job_with(**change))[0]


def test_an_entry_that_is_missing(kit):
    table = pd.read_csv(kit / "table.csv")
    table.loc[3, "x1"] = np.nan
    table.to_csv(kit / "table.csv", index=False)
    assert "FSVD-201" in found(kit, "data", job=JOB)[0]


def test_a_job_below_the_policy(kit):
    (kit / "policy.toml").write_text('tasks = ["pca"]\n')
    assert "the task lr is not among those allowed" in found(kit, "release", job=JOB)[0]


def test_a_job_that_cannot_be_planned(kit):
    job = {"job": {"name": "study", "task": "lsa", "components": 1000}, "party": JOB["party"]}
    table = pd.read_csv(kit / "table.csv").drop(columns="patient")
    table.to_csv(kit / "table.csv", index=False)
    assert "components = 1000" in found(kit, "plan", job=job)[0]


def test_a_job_without_this_party(kit):
    job = {**JOB, "job": {**JOB["job"], "label_party": "b"}, "party": [{"name": "b"}, {"name": "c"}]}
    assert "party/a is not in this job" in found(kit, "members", job=job)[0]


def test_a_member_that_is_not_pinned(kit):
    unpin(kit, "party/b")
    assert "not pinned: party/b" in found(kit, "members", job=JOB)[0]
