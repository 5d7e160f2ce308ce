"""``fedsvd reproduce`` in its smallest size: the same code as the full one, every table and figure present."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from tests.tolerances import digits_lost

from fedsvd.errors import DataError
from fedsvd_lab.datasets.library import Library
from fedsvd_lab.experiments.context import Context
from fedsvd_lab.experiments.experiment import Size, experiments
from fedsvd_lab.experiments.reproduce import reproduce
from fedsvd_lab.experiments.rows import QUOTED

WIRED = [name for name, one in experiments().items() if one.kind == "sweep"]
SLOW = [*(name for name in WIRED if name != "fig4d"), "fig6"]  # each starts half a dozen processes
REST = [name for name in experiments() if name not in (*WIRED, *SLOW)]
BESIDE = Path(__file__).parents[4] / "shared" / "data"


def context(**changes):
    return Context(Library((*Library.here().folders, BESIDE)), **changes)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    pytest.importorskip("gmpy2")
    pytest.importorskip("matplotlib")
    out = tmp_path_factory.mktemp("reproduce")
    return reproduce(REST, Size.SMOKE, context(), out), out


def test_every_table_and_figure_is_written(run):
    summary, out = run
    without_data = {line.split(":")[0] for lines in summary.missing.values() for line in lines}
    assert all("wine" in line for line in without_data)  # on a machine without data sets, and nothing else
    for name in REST:
        assert (out / "tables" / f"{name}.md").exists()
        assert (out / "tables" / f"{name}.tex").exists()
    drawn = {path.stem for path in (out / "figures").glob("*.svg")}
    assert {"fig2a", "fig2b", "fig4a", "fig4b", "fig4e", "fig4f", "fig5a"} <= drawn
    assert {path.stem for path in (out / "figures").glob("*.png")} == drawn
    page = (out / "reproduce.html").read_text()
    for experiment in experiments().values():
        if experiment.name in REST:
            assert f'id="{experiment.name}"' in page


def test_all_three_columns_are_there(run):
    _, out = run
    with (out / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    methods = {row["method"] for row in rows}
    assert {"paper: FedSVD", "FedSVD, paper scheme", "FedSVD, default"} <= methods
    for row in rows:
        assert row["how"] == QUOTED or all(row[key] for key in ("hardware", "commit", "seeds", "network", "when"))


def test_rows_are_in_parquet_too(run):
    parquet = pytest.importorskip("pyarrow.parquet")
    _, out = run
    with (out / "rows.csv").open() as file:
        expected = [float(row["value"]) for row in csv.DictReader(file)]
    assert parquet.read_table(out / "rows.parquet").column("value").to_pylist() == expected


def test_finished_cases_are_not_run_again(run, tmp_path):
    _, shared = run
    out = tmp_path / "again"  # a copy: a run of one experiment writes the page of that one only
    shutil.copytree(shared, out)
    journal = (out / "rows" / "fig4f.jsonl").read_text()
    again = reproduce(["fig4f"], Size.SMOKE, context(), out)
    assert (again.ran, again.finished_before) == (0, len(journal.splitlines()))
    assert (out / "rows" / "fig4f.jsonl").read_text() == journal


def test_a_missing_data_set_is_noted_and_the_rest_goes_on(tmp_path):
    heard = []
    nowhere = Context(Library((tmp_path / "nowhere",)), say=heard.append)
    summary = reproduce(["table1"], Size.SMOKE, nowhere, tmp_path / "out")
    assert summary.ran == 4  # the synthetic ones
    assert any("wine" in line and "FEDSVD_DATA" in line for line in summary.missing["table1"])
    assert "Not run" in (tmp_path / "out" / "tables.md").read_text()
    assert heard


def test_errors_on_exact_data_are_at_rounding(run):
    _, out = run
    lines = [json.loads(line) for line in (out / "rows" / "reconstruction.jsonl").read_text().splitlines()]
    values = {row["method"]: row["value"] for line in lines for row in line["rows"] if row["metric"].startswith("RMSE")}
    assert values
    assert all(0 < value < digits_lost(2) for value in values.values())


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(DataError, match="not a folder"):
        Library.here(tmp_path / "nowhere")


@pytest.mark.slow  # eight processes behind a real link, which tests/unit/lab/network tries by itself
def test_the_local_rung_runs_behind_a_slow_line(tmp_path):
    pytest.importorskip("pyarrow")
    summary = reproduce(["fig4d"], Size.SMOKE, context(), tmp_path)
    assert summary.missing == {}
    with (tmp_path / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["method"] for row in rows} == {"FedSVD, paper scheme", "FedSVD, default"}
    assert all("measured" in row["network"] and float(row["value"]) > 0 for row in rows)
    assert (tmp_path / "figures" / "fig4d.svg").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_the_experiments_that_start_processes_run_as_well(tmp_path, name):
    assert reproduce([name], Size.SMOKE, context(), tmp_path).missing == {}
    assert (tmp_path / "figures" / f"{name}.svg").exists()
