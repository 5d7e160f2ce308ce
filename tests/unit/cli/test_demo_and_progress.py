"""The demo tells the truth about its errors, and progress shows life on a terminal and in a log."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from tests.tolerances import spectrum

from fedsvd.cli import demo as demo_module
from fedsvd.cli.output import Format, Output, duration


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """The demo leaves its results where it is called."""
    monkeypatch.chdir(tmp_path)


def test_the_demo_is_as_exact_as_it_says(fedsvd):
    said = fedsvd("demo", "--format", "json")
    assert said.code == 0
    record = said.json
    assert (record["rows"], record["columns"], record["parties"], record["processes"]) == (569, 30, 3, 5)
    pca, svd = record["runs"]
    assert svd["errors"]["singular values"] < spectrum(569, 30)
    assert svd["errors"]["reconstruction"] < spectrum(569, 30)
    assert pca["errors"]["mean"] < spectrum(569, 30)
    # Vectors are as exact as their singular values are apart.
    Z = load_breast_cancer().data
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    sigma = np.linalg.svd(Z, compute_uv=False)[:6]
    gap = float(sigma[0] / -np.diff(sigma).max())
    assert pca["errors"]["components"] < 10 * gap * spectrum(569, 30)
    for run in record["runs"]:
        assert run["bytes"] > 0
        assert run["seconds"] > 0
        assert run["seconds_numpy"] > 0
    expect_reports(record)


def expect_reports(record):
    """Twice one for all, three hospitals, CSP and authority; each small, a hospital's with its own scores."""
    assert len(record["reports"]) == 2 * 6
    assert record["report"] == "results/demo-pca/parties/hospital-a/report.html"
    assert all(Path(page).stat().st_size < 200_000 for page in record["reports"])
    text = Path(record["report"]).read_text()
    assert "mean concave points" in text
    assert ">Scores</h2>" in text
    assert "mean concave points" not in Path("results/demo-pca/roles/csp/report.html").read_text()


@pytest.mark.slow
def test_the_demo_in_words_has_errors_times_and_bytes(fedsvd):
    said = fedsvd("demo")
    assert said.code == 0
    assert "What hospital-a gets to read: results/demo-pca/parties/hospital-a/report.html" in said.out
    for word in ("569 patients x 30 measurements", "protects no one", "largest error", "NumPy alone", "KiB", "e-1"):
        assert word in said.out


@pytest.mark.slow  # ten processes, as in the two tests above
def test_the_demo_would_show_an_error_if_there_were_one(fedsvd, monkeypatch):
    read_result = demo_module.read_result

    def wrong(folder):
        stored = read_result(folder)
        stored.arrays["singular_values"][0] *= 1 + 1e-6
        return stored

    monkeypatch.setattr(demo_module, "read_result", wrong)
    for run in fedsvd("demo", "--format", "json").json["runs"]:
        assert run["errors"]["singular values"] == pytest.approx(1e-6, rel=1e-3)


@pytest.mark.slow
def test_a_demo_that_is_not_watched_says_little_beside_its_tables(fedsvd):
    """Standard error is no terminal here."""
    said = fedsvd("demo")
    assert len(said.err.splitlines()) < 20


def test_quiet_is_quiet():
    with Output(Format.TEXT, quiet=True).progress(("bank",)) as report:
        assert report is None


def test_a_command_writes_its_progress_where_it_writes_its_other_lines(monkeypatch):
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    with Output(Format.JSON).progress(("bank", "shop")) as report:
        report("user-2", "compress", 5, 5)
    assert log.getvalue() == "party shop: compress 100 %\n"


@pytest.mark.parametrize(("seconds", "text"), [(0.0123, "0.012 s"), (59, "59 s"), (200, "3 min 20 s")])
def test_times_are_told_for_people(seconds, text):
    assert duration(seconds) == text
