"""Jobs of several sessions: tables are prepared together, then the study runs on them, between institutions.

What is expected is computed by pandas, scikit-learn and statsmodels from the joint table. A role that is killed between
two sessions comes back and the job goes on; one that is killed within a session breaks the attempt, and another attempt
begins at the first session again.
"""

import hashlib
import json
import shutil
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from sklearn.decomposition import PCA
from tests.e2e.commands import Process, answered, command, until
from tests.e2e.federations import federation_of
from tests.e2e.outcomes import LONGEST, broken_everywhere, settled
from tests.messy import NUMBERS, PARTIES, messy_hospitals, record, write_job
from tests.tolerances import RESULT_BAR, STATISTIC_BAR, assert_close

from fedsvd.errors import NotSealed
from fedsvd.policy.rules import Policy
from fedsvd.results.signed_certificate import verify_certificate
from fedsvd.results.signed_files import verify_files
from fedsvd.service.site import Site

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
ROLES = ["csp/csp", *(f"party/{name}" for name in PARTIES)]
MEANS = {"drop": ["ward", "outcome"], "missing": "mean", "categories": ["grade"]}
COMPONENTS = {"components": 2, "release": ["components", "mean", "spectrum"]}
FORMULA = {"missing": "mean", "formula": "outcome ~ `mean radius` + `mean texture` + C(grade)"}

TERMS = ["Intercept", "mean_radius", "mean_texture", "C(grade)[T.low]", "C(grade)[T.mid]"]


@contextmanager
def hospitals(root, **how):
    """The three of ``messy.py``, each with its own file; the third has a name of its own for a column."""
    joint = messy_hospitals(root)
    with federation_of(root, tuple(PARTIES), **how) as federation:
        for name, file in PARTIES.items():
            lines = f'[data]\ndefault = "{root / file}"\n'
            lines += '[table.map]\n"Fläche" = "mean area"\n' if name == "west" else ""
            (federation.kits[f"party/{name}"] / "site.toml").write_text(lines, encoding="utf-8")
        yield federation, joint


def filled(joint):
    """All numbers, gaps filled with the joint means, and indicators of the grades."""
    numbers = joint[sorted(NUMBERS)]
    return pd.concat([numbers.fillna(numbers.mean()), pd.get_dummies(joint["grade"]).astype(float)], axis=1)


def expect_components(federation, id, joint):
    expected = PCA(svd_solver="full", n_components=2).fit(filled(joint))
    for name in PARTIES:
        folder = federation.folder(name, id)
        assert_close(np.load(folder / "explained_variance.npy"), expected.explained_variance_, RESULT_BAR)
        assert_close(np.load(folder / "mean.npy").ravel(), filled(joint).mean().to_numpy(), RESULT_BAR)


def opened(shape, content, salt):
    """A data commitment as docs/reference/formats.md has it."""
    return hashlib.sha256(salt + repr(shape).encode() + content).hexdigest()


def expect_commitments(federation, done, west):
    """Both commitments of west fit its file: the first as it is, the second prepared by the recipe in its results."""
    folder, kit = federation.folder("west", done.id), federation.kits["party/west"]
    sessions = (done.passed[0].session, done.plan.session)
    salts = [bytes.fromhex((kit / f"state/commitments/{each}.salt").read_text()) for each in sessions]
    said = [
        verify_certificate(folder / name).body["commitments"][2]
        for name in ("certificate-prepare.json", "certificate.json")
    ]
    names = ["grade", *sorted(NUMBERS)]
    content = hashlib.sha256(json.dumps([names, [len(west), 4]], separators=(",", ":")).encode())
    content.update(west[names[1:]].to_numpy().tobytes())
    for grade in west["grade"]:
        content.update(len(grade).to_bytes(8, "little") + grade.encode())
    assert opened((4, len(west)), content.digest(), salts[0]) == said[0]
    fills = json.loads((folder / "manifest.json").read_text())["facts"]["recipe"]["fills"]
    prepared = west[sorted(NUMBERS)].fillna(dict(zip(fills["names"], fills["values"], strict=True)))
    table = np.column_stack([prepared, pd.get_dummies(west["grade"]).astype(float)])
    header = np.array((*table.T.shape, 1), "<u8").tobytes()
    study = hashlib.sha256(header + np.ascontiguousarray(table).tobytes()).digest()
    assert opened(table.T.shape, study, salts[1]) == said[1]


def answers(federation):
    """What the parties have stored of earlier sessions."""
    return [path for kit in federation.kits.values() for path in (kit / "state").glob("answers/*")]


def test_a_pca_is_of_the_joint_table_with_its_gaps_filled_and_nothing_of_the_first_session_is_left(tmp_path):
    with hospitals(tmp_path, how="threads") as (federation, joint):
        federation.start(*ROLES)
        with federation.client() as client:
            sent = client.submit(record(None, MEANS, **COMPONENTS))
            assert sent.stage == "prepare"
            done = settled(client, sent.id, {"done", "broken"})
        assert done.state == "done", done.failures
        assert [each.stage for each in done.passed] == ["prepare"]
        assert done.passed[0].session != done.plan.session
        signed = verify_certificate(federation.folder("west", done.id) / "certificate-prepare.json")
        assert (signed.body["session"], signed.body["task"]) == (done.passed[0].session, "prepare")
        assert (signed.body["plan"], len(signed.signers)) == (done.passed[0].plan_digest, 4)
        expect_components(federation, done.id, joint)
        expect_commitments(federation, done, joint[310:])
        until(lambda: not answers(federation), "answers of the first session are left")
        for path in (federation.kits["csp/csp"] / "state").rglob("*"):
            assert not path.is_file() or b"high" not in path.read_bytes(), "a level of the grade"


def test_files_of_two_studies_of_the_same_parties_cannot_be_swapped(tmp_path):
    """Both are signed by the same keys: what belongs to which is what the roots in each certificate say."""
    with hospitals(tmp_path, how="threads") as (federation, _):
        federation.start(*ROLES)
        with federation.client() as client:
            asked = [{**MEANS, "drop": [*MEANS["drop"], *more]} for more in ((), ("mean area",))]
            jobs = [settled(client, client.submit(record(None, words, **COMPONENTS)).id, {"done"}) for words in asked]
        first, second = (federation.folder("west", job.id) for job in jobs)
        for folder in (first, second):
            assert verify_files(folder / "certificate.json").of == "user-3"
        for name in ("certificate-prepare.json", "manifest.json", "mean.npy"):
            verify_certificate(second / "certificate-prepare.json")  # it is a good one, of another study
            forged = tmp_path / f"forged-{name}"
            shutil.copytree(first, forged)
            shutil.copy(second / name, forged / name)
            with pytest.raises(NotSealed, match=f"{name} was altered"):
                verify_files(forged / "certificate.json")
        # A certificate that covers no file, signed by the same parties, does not stand for any.
        shutil.copytree(first, tmp_path / "uncovered")
        shutil.copy(first / "certificate-prepare.json", tmp_path / "uncovered" / "certificate.json")
        np.save(tmp_path / "uncovered" / "mean.npy", np.zeros(3))
        with pytest.raises(NotSealed, match="of another session than the results next to it"):
            verify_files(tmp_path / "uncovered" / "certificate.json")
        assert verify_files(first / "certificate-prepare.json") is None


def test_approvals_cover_all_sessions_and_are_spent_at_the_end_of_the_last(tmp_path):
    remembers = replace(Policy.permissive(), remember=True, least_count=5)
    with hospitals(tmp_path, how="threads", policy=remembers) as (federation, _):
        federation.start(*ROLES)
        with federation.client() as client:
            done = settled(client, client.submit(record(None, MEANS, **COMPONENTS)).id, {"done", "broken"})
        assert done.state == "done", done.failures
        said = json.loads((federation.kits["party/north"] / "approvals" / f"{done.id}.json").read_text())
        assert [(each["attempt"], each["stage"]) for each in said["attempts"]] == [(1, "prepare"), (1, "study")]
        assert said["finished"]
        studies = (federation.kits["party/north"] / "state" / "records" / "studies.jsonl").read_text().splitlines()
        found = [json.loads(line) for line in studies]
        assert [each["table"] for each in found if each["event"] == "study"] == [1, 1]  # one table, at both sessions


@pytest.mark.slow
def test_a_regression_by_a_formula_is_that_of_statsmodels_on_the_joint_table(tmp_path):
    """On processes, approved by a person who is shown both sessions."""
    with hospitals(tmp_path) as (federation, joint):
        federation.start("csp/csp", "party/north", "party/south")
        job = write_job(tmp_path, record(None, FORMULA, "lr"))
        at = ("--csp", federation.csp)
        id = answered("job", "submit", job, "--kit", federation.kits["researcher/res"], *at)["job"]
        shown = answered("job", "approve", id, "--kit", federation.kits["party/west"], "--yes", *at)
        assert "missing entries become the joint mean of their column" in shown["prepare"]
        assert [each["task"] for each in shown["sessions_before"]] == ["prepare"]
        watched = Process("job", "watch", id, "--kit", federation.kits["researcher/res"], "--csp", federation.csp)
        try:
            watched.said("recruiting, session 1 of 2, prepare")  # west has not enlisted
            federation.start("party/west")
            watched.said("session 2 of 2, study")
            assert watched.ended() == 0, "".join(watched.err)
        finally:
            watched.kill()
        table = joint.fillna(joint[NUMBERS].mean()).rename(columns=lambda name: name.replace(" ", "_"))
        expected = smf.ols("outcome ~ mean_radius + mean_texture + C(grade)", table).fit().params
        for name in PARTIES:
            folder = federation.folder(name, id)
            found = np.append(np.load(folder / "intercept.npy"), np.load(folder / "coefficients.npy"))
            assert_close(found, expected[TERMS].to_numpy(), STATISTIC_BAR)


@pytest.mark.slow
@pytest.mark.parametrize(
    "victim",
    [
        pytest.param(
            name, marks=pytest.mark.chaos("kill -9", f"{name} between two sessions of a job", "goes on; right")
        )
        for name in ("party/south", "csp/csp")
    ],
)
def test_a_role_killed_between_two_sessions_comes_back_and_the_job_goes_on(tmp_path, victim):
    with hospitals(tmp_path, how="threads", patience=30.0) as (federation, joint):
        if victim != "csp/csp":
            federation.start("csp/csp")
        process = federation.start_with_fault(victim, "dies-after:prepare")
        federation.start(*(name for name in ROLES if name not in (victim, "csp/csp")))
        with federation.client() as client:
            id = client.submit(record(None, MEANS, **COMPONENTS)).id
            assert process.wait(LONGEST) == -9, "the victim was to die"
            assert answers(federation)
            assert {path.stat().st_mode & 0o777 for path in answers(federation)} == {0o600}
            federation.start(victim)
            done = settled(client, id, {"done", "broken"})
        assert (done.state, done.attempt) == ("done", 1), done.failures
        expect_components(federation, id, joint)


@pytest.mark.slow
@pytest.mark.chaos("kill -9", "party/south in the first session of a job", "FSVD-501; resumed from that session, right")
def test_a_party_killed_within_the_first_session_breaks_the_attempt_and_the_next_begins_there(tmp_path):
    with hospitals(tmp_path, how="threads", patience=6.0) as (federation, joint):
        federation.start("csp/csp")
        process = federation.start_with_fault("party/south", "dies:SUMMING")
        federation.start("party/north", "party/west")
        with federation.client() as client:
            id = client.submit(record(None, MEANS, **COMPONENTS)).id
            assert process.wait(LONGEST) == -9
            federation.start("party/south")
            broken_everywhere(federation, client, id)
            until(lambda: not answers(federation), "answers of an attempt that is over are left")
            assert client.resume(id).stage == "prepare"
            done = settled(client, id, {"done", "broken"})
        assert (done.state, done.attempt) == ("done", 2), done.failures
        expect_components(federation, id, joint)


@pytest.mark.slow
def test_a_failure_in_the_last_session_begins_again_at_the_first_and_needs_no_new_approval(tmp_path):
    with hospitals(tmp_path, how="threads", patience=6.0) as (federation, joint):
        federation.start("csp/csp", "party/north", "party/west")
        process = federation.start_with_fault("party/south", "dies:WAITING")
        with federation.client() as client:
            id = client.submit(record(None, MEANS, **COMPONENTS)).id
            assert process.wait(LONGEST) == -9
            federation.start("party/south")
            broken_everywhere(federation, client, id)
            assert client.job(id).stage == "study"
            assert client.resume(id).stage == "prepare"
            done = settled(client, id, {"done", "broken"})
        assert (done.state, done.attempt) == ("done", 2), done.failures
        assert Site.at(federation.kits["party/south"]).history(done).startswith("approved")
        expect_components(federation, id, joint)


@pytest.mark.slow
def test_a_table_that_changes_between_two_sessions_is_refused_at_its_own_site(tmp_path):
    """A cell of a file corrected after the joint means were found: the study would be of another table than they."""
    with hospitals(tmp_path, how="threads", patience=30.0) as (federation, joint):
        federation.start("csp/csp")
        process = federation.start_with_fault("party/south", "dies-after:prepare")
        federation.start("party/north", "party/west")
        with federation.client() as client:
            id = client.submit(record(None, MEANS, **COMPONENTS)).id
            assert process.wait(LONGEST) == -9, "the victim was to die"
            south = joint[150:310].copy()
            south.iloc[3, south.columns.get_loc("mean radius")] += 0.5
            south[south.columns[::-1]].to_csv(tmp_path / "south.csv", index=False)
            federation.start("party/south")
            broken = settled(client, id, {"done", "broken"})
        assert (broken.state, broken.stage) == ("broken", "study")
        assert {failure.code for failure in broken.failures if failure.who == "party/south"} == {"FSVD-211"}


def test_tables_with_their_columns_in_other_orders_are_one_table_by_name(tmp_path):
    rng = np.random.default_rng(8)
    joint = pd.DataFrame(rng.normal(size=(240, 5)) @ rng.normal(size=(5, 5)), columns=["d", "b", "e", "a", "c"])
    with federation_of(tmp_path, tuple(PARTIES), how="threads") as federation:
        for place, name in enumerate(PARTIES):
            part = joint[place * 80 : place * 80 + 80]
            part[part.columns[::-1] if name == "south" else part.columns].to_csv(tmp_path / f"{name}.csv", index=False)
            lines = f'[data]\ndefault = "{tmp_path / name}.csv"\n'
            (federation.kits[f"party/{name}"] / "site.toml").write_text(lines)
        federation.start(*ROLES)
        party = [{"name": name} for name in PARTIES]
        with federation.client() as client:
            id = client.submit({"job": {"name": "orders", "task": "pca", **COMPONENTS}, "party": party}).id
            done = settled(client, id, {"done", "broken"})
        assert done.state == "done", done.failures
        for name in PARTIES:
            folder = federation.folder(name, id)
            assert json.loads((folder / "manifest.json").read_text())["features"] == sorted(joint.columns)
            assert_close(np.load(folder / "mean.npy").ravel(), joint[sorted(joint)].mean().to_numpy(), RESULT_BAR)


def test_columns_of_other_names_are_one_error_that_names_every_such_party_and_no_column(tmp_path):
    """Names are not sent: digests differ, and that is all the others hear."""
    with federation_of(tmp_path, tuple(PARTIES), how="threads") as federation:
        for name, columns in (("north", "age,bmi"), ("south", "age,secret"), ("west", "age,hidden")):
            (tmp_path / f"{name}.csv").write_text(columns + "\n" + "1.5,2\n" * 30)
            lines = f'[data]\ndefault = "{tmp_path / name}.csv"\n'
            (federation.kits[f"party/{name}"] / "site.toml").write_text(lines)
        federation.start(*ROLES)
        party = [{"name": name} for name in PARTIES]
        with federation.client() as client:
            id = client.submit({"job": {"name": "names", "task": "pca"}, "party": party}).id
            broken = settled(client, id, {"done", "broken"})
        (failure,) = broken.failures
        assert failure.code == "FSVD-101"
        assert "party south, west have columns of other names than party north" in failure.text
        assert "secret" not in broken.model_dump_json()


def test_one_command_approves_a_job_and_takes_part_in_all_its_sessions(tmp_path):
    """The third hospital runs no service; it is at both sessions, and its command ends with the job."""
    with hospitals(tmp_path, how="threads") as (federation, joint):
        federation.start("csp/csp", "party/north", "party/south")
        with federation.client() as client:
            id = client.submit(record(None, MEANS, **COMPONENTS)).id
            at = ("--kit", federation.kits["party/west"], "--csp", federation.csp, "--yes")
            enlisted = command("job", "approve", id, *at, "--enlist")
            assert enlisted.returncode == 0, enlisted.stdout + enlisted.stderr
            assert "enlisted for session 1 of 2, prepare; this party enlists for the other 1" in enlisted.stderr
            ran = command("job", "approve", id, *at, "--run")
            assert ran.returncode == 0, ran.stdout + ran.stderr
            assert settled(client, id, {"done", "broken"}).state == "done"
        assert f"results in {federation.folder('west', id)}" in ran.stderr
        expect_components(federation, id, joint)
