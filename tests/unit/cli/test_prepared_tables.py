"""Messy files to a result by one command; what was done to them is for their owner alone."""

import json

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from tests.messy import NUMBERS, PARTIES, PREPARE, messy_hospitals, numbers, record, write_job
from tests.tolerances import RESULT_BAR, assert_close, digits_lost

from fedsvd import load, prepared

OPTIONS = ("--columns", ", ".join(NUMBERS), "--id", "patient", "--quiet", "--format", "json")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def manifest(folder):
    return json.loads((folder / "manifest.json").read_text())


def parties(*names):
    return [word for name in names for word in ("--party", PARTIES[name])]


def test_components_of_messy_files_by_one_command_are_those_of_scikit_learn(fedsvd, here):
    joint = messy_hospitals(here)[:310]
    said = fedsvd("pca", *parties("north", "south"), *OPTIONS, "--missing", "drop", "--release", "spectrum")
    assert said.code == 0, said.out + said.err
    expected = PCA(svd_solver="full").fit(joint[NUMBERS].dropna())
    results = here / "results" / "pca"
    assert_close(np.load(results / "explained_variance.npy"), expected.explained_variance_, RESULT_BAR)
    assert_close(np.load(results / "mean.npy"), expected.mean_, RESULT_BAR)
    ids = np.load(results / "parties" / "south" / "row_ids.npy").tolist()
    assert ids == joint[150:].dropna(subset=NUMBERS)["patient"].tolist()


def test_coefficients_with_a_constant_in_the_gaps_are_those_of_scikit_learn(fedsvd, here):
    joint = messy_hospitals(here)[:310]
    said = fedsvd(
        "lr", *parties("north", "south"), *OPTIONS, "--label", "outcome", "--missing", "constant", "--constant", 9
    )
    assert said.code == 0, said.out + said.err
    expected = LinearRegression().fit(joint[NUMBERS].fillna(9.0), joint["outcome"])
    found = np.load(here / "results" / "lr" / "coefficients.npy")
    assert_close(found[0], expected.coef_, digits_lost(6))


def test_a_column_is_left_out_by_name_also_one_with_a_comma(fedsvd, here):
    joint = messy_hospitals(here).rename(columns={"ward": "ward, level"})
    for name, rows in (("a", joint[:200]), ("b", joint[200:])):
        rows.to_csv(here / f"{name}.csv", index=False)
    files = ("--party", "a.csv", "--party", "b.csv", "--id", "patient", "--quiet", "--format", "json")
    said = fedsvd("pca", *files, "--drop", '"ward, level",grade', "--missing", "drop")
    assert said.code == 0, said.out + said.err
    assert manifest(here / "results" / "pca")["features"] == [*NUMBERS, "outcome"]


def test_what_was_filled_and_left_out_stands_in_the_owners_folder_and_nowhere_else(fedsvd, here):
    joint = messy_hospitals(here)
    job = write_job(here, record(here, PREPARE))
    said = fedsvd("run", job, "--env", "sim")
    assert said.code == 0, said.out + said.err
    gaps = numbers(joint)[310:].isna()
    results = here / "results" / "messy"
    report = manifest(results / "parties" / "west")["facts"]["prepared"]
    assert report["rows_dropped"] == int(gaps.any(axis=1).sum())
    assert report["missing_by_column"] == {name: int(gaps[name].sum()) for name in NUMBERS}
    assert report["columns_left_out"] == ["outcome", "ward"]
    assert f"west: {report['rows_dropped']} of 170 rows were left out" in said.err
    for folder in (results, results / "roles" / "csp"):
        for path in folder.glob("*.json"):
            assert "rows_dropped" not in path.read_text()
            assert "missing_by_column" not in path.read_text()
    assert "Fläche" not in (results / "parties" / "north" / "manifest.json").read_text()


def test_a_model_of_prepared_tables_predicts_tables_that_are_prepared_alike_and_refuses_others(fedsvd, here):
    joint = messy_hospitals(here)
    job = write_job(here, record(here, PREPARE, task="lr", label="outcome"))
    assert fedsvd("run", job, "--env", "sim", "--quiet").code == 0
    model = load(here / "results" / "messy" / "parties" / "north")
    new = prepared(here / "west.xlsx", **PREPARE, label="outcome", id="patient")
    complete = numbers(joint).dropna()
    expected = LinearRegression().fit(complete, joint["outcome"][complete.index])
    assert_close(np.ravel(model.predict(new)), expected.predict(numbers(joint)[310:].dropna()), digits_lost(6))
    refused = fedsvd("predict", here / "results" / "messy", "--party", here / "north.csv")
    assert refused.code == 1
    assert "FSVD-20" in refused.err


def test_a_plan_says_what_every_party_will_do(fedsvd, here):
    messy_hospitals(here)
    words = {**PREPARE, "missing": "constant", "constant": 1.5, "indicators": True, "drop": ["ward"]}
    job = write_job(here, record(here, words))
    shown = fedsvd("plan", job, "--format", "json").json["prepare"]
    assert shown == [
        "renamed: 'Fläche' to 'mean area'",
        "columns, in this order: 'mean radius', 'mean texture', 'mean area', 'grade'",
        "left out: 'ward'",
        "column 'grade' becomes numbers: 'low' is 0, 'mid' is 1, 'high' is 2",
        "missing entries become 1.5",
        "NAME_missing says where an entry was missing, for every column",
    ]
    assert "at home" in fedsvd("plan", job).out


def test_a_constant_that_is_not_used_is_refused(fedsvd, here):
    messy_hospitals(here)
    error = fedsvd("pca", *parties("north", "south"), *OPTIONS, "--constant", 1).json["error"]
    assert 'missing = "constant"' in error["fix"]


def test_gaps_are_refused_by_default_with_the_counts_of_every_party(fedsvd, here):
    messy_hospitals(here)
    error = fedsvd("pca", *parties("north", "south"), *OPTIONS).json["error"]
    assert error["code"] == "FSVD-201"
    assert "party north, north.csv" in error["fault"] + str(error)
    assert "mean texture (" in str(error)
