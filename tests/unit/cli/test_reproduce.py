"""``fedsvd reproduce`` at the command line: a list, a run, and errors that help."""

import pytest

from fedsvd_lab.experiments.experiment import experiments


def test_without_names_the_experiments_are_listed(fedsvd):
    said = fedsvd("reproduce", "--format", "json")
    assert said.code == 0
    assert list(said.json["experiments"]) == list(experiments())


def test_a_run_writes_everything_and_says_where(fedsvd, tmp_path):
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    said = fedsvd("reproduce", "fig4f", "--smoke", "--out", out, "--format", "json")
    assert said.code == 0
    assert said.json["ran"] == 4
    assert (out / "reproduce.html").exists()
    again = fedsvd("reproduce", "fig4f", "--smoke", "--out", out)
    assert "0 run, 4 finished before" in again.out
    fresh = fedsvd("reproduce", "fig4f", "--smoke", "--out", out, "--fresh", "--format", "json")
    assert fresh.json["ran"] == 4


def test_an_unknown_name_is_an_error_with_its_nearest_neighbour(fedsvd):
    said = fedsvd("reproduce", "tabel1", "--format", "json")
    assert said.code == 1
    assert said.json["error"]["code"] == "FSVD-100"
    assert "table1" in said.json["error"]["fix"]


def test_data_that_is_not_here_makes_exit_code_1_and_says_how_to_get_it(fedsvd, tmp_path):
    (tmp_path / "empty").mkdir()
    said = fedsvd("reproduce", "fig2a", "--smoke", "--data", tmp_path / "empty", "--out", tmp_path / "out")
    assert said.code == 1
    assert "--fetch" in said.out
    assert "synthetic" in (tmp_path / "out" / "tables" / "fig2a.md").read_text()
