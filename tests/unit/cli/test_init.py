"""``fedsvd init`` writes files that the program takes; version, completion and "did you mean" are there."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fedsvd import __version__
from fedsvd.cli import init as init_module
from fedsvd.policy.policy_file import read_policy
from fedsvd.policy.rules import Policy
from fedsvd.studies.job_file import read_job


@pytest.mark.parametrize(
    ("task", "split"),
    [(task, split) for task in ("svd", "lsa", "lr") for split in ("horizontal", "vertical")] + [("pca", "horizontal")],
)
def test_what_is_written_is_read_back(fedsvd, tmp_path, task, split):
    said = fedsvd("init", tmp_path, "--task", task, "--split", split, "--party", "bank", "--party", "shop")
    assert said.code == 0, said.err
    job = read_job(tmp_path / "job.toml")
    assert (job.study.task, job.study.name) == (task, f"our-{task}")
    assert job.study.split == split
    assert [party.name for party in job.parties] == ["bank", "shop"]
    assert read_policy(tmp_path / "policy.toml") == Policy(enforce=True)
    assert "fedsvd plan" in said.out


def test_every_key_that_is_commented_out_is_one_that_exists(fedsvd, tmp_path):
    fedsvd("init", tmp_path, "--task", "lr", "--split", "vertical", "--party", "bank", "--party", "shop")
    path = tmp_path / "job.toml"
    lines = path.read_text().splitlines()[2:]
    path.write_text("\n".join(line.removeprefix("# ") for line in lines))
    job = read_job(path)
    assert (job.study.sort_by_id, job.study.alpha, job.authority.name) == (True, 0.1, "ta")


def test_a_person_is_asked_for_what_options_do_not_say(tmp_path, fedsvd, monkeypatch):
    answers = iter(["lr", "churn", "bank, shop", "columns", "left"])
    asked = []

    def prompt(question, default, err):
        asked.append(question)
        return next(answers)

    monkeypatch.setattr(init_module.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(init_module.typer, "prompt", prompt)
    monkeypatch.setattr(init_module.Asking, "__init__", lambda self, _: setattr(self, "interactive", True))
    assert fedsvd("init", tmp_path).code == 0
    record = tomllib.loads((tmp_path / "job.toml").read_text())
    assert record["job"] == {
        "name": "churn",
        "task": "lr",
        "split": "vertical",
        "label": "left",
        "label_party": "shop",
    }
    assert len(asked) == 5


def test_every_question_is_asked_again_after_a_typo_with_what_is_wrong(tmp_path, fedsvd, monkeypatch):
    said = [
        *("psv", "svd"),
        *("our study", "ours"),
        *("bank", "bank, bank", "bank, b/nk", "bank, shop"),
        *("colums", "columns"),
        *("five", "0", "3"),
    ]
    answers = iter(said)
    asked = []

    def prompt(question, default, err):
        asked.append(question)
        return next(answers)

    monkeypatch.setattr(init_module.typer, "prompt", prompt)
    monkeypatch.setattr(init_module.Asking, "__init__", lambda self, _: setattr(self, "interactive", True))
    ended = fedsvd("init", tmp_path)
    assert ended.code == 0
    assert len(asked) == len(said)
    assert len(set(asked)) == 5
    for wrong in ("did you mean 'svd'", "'our study' cannot be a name", "at least two", "same name", "'b/nk'"):
        assert wrong in ended.err
    for wrong in ("'colums' is neither", "'five' is not a number", "'0' is not a number"):
        assert wrong in ended.err
    job = read_job(tmp_path / "job.toml")
    assert (job.study.task, job.study.name, job.study.split, job.study.components) == ("svd", "ours", "vertical", 3)
    assert [party.name for party in job.parties] == ["bank", "shop"]


def test_a_typo_in_an_option_is_an_error_not_another_study(fedsvd, tmp_path):
    for option in (
        ("--name", "our study"),
        ("--party", "a", "--party", "A"),
        ("--task", "lr", "--label", " "),
        ("--split", "vertical"),
    ):
        ended = fedsvd("init", tmp_path, *option)
        assert (ended.code, ended.err[:8]) == (1, "FSVD-100")
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_there_end_it_before_the_questions(tmp_path, fedsvd, monkeypatch):
    (tmp_path / "job.toml").write_text("")
    monkeypatch.setattr(init_module.typer, "prompt", lambda *a, **k: pytest.fail("asked"))
    monkeypatch.setattr(init_module.Asking, "__init__", lambda self, _: setattr(self, "interactive", True))
    assert "is there already" in fedsvd("init", tmp_path).err


def test_nothing_is_overwritten(fedsvd, tmp_path):
    assert fedsvd("init", tmp_path).code == 0
    said = fedsvd("init", tmp_path)
    assert said.code == 1
    assert "FSVD-350" in said.err


def test_a_wrong_answer_writes_nothing(fedsvd, tmp_path):
    assert "one of svd, pca, lsa, lr" in fedsvd("init", tmp_path, "--task", "pac").err
    assert fedsvd("init", tmp_path, "--party", "only-one").code == 1
    assert list(tmp_path.iterdir()) == []


def test_the_schema_is_json(fedsvd, tmp_path):
    assert fedsvd("init", "--schema", tmp_path / "job-schema.json").code == 0
    assert json.loads((tmp_path / "job-schema.json").read_text())["title"] == "fedsvd job file"


def test_the_version_is_said(fedsvd):
    assert fedsvd("--version").out == f"fedsvd {__version__}\n"


@pytest.mark.parametrize(("words", "meant"), [(["pcaa"], "pca"), (["job", "sbumit"], "submit"), (["rnu"], "run")])
def test_a_misspelt_command_is_answered_with_its_neighbour(fedsvd, words, meant):
    said = fedsvd(*words)
    assert said.code == 2
    assert f"Did you mean '{meant}'?" in said.err


def test_a_misspelt_option_is_answered_with_its_neighbour(fedsvd):
    said = fedsvd("pca", "--compnents", "3")
    assert said.code == 2
    assert "--components" in said.err


def test_a_shell_that_was_taught_the_commands_completes_them():
    asked = {"_FEDSVD_COMPLETE": "complete_bash", "COMP_WORDS": "fedsvd p", "COMP_CWORD": "1"}
    command = Path(sys.executable).parent / "fedsvd"
    said = subprocess.run([command], env={**os.environ, **asked}, capture_output=True, text=True, timeout=120)
    assert {"pca", "plan", "party", "predict"} <= set(said.stdout.split())
