"""``fedsvd audit`` at the command line: a table, a page, JSON, and refusals before any work is done."""

import numpy as np
import pytest

from fedsvd.audit import audit as module

JOB = """
[job]
name = "study"
task = "svd"
[[party]]
name = "north"
[[party]]
name = "south"
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "MOST_RUNS", 3)
    (tmp_path / "job.toml").write_text(JOB)
    np.save(tmp_path / "own.npy", np.random.default_rng(1).gamma(1.0, size=(60, 12)))
    return tmp_path


def test_it_prints_a_table_and_writes_a_page(fedsvd, files):
    said = fedsvd("audit", "own.npy", "--job", "job.toml", "--budget", "300")
    assert said.code == 0
    assert "Gram matrix from U and S" in said.out
    assert "recommended" in said.out
    assert "simulating 2 parties" in said.err
    assert (files / "audit.html").read_text().startswith("<!doctype html>")


def test_in_json_it_is_one_object_and_parties_have_their_names(fedsvd, files):
    words = ("--budget", "300", "--format", "json", "-q", "--out", "x.html")
    said = fedsvd("audit", "own.npy", "--job", "job.toml", *words)
    assert said.code == 0
    record = said.json
    assert {"findings", "recommended", "why", "learns", "out"} <= set(record)
    assert {finding["role"] for finding in record["findings"]} >= {"CSP", "a curious party"}
    assert (files / "x.html").exists()


def test_an_older_page_is_kept_unless_told_otherwise(fedsvd, files):
    (files / "audit.html").write_text("mine")
    said = fedsvd("audit", "own.npy", "--job", "job.toml")
    assert said.code == 1
    assert "FSVD-100" in said.err
    assert "--overwrite" in said.err
    assert (files / "audit.html").read_text() == "mine"


def test_without_jinja_the_extra_is_named_before_any_work(fedsvd, files, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    said = fedsvd("audit", "own.npy", "--job", "job.toml")
    assert said.code == 1
    assert "fedsvd[report]" in said.err
    assert "simulating" not in said.err
