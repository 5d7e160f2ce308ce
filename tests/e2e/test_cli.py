"""The installed command, in processes of its own: files in, results out, equal to scikit-learn on the joint table."""

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from tests.studies import CLOSE, FEATURES, companies, hospitals, joint_table
from tests.tolerances import RESULT_BAR

import fedsvd
from fedsvd import __version__


def command(folder, *words, **environment):
    """``python -m fedsvd`` in this folder."""
    return subprocess.run(
        [sys.executable, "-m", "fedsvd", *map(str, words)],
        cwd=folder,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "100", **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=CLOSE * np.abs(expected).max())


def test_the_command_is_there():
    ran = command(None, "--version")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"fedsvd {__version__}\n", "")
    assert command(None, "nonsense").returncode == 2


def test_three_hospitals_from_job_file_to_scores_of_a_new_patient(tmp_path):
    files = hospitals(tmp_path)
    D = files.joint.drop(columns="patient")
    twin = PCA(2, svd_solver="full").fit(D.to_numpy())
    job = files.job("wards", task="pca", components=2, id="patient", release=["components", "mean", "spectrum"])

    plan = command(tmp_path, "plan", job, "--format", "json")
    assert plan.returncode == 0, plan.stderr
    predicted = json.loads(plan.stdout)["cost"]["bytes"]
    ran = command(tmp_path, "run", job, "--env", "sim", "--format", "json")
    assert ran.returncode == 0, ran.stderr
    record = json.loads(ran.stdout)
    assert record["bytes"] == pytest.approx(predicted, rel=0.01)
    assert "Traceback" not in ran.stderr
    assert "Privacy: " in ran.stderr
    close(np.load(tmp_path / "results" / "wards" / "components.npy"), twin.components_)

    joint_table(seed=1, rows=3).to_csv(tmp_path / "new.csv", index=False)
    new = pd.read_csv(tmp_path / "new.csv").drop(columns="patient")
    told = command(tmp_path, "predict", record["parties"]["south"], "--party", "new.csv", "--format", "json")
    values = pd.DataFrame(json.loads(told.stdout)["parties"]["new"]["values"]).drop(columns="id")
    close(values.to_numpy(), twin.transform(new.to_numpy()))
    close(fedsvd.load(tmp_path / "results" / "wards").transform(new), twin.transform(new.to_numpy()))


def test_three_companies_from_one_line_to_predictions(tmp_path):
    files = companies(tmp_path)
    twin = LinearRegression().fit(files.D, files.y)
    words = ["--split", "vertical", "--id", "patient", "--sort-by-id", "--label", "outcome", "--out", "churn"]
    ran = command(tmp_path, "lr", *files.options(), *words, "--format", "json", "-q")
    assert ran.returncode == 0, ran.stderr
    json.loads(ran.stdout)
    new = joint_table(seed=2, rows=25)
    for name, columns in {"bank": FEATURES[:2], "shop": FEATURES[2:4], "insurer": FEATURES[4:]}.items():
        new[["patient", *columns]].to_csv(tmp_path / f"{name}-new.csv", index=False)
    words = [word for name, _ in files.parties for word in ("--party", f"{name}={name}-new.csv")]
    told = command(tmp_path, "predict", "churn", *words, "--out", "forecast")
    assert told.returncode == 0, told.stderr
    close(np.load(tmp_path / "forecast/parties/insurer/predictions.npy")[:, 0], twin.predict(new[FEATURES].to_numpy()))
    assert [path.name for path in (tmp_path / "forecast" / "parties").iterdir()] == ["insurer"]


def test_rows_in_another_order_are_found_by_the_ids_that_are_there_or_warned_of(tmp_path):
    files = companies(tmp_path)  # each in an order of its own
    words = ["--split", "vertical", "--label", "outcome", "--release", "score", "--format", "json", "-q"]
    ran = command(tmp_path, "lr", *files.options(), *words)
    assert ran.returncode == 1
    assert "--id patient" in json.loads(ran.stdout)["error"]["fix"]
    right = LinearRegression().fit(files.D, files.y)
    ran = command(tmp_path, "lr", *files.options(), *words, "--id", "patient", "--sort-by-id")
    assert json.loads(ran.stdout)["score"]["outcome"]["r2"] == pytest.approx(right.score(files.D, files.y), abs=CLOSE)

    tables = {name: pd.read_csv(tmp_path / file).drop(columns="patient") for name, file in files.parties}
    for name, table in tables.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    D = np.hstack([table[[name for name in table if name in FEATURES]] for table in tables.values()])
    y = tables["insurer"]["outcome"]
    wrong = LinearRegression().fit(D, y).score(D, y)
    assert wrong < right.score(files.D, files.y) - 0.1
    ran = command(tmp_path, "lr", *files.options(), *words, "--out", "mixed-up")
    said = json.loads(ran.stdout)
    assert said["score"]["outcome"]["r2"] == pytest.approx(wrong, abs=CLOSE)
    assert said["rows"].startswith("NOT COMPARED")
    assert ran.stderr.startswith("Rows: no row ids are compared")


def test_the_same_options_run_again_give_the_same_numbers_under_other_masks(tmp_path):
    files = hospitals(tmp_path)
    records = []
    for out in ("one", "two"):
        ran = command(tmp_path, "svd", *files.options(), "--id", "patient", "--out", out, "--format", "json", "-q")
        records.append(json.loads(ran.stdout))
    assert records[0]["plan_digest"] != records[1]["plan_digest"], "sessions are never reused"
    close(np.load(tmp_path / "two/components.npy"), np.load(tmp_path / "one/components.npy"))


def test_errors_reach_the_shell(tmp_path):
    files = companies(tmp_path)
    ran = command(tmp_path, "svd", *files.options(), "--split", "vertical", "--id", "patient", "-q")
    assert ran.returncode == 1
    assert ran.stdout == ""
    assert ran.stderr.splitlines()[-1].startswith("FSVD-208: ")
    ran = command(tmp_path, "run", "nowhere.toml", "--format", "json")
    assert ran.returncode == 1
    assert json.loads(ran.stdout)["error"]["code"] == "FSVD-100"
    assert ran.stderr == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bank.csv", "insurer.csv", "shop.csv"]


@pytest.mark.slow  # ten processes; tests/unit/cli/test_demo_and_progress.py runs the same two studies
def test_the_demo_runs_by_itself(tmp_path):
    ran = command(tmp_path, "demo", "--format", "json")
    assert ran.returncode == 0, ran.stderr
    for run in json.loads(ran.stdout)["runs"]:
        assert max(run["errors"].values()) < RESULT_BAR
