"""``fedsvd init`` writes files that the program takes; version, completion and "did you mean" are there."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedsvd import __version__
from fedsvd.cli import init as init_module
from fedsvd.policy.policy_file import read_policy
from fedsvd.policy.rules import Policy
from fedsvd.protocol.tasks import Split
from fedsvd.studies.job_file import read_job
from fedsvd.tasks.declared import declared
from fedsvd.tasks.option import TASKS
from fedsvd.tasks.options import applies, section_of

KINDS = [(task, split) for task in TASKS if task.line for split in declared(task).splits]


@pytest.mark.parametrize(("task", "split"), KINDS, ids=lambda word: str(word))
def test_what_is_written_is_read_back(fedsvd, tmp_path, task, split):
    said = fedsvd("init", tmp_path, "--task", task, "--split", split, "--party", "bank", "--party", "shop")
    assert said.code == 0, said.err
    if declared(task).by_dictionary:
        (tmp_path / "dictionary.toml").write_text("[columns.age]\nrange = [0, 120]\n")
    job = read_job(tmp_path / "job.toml")
    assert (job.study.task, job.study.name) == (task, f"our-{task}")
    assert job.study.split == split
    assert [party.name for party in job.parties] == ["bank", "shop"]
    assert read_policy(tmp_path / "policy.toml") == Policy(enforce=True)
    assert "fedsvd plan" in said.out


def tables(folder, rows=(120, 110, 130)):
    """Three tables with every column that a first job file names, and one study's worth of others."""
    rng = np.random.default_rng(29)
    for name, n in zip(("north", "south", "west"), rows, strict=True):
        age, dose = rng.integers(30, 80, n), rng.normal(size=n).round(3)
        frame = pd.DataFrame({"age": age, "dose": dose, "patient": np.arange(n) // 2})
        frame["time"] = rng.exponential(400, n).round() + 1
        frame["event"] = rng.integers(0, 2, n)
        frame["treated"] = rng.integers(0, 2, n)
        effect = np.repeat(rng.normal(size=n), 2)[:n]  # of a patient
        frame["outcome"] = (0.02 * age + dose + effect + rng.normal(size=n)).round(3)
        (folder / "data").mkdir(exist_ok=True)
        frame.to_csv(folder / f"data/{name}.csv", index=False)


LABELLED = ("lr", "pcr", "glm", "ordinal", "mixed", "propensity")
AT_SIDE = {"mixed": ["patient"], "propensity": ["treated"], "cox": ["time", "event"], "survival": ["time", "event"]}


def at_hand(task, folder):
    """The tables of a study with the outcome that its model takes and the columns that it is of."""
    for path in (folder / "data").glob("*.csv"):
        frame = pd.read_csv(path)
        if task in ("glm", "ordinal"):
            words = ["low", "medium", "high"] if task == "ordinal" else [0, 1]
            frame["outcome"] = pd.qcut(frame["outcome"], len(words), labels=words)
        names = ["age", "dose", *(["outcome"] if task in LABELLED else []), *AT_SIDE.get(task, [])]
        frame[names].to_csv(path, index=False)


@pytest.mark.parametrize("task", [task for task in TASKS if task.line and Split.HORIZONTAL in declared(task).splits])
def test_a_first_job_file_runs_to_its_results(fedsvd, tmp_path, monkeypatch, task):
    monkeypatch.chdir(tmp_path)
    names = [word for name in ("north", "south", "west") for word in ("--party", name)]
    components = ("--components", "2") if applies("components", task) else ()
    said = fedsvd("init", tmp_path, "--task", task, *names, *components)
    assert said.code == 0, said.err
    tables(tmp_path)
    at_hand(task, tmp_path)
    for line in said.out.splitlines():
        if line.startswith("  fedsvd "):  # what a person is shown to type next
            done = fedsvd(*line.split()[1:])
            assert done.code == 0, done.err
    assert (tmp_path / f"results/our-{task}/report.html").is_file()


@pytest.mark.parametrize(("task", "split"), KINDS, ids=lambda word: str(word))
def test_every_key_that_is_commented_out_is_one_that_the_task_heeds(fedsvd, tmp_path, task, split):
    fedsvd("init", tmp_path, "--task", task, "--split", split, "--party", "bank", "--party", "shop")
    lines = (tmp_path / "job.toml").read_text().splitlines()[2:]
    record = tomllib.loads("\n".join(line.removeprefix("# ") for line in lines))
    for section in ("prepare", "dictionary", "masks"):
        assert {*record.get(section, {})} <= {option.key for option in section_of(section)}
    assert all(applies(key, task) for key in record["job"] if key not in ("name", "task", "split"))


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
