"""The benchmark of estimates plans what it runs, for every shape, and writes what it found."""

import json
import sys

import pytest
from benchmarks import estimates

from fedsvd.policy.rules import Policy
from fedsvd.studies.run import run_study

SMALL = [shape.scaled(0.04) for shape in estimates.SHAPES]


@pytest.mark.parametrize("shape", SMALL, ids=lambda shape: shape.name)
def test_what_is_estimated_is_what_is_run(shape):
    small = estimates.Shape(shape.name, shape.study, max(shape.samples, 120), max(shape.features, 24), shape.parties)
    parties = small.data()
    planned = estimates.plan_for(small, parties)
    ran = run_study(small.study, parties, policy=Policy.permissive()).plan
    for word in ("task", "split", "scheme", "m", "counts", "widths", "panels", "left", "right"):
        assert getattr(planned, word) == getattr(ran, word)


def test_the_table_says_how_far_an_estimate_was_off_and_the_exit_status_whether_by_two(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(estimates, "compared", lambda shape: estimates.Compared(shape.name, 9, 9, 3.0, 1.0, 4.0, 2.0))
    monkeypatch.setattr(sys, "argv", ["estimates", "svd", "--json", str(tmp_path / "found.json")])
    assert estimates.main() == 1
    (row,) = json.loads((tmp_path / "found.json").read_text())["rows"]
    assert (row["factor"], row["of_work"]) == (3.0, 2.0)
    assert "3.00" in capsys.readouterr().out
    monkeypatch.setattr(estimates, "compared", lambda shape: estimates.Compared(shape.name, 9, 9, 1.5, 1.0, 4.0, 2.0))
    assert estimates.main() == 0
