"""``fedsvd look``: types, gaps, suspicious columns and refusals of one's own files, all at once."""

import numpy as np
import openpyxl
import pandas as pd
import pytest


@pytest.fixture
def messy(tmp_path):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "patient_id": np.arange(100, 150),
            "ward": rng.choice(["north", "south"], 50),
            "seen": pd.date_range("2024-01-01", periods=50).astype(str),
            "weight": rng.normal(70, 10, 50),
            "smoker": rng.integers(0, 2, 50),
            "unit": 1,
        }
    )
    frame.loc[[3, 7, 11], "weight"] = np.nan
    frame.loc[5, "ward"] = None
    frame.to_csv(tmp_path / "a.csv", index=False)
    return tmp_path / "a.csv", frame


def test_types_and_gaps_are_those_of_pandas(fedsvd, messy):
    path, frame = messy
    said = fedsvd("look", path, "--json")
    (file,) = said.json["files"]
    assert said.code == 1
    assert file["rows"] == len(frame)
    assert {c["name"]: c["missing"] for c in file["columns"]} == frame.isna().sum().to_dict()
    assert {c["name"]: c["kind"] for c in file["columns"]} == {
        "patient_id": "whole number",
        "ward": "text",
        "seen": "date",
        "weight": "number",
        "smoker": "0 or 1",
        "unit": "0 or 1",
    }
    assert {c["name"]: c["levels"] for c in file["columns"]}["ward"] == frame["ward"].nunique()


def test_all_problems_are_said_at_once_and_no_entry_is_shown(fedsvd, messy):
    path, _ = messy
    said = fedsvd("look", path)
    assert said.code == 1
    for text in (
        "'ward' holds text, not numbers",
        "'seen' holds text: dates",
        "3 entries are missing, in weight (3)",
        "'patient_id' numbers the rows",
    ):
        assert text in said.out.replace("\n", " ")
    assert "'unit' holds the same value in every row" in said.out
    assert "north" not in said.out
    assert "3 to put right before a study." in said.out


def test_a_table_that_a_study_would_take_has_exit_code_0(fedsvd, tmp_path):
    pd.DataFrame(np.random.default_rng(1).normal(size=(30, 3)), columns=list("abc")).to_csv(
        tmp_path / "a.csv", index=False
    )
    said = fedsvd("look", tmp_path / "a.csv", "--format", "json")
    assert (said.code, said.json["problems"]) == (0, 0)
    assert "A study would take all of this." in fedsvd("look", tmp_path / "a.csv").out


def test_columns_that_are_left_out_are_not_judged(fedsvd, messy):
    path, _ = messy
    drop = [word for name in ("patient_id", "ward", "seen", "weight", "unit") for word in ("--drop", name)]
    said = fedsvd("look", path, "--json", *drop)
    assert (said.code, [c["name"] for c in said.json["files"][0]["columns"]]) == (0, ["smoker"])


def test_files_are_compared_by_names_kinds_order_and_scale(fedsvd, tmp_path):
    rng = np.random.default_rng(2)
    a = pd.DataFrame({"kg": rng.uniform(50, 90, 30), "age": rng.uniform(20, 80, 30), "x": rng.normal(size=30)})
    a.to_csv(tmp_path / "a.csv", index=False)
    workbook = openpyxl.Workbook()
    workbook.active.append(["age", "kg", "x", "more"])
    for row in a.itertuples():
        workbook.active.append([row.age, row.kg * 1000, "high", 1.5])
    workbook.save(tmp_path / "b.xlsx")
    said = fedsvd("look", tmp_path / "a.csv", tmp_path / "b.xlsx", "--json")
    text = " ".join(said.json["differences"])
    assert f"{tmp_path}/a.csv has no column 'more'" in text
    assert f"column 'x' is text in {tmp_path}/b.xlsx" in text
    assert f"the mean of column 'kg' of {tmp_path}/b.xlsx is 1,000 times that of {tmp_path}/a.csv" in text
    assert (
        f"at one of them? (1,000: a thousandfold unit?) If at {tmp_path}/b.xlsx, multiply it by 0.001 (kg = {{ factor"
        in text
    )
    assert f"; if at {tmp_path}/a.csv, multiply it by 1,000 (kg = {{ factor = 1000.0 }}" in text
    assert "kg to g" not in text  # the column is not called a weight
    assert "'age' of" not in text
    assert "different orders" in text


def test_a_file_that_cannot_be_read_does_not_hide_the_others(fedsvd, messy, tmp_path):
    path, _ = messy
    said = fedsvd("look", tmp_path / "none.csv", path, tmp_path / "t.docx", "--json")
    assert said.code == 1
    assert [each["code"] for each in said.json["unreadable"]] == ["FSVD-206", "FSVD-206"]
    assert len(said.json["files"]) == 1


def test_infinite_and_empty_columns_are_found(fedsvd, tmp_path):
    X = np.random.default_rng(1).normal(size=(30, 3))
    X[4, 0], X[:, 1] = np.inf, np.nan
    np.save(tmp_path / "a.npy", X)
    (file,) = fedsvd("look", tmp_path / "a.npy", "--json").json["files"]
    assert [(c["kind"], c["missing"], c["infinite"]) for c in file["columns"]] == [
        ("number", 0, 1),
        ("empty", 30, 0),
        ("number", 0, 0),
    ]
    assert "column 'x0' holds infinite entries" in file["refused"]
    assert "column 'x1' holds nothing at all" in file["suspicious"]


JOB = """
[job]
name = "wards"
task = "lr"
label = "weight"
id = "patient_id"
[prepare]
{words}
[[party]]
name = "a"
[[party]]
name = "b"
"""


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        ('columns = ["smoker"]\nmissing = "drop"', ()),
        ('columns = ["smoker", "ward"]\nmissing = "drop"\ncategories = "ward"', ()),
        ('columns = ["smoker"]', ("weight (3)",)),  # labels that are missing
        ('columns = ["smoker", "ward", "size"]\nmissing = "drop"', ("no column 'size'",)),
        ('columns = ["smoker", "ward"]\nmissing = "drop"', ("column 'ward' holds text",)),
        ('columns = ["smoker"]\nmissing = "mean"', ("a label is never filled in",)),
    ],
)
def test_given_a_job_file_what_its_study_would_refuse_is_said(fedsvd, messy, tmp_path, words, refused):
    path, _ = messy
    (tmp_path / "job.toml").write_text(JOB.format(words=words))
    said = fedsvd("look", path, "--job", tmp_path / "job.toml", "--json")
    found = said.json["files"][0]["refused"]
    assert said.code == (1 if refused else 0), found
    assert len(found) == len(refused)
    for text, each in zip(refused, found, strict=True):
        assert text in each


def test_levels_that_one_file_spells_otherwise_are_named_with_what_they_look_like(fedsvd, tmp_path):
    rng = np.random.default_rng(5)
    for name, words in (("a", ["f", "m"]), ("b", ["f", "m"]), ("c", ["Female", "Male"])):
        ward = [f"{name}{i % 3}" for i in range(40)]
        pd.DataFrame({"sex": rng.choice(words, 40), "ward": ward}).to_csv(tmp_path / f"{name}.csv", index=False)
    files = [tmp_path / f"{name}.csv" for name in "abc"]
    found = [text for text in fedsvd("look", *files, "--json").json["differences"] if "levels" in text]
    assert len(found) == 1, found  # wards are each file's own: a column of names
    assert f"40 of 40 records of column 'sex' of {files[2]}" in found[0]
    assert "'Female' looks like 'f', 'Male' looks like 'm'" in found[0]


def test_three_decimals_throughout_are_read_as_decimals_or_as_a_map_says(fedsvd, tmp_path):
    written = np.random.default_rng(2).integers(1000, 9999, 60)
    frame = pd.DataFrame({"x": [f"{value // 1000}.{value % 1000:03d}" for value in written], "age": written % 80})
    frame.to_csv(tmp_path / "a.csv", index=False)
    (file,) = fedsvd("look", tmp_path / "a.csv", "--json").json["files"]
    (text,) = file["suspicious"]
    assert 'x = { thousands = "." } in the map of the table' in text
    assert 'x = { decimal = "." } says that these are decimals' in text
    for mark, kind in (("thousands", "whole number"), ("decimal", "number")):
        (tmp_path / "a.toml").write_text(f'[map]\nx = {{ {mark} = ".", name = "leucocytes" }}\n')
        (file,) = fedsvd("look", tmp_path / "a.csv", "--map", tmp_path / "a.toml", "--json").json["files"]
        assert (file["suspicious"], file["columns"][0]["kind"]) == ([], kind)
