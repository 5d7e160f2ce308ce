"""``[prepare]`` of a job file: what is taken, what is refused and why, and studies on tables prepared so."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from tests.messy import COLUMNS, NUMBERS, PREPARE, messy_hospitals, numbers, record
from tests.tolerances import FITTED_BAR, RESULT_BAR, assert_close, assert_same_vectors, digits_lost

import fedsvd
from fedsvd.audit.subject import audited
from fedsvd.errors import ConfigError, ShapeError
from fedsvd.policy.rules import Policy
from fedsvd.studies.job_data import prepare
from fedsvd.studies.job_file import job_from, schema
from fedsvd.studies.jobs import run_job
from fedsvd.studies.resume import Resumable

DROPPED = {**PREPARE, "missing": "drop"}
FILLED = {**PREPARE, "missing": "constant", "constant": 2.5, "indicators": NUMBERS}


def refused(prepare, **job):
    with pytest.raises(ConfigError) as caught:
        job_from(record(None, prepare, **job), Path())
    assert caught.value.fix, "every refusal says what to do"
    return str(caught.value)


def prepared_by_pandas(joint, prepare):
    table = numbers(joint)
    if prepare["missing"] == "drop":
        return table.dropna()
    flags = table[NUMBERS].isna().astype(float).add_suffix("_missing")
    return pd.concat([table.fillna(prepare["constant"]), flags], axis=1)


def run(folder, prepare_words, **job):
    prepared = prepare(job_from(record(folder, prepare_words, **job), Path()))
    return prepared, run_job(prepared, policy=Policy.permissive())


@pytest.mark.parametrize("words", [DROPPED, FILLED], ids=["drop", "constant"])
def test_components_are_those_of_scikit_learn_on_the_table_that_pandas_prepares(tmp_path, words):
    joint = messy_hospitals(tmp_path)
    prepared, outcome = run(tmp_path, words, release=["components", "mean", "spectrum"])
    expected_table = prepared_by_pandas(joint, words)
    assert list(prepared.features[2]) == list(expected_table.columns)
    assert sum(party.table.shape[0] for party in prepared.parties) == len(expected_table)
    expected = PCA(svd_solver="full").fit(expected_table)
    found = outcome.parties[0]
    assert_close(found.sigma, expected.singular_values_, RESULT_BAR)
    assert_same_vectors(found.U.T, expected.components_, expected.singular_values_)


@pytest.mark.parametrize("words", [DROPPED, FILLED], ids=["drop", "constant"])
def test_a_regression_is_that_of_scikit_learn_on_the_table_that_pandas_prepares(tmp_path, words):
    joint = messy_hospitals(tmp_path)
    _, outcome = run(tmp_path, words, task="lr", label="outcome")
    table = prepared_by_pandas(joint, words)
    y = joint["outcome"][table.index]
    expected = LinearRegression().fit(table, y)
    found = outcome.parties[1]
    fitted = table.to_numpy() @ found.coefficients[0] + found.intercept[0]
    assert_close(fitted, expected.predict(table), FITTED_BAR, float(np.linalg.norm(y)))
    assert_close(found.coefficients[0], expected.coef_, digits_lost(6))


def test_the_same_words_in_python_give_the_same_components(tmp_path):
    joint = messy_hospitals(tmp_path)
    tables = [
        fedsvd.prepared(tmp_path / file, **PREPARE, id="patient") for file in ("north.csv", "south.csv", "west.xlsx")
    ]
    found = fedsvd.FederatedPCA(n_components=2).fit(tables)
    expected = PCA(svd_solver="full", n_components=2).fit(numbers(joint).dropna())
    assert_close(found.explained_variance_ratio_, expected.explained_variance_ratio_, RESULT_BAR)
    with pytest.raises(ConfigError, match="one table is given") as refusal:
        fedsvd.prepared(joint, missing="mean")
    assert "a list with every party's table" in refusal.value.fix
    with pytest.raises(ConfigError, match=r'constant is for missing="constant".*leave out \(constant='):
        fedsvd.prepared(joint, constant=1.0)


def test_columns_that_parties_lack_are_named_at_once_for_all_parties(tmp_path):
    messy_hospitals(tmp_path)
    words = {**DROPPED, "columns": [*COLUMNS, "mean rdius"], "rename": {}}
    with pytest.raises(ConfigError, match="2 problems") as refusal:
        prepare(job_from(record(tmp_path, words), Path()))
    text = str(refusal.value)
    assert text.count("'mean rdius'") == 2  # one of them of two parties
    assert "party west, " in text
    assert "'mean area', 'mean rdius'" in text


def test_a_new_name_that_no_party_has_is_a_misspelling(tmp_path):
    messy_hospitals(tmp_path)
    with pytest.raises(ConfigError, match="no party has a column 'mean aera'") as refusal:
        prepare(job_from(record(tmp_path, {**DROPPED, "rename": {"area": "mean aera"}}), Path()))
    assert "did you mean 'mean area'?" in str(refusal.value)


def test_without_a_list_of_columns_tables_in_different_orders_go_by_their_names(tmp_path):
    joint = messy_hospitals(tmp_path)
    words = {"drop": ["ward", "outcome"], "missing": "drop", "ordinal": PREPARE["ordinal"], "rename": PREPARE["rename"]}
    prepared = prepare(job_from(record(tmp_path, words), Path()))
    expected = numbers(joint)[sorted(COLUMNS)].dropna().to_numpy()
    assert set(prepared.features) == {tuple(sorted(COLUMNS))}
    tables = [party.table for party in prepared.parties]
    np.testing.assert_array_equal(np.vstack([table.rows(0, table.shape[0]) for table in tables]), expected)
    assert any("order of their names" in line for line in prepared.prepare)


def test_columns_that_a_party_lacks_are_named_for_all_parties_at_once(tmp_path):
    messy_hospitals(tmp_path)
    words = {"missing": "drop", "ordinal": {**PREPARE["ordinal"], "ward": ["east wing", "west wing"]}}
    with pytest.raises(ShapeError, match="only party west has 'Fläche'") as refusal:
        prepare(job_from(record(tmp_path, words), Path()))
    assert "party west has no column 'mean area'" in refusal.value.fault
    assert "call them alike (rename)" in refusal.value.fix


def test_where_columns_are_split_each_party_prepares_its_own(tmp_path):
    rng = np.random.default_rng(4)
    a = pd.DataFrame({"id": range(50), "b": rng.normal(size=50), "a": rng.normal(size=50), "note": "text"})
    b = pd.DataFrame({"d": rng.normal(size=50), "id": range(50), "level": rng.choice(["no", "yes"], 50)})
    a.loc[3, "a"] = np.nan
    b.loc[7, "d"] = np.nan
    a.to_csv(tmp_path / "a.csv", index=False)
    b.to_csv(tmp_path / "b.csv", index=False)
    words = {"columns": ["a", "b", "level", "d"], "missing": "constant", "ordinal": {"level": ["no", "yes"]}}
    job = {"name": "j", "task": "svd", "split": "vertical", "id": "id"}
    party = [{"name": name, "data": str(tmp_path / f"{name}.csv")} for name in "ab"]
    prepared = prepare(job_from({"job": job, "prepare": words, "party": party}, Path()))
    outcome = run_job(prepared, policy=Policy.permissive())
    assert prepared.features == (("a", "b"), ("level", "d"))
    joint = np.column_stack([a[["a", "b"]], b["level"] == "yes", b["d"]]).astype(float)
    assert_close(outcome.parties[0].sigma, np.linalg.svd(np.nan_to_num(joint), compute_uv=False), RESULT_BAR)
    with pytest.raises(ConfigError, match="no party has a column 'levle'"):
        prepare(job_from({"job": job, "prepare": {**words, "drop": ["levle"]}, "party": party}, Path()))


def test_a_column_of_ids_that_is_left_out_need_not_be_named(tmp_path):
    for name in "ab":
        table = pd.DataFrame({"key": [f"k{row}" for row in range(30)], name: np.arange(30.0) ** 2})
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    job = {"name": "j", "task": "svd", "split": "vertical"}
    party = [{"name": name, "data": str(tmp_path / f"{name}.csv")} for name in "ab"]
    with pytest.raises(ConfigError, match="as row ids are"):
        prepare(job_from({"job": job, "prepare": {"missing": "constant"}, "party": party}, Path()))
    for words in ({"drop": ["key"]}, {"columns": ["b", "a"]}):
        assert prepare(job_from({"job": job, "prepare": words, "party": party}, Path())).features == (("a",), ("b",))


def test_an_audit_prepares_its_table_as_the_study_would(tmp_path):
    joint = messy_hospitals(tmp_path)
    job = job_from(record(None, PREPARE), Path())
    subject = audited(fedsvd.open_source(tmp_path / "west.xlsx"), job, 240.0)
    expected = numbers(joint)[310:].dropna()
    assert subject.shape == expected.shape
    found = np.concatenate([*subject.tables, subject.strangers])
    assert_close(np.sort(found, axis=0), np.sort(expected.to_numpy(), axis=0), RESULT_BAR)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"missing": "median"}, ["[prepare] missing", "error, mean, constant, drop, low-rank"]),
        ({"centre": "both"}, ["[prepare] centre", "joint, site, none"]),
        ({"soft_impute": True}, ["soft_impute is no word of [prepare]"]),
        ({"categories": {"sex": {"order": ["f", "m"], "reference": "f"}}}, ["an order makes one column"]),
        ({"categories": {"sex": {"drop_first": True, "reference": "f"}}}, ["use one of them"]),
        ({"categories": ["sex"], "ordinal": {"sex": ["f"]}}, ["under ordinal and under categories"]),
        ({"formula": "~ a", "columns": ["a"]}, ["a formula names its columns"]),
        ({"formula": "~ a", "missing": "mean", "indicators": True}, ["a formula names its columns"]),
        ({"formula": "~ scale(a)"}, ["looks at other rows"]),
        ({"formula": "y ~ a"}, ["task 'pca' has no outcome"]),
        ({"preserve": ["age"]}, ["ComBat is not asked for"]),
        ({"combat": True, "preserve": ["age"], "covariates": ["age"]}, ["name it once"]),
        ({"minimum": 0}, ["[prepare] minimum"]),
        ({"missing": "mean", "rounds": 9}, ["rounds is for missing"]),
        ({"missing": "low-rank", "penalty": 1.5}, ["[prepare] penalty"]),
        ({"missing": "low-rank", "formula": "~ a"}, ["leave the formula out"]),
        ({"colums": ["a"]}, ["[prepare] colums", "did you mean 'columns'?"]),
        ({"constant": 1.0}, ["constant is for missing"]),
        ({"missing": "drop", "indicators": True}, ["indicators are for missing"]),
        ({"missing": "constant", "constant": float("nan")}, ["[prepare] constant"]),
        ({"ordinal": {"grade": ["low", "low"]}}, ["'grade' is named twice"]),
        ({"ordinal": {"grade": []}}, ["[prepare] ordinal"]),
        ({"rename": {"a": 3}}, ["[prepare] rename"]),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_reason(words, said):
    text = refused(words)
    for word in said:
        assert word in text


def test_rows_are_not_dropped_where_columns_are_split():
    assert "each party would leave out other rows" in refused({"missing": "drop"}, task="svd", split="vertical")


@pytest.mark.parametrize("words", [{"formula": "~ a"}, {"combat": True}, {"covariates": ["a"]}])
def test_what_reads_columns_of_several_parties_is_refused_where_columns_are_split(words):
    assert "reads columns of several parties" in refused(words, task="svd", split="vertical")


def test_a_formula_says_what_is_predicted_and_nothing_else_does():
    assert "leave it out (label)" in refused({"formula": "outcome ~ a"}, task="lr", label="outcome")
    assert "the formula has no outcome" in refused({"formula": "~ a"}, task="lr")
    assert "is a category" in refused({"formula": "C(outcome) ~ a"}, task="lr")
    assert "the formula has no intercept" in refused({"formula": "outcome ~ a + 0"}, task="lr")
    job = job_from(record(None, {"formula": "log(outcome) ~ a + C(b)"}, task="lr"), Path())
    assert job.targets == ("log(outcome)",)
    assert job_from(record(None, {"formula": "outcome ~ a + 0"}, task="lr", intercept=False), Path()).prepare.joint


def test_every_joint_step_is_described():
    words = {
        "missing": "mean",
        "indicators": True,
        "categories": {
            "sex": {"reference": "f", "missing": "unknown"},
            "ward": {},
            "grade": {"order": ["low", "high"]},
        },
        "combat": True,
        "preserve": ["age"],
        "covariates": ["weight"],
        "centre": "joint",
        "scale": "site",
        "minimum": 7,
    }
    text = "\n".join(job_from(record(None, words), Path()).prepare.description())
    for said in (
        "joint mean of their column",
        "every column with a gap at some party",
        "'sex' becomes indicators of its levels less 'f'; a missing entry is the level 'unknown'",
        "'grade' becomes numbers: 'low' is 0, 'high' is 1",
        "fewer than 7 records, or at one party alone, become 'other'",
        "ComBat, preserving 'age'",
        "partialled out of all other columns: 'weight'",
        "the means of all parties together",
        "the deviations of each party by itself",
    ):
        assert said in text


def test_a_section_that_is_empty_changes_nothing():
    job = job_from(record(None, {}), Path())
    assert job.prepare.asks_nothing
    assert job.prepare.description() == []


def test_the_schema_knows_the_section():
    keys = schema()["$defs"]["PrepareSection"]["properties"]
    at_home = {"columns", "drop", "rename", "missing", "constant", "indicators", "ordinal"}
    together = {
        "penalty",
        "rounds",
        "rank",
        "categories",
        "formula",
        "combat",
        "preserve",
        "covariates",
        "centre",
        "scale",
    }
    assert set(keys) == at_home | together | {"minimum", "most_levels", "view"}


def test_another_preparation_does_not_go_on_from_what_was_compressed_before(tmp_path):
    messy_hospitals(tmp_path)
    resumable = Resumable(tmp_path / "out")
    jobs = [job_from(record(tmp_path, words), Path()) for words in (DROPPED, FILLED)]
    first, second = (resumable.path(job, job.parties[0]) for job in jobs)
    assert first != second
