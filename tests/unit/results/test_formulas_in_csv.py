"""What a spreadsheet would compute is text in our CSV files; results that are loaded have the names as they were."""

import csv

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import fedsvd
from fedsvd.cli.main import cli
from fedsvd.results.folder import Table, save_table

FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "'=1", "''-1", "\uff1d1"]
HARMLESS = ["a=1", "x", "'quoted'", "'", "", "3", "1-2"]


@pytest.mark.parametrize("texts", [FORMULAS, HARMLESS])
def test_a_text_that_begins_as_a_formula_gets_an_apostrophe_and_numbers_do_not(tmp_path, texts):
    numbers = -np.arange(1.0, len(texts) + 1)
    save_table(tmp_path, Table("t", {"name": texts, "=value": numbers}))
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    expected = [f"'{text}" for text in texts] if texts is FORMULAS else texts
    assert header == ["name", "'=value"]
    assert [row[0] for row in rows] == expected
    assert [float(row[1]) for row in rows] == numbers.tolist()
    assert pq.read_table(tmp_path / "t.parquet")["name"].to_pylist() == texts


def test_every_text_of_a_csv_file_can_be_restored(tmp_path):
    texts = [*FORMULAS, *HARMLESS]
    save_table(tmp_path, Table("t", {"name": texts, "n": range(len(texts))}))
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
        _, *rows = csv.reader(file)
    marks = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d")
    assert [row[0][1:] if row[0].lstrip("'").startswith(marks) else row[0] for row in rows] == texts


def test_names_in_results_are_neutral_in_csv_and_as_they_were_when_loaded(tmp_path):
    names = ["=cmd|'/c calc'!A1", "@b", "c"]
    for name in "ab":
        table = np.random.default_rng(ord(name)).normal(size=(30, 3))
        np.savetxt(tmp_path / f"{name}.csv", table, delimiter=",", header=",".join(names), comments="")
    words = [
        "pca",
        *(f"--party={name}={tmp_path / name}.csv" for name in "ab"),
        "--components",
        "2",
        "--out",
        tmp_path / "pca",
    ]
    ended = CliRunner().invoke(cli, [str(word) for word in words])
    assert ended.exit_code == 0, ended.output
    cells = []
    for path in (tmp_path / "pca").rglob("*.csv"):
        with path.open(newline="", encoding="utf-8") as file:
            cells += [cell for row in csv.reader(file) for cell in row]
    assert any(cell.startswith("'=cmd") for cell in cells)
    assert not [cell for cell in cells if cell.startswith(("=", "+", "@"))]
    (own,) = (tmp_path / "pca").rglob("parties/a")
    assert list(fedsvd.load(own).feature_names_in_) == names
