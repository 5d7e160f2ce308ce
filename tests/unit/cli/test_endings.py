"""How commands end: exit codes, error texts, and JSON that a program can rely on."""

import json
import re

import pytest

from fedsvd import __version__
from fedsvd.cli import study
from fedsvd.cli.option_table import parameters
from fedsvd.errors import FedSVDError
from fedsvd.protocol.tasks import Scheme
from fedsvd.tasks.options import option_of
from fedsvd.tasks.values import SCHEMES


def test_the_version_is_told(fedsvd):
    said = fedsvd("--version")
    assert (said.code, said.out) == (0, f"fedsvd {__version__}\n")


@pytest.mark.parametrize("verb", ["", "demo", "run", "svd", "pca", "lsa", "lr", "plan", "predict"])
def test_every_command_explains_itself_and_has_a_format(verb, fedsvd):
    said = fedsvd(*([verb] if verb else []), "--help")
    assert said.code == 0
    assert "Usage" in said.out
    assert not verb or "--format" in said.out


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["run"],
        ["svd"],
        ["svd", "--party"],
        ["svd", "--party", "a", "--split", "diagonal"],
        ["pca", "--party", "a", "--components", "0"],
        ["pca", "--party", "a", "--scheme", "magic"],
        ["lr", "--party", "a", "--label", "y", "--alpha", "-1"],
        ["run", "job.toml", "--env", "moon"],
        ["demo", "--format", "xml"],
    ],
)
def test_misuse_ends_with_two_in_words_and_in_json(words, fedsvd):
    said = fedsvd(*words)
    assert said.code == 2
    assert said.out == ""
    assert "Error" in said.err
    if "--format" not in words:
        said = fedsvd(*words, "--format", "json")
        assert said.code == 2
        assert said.json["error"]["code"] == "usage"
        assert said.json["error"]["fault"]


@pytest.mark.parametrize("form", [["--format", "json"], ["--format=json"]])
def test_an_error_of_ours_ends_with_one_code_fault_and_fix(form, fedsvd, by_rows):
    words = ["pca", *by_rows.options(), "--id", "patient", "--components", "9"]
    said = fedsvd(*words)
    assert said.code == 1
    assert said.out == ""
    assert re.fullmatch(r"FSVD-100: --components 9\. Fix: .+\n", said.err)
    said = fedsvd(*words, *form)
    assert said.code == 1
    error = said.json["error"]
    assert set(error) == {"code", "fault", "fix", "kind"}
    assert (error["code"], error["kind"]) == ("FSVD-100", "ConfigError")
    assert said.err == ""


def test_the_unexpected_ends_with_three_and_does_not_quote_what_may_be_data(fedsvd, by_rows, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("entry 3.14159 of the matrix")

    monkeypatch.setattr(study, "run_job", broken)
    words = ["svd", *by_rows.options(), "--id", "patient"]
    for form in ([], ["--format", "json"]):
        said = fedsvd(*words, *form)
        assert said.code == 3
        assert "RuntimeError" in said.out + said.err
        assert "3.14159" not in said.out + said.err
    assert said.json["error"]["code"] == "FSVD-000"
    monkeypatch.setenv("FEDSVD_DEBUG", "1")
    assert "Traceback" in fedsvd(*words).err


def test_every_error_of_ours_is_one(fedsvd, by_rows, monkeypatch):
    """A subclass with its own code comes out with that code, whatever else it is a kind of."""

    def kinds(kind):
        children = [child for child in kind.__subclasses__() if child.__module__ == FedSVDError.__module__]
        return [kind, *(each for child in children for each in kinds(child))]

    def raising(error):
        def run_job(*_, **__):
            raise error

        return run_job

    for kind in kinds(FedSVDError):
        monkeypatch.setattr(study, "run_job", raising(kind("a fault", "a fix")))
        said = fedsvd("svd", *by_rows.options(), "--id", "patient", "--format", "json")
        assert (said.code, said.json["error"]["code"]) == (1, kind.code)


def test_an_interrupt_ends_as_shells_expect(fedsvd, by_rows, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(study, "run_job", stopped)
    assert fedsvd("svd", *by_rows.options(), "--id", "patient").code == 130


def test_the_schemes_of_the_options_are_those_of_job_files():
    assert ("auto", *Scheme) == SCHEMES
    _, default = parameters(option_of("masks", "scheme"))["scheme"]
    assert default == "auto"
    assert option_of("masks", "scheme").kind.choices == SCHEMES


def test_names_in_files_are_not_taken_for_markup(fedsvd, by_rows):
    table = by_rows.joint.rename(columns={"outcome": "[red]outcome[/red]"})
    for name, rows in (("a", slice(0, 60)), ("b", slice(60, None))):
        table[rows].to_csv(f"{name}.csv", index=False)
    label = "[red]outcome[/red]"
    said = fedsvd("lr", "--party", "a.csv", "--party", "b.csv", "--id", "patient", "--label", label)
    assert said.code == 0
    assert label in said.out


def test_json_is_json_whatever_a_column_is_called(fedsvd, by_rows):
    table = by_rows.joint.rename(columns={"outcome": 'ré"sult\n'})
    for name, rows in (("a", slice(0, 60)), ("b", slice(60, None))):
        table[rows].to_parquet(f"{name}.parquet", index=False)
    words = ["lr", "--party", "a.parquet", "--party", "b.parquet", "--id", "patient", "--label", 'ré"sult\n']
    said = fedsvd(*words, "--format", "json")
    assert said.code == 0
    assert json.loads(said.out)["task"] == "lr"
