"""All that is wrong with all parties' files comes out in one run: which party, which file, where, and the fix."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.studies import hospitals
from typer.testing import CliRunner

import fedsvd
from fedsvd.cli.main import cli
from fedsvd.data.open import open_source
from fedsvd.errors import DataError, FedSVDError, NotFinite, NotNumeric, RaggedRows, UnknownFormat, together

FILES = {
    "north.csv": "x,y,z\n1,2,3\n4,5,6\n7,8,10\n",
    "east.csv": "x,y,z\n1,two,3\n4,,6\n7,8,ten\n",
    "west.csv": "x,y,z\n1,2,3\n4,5\n",
    "south.csv": "x,y,q\n1,2,3\n4,5,6\n7,8,9\n",
}
FOUND = (
    ("FSVD-203", "party west: line 3 of west.csv has 2 cells, expected 3"),
    ("FSVD-206", "party middle: there is no file middle.csv"),
    ("FSVD-101", "parties have different columns: party south has no column 'z'; only party south has 'q'"),
    ("FSVD-202", "party east: column 'y' of east.csv holds text on line 2, not numbers"),
    ("FSVD-202", "party east: column 'z' of east.csv holds text on line 4, not numbers"),
)


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    names = ("north", "east", "west", "south", "middle")
    parties = [f'[[party]]\nname = "{name}"\ndata = "{name}.csv"' for name in names]
    (tmp_path / "job.toml").write_text("\n".join(['[job]\nname = "j"\ntask = "svd"', *parties]))
    return "job.toml"


@pytest.mark.parametrize("verb", [("run",), ("run", "--env", "local"), ("plan",)])
def test_one_run_lists_every_problem_of_every_file(verb, job):
    said = CliRunner().invoke(cli, [*verb, str(job), "--format", "json"])
    assert said.exit_code == 1
    error = json.loads(said.stdout)["error"]
    assert error["code"] == "FSVD-203"
    assert [(each["code"], each["fault"]) for each in error["problems"]] == list(FOUND)
    assert all(each["fix"] for each in error["problems"])
    assert "ten" not in said.stdout


def test_a_person_gets_a_numbered_list(job):
    said = CliRunner().invoke(cli, ["run", str(job)])
    lines = said.stderr.splitlines()
    assert lines[0] == "FSVD-203: 5 problems were found, and nothing was sent:"
    for number, (line, (code, fault)) in enumerate(zip(lines[1:], FOUND, strict=True), start=1):
        assert line.startswith(f"  {number}. {code}: {fault}. Fix: ")


def test_the_task_verbs_list_them_too(job):
    words = [word for name in ("north", "east", "west") for word in ("--party", f"{name}.csv")]
    said = CliRunner().invoke(cli, ["pca", *words])
    assert said.stderr.startswith("FSVD-203: 3 problems")


@pytest.mark.parametrize("rung", ["sim", "local"])
def test_missing_values_of_several_parties_are_found_together(rung, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = hospitals(tmp_path)
    for name in ("south", "north"):
        path = next(tmp_path.glob(f"{name}.*"))
        table = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
        table.loc[3, "dose"] = np.nan
        table.to_parquet(path, index=False) if path.suffix == ".parquet" else table.to_csv(path, index=False)
    consent = ["--consent"] if rung == "local" else []
    words = ["svd", *files.options(), "--id", "patient", "--env", rung, *consent, "--format", "json"]
    said = CliRunner().invoke(cli, words)
    error = json.loads(said.stdout)["error"]
    assert error["code"] == "FSVD-201"
    named = [each["fault"].split(":")[0] for each in error["problems"]]
    assert len(named) == 2
    assert {"north" in each for each in named} == {"south" in each for each in named} == {True, False}
    assert all("column 'dose'" in each["fault"] for each in error["problems"])


def test_rows_that_differ_do_not_hide_missing_values(tmp_path):
    rng = np.random.default_rng(0)
    for name, rows in (("a", 20), ("b", 21)):
        table = rng.normal(size=(rows, 3))
        table[2, 1] = np.nan
        np.save(tmp_path / f"{name}.npy", table)
    words = ["--party", str(tmp_path / "a.npy"), "--party", str(tmp_path / "b.npy")]
    said = CliRunner().invoke(cli, ["svd", "--split", "vertical", *words, "--format", "json"])
    found = json.loads(said.stdout)["error"]["problems"]
    assert [each["code"] for each in found] == ["FSVD-101", "FSVD-201", "FSVD-201"]


def test_the_estimators_list_them_with_numbers_of_parties(job):
    with pytest.raises(RaggedRows) as caught:
        fedsvd.FederatedSVD().fit(["east.csv", "west.csv", "nowhere.csv"])
    kinds = [type(each) for each in caught.value.problems]
    assert kinds == [RaggedRows, UnknownFormat, NotNumeric, NotNumeric]
    for number, each in zip((2, 3, 1, 1), caught.value.problems, strict=True):
        assert f"party {number}" in each.fault


def test_a_table_tells_every_column_of_text_and_what_is_not_finite_beside_them():
    frame = pd.DataFrame({"a": [1.0, np.nan], "b": ["x", "y"], "c": [1.0, 2.0], "d": ["u", "v"]})
    faults = open_source(frame).faults()
    assert [type(fault) for fault in faults] == [NotNumeric, NotNumeric, NotFinite]
    assert ["'b'" in faults[0].fault, "'d'" in faults[1].fault, "row 1, column 'a'" in faults[2].fault] == [True] * 3
    assert open_source(frame[["c"]]).faults() == []
    assert len(open_source(frame[["b", "d"]]).faults()) == 2


def test_one_problem_is_itself_and_several_are_of_the_kind_of_the_first():
    one, other = DataError("a", "b"), NotFinite("c", "d")
    assert together([one]) is one
    both = together([other, one])
    assert isinstance(both, NotFinite)
    assert both.problems == (other, one)
    assert str(both).endswith("  1. FSVD-201: c. Fix: d\n  2. FSVD-200: a. Fix: b")
    assert isinstance(both, FedSVDError)
