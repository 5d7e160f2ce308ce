"""A CSP that shows parties different job files, submits in a researcher's name, or shows an old job again.

All roles run here over mutual TLS, each with its own kit, and every party approves all jobs (``--yes``): nothing but
the researcher's signature, its number and the digest in the plan stands between the CSP and the data. In every case the
job ends broken, with a code, and no party has sent a share.
"""

import itertools
import json
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic, sleep

import numpy as np
import pytest
from tests.e2e.commands import GENEROUS
from tests.e2e.federations import federation_of
from tests.tolerances import RESULT_BAR, assert_close

from fedsvd.identity.kit import Kit
from fedsvd.protocol.asked import Asked
from fedsvd.protocol.messages import PaddedBatch, SumShare
from fedsvd.protocol.parties import user
from fedsvd.randomness.entropy import fresh_bytes
from fedsvd.roles.service_provider.role import ServiceProvider
from fedsvd.service import api
from fedsvd.service import csp as csp_node
from fedsvd.service.client import signed
from fedsvd.service.csp import CspNode
from fedsvd.service.enlist import plan_of, ticket_of
from fedsvd.service.records import JobRecord, JobState
from fedsvd.service.stage_answers import StageAnswers
from fedsvd.studies.job_stages import Stage
from fedsvd.studies.submitted import submitted_job
from fedsvd.types import SessionId

PARTIES = ("a", "b", "c")
FILE = {
    "job": {"name": "doses", "task": "lr", "label": "y"},
    "prepare": {"missing": "mean"},  # a session of its own before the study
    "party": [{"name": name} for name in PARTIES],
}
SWAPPED = {**FILE, "prepare": {"missing": "mean", "rename": {"age": "dose", "dose": "age"}}}
PLAIN, PLAIN_SWAPPED = ({key: each[key] for key in ("job", "party")} for each in (FILE, SWAPPED))
PLAIN_SWAPPED = {**PLAIN_SWAPPED, "prepare": {"rename": {"age": "dose", "dose": "age"}}}


@pytest.fixture
def table():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(150, 2))
    return np.column_stack((X, X @ [2.0, -1.0] + 0.1 * rng.normal(size=150)))


@pytest.fixture
def roles(tmp_path, table):
    with federation_of(tmp_path, PARTIES, patience=GENEROUS) as made:
        for name, part in zip(PARTIES, np.split(table, 3), strict=True):
            path = tmp_path / f"{name}.csv"
            np.savetxt(path, part, delimiter=",", header="age,dose,y", comments="", fmt="%.17g")
            (made.kits[f"party/{name}"] / "site.toml").write_text(f'[data]\ndefault = "{path}"\n')
        yield made


@pytest.fixture
def researcher(roles):
    return Kit.read(roles.kits["researcher/res"])


class Listening(ServiceProvider):
    """Notes what the CSP has received; with ``relabels``, user 3's messages count as of the others' plan."""

    heard: list
    relabels = False

    def receive(self, sender, message):
        self.heard.append(type(message))
        if self.relabels and sender == user(3):
            message = replace(message, plan=self.plan.digest)
        return super().receive(sender, message)


@pytest.fixture(autouse=True)
def heard(monkeypatch):
    found = []
    monkeypatch.setattr(Listening, "heard", found, raising=False)
    monkeypatch.setattr(csp_node, "ServiceProvider", Listening)
    return found


@contextmanager
def running(roles, kind=CspNode):
    with roles.csp_node(kind) as csp, roles.member_nodes(*(f"party/{name}" for name in PARTIES)):
        yield csp


def ended(csp, id):
    deadline = monotonic() + GENEROUS
    while (job := csp.jobs.get(id)).state in (JobState.RECRUITING, JobState.RUNNING):
        assert monotonic() < deadline, "it hangs"
        sleep(0.02)
    return job


def expect_nothing_gained(roles, job, heard, *codes):
    assert job.state is JobState.BROKEN
    found = [failure.code for failure in job.failures] + [failure.text for failure in job.failures]
    assert any(code in each for each in found for code in codes), found
    assert not {SumShare, PaddedBatch} & set(heard)
    assert not any((roles.kits[f"party/{name}"] / "results").exists() for name in PARTIES)


class TwoFaced(CspNode):
    """Shows party c another job file than a and b, under whatever signature it has for it."""

    shown: dict

    def handle(self, verb, caller, asked):
        answer = super().handle(verb, caller, asked)
        return self.otherwise(answer) if caller == "party/c" and isinstance(answer, JobRecord) else answer

    def otherwise(self, record):
        return record.changed(**self.shown)


@pytest.mark.parametrize(("file", "swapped"), [(PLAIN, PLAIN_SWAPPED), (FILE, SWAPPED)])
def test_a_party_that_is_shown_another_job_file_finds_no_signature_on_it(
    roles, researcher, heard, monkeypatch, file, swapped
):
    """What was done to 0.2.0: age and dose change places at c alone, and all sign the wrong coefficients."""
    monkeypatch.setattr(TwoFaced, "shown", {"file": swapped}, raising=False)
    with running(roles, TwoFaced) as csp:
        asked = signed(researcher, file, fresh_bytes(16).hex())
        job = ended(csp, csp.handle(api.SUBMIT, "researcher/res", asked).id)
    expect_nothing_gained(roles, job, heard, "FSVD-503")


@pytest.mark.parametrize(("file", "swapped"), [(PLAIN, PLAIN_SWAPPED), (FILE, SWAPPED)])
def test_even_a_researcher_who_signs_two_files_with_the_csp_does_not_bring_parties_to_one_plan(
    roles, researcher, heard, monkeypatch, file, swapped
):
    number = fresh_bytes(16).hex()
    second = signed(researcher, swapped, number)
    monkeypatch.setattr(TwoFaced, "shown", {"file": swapped, "signature": second.signature}, raising=False)
    with running(roles, TwoFaced) as csp:
        job = ended(csp, csp.handle(api.SUBMIT, "researcher/res", signed(researcher, file, number)).id)
    expect_nothing_gained(roles, job, heard, "FSVD-413")


class WithAPlanOfItsOwn(TwoFaced):
    """Shows c the plan, too, that follows from c's file."""

    def otherwise(self, record):
        shown = super().otherwise(record)
        if record.plan is None or record.state is not JobState.RUNNING:
            return shown
        said = record.plan.certain_bound, ticket_of(*record.session_key), record.plan.csp_identity, record.stage
        session = SessionId(record.plan.session)
        plan = plan_of(submitted_job(shown.file), record.enlisted, session, *said, shown.asked.digest)
        return shown.changed(plan_digest=plan.digest)


def test_parties_with_two_plans_do_not_take_each_others_keys(roles, researcher, heard, monkeypatch):
    """The CSP relabels c's messages: the signatures under session keys are for the plan that c knows."""
    number = fresh_bytes(16).hex()
    second = signed(researcher, PLAIN_SWAPPED, number)
    monkeypatch.setattr(TwoFaced, "shown", {"file": PLAIN_SWAPPED, "signature": second.signature}, raising=False)
    monkeypatch.setattr(Listening, "relabels", True)
    with running(roles, WithAPlanOfItsOwn) as csp:
        job = ended(csp, csp.handle(api.SUBMIT, "researcher/res", signed(researcher, PLAIN, number)).id)
    expect_nothing_gained(roles, job, heard, "FSVD-416", "FSVD-413")


class NamesAnotherSession(TwoFaced):
    """Shows c, at the study, another preparation before it than the one that all took part in, with a plan to match."""

    def otherwise(self, record):
        if not record.passed or record.plan is None:
            return record
        passed = record.passed[0].model_copy(update={"session": "ab" * 16})
        shown = record.changed(passed=(passed,))
        said = record.plan.certain_bound, ticket_of(*record.session_key), record.plan.csp_identity, record.stage
        plan = plan_of(record.job, record.enlisted, SessionId(record.plan.session), *said, shown.bound)
        return shown.changed(plan_digest=plan.digest)


@pytest.mark.parametrize("believed", [False, True], ids=["its own answers are of another", "as if its answers were"])
def test_a_study_is_of_the_preparation_that_all_took_part_in(roles, researcher, monkeypatch, believed):
    """By the joint numbers of another attempt one party's table would be filled otherwise than all others'.

    Where c does have answers of that session, its plan is another one than theirs, and no key is exchanged.
    """
    if believed:
        monkeypatch.setattr(StageAnswers, "expect_passed", lambda self, record: None)
        monkeypatch.setattr(Listening, "relabels", True)
    with running(roles, NamesAnotherSession) as csp:
        job = ended(csp, csp.handle(api.SUBMIT, "researcher/res", signed(researcher, FILE, fresh_bytes(16).hex())).id)
    assert job.state is JobState.BROKEN
    assert [each.stage for each in job.passed] == [Stage.PREPARE]
    said = " ".join(f"{failure.code} {failure.text}" for failure in job.failures)
    assert "FSVD-413" in said or (believed and "FSVD-416" in said), said
    assert not any((roles.kits[f"party/{name}"] / "results").exists() for name in PARTIES)


def swapped_facts(record):
    """b and c under each other's names."""
    b, c = record.enlisted["party/b"], record.enlisted["party/c"]
    return {**record.enlisted, "party/b": c, "party/c": b}


def with_fact(member, **facts):
    return lambda record: {**record.enlisted, member: record.enlisted[member].model_copy(update=facts)}


LIES = {
    "b and c are called each other": (swapped_facts, "FSVD-503"),
    "b has the signing key of c": (
        lambda record: with_fact("party/b", signing=record.enlisted["party/c"].signing)(record),
        "FSVD-503",
    ),
    "b has twice the records": (with_fact("party/b", rows=100), "FSVD-413"),
    "b's columns have other names": (with_fact("party/b", features="00" * 32, names="00" * 32), "FSVD-101"),
    "c itself enlisted with fewer records": (with_fact("party/c", rows=10), "FSVD-4"),
}


class SaysOtherFacts(TwoFaced):
    """Shows c other facts of what members enlisted with."""

    lie: staticmethod

    def otherwise(self, record):
        whole = len(record.enlisted) == len(PARTIES)
        return record.changed(enlisted=self.lie(record)) if whole else record


@pytest.mark.parametrize("name", LIES)
def test_what_members_enlisted_with_is_the_same_to_all_or_no_key_is_exchanged(
    roles, researcher, heard, monkeypatch, name
):
    lie, code = LIES[name]
    monkeypatch.setattr(SaysOtherFacts, "lie", staticmethod(lie), raising=False)
    with running(roles, SaysOtherFacts) as csp:
        job = ended(csp, csp.handle(api.SUBMIT, "researcher/res", signed(researcher, PLAIN, fresh_bytes(16).hex())).id)
    expect_nothing_gained(roles, job, heard, code)


def forged(csp, roles, researcher, how):
    """A job record that the CSP writes in the researcher's name."""
    members = tuple(f"party/{name}" for name in PARTIES)
    asked = Asked(PLAIN, "researcher/res", members, "00" * 16)
    own = Kit.read(roles.kits["csp/csp"])
    signatures = {"none": "", "its own": asked.signed_by(own.signing_key), "noise": "ab" * 64, "no hex": "zz"}
    return csp.jobs.submit(
        JobRecord(
            id=fresh_bytes(8).hex(),
            name="doses",
            file=PLAIN,
            submitter="researcher/res",
            members=members,
            nonce=asked.nonce,
            signature=signatures[how],
            certificate=(own if how == "its own" else researcher).certificate_pem.decode(),
        )
    )


@pytest.mark.parametrize("how", ["none", "its own", "noise", "no hex"])
def test_a_csp_runs_no_job_in_a_researchers_name(roles, researcher, heard, how):
    with running(roles) as csp:
        job = ended(csp, forged(csp, roles, researcher, how).id)
    expect_nothing_gained(roles, job, heard, "FSVD-503")
    for name in PARTIES:
        assert not list((roles.kits[f"party/{name}"] / "approvals").glob("*.json"))


def test_a_signed_job_runs_once_and_is_not_shown_again_under_another_id(roles, researcher, heard, table):
    with running(roles) as csp:
        first = ended(csp, csp.handle(api.SUBMIT, "researcher/res", signed(researcher, PLAIN, "11" * 16)).id)
        assert first.state is JobState.DONE, first.failures
        heard.clear()
        again = first.changed(id=fresh_bytes(8).hex(), state=JobState.RECRUITING, enlisted={}, finished=(), plan=None)
        second = ended(csp, csp.jobs.submit(again.changed(plan_digest="")).id)
    assert second.state is JobState.BROKEN
    assert {failure.code for failure in second.failures if failure.code} == {"FSVD-420"}
    assert not heard
    centred = table - table.mean(axis=0)
    expected = np.linalg.lstsq(centred[:, :2], centred[:, 2], rcond=None)[0]
    for name in PARTIES:
        (folder,) = (roles.kits[f"party/{name}"] / "results").glob("*")
        assert_close(np.load(folder / "coefficients.npy").ravel(), expected, RESULT_BAR)
        plan = json.loads((folder / "manifest.json").read_text())["plan"]
        assert plan["job"] == first.asked.digest


class ChangesItsMind(CspNode):
    """Shows everyone the approved job until all have enlisted, then another that the researcher signed as well."""

    other: api.Submit

    def handle(self, verb, caller, asked):
        answer = super().handle(verb, caller, asked)
        if verb is api.JOB and answer.state is JobState.RUNNING:
            return answer.changed(file=self.other.file, signature=self.other.signature, nonce=self.other.nonce)
        return answer


def test_a_job_that_changes_after_parties_enlisted_is_not_the_one_they_approved(roles, researcher, heard, monkeypatch):
    numbers = itertools.count(1)
    one, other = (signed(researcher, file, f"{next(numbers):032x}") for file in (PLAIN, PLAIN_SWAPPED))
    monkeypatch.setattr(ChangesItsMind, "other", other, raising=False)
    with running(roles, ChangesItsMind) as csp:
        job = ended(csp, csp.handle(api.SUBMIT, "researcher/res", one).id)
    expect_nothing_gained(roles, job, heard, "FSVD-413")


def test_a_question_that_comes_again_submits_no_second_job(roles, researcher):
    with roles.csp_node() as csp:
        asked = signed(researcher, PLAIN, "22" * 16)
        first, second = (csp.handle(api.SUBMIT, "researcher/res", asked) for _ in range(2))
        assert first.id == second.id
        answer = api.read_question(api.written_question(api.SUBMIT, signed(researcher, PLAIN_SWAPPED, "22" * 16)))
        with pytest.raises(Exception, match="another job was submitted with this number"):
            csp.handle(api.SUBMIT, "researcher/res", answer[1])
