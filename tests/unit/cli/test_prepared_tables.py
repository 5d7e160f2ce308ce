"""Messy files to a result by one command; what was done to them is for their owner alone."""

import json

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from tests.messy import GRADES, NUMBERS, PARTIES, PREPARE, messy_hospitals, numbers, record, write_job
from tests.mixed_data import RECORDED, sites
from tests.tolerances import RESULT_BAR, SEVEN_DIGITS, STATISTIC_BAR, assert_close, digits_lost

from fedsvd import load, prepared
from fedsvd.cli.tasks import prepare_section
from fedsvd.errors import ConfigError

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
    assert (
        f'"rows_dropped": {report["rows_dropped"]}' not in (results / "parties" / "north" / "manifest.json").read_text()
    )


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
    assert "What is done to every party's table first" in fedsvd("plan", job).out


def test_a_constant_that_is_not_used_is_refused(fedsvd, here):
    messy_hospitals(here)
    error = fedsvd("pca", *parties("north", "south"), *OPTIONS, "--constant", 1).json["error"]
    assert "--missing constant" in error["fix"]


def test_gaps_are_refused_by_default_with_the_counts_of_every_party(fedsvd, here):
    messy_hospitals(here)
    error = fedsvd("pca", *parties("north", "south"), *OPTIONS).json["error"]
    assert error["code"] == "FSVD-201"
    assert "party north, north.csv" in error["fault"] + str(error)
    assert "mean texture (" in str(error)


def test_what_a_job_file_says_of_preparation_is_said_on_the_command_line_too(tmp_path):
    given = {
        "rename": ["Fläche=mean area", "a=b"],
        "ordinal": ['grade=low,mid,"very, very high"'],
        "indicators": False,
        "indicators_for": ["dose,age", "size"],
        "missing": "constant",
        "drop": None,
    }
    assert prepare_section(given) == {
        "rename": {"Fläche": "mean area", "a": "b"},
        "ordinal": {"grade": ["low", "mid", "very, very high"]},
        "indicators": ["dose", "age", "size"],
        "missing": "constant",
    }
    assert prepare_section({"indicators": True}) == {"indicators": True}
    with pytest.raises(ConfigError, match="leave one of them out"):
        prepare_section({"indicators": True, "indicators_for": ["dose"]})
    with pytest.raises(ConfigError, match="--rename 'dose' is not OLD=NEW"):
        prepare_section({"rename": ["dose"]})


MEANS = ("--drop", "ward", "--rename", "Fläche=mean area", "--categories", "grade", "--missing", "mean")
ONE = ("--id", "patient", "--quiet", "--format", "json")


def new_rows(here, joint):
    """Rows that no party had, as one hospital writes them, with gaps; and the same prepared by the joint numbers."""
    fresh = joint[20:60].copy()
    fresh.loc[fresh.index[3], "mean area"] = np.nan
    fresh.assign(note="text that no study knows").to_csv(here / "new.csv", index=False)
    filled = fresh[sorted(NUMBERS)].fillna(joint[NUMBERS].mean())
    grades = pd.get_dummies(pd.Categorical(fresh["grade"], sorted(GRADES))).astype(float)
    return fresh, np.hstack((filled.to_numpy(), grades.to_numpy()))


def test_scores_of_new_rows_are_those_of_rows_prepared_by_the_joint_numbers(fedsvd, here):
    joint = messy_hospitals(here)
    said = fedsvd("pca", *parties(*PARTIES), *MEANS, *ONE, "--components", "2", "--drop", "outcome")
    assert said.code == 0, said.out + said.err
    fresh, prepared_rows = new_rows(here, joint)
    for folder in ("results/pca", "results/pca/parties/west"):
        pca = load(here / folder)
        expected = (prepared_rows - pca.mean_) @ pca.components_.T
        scores = fedsvd("predict", folder, "--party", "new.csv", "--format", "json")
        assert scores.code == 0, scores.out + scores.err
        values = scores.json["parties"]["new"]["values"]
        found = np.column_stack([column for name, column in values.items() if name != "id"])
        assert_close(found, expected, RESULT_BAR)
        assert values["id"] == fresh["patient"].tolist()
        assert_close(pca.transform(here / "new.csv"), expected, RESULT_BAR)


def test_new_rows_without_the_outcome_are_predicted_by_the_formula_of_the_study(fedsvd, here):
    joint = messy_hospitals(here)
    formula = "outcome ~ `mean radius` + `mean area` + C(grade)"
    words = ("--rename", "Fläche=mean area", "--missing", "mean", "--formula", formula)
    said = fedsvd("lr", *parties(*PARTIES), *words, *ONE)
    assert said.code == 0, said.out + said.err
    fresh, _ = new_rows(here, joint)
    table = joint.fillna(joint[NUMBERS].mean())
    model = smf.ols("outcome ~ Q('mean radius') + Q('mean area') + C(grade)", table)
    expected = model.fit().predict(fresh.fillna(joint[NUMBERS].mean())).to_numpy()
    fresh.drop(columns="outcome").to_csv(here / "blind.csv", index=False)
    for file, scored in (("new.csv", True), ("blind.csv", False)):
        answer = fedsvd("predict", "results/lr", "--party", file, "--format", "json").json["parties"]
        (found,) = answer.values()
        assert_close(np.array(found["values"]["outcome"]), expected, STATISTIC_BAR)
        assert ("score" in found) is scored
        assert_close(load(here / "results" / "lr").predict(here / file), expected, STATISTIC_BAR)


def test_new_rows_of_a_study_that_removed_site_effects_are_prepared_as_their_site(fedsvd, here):
    joint = messy_hospitals(here)
    words = ("--columns", "mean radius,mean texture", "--missing", "mean", "--centre", "site", "--scale", "site")
    said = fedsvd("pca", *parties("north", "south"), *words, *ONE, "--components", "1")
    assert said.code == 0, said.out + said.err
    joint[20:60].to_csv(here / "new.csv", index=False)
    refused = fedsvd("predict", "results/pca", "--party", "new.csv", "--format", "json")
    assert refused.code == 1
    assert "results/JOB/parties/NAME" in refused.json["error"]["fix"]
    scores = fedsvd("predict", "results/pca/parties/south", "--party", "new.csv", "--format", "json")
    columns = joint[:310][["mean radius", "mean texture"]]
    south = columns[150:].fillna(columns.mean())
    rows = (columns[20:60].fillna(columns.mean()) - south.mean()) / south.std(ddof=0)
    pca = load(here / "results/pca/parties/south")
    expected = (rows.to_numpy() - pca.mean_) @ pca.components_.T
    values = scores.json["parties"]["new"]["values"]
    found = np.column_stack([column for name, column in values.items() if name != "id"])
    assert_close(found, expected, RESULT_BAR)


def test_a_column_in_another_unit_at_one_site_is_pointed_out_to_that_site(fedsvd, here):
    joint = messy_hospitals(here)
    for name, rows, factor in (("a", joint[:200], 1.0), ("b", joint[200:], 1e4)):
        rows[NUMBERS].assign(**{"mean area": rows["mean area"] * factor}).to_csv(here / f"{name}.csv", index=False)
    said = fedsvd("pca", "--party", "a.csv", "--party", "b.csv", "--missing", "mean", "--components", "1")
    assert said.code == 0, said.out + said.err
    told = [line for line in said.err.splitlines() if "the mean of column 'mean area' here is " in line]
    assert len(told) == 2
    assert "b: " in told[1]
    assert "the mean of column 'mean area' here is " in told[1]


@pytest.mark.parametrize("words", [("--columns", "Days"), ("--missing", "drop")])
def test_a_random_slope_stays_a_feature_of_a_prepared_table(fedsvd, here, words):
    """lme4's ``Reaction ~ Days + (Days | id)``: the fixed effect of Days was left out without a word."""
    named = [f"{place}.csv" for place in range(3)]
    for name, own in zip(named, sites("sleep2"), strict=True):
        own.to_csv(name, index=False)
    asked = ("--label", "Reaction", "--subject", "id", "--slope", "Days", "--digits", "more", "--quiet")
    said = fedsvd("mixed", *(word for name in named for word in ("--party", name)), *asked, *words)
    assert said.code == 0, said.out + said.err
    expected = RECORDED["studies"]["sleep2"]["reml"]
    found = pd.read_csv(here / "results" / "mixed" / "coefficients.csv")
    assert found["term"].tolist() == ["(intercept)", "Days"]
    assert np.abs((found["coef"] - expected["coef"]) / expected["se"]).max() < SEVEN_DIGITS
