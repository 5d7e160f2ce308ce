"""``fedsvd pca --components RULE``, ``fedsvd cca`` and ``fedsvd pcr``: options, job files, plans and what is shown."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA
from tests.studies import FEATURES
from tests.tolerances import VALUES_BAR, assert_close

from fedsvd.studies.job_file import job_from, read_job, schema, study_of
from fedsvd.studies.submitted import submitted_file


@pytest.mark.parametrize("rule", ["0.9", "mle", "gavish-donoho", "parallel"])
def test_a_rule_is_an_option_and_the_answer_says_what_it_took(rule, fedsvd, by_rows):
    words = ["pca", *by_rows.options(), "--id", "patient", "--components", rule, "--out", "o", "-q"]
    record = fedsvd(*words, "--format", "json").json
    assert record["choice"]["rule"] == rule
    assert record["released"] == ["components", "mean", "own part", "spectrum"]
    count = record["choice"]["count"]
    assert np.load("o/components.npy").shape[0] == count
    D = by_rows.joint.drop(columns="patient").to_numpy()
    if rule in ("0.9", "mle"):
        assert count == PCA(float(rule) if rule == "0.9" else rule, svd_solver="full").fit(D).n_components_
    said = fedsvd(*words, "--overwrite")
    assert said.code == 0
    assert "taken" in said.out


@pytest.mark.parametrize("value", [0.95, "mle", "parallel", "gavish-donoho", 3])
def test_a_job_file_says_the_same_and_survives_being_submitted(value, by_rows, fedsvd):
    job = read_job(by_rows.job(task="pca", components=value, id="patient"))
    again = job_from(submitted_file(job), Path())
    study = study_of(again)
    assert (study.components, study.components_by) == ((3, "") if value == 3 else (None, str(value)))
    assert ("spectrum" in study.release) == (value != 3)
    record = fedsvd("plan", by_rows.folder / "job.toml", "--format", "json").json
    taken = [line for line in record["learns"] if "as many as the rule says" in line]
    assert len(taken) == (value != 3)
    assert ("spectrum" in record["released"]) == (value != 3)


@pytest.mark.parametrize("value", [0, 1.0, 1.5, -0.1, "kaiser", True, "", [3]])
def test_what_is_no_number_of_components_is_refused_in_one_line(value, by_rows, fedsvd):
    said = fedsvd("plan", by_rows.job(task="pca", components=value))
    assert said.code == 1
    assert "[job] components" in said.err


def test_a_rule_is_for_principal_components_alone(by_rows, fedsvd):
    said = fedsvd("plan", by_rows.job(task="svd", components=0.9))
    assert said.code == 1
    assert "takes a number of components, no rule" in said.err
    said = fedsvd("plan", by_rows.job(task="pcr", components="parallel", label="outcome"))
    assert "parallel analysis is of a PCA" in said.err
    said = fedsvd("plan", by_rows.job(task="pcr", label="outcome"))
    assert "needs a number of components" in said.err


def test_the_schema_of_job_files_knows_numbers_shares_and_rules():
    section = json.dumps(schema()["$defs"]["StudySection"]["properties"]["components"])
    assert "exclusiveMaximum" in section
    assert "gavish-donoho" in section


def test_two_tables_are_correlated_by_one_command(fedsvd, by_columns):
    options = by_columns.options()[:4]  # bank and shop
    words = ["cca", *options, "--id", "patient", "--sort-by-id", "--out", "o", "-q"]
    said = fedsvd(*words)
    assert said.code == 0, said.err
    assert "correlation" in said.out
    assert "wilks" in said.out
    record = fedsvd(*words, "--overwrite", "--format", "json").json
    tables = [by_columns.joint[names].to_numpy() for names in (FEATURES[:2], FEATURES[2:4])]
    Q = [np.linalg.qr(table - table.mean(axis=0))[0] for table in tables]
    rho = np.linalg.svd(Q[0].T @ Q[1], compute_uv=False)
    assert_close(np.load("o/correlations.npy"), rho, VALUES_BAR)
    assert_close(record["wilks"]["wilks"][0], np.prod(1 - rho**2), VALUES_BAR)
    assert record["split"] == "vertical"
    said = fedsvd("predict", "o", "--party", by_columns.folder / "bank.csv")
    assert "canonical correlations are not applied" in said.err


def test_a_regression_on_components_predicts_new_tables(fedsvd, by_rows):
    words = ["pcr", *by_rows.options(), "--id", "patient", "--label", "outcome", "--components", "3"]
    assert fedsvd(*words, "--out", "o", "-q").code == 0
    record = fedsvd("predict", "o", "--party", by_rows.folder / "north.csv", "--format", "json").json
    (found,) = record["parties"].values()
    assert found["score"]["outcome"]["r2"] > 0.5


@pytest.mark.parametrize("task", ["cca", "pcr"])
def test_init_writes_a_job_of_each_new_task(task, fedsvd, tmp_path):
    assert fedsvd("init", tmp_path, "--task", task).code == 0
    job = read_job(tmp_path / "job.toml")
    assert job.study.task == task
    assert job.study.split == ("vertical" if task == "cca" else "horizontal")


def test_a_search_that_auto_chose_and_that_ended_is_told_as_a_notice_and_in_every_file(fedsvd, tmp_path, monkeypatch):
    """No path of ours on the screen, and no scheme is said to have been asked for."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fedsvd.studies.planning.pays", lambda *shapes: True)
    monkeypatch.setattr("fedsvd.roles.user.by_steps.most_directions", lambda plan: 12)
    X = np.random.default_rng(8).standard_normal((240, 40))
    for name, part in zip("abc", np.array_split(X, 3), strict=True):
        np.save(f"{name}.npy", part)
    words = ["pca", *(word for name in "abc" for word in ("--party", f"{name}={name}.npy")), "--components", 2]
    said = fedsvd(*words, "--release", "spectrum", "--out", "o", "-q", "--format", "json")
    assert "Method: the search by steps ended without the components: 12 directions" in said.err
    assert ".py" not in said.err
    assert "Warning" not in said.err
    (notice,) = [text for text in said.json["notices"] if "begins again by sums" in text]
    assert "12 directions" in notice
    s = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)[:2]
    assert_close(np.load("o/singular_values.npy"), s, VALUES_BAR, s[0])
    told = "ended without the components, and the study began again by sums"
    files = [Path("o", name).read_text(encoding="utf-8") for name in ("manifest.json", "certificate.json")]
    for text in (said.json["why"], *files, Path("o/report.html").read_text(encoding="utf-8")):
        assert told in text
        assert "as asked for" not in text
