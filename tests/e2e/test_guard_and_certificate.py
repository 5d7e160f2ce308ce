"""Between institutions: rosters and approvals are remembered; certificates are signed by all, and hold."""

import hashlib
import json
import re
import shutil
import threading
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from tests.e2e.commands import until
from tests.e2e.federations import federation_of, split_table
from tests.e2e.outcomes import file_of
from tests.network import unpin
from typer.testing import CliRunner

import fedsvd
from fedsvd.cli.main import cli
from fedsvd.errors import ConfigError, NotAuthenticated, NotSealed, StorageError
from fedsvd.policy.rules import Policy
from fedsvd.policy.source_digest import Reading
from fedsvd.protocol.parties import CSP, user
from fedsvd.protocol.tasks import Split, Task
from fedsvd.results import signed_files
from fedsvd.results.file_tree import Leaf, root_of, shared_among
from fedsvd.results.report.page import render
from fedsvd.results.signed_certificate import verify_certificate
from fedsvd.results.signed_files import verify_files
from fedsvd.results.write import read_result
from fedsvd.service.csp_account import write_account
from fedsvd.service.records import AWAITS_APPROVAL, JobState
from fedsvd.service.site import Site
from fedsvd.storage import file_stamp
from fedsvd.tasks.declared import outputs_of

PARTIES = ("a", "b", "c", "d")
POLICY = Policy(records_for_full=1, records=1, consent_to_two=True)
WRITERS = []  # the threads in which the CSP wrote what it saw of a job


@contextmanager
def csp_of(federation):
    """The CSP's node, and its account of what it saw as the command writes it."""
    site = Site.at(federation.kits["csp/csp"])

    def account(*seen):
        WRITERS.append(threading.current_thread().name)
        write_account(site, *seen)

    with federation.csp_node(write_account=account) as node:
        yield node


def members(*names):
    return [f"party/{name}" for name in names]


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    root = tmp_path_factory.mktemp("guard")
    _, tables = split_table(200, 4, PARTIES)
    with federation_of(root, PARTIES, tables, policy=POLICY) as federation, csp_of(federation) as csp:
        yield federation, csp


def finished(federation, csp, job):
    with federation.connect() as line:
        id = line.submit(job)
    until(lambda: csp.jobs.get(id).state in (JobState.DONE, JobState.BROKEN))
    return csp.jobs.get(id)


def code_at(csp, id, attempt=1):
    """The code with which an attempt was broken."""
    until(lambda: csp.jobs.get(id).attempt == attempt and csp.jobs.get(id).state is JobState.BROKEN)
    return csp.jobs.get(id).failures[0].code


class Drawing(Site):
    """A site that draws reports, as the command's does."""

    @classmethod
    def at(cls, directory, yes=False, draw=render):
        return super().at(directory, yes, draw)


@pytest.fixture(scope="module")
def study(running):
    """One finished study of four parties."""
    federation, csp = running
    with federation.member_nodes(*members(*PARTIES), owner=Drawing):
        job = finished(federation, csp, file_of("svd", PARTIES, name="study"))
    assert job.state is JobState.DONE, job.failures
    return federation, csp, job


def certificate(study, party):
    federation, _, job = study
    return federation.folder(party, job.id) / "certificate.json"


def test_every_party_holds_one_certificate_that_all_and_the_csp_signed(study):
    federation, _, job = study
    bodies = set()
    for name in PARTIES:
        signed = verify_certificate(certificate(study, name), Site.at(federation.kits[f"party/{name}"]).kit.pins())
        assert signed.names == {
            **{f"user-{i}": f"party/{party}" for i, party in enumerate(PARTIES, 1)},
            "csp": "csp/csp",
        }
        assert signed.body["plan"] == job.plan_digest
        bodies.add(json.dumps(signed.body))
    assert len(bodies) == 1


def commitment_of(study, party, rows):
    """What a party that brought these rows committed to, made with the salt in its own folder."""
    federation, _, _ = study
    session = json.loads(certificate(study, party).read_bytes())["body"]["session"]
    salt = bytes.fromhex((federation.kits[f"party/{party}"] / "state" / "commitments" / f"{session}.salt").read_text())
    head = np.array((4, len(rows), 1), "<u8").tobytes()  # X_i is (features, records), column after column
    content = hashlib.sha256(head + np.ascontiguousarray(rows, "<f8").tobytes()).digest()
    return hashlib.sha256(salt + repr((4, len(rows))).encode() + content).hexdigest()


def test_a_commitment_opens_to_the_partys_data_and_to_no_other(study):
    federation, _, _ = study
    commitments = json.loads(certificate(study, "b").read_bytes())["body"]["commitments"]
    rows = np.load(federation.root / "b.npy")
    assert commitment_of(study, "b", rows) == commitments[1]
    rows[5, 2] = np.nextafter(rows[5, 2], np.inf)
    assert commitment_of(study, "b", rows) != commitments[1]
    assert len(set(commitments)) == 4


def test_a_table_that_was_read_before_the_session_is_committed_to_all_the_same(running, monkeypatch):
    """Its file was written long ago, so that a member need not read it again to know that it is the same."""
    federation, csp = running
    reused, content = [], Reading.content
    monkeypatch.setattr(file_stamp, "time", lambda now=file_stamp.time: now() + 3600.0)
    monkeypatch.setattr(Reading, "content", lambda this, table: reused.append(content(this, table)) or reused[-1])
    with federation.member_nodes(*members(*PARTIES)):
        job = finished(federation, csp, file_of("svd", PARTIES, name="long-after"))
    assert job.state is JobState.DONE, job.failures
    again = federation, csp, job
    commitments = json.loads(certificate(again, "a").read_bytes())["body"]["commitments"]
    assert commitments == [commitment_of(again, name, np.load(federation.root / f"{name}.npy")) for name in PARTIES]
    assert len(reused) == len(PARTIES), "each asks once: every pass of the session must give the same (ADR 0043)"
    assert None not in reused


def _altered(path, tmp_path, change):
    record = json.loads(path.read_bytes())
    change(record)
    target = tmp_path / "certificate.json"
    target.write_text(json.dumps(record))
    return target


def _swap(record):
    signatures = record["signatures"]
    signatures["user-1"], signatures["user-2"] = signatures["user-2"], signatures["user-1"]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda record: record["body"].update(release="00" * 32), NotSealed),
        (lambda record: record["body"].update(mode="Z"), NotSealed),
        (lambda record: record["body"]["commitments"].reverse(), NotSealed),
        (lambda record: record["body"]["sums"].pop(), NotSealed),
        (lambda record: record["body"]["identities"].reverse(), NotSealed),
        (lambda record: record["signatures"].update(csp=record["signatures"]["user-1"]), NotSealed),
        (lambda record: record["signatures"].pop("csp"), NotSealed),
        (lambda record: record["signatures"].update({"user-1": "zz"}), NotSealed),
        (_swap, NotSealed),
        (lambda record: record["body"].update(extra=1), StorageError),
        (lambda record: record["body"].pop("release"), StorageError),
        (lambda record: record.update(format="fedsvd-certificate/1"), StorageError),
    ],
)
def test_an_altered_certificate_is_refused(study, tmp_path, change, error):
    path = certificate(study, "a")
    verify_certificate(_altered(path, tmp_path, lambda record: record["local"].clear()))  # nobody signed that part
    with pytest.raises(error):
        verify_certificate(_altered(path, tmp_path, change))


# --- The files next to a certificate ---------------------------------------------------------------------------------
@pytest.mark.parametrize("name", PARTIES)
def test_the_files_of_every_party_are_those_that_all_users_signed(study, name):
    files = verify_files(certificate(study, name))
    there = {path.name for path in certificate(study, name).parent.iterdir()}
    assert files.count == len(there - {"certificate.json", "report.html"}) > 3
    assert files.parties == PARTIES
    assert files.unsigned == ()
    assert files.of == f"user-{PARTIES.index(name) + 1}"
    assert not files.shared
    # One machine, one BLAS: what all share is the same at all, bit for bit.
    assert set(files.same_at) == {f"user-{i}" for i in range(1, len(PARTIES) + 1)} - {files.of}


def _copied(study, name, tmp_path):
    target = tmp_path / "results"
    shutil.copytree(certificate(study, name).parent, target)
    return target


def _one_more_digit(path):
    path.write_bytes(path.read_bytes() + b"0")


def _another_number(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: _another_number(folder / "components.npy"), r"components\.npy was altered"),
        (lambda folder: _one_more_digit(folder / "spectrum.csv"), r"spectrum\.csv was altered"),
        (lambda folder: _another_number(folder / "left_vectors.npy"), r"left_vectors\.npy was altered"),
        (lambda folder: (folder / "components.csv").unlink(), r"components\.csv is missing"),
        (lambda folder: (folder / "coefficients.csv").write_text("x"), r"coefficients\.csv was added"),
        (lambda folder: (folder / "certificate-extra.json").write_text("{}"), r"certificate-extra\.json was added"),
        (lambda folder: (folder / "more").mkdir(), r"more was added"),
        (lambda folder: (folder / "manifest.json").unlink(), r"manifest\.json is missing"),
        (lambda folder: _one_more_digit(folder / "report.html"), r"report\.html was altered"),
        (lambda folder: (folder / "report.html").unlink(), r"report\.html is missing"),
    ],
)
def test_a_file_that_was_altered_removed_or_added_is_named(study, tmp_path, change, said):
    """In 0.2.0 the certificate said nothing of any file: altered coefficients stood next to "all signatures hold"."""
    folder = _copied(study, "a", tmp_path)
    assert CliRunner().invoke(cli, ["verify", str(folder)]).exit_code == 0
    change(folder)
    with pytest.raises(NotSealed, match=said):
        verify_files(folder / "certificate.json")
    told = CliRunner().invoke(cli, ["verify", str(folder)])
    assert told.exit_code == 1
    assert "hold" not in told.stdout


def _rewritten(folder, change):
    """A manifest with another content, and its own hash made again as reference/formats.md has it."""
    record = json.loads((folder / "manifest.json").read_bytes())
    del record["sha256"]
    change(record)
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    record["sha256"] = hashlib.sha256(b"fedsvd/manifest/1\x00" + text.encode()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(record))


def _report_as_listed(record):
    record["files"]["report.html"]["sha256"] = "00" * 32


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.update(rank=1),
        lambda record: record.update(parties=["b", "a", "c", "d"]),
        lambda record: record.update(job="another study"),
        lambda record: record["job_file"]["job"].update(task="pca"),
        lambda record: record["facts"].update(look_at=["nothing"]),
        lambda record: record["plan"].update(m=3),
        lambda record: record.update(features=["age", "dose", "x2", "x3"]),
        lambda record: record["certificate"].update(residual=0.0),
        lambda record: record["certificate"].update(orthogonality=0.0),
        lambda record: record.update(proved="everything"),
        lambda record: record.update(why_this_scheme="verified: R2 = 1"),
        lambda record: record.update(created="verified: R2 = 1"),
        lambda record: record["files"]["components.npy"].update(sha256="00" * 32),
        lambda record: record["files"].pop("components.csv"),
    ],
)
def test_a_manifest_that_was_altered_with_its_own_hash_is_named(study, tmp_path, change):
    """Users sign all of it that they know before; in 0.2.0 none of it."""
    folder = _copied(study, "a", tmp_path)
    _rewritten(folder, lambda record: None)
    assert verify_files(folder / "certificate.json") is not None
    _rewritten(folder, change)
    with pytest.raises(NotSealed, match=r"manifest\.json was altered"):
        verify_files(folder / "certificate.json")


def test_a_key_that_stands_twice_in_a_manifest_is_refused(study, tmp_path):
    """Of two ranks one reader takes the first and another the last."""
    folder = _copied(study, "a", tmp_path)
    text = (folder / "manifest.json").read_text(encoding="utf-8")
    (folder / "manifest.json").write_text(text.replace('"rank"', '"rank": 1,\n "rank"', 1), encoding="utf-8")
    with pytest.raises(NotSealed, match=r"manifest\.json was altered"):
        verify_files(folder / "certificate.json")


def test_a_report_of_other_numbers_is_found_even_where_the_manifest_lists_it(study, tmp_path):
    folder = _copied(study, "a", tmp_path)
    page = (folder / "report.html").read_text(encoding="utf-8")
    forged = page.replace("200 rows", "900 rows")
    assert forged != page
    (folder / "report.html").write_text(forged, encoding="utf-8")
    new = hashlib.sha256((folder / "report.html").read_bytes()).hexdigest()
    _rewritten(folder, lambda record: record["files"]["report.html"].update(sha256=new))
    with pytest.raises(NotSealed, match=r"report\.html is not the page"):
        verify_files(folder / "certificate.json")


def test_a_report_that_another_version_drew_is_said_not_to_be_compared(study, monkeypatch):
    monkeypatch.setattr(signed_files, "software", lambda: {"fedsvd": "99"})
    (unsigned,) = verify_files(certificate(study, "a")).unsigned
    assert re.match(r"report\.html, which was not compared: it was drawn by fedsvd", unsigned)
    told = CliRunner().invoke(cli, ["verify", str(certificate(study, "a").parent)])
    assert "report.html, which was not compared" in " ".join(told.stdout.split())


def test_what_a_party_alone_measured_is_not_signed_and_this_is_said(study, tmp_path):
    folder = _copied(study, "a", tmp_path)
    (folder / "report.html").unlink()
    _rewritten(folder, lambda record: record["files"].pop("report.html"))
    _rewritten(folder, lambda record: record.update(created="1999-01-01T00:00:00+00:00"))
    _rewritten(folder, lambda record: record["certificate"].update(seconds_total=0.0))
    told = CliRunner().invoke(cli, ["verify", str(folder)])
    assert told.exit_code == 0, told.output
    assert "dates, bytes, seconds and memory" in " ".join(told.stdout.split())


def test_a_kit_finds_parties_under_other_names_than_those_it_pinned(study, monkeypatch):
    """The party that writes a folder may have called the others what it liked before it signed."""
    federation, _, _ = study
    words = ["verify", str(certificate(study, "a")), "--kit", str(federation.kits["party/a"])]
    assert CliRunner().invoke(cli, words).exit_code == 0
    found = verify_files(certificate(study, "a"))
    renamed = replace(found, parties=("a", "c", "b", "d"))
    monkeypatch.setattr("fedsvd.cli.verify.verify_files", lambda path: renamed)
    told = CliRunner().invoke(cli, words)
    assert told.exit_code == 1
    assert "party/b is called c" in " ".join(told.stderr.split())


def _own_hash(record):
    """The forger also writes the new hash into the list."""
    record["local"]["files"]["components.npy"]["sha256"] = "00" * 32


def _other_salt(record):
    record["local"]["opens"]["own"] = "00" * 32


@pytest.mark.parametrize(
    "change",
    [
        _own_hash,
        _other_salt,
        lambda record: record["local"].clear(),
        lambda record: record["local"].update(index=2),
        lambda record: record["local"].update(index=0),
        lambda record: record["local"]["files"].pop("components.npy"),
        lambda record: record["local"]["opens"].pop("own"),
    ],
)
def test_a_list_of_files_that_was_altered_with_them_is_not_what_users_signed(study, tmp_path, change):
    folder = _copied(study, "a", tmp_path)
    record = json.loads((folder / "certificate.json").read_bytes())
    change(record)
    (folder / "certificate.json").write_text(json.dumps(record))
    verify_certificate(folder / "certificate.json")  # no one signed that part, but it opens what was signed
    with pytest.raises(NotSealed, match="its users signed"):
        verify_files(folder / "certificate.json")


def test_one_partys_certificate_does_not_stand_for_anothers_files(study, tmp_path):
    folder = _copied(study, "a", tmp_path)
    shutil.copy(certificate(study, "b"), folder / "certificate.json")
    with pytest.raises(NotSealed, match=r"left_vectors\.npy was altered"):
        verify_files(folder / "certificate.json")


def test_commitments_to_files_say_nothing_without_their_salts(study):
    """The same shared files at all users, and no commitment is the hash of a root; the CSP signs a hash of them."""
    record = json.loads(certificate(study, "a").read_bytes())
    leaves = {name: Leaf(**about) for name, about in record["local"]["files"].items()}
    only = {name: Leaf(**about) for name, about in record["local"]["shared_only"].items()}
    roots = {root_of(leaves).hex(), root_of(shared_among(leaves, only, outputs_of(Task.SVD), Split.HORIZONTAL)).hex()}
    body = record["body"]
    assert not roots & {*body["files"], *body["shared_files"]}
    assert len(set(body["files"])) == len(PARTIES)


def test_a_key_given_twice_in_the_file_is_refused(study, tmp_path):
    text = certificate(study, "a").read_text().replace('"body": {', '"body": {"release": "00",', 1)
    (tmp_path / "twice.json").write_text(text)
    with pytest.raises(StorageError):
        verify_certificate(tmp_path / "twice.json")


def test_a_signer_who_is_not_pinned_is_refused_by_a_kit(study):
    federation, _, _ = study
    kit = federation.kits["party/d"]
    before = (kit / "pins.toml").read_bytes()
    unpin(kit, "party/b")
    try:
        with pytest.raises(NotAuthenticated, match="user-2 that this kit has not pinned"):
            verify_certificate(certificate(study, "d"), Site.at(kit).kit.pins())
    finally:
        (kit / "pins.toml").write_bytes(before)


def test_the_command_says_so_and_exits_with_1_unless_all_signatures_hold(study, tmp_path):
    federation, _, _ = study
    path = certificate(study, "a")
    words = ["verify", str(path), "--kit", str(federation.kits["party/a"]), "--format", "json"]
    told = CliRunner().invoke(cli, words)
    assert told.exit_code == 0, told.output
    shown = json.loads(told.stdout)
    assert (shown["valid"], shown["pinned"]) == (True, True)
    assert [each["name"] for each in shown["signed_by"]] == [*(f"party/{name}" for name in PARTIES), "csp/csp"]
    assert "all signatures hold" in CliRunner().invoke(cli, ["verify", str(path)]).stdout
    forged = _altered(path, tmp_path, _swap)
    told = CliRunner().invoke(cli, ["verify", str(forged), "--format", "json"])
    assert (told.exit_code, json.loads(told.stdout)["error"]["code"]) == (1, "FSVD-416")


def test_how_long_a_party_took_is_told_to_no_other(study):
    """F14: seconds by stage show whether a party compressed its data, and how."""
    federation, csp, job = study
    for name in PARTIES:
        told = csp.jobs.progress(job.id)[f"party/{name}"]
        assert not {"seconds_by_stage", "began_by_stage", "peak_memory"} & told.model_fields_set
        assert told.bytes_by_link
        manifest = json.loads((federation.folder(name, job.id) / "manifest.json").read_bytes())
        stages = {key.partition(": ")[2] for key in manifest["certificate"]["seconds_by_stage"]}
        assert "reading" in stages


def test_the_csp_writes_what_it_saw_in_a_thread_of_its_own_and_it_is_no_result(study):
    federation, _, job = study
    folder = Site.at(federation.kits["csp/csp"]).results_of(job)
    until(lambda: (folder / "manifest.json").is_file())
    assert f"account-{job.id}" in WRITERS, "a handler that writes answers no one meanwhile"
    account = read_result(folder)
    assert (account.reader, dict(account.arrays), account.features, account.names) == (CSP, {}, None, PARTIES)
    assert account.certificate.plan_digest == job.plan_digest
    senders = {sender for sender, _ in account.certificate.bytes_by_link}
    assert senders == {CSP, *map(user, range(1, 5))}, "what every role sent at the end"
    with pytest.raises(ConfigError, match="accounts of the CSP, and no result"):
        fedsvd.load(folder)
    told = CliRunner().invoke(cli, ["report", str(folder), "--out", str(federation.root / "page.html")])
    assert told.exit_code == 0, told.output
    assert "What each role learned" in (federation.root / "page.html").read_text()


def test_a_roster_of_one_party_less_is_refused_on_the_same_records(study):
    """F5: {A,B,C,D} then {A,B,C} would give D's Gram matrix to each of them."""
    federation, csp, _ = study
    with federation.member_nodes(*members(*PARTIES)):
        job = finished(federation, csp, file_of("svd", PARTIES[:3], name="less"))
    assert job.state is JobState.BROKEN
    assert {failure.code for failure in job.failures} == {"FSVD-110"}
    who = job.failures[0].who.partition("/")[2]
    why = Site.at(federation.kits[f"party/{who}"]).failure(job)
    assert "roster" in why.fault
    assert all(not failure.text for failure in job.failures)  # the reason stays where it is


def test_a_finished_job_that_is_shown_again_waits_for_its_owners_and_results_stay_as_they_are(running, caplog):
    """F6: version 0.1.0 ran it again as often as the CSP wished."""
    federation, csp = running
    again = {"state": JobState.RECRUITING, "attempt": 2, "enlisted": {}, "plan": None, "finished": (), "failures": ()}
    with federation.member_nodes(*members(*PARTIES)):
        job = finished(federation, csp, file_of("svd", PARTIES, name="once"))
        assert job.state is JobState.DONE, job.failures
    before = certificate((federation, csp, job), "a").read_bytes()
    csp.jobs.change(job.id, **again)
    with federation.member_nodes(*members(*PARTIES)):
        until(lambda: all(csp.jobs.progress(job.id)[who].stage == AWAITS_APPROVAL for who in members(*PARTIES)))
        assert (csp.jobs.get(job.id).state, csp.jobs.get(job.id).enlisted) == (JobState.RECRUITING, {})
    assert caplog.text.count("FSVD-113") == len(PARTIES), "each owner reads why, once"
    assert certificate((federation, csp, job), "a").read_bytes() == before
    csp.jobs.change(job.id, state=JobState.STOPPED)


def test_data_that_changed_after_it_was_approved_is_not_brought(study):
    """F7: a file changed between attempts, by a last digit; a change of few records would wait."""
    federation, csp, _ = study
    path = federation.root / "a.npy"
    rows = np.load(path)
    with federation.member_nodes(*members("a", "b", "c")), federation.connect() as line:
        id = line.submit(file_of("svd", PARTIES, name="changed"))
        until(lambda: len(csp.jobs.get(id).enlisted) == 3)
        other = rows.copy()
        other[:, 0] = np.nextafter(other[:, 0], np.inf)
        np.save(path, other)
        with federation.member_nodes(*members("d")):
            assert code_at(csp, id) == "FSVD-211"
            np.save(path, rows)
            line.resume(id)
            until(lambda: csp.jobs.get(id).state in (JobState.DONE, JobState.BROKEN))
        assert csp.jobs.get(id).state is JobState.DONE, csp.jobs.get(id).failures


def test_a_plan_with_another_key_for_the_csp_is_refused(study, monkeypatch):
    federation, csp, _ = study
    monkeypatch.setattr(csp, "identity", None)
    with federation.member_nodes(*members(*PARTIES)):
        job = finished(federation, csp, file_of("svd", PARTIES, name="unsigned"))
    assert job.failures[0].code == "FSVD-503"


def test_parties_of_one_organisation_count_once(tmp_path):
    """7.4: four parties of two organisations are two; and a site more of one organisation is no new roster."""
    _, tables = split_table(200, 4, PARTIES)
    of = {"a": "North", "b": "North", "c": "South", "d": "South"}
    made = federation_of(tmp_path, PARTIES, tables, Policy(records_for_full=1, records=1), of)
    with made as federation, csp_of(federation) as csp, federation.member_nodes(*members(*PARTIES)):
        job = finished(federation, csp, file_of("svd", PARTIES, name="full"))
        assert job.failures[0].code == "FSVD-110"
        who = job.failures[0].who.partition("/")[2]
        why = Site.at(federation.kits[f"party/{who}"]).failure(job)
        assert "the 4 parties belong to 2 organisation(s), 3 are asked for" in why.fault
        job = finished(federation, csp, file_of("pca", PARTIES, name="four", components=1))
        assert job.state is JobState.DONE, job.failures
        job = finished(federation, csp, file_of("pca", PARTIES[:3], name="three", components=1))
        assert job.state is JobState.DONE, job.failures


def test_two_studies_at_once_know_of_each_other(tmp_path):
    """{A,B,C,D} and {A,B,C} begun in the same moment would pass, if each were compared before the other began."""
    _, tables = split_table(200, 4, PARTIES)
    with (
        federation_of(tmp_path, PARTIES, tables, POLICY) as federation,
        csp_of(federation) as csp,
        federation.connect() as line,
    ):
        ids = [line.submit(file_of("svd", parties, name=f"of-{len(parties)}")) for parties in (PARTIES, PARTIES[:3])]
        with federation.member_nodes(*members(*PARTIES)):
            until(lambda: all(csp.jobs.get(id).state in (JobState.DONE, JobState.BROKEN) for id in ids))
        first, second = (csp.jobs.get(id) for id in ids)
        assert JobState.BROKEN in (first.state, second.state)
        broken = first if first.state is JobState.BROKEN else second
        assert "FSVD-110" in {failure.code for failure in broken.failures}
