"""Growth: exponents are fitted, sizes predicted, and the route of one who holds everything is right."""

import json

import numpy as np
import pytest
from tests.e2e.commands import command
from tests.tolerances import digits_lost
from typer.testing import CliRunner

from fedsvd.cli.main import cli
from fedsvd.cost.rates import DEFAULT
from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError
from fedsvd.protocol.tasks import Task
from fedsvd_lab.cli import bench
from fedsvd_lab.scale import Case, Step, centralised, exponent, generation, modelled


def test_the_exponent_of_a_power_is_that_power():
    sizes = [1e5, 2e5, 1e6]
    assert exponent(sizes, [3 * n**1.02 for n in sizes]) == pytest.approx(1.02)
    with pytest.raises(ConfigError):
        exponent([1e5], [1.0])


@pytest.mark.parametrize("task", [Task.SVD, Task.LR])
def test_two_parties_hold_the_whole_between_them(task):
    case = Case(task, 6, 40, alpha=0.5)
    parts = [open_source(address) for address in case.addresses]
    joint = np.hstack([part.rows(0, part.shape[0]) for part in parts])
    whole = open_source(case.whole)
    np.testing.assert_array_equal(joint, whole.rows(0, whole.shape[0]))
    assert case.job().study.task is task


def test_one_who_holds_everything_finds_the_same():
    alone = centralised(Case(Task.SVD, 20, 3000, alpha=0.5))
    assert alone["residual"] < digits_lost(2)
    assert alone["orthogonality"] < digits_lost(4)
    case = Case(Task.LR, 8, 5000)
    D = open_source(case.whole).rows(0, 5000)
    w = np.linalg.lstsq(np.column_stack((np.ones(5000), D[:, :-1])), D[:, -1], rcond=None)[0]
    assert centralised(case)["norm_of_weights"] == pytest.approx(np.linalg.norm(w), rel=digits_lost(4))
    assert generation(case) > 0


def test_the_model_grows_with_the_data():
    small, large = (modelled(Case(Task.SVD, 50, n), DEFAULT) for n in (100_000, 1_000_000))
    assert 5 < large / small < 11


def fake(case, predicted, *, alone=False, seen=None):
    seconds = 1e-5 * case.long
    beside = {"seconds": seconds / 2, "cpu": seconds} if alone else None
    return Step(case.long, predicted, seconds, 2 * seconds, seconds, seconds, 0.1, 10, {"csp": 1 << 20}, {}, beside)


def test_bench_scale_writes_json_and_a_plot_and_compares_with_the_model(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(bench, "measured", fake)
    words = ["bench", "scale", "--short", "20", "--sizes", "10k,20k,40k", "--alone", "--out", str(tmp_path / "b"), "-q"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    assert "n^1.000" in done.output
    assert "2.00 times the centralised route" in done.output
    record = json.loads((tmp_path / "b" / "scale.json").read_text())
    assert [step["long"] for step in record["steps"]] == [10_000, 20_000, 40_000]
    assert all(step["predicted"] > 0 for step in record["steps"])
    assert (tmp_path / "b" / "scale.png").read_bytes()[1:4] == b"PNG"


@pytest.mark.parametrize("words", [["--sizes", "10k"], ["--sizes", "2M,1M"], ["--sizes", "x,y"], ["--task", "pca"]])
def test_sizes_that_do_not_grow_are_refused(words, tmp_path):
    done = CliRunner().invoke(cli, ["bench", "scale", *words, "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert "FSVD-100" in done.output


@pytest.mark.slow
@pytest.mark.parametrize("task", ["svd", "lr"])
def test_bench_scale_runs_studies_of_growing_size(task, tmp_path):
    words = ["bench", "scale", "--task", task, "--short", "20", "--sizes", "10k,40k", "--out", str(tmp_path / "b")]
    done = command(*words, "--format", "json", "-q")  # in a process of its own, whose memory is measured
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "b" / "scale.json").read_text())
    for step in record["steps"]:
        assert set(step["peak_memory"]) == {"csp", "user-1", "user-2"}
        assert all(20 << 20 < taken < 1 << 30 for taken in step["peak_memory"].values())
        if task == "svd":
            assert all(step["quality"][name]["orthogonality"] < digits_lost(4) for name in "ab")
