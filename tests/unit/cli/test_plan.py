"""``plan`` says everything and does nothing."""

import json
from dataclasses import replace

import pytest

from fedsvd.cli import plan as plan_module
from fedsvd.protocol.rates import DEFAULT
from fedsvd.runtime import federation


@pytest.fixture
def nothing_runs(monkeypatch):
    monkeypatch.setattr(federation, "_run_once", lambda *_, **__: pytest.fail("a session was opened"))


def test_a_plan_tells_what_by_whom_and_what_is_learned(fedsvd, by_rows, nothing_runs, tmp_path):
    job = by_rows.job(task="pca", components=2, id="patient", authority=True)
    said = fedsvd("plan", job, "--format", "json")
    assert said.code == 0
    record = said.json
    assert (record["samples"], record["features"], record["components"]) == (120, 6, 2)
    assert record["parties"][1] == {"name": "south", "rows": 35, "columns": 6}
    assert set(record["roles"]) == {"parties", "csp", "authority"}
    assert record["released"] == {
        "components": "to every party",
        "mean": "to every party",
        "own part": "to each party its own",
    }
    assert any(line.startswith("The CSP learns") for line in record["learns"])
    assert any("padded" in line for line in record["leaves_each_site"])
    assert not (tmp_path / "results").exists()


def test_a_plan_in_words_has_the_same_parts(fedsvd, by_rows, nothing_runs):
    said = fedsvd("plan", by_rows.job(task="svd", id="patient"))
    assert said.code == 0
    for title in (
        "By whom",
        "What leaves each party",
        "What is released",
        "What each role learns",
        "What it will cost",
    ):
        assert title in said.out
    assert "hospital" not in said.out
    assert "south" in said.out
    assert said.err.startswith("Privacy: ")
    assert "party south brings 35 records" in said.err.replace("\n  ", " ")


def test_what_leaves_a_site_follows_the_plan(fedsvd, by_columns, nothing_runs):
    keys = {"split": "vertical", "id": "patient", "sort_by_id": True}
    score = ["coefficients", "intercept", "score"]
    record = fedsvd("plan", by_columns.job(task="lr", label="outcome", release=score, **keys), "--format", "json").json
    text = "\n".join(record["leaves_each_site"])
    assert "one keyed hash of all its row ids" in text
    assert "partial scores" in text
    assert record["released"]["coefficients"] == "to each party its own"
    assert record["released"]["score"] == "to the label holder"
    assert any("Party insurer alone gets" in line for line in record["learns"])
    record = fedsvd("plan", by_columns.job(task="svd", masks='scheme = "paper"', **keys), "--format", "json").json
    assert "eq. 6" in "\n".join(record["leaves_each_site"])
    assert any(notice.startswith("C1") for notice in record["notices"])


def test_a_plan_that_cannot_be_is_refused(fedsvd, by_rows, nothing_runs):
    said = fedsvd("plan", by_rows.job(task="pca", components=60, id="patient"), "--format", "json")
    assert said.code == 1
    assert said.json["error"]["fault"] == "components = 60"
    said = fedsvd("plan", by_rows.job(task="pca", id="patient", memory="1 kB"), "--format", "json")
    assert said.code == 1
    assert "memory" in said.json["error"]["fault"]


def test_the_bytes_that_are_foretold_are_those_that_move(fedsvd, by_rows):
    job = by_rows.job(task="pca", components=2, id="patient", release=["components", "mean", "spectrum"])
    foretold = fedsvd("plan", job, "--format", "json").json["cost"]
    ran = fedsvd("run", job, "--format", "json", "-q").json
    assert foretold["bytes"] == pytest.approx(ran["bytes"], rel=0.01)
    assert set(foretold["roles"]) == {"north", "south", "west", "csp"}
    sent = json.loads((by_rows.folder / "results/study/manifest.json").read_text(encoding="utf-8"))["certificate"]
    assert foretold["roles"]["south"]["sends"] == pytest.approx(sent["bytes_by_link"]["user-2 -> csp"], rel=0.01)
    for role in foretold["roles"].values():
        assert role["seconds"] > 0


def test_the_cost_is_told_before_a_run(fedsvd, by_rows):
    said = fedsvd("svd", *by_rows.options(), "--id", "patient")
    told, ran = said.err.index("expected: "), said.err.index("party north: compress")
    assert told < ran
    assert "party south" in said.err[told:ran]
    assert "expected" not in fedsvd("svd", *by_rows.options(), "--id", "patient", "--overwrite", "-q").err


def test_a_plan_can_be_made_for_this_machine(fedsvd, by_rows, nothing_runs, monkeypatch):
    monkeypatch.setattr(plan_module, "measured", lambda: replace(DEFAULT, messages=DEFAULT.messages / 1000))
    job = by_rows.job(task="svd", id="patient")
    usual = fedsvd("plan", job, "--format", "json").json["cost"]
    here = fedsvd("plan", job, "--calibrate", "--format", "json").json["cost"]
    assert here["seconds_in_one_process"] > usual["seconds_in_one_process"]
    assert here["bytes"] == usual["bytes"]
