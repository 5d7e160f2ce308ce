"""What a person at the command line reads when something is wrong: options, names, and the nearest of them."""

import errno

import pandas as pd
import pytest

from fedsvd.cli.main import HEADINGS
from fedsvd.cli.surface import as_options
from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError, EmptyData, ReleaseRefused
from fedsvd.protocol.tasks import Split
from fedsvd.service.failures import first_cause
from fedsvd.service.records import Failure
from fedsvd.storage.faults import what_helps
from fedsvd.studies.parties import Extent, expect_fitting
from fedsvd.types import near


@pytest.mark.parametrize(
    ("fix", "found"),
    [
        ('say how they are treated: missing = "mean", "constant" or "drop"', "--missing mean, constant or drop"),
        ("leave out (drop), make indicators of the levels (categories)", "leave out (--drop), make indicators"),
        ("or give them an order ([prepare.ordinal])", "or give them an order (--ordinal)"),
        ("or fedsvd.open_source(data, drop=['stage'])", "or --drop stage"),
        ("columns = [...] under [prepare], or --columns, takes", "columns = [...], or --columns, takes"),
        ("intercept = false (--no-intercept), or change the formula", "--no-intercept (--no-intercept)"),
        ("check the path", "check the path"),
        ('centre = "joint" under [prepare] would compare them', "--centre joint would compare them"),
    ],
)
def test_keys_of_a_job_file_are_options_at_the_command_line(fix, found):
    assert found in as_options(fix)


@pytest.fixture
def three(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in "abc":
        rows = {"pid": [f"{name}{i}" for i in range(30)], "age": range(30), "bmi": [20 + i % 7 for i in range(30)]}
        rows |= {"dead": ["yes", "no", "no"] * 10, "y": [0.5 * i for i in range(30)]}
        pd.DataFrame(rows).to_csv(f"{name}.csv", index=False)
    return ("--party", "a.csv", "--party", "b.csv", "--party", "c.csv", "--id", "pid")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("glm", "--label", "dead", "--family", "binomial"), "--class no --class yes"),
        (("glm", "--label", "dead", "--family", "binomial", "--class", "yes"), "one class of a binomial model"),
        (("lr", "--label", "Y", "--drop", "dead"), "did you mean 'y'?"),
        (("lr", "--label", "y", "--columns", "age,bmii"), "did you mean 'bmi'?"),
        (("lr", "--formula", "y ~ agee + bmi"), "formula: the table has no column 'agee'"),
        (("lr", "--formula", "dead ~ age + bmi"), "the outcome 'dead' holds text"),
        (
            ("pca", "--columns", "age,dead"),
            "nothing says what becomes of it. Fix: leave out (--drop)",
        ),
        (("pca", "--columns", "age,bmi", "--name", "größe"), "letters a to z"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_fix_names_what_a_person_can_type(fedsvd, three, words, says):
    said = fedsvd(words[0], *three, *words[1:])
    assert said.code in (1, 2)
    assert says in " ".join((said.err + said.out).split())


def test_a_column_that_is_not_there_is_named_next_to_those_that_are():
    table = open_source(pd.DataFrame({"age": [1.0, 2.0], "weight": [3.0, 4.0]}))
    with pytest.raises(ConfigError, match=r"one of 'age', 'weight'; did you mean 'weight'\?"):
        table.column("Weight")
    assert near("AGE", ["age", "wage"]) == "; did you mean 'age'?"


@pytest.mark.parametrize(
    ("number", "says"),
    [(errno.ENOSPC, "free disk space"), (errno.EACCES, "let this user write there"), (errno.EROFS, "read-only")],
)
def test_a_file_that_cannot_be_written_has_the_fix_of_its_cause(number, says):
    assert says in what_helps(OSError(number, "no"))
    assert ("disk space" in what_helps(OSError(number, "no"))) == (number == errno.ENOSPC)


def test_rows_that_do_not_fit_may_be_matched():
    with pytest.raises(Exception, match="--align ecdh --id COLUMN"):
        expect_fitting(Split.VERTICAL, {"a": Extent(10, 2), "b": Extent(9, 3)})


def test_a_table_of_labels_alone_is_refused_with_its_reason():
    with pytest.raises(EmptyData, match="no column is left once ids, labels and dropped ones are taken out"):
        open_source(pd.DataFrame({"y": [1.0, 2.0]})).without(["y"])


class Broken:
    """A job whose first member refused it for a reason of its own data."""

    state, failures = "broken", (Failure(who="party/b", code=ReleaseRefused.code, stage="enlisting"),)

    class job:
        parties = ()


def test_a_refusal_reaches_the_others_as_a_sentence_and_who_to_ask():
    who, error = first_cause(Broken)
    assert (who, error.code) == ("party/b", "FSVD-110")
    assert error.fault == "party/b in enlisting: the plan releases more than a party allows"
    assert error.fix == "ask party/b: its log has the details; once it is put right, resume the job"


def test_doctor_without_a_kit_is_of_the_machine(fedsvd, tmp_path):
    said = fedsvd("doctor", "--format", "json")
    names = [each["name"] for each in said.json["checks"]]
    assert names[:2] == ["versions", "loops over words"]
    assert {"BLAS", "GPU", "extra data", "extra report"} <= set(names)
    assert fedsvd("doctor", "--self").code == 1


def test_help_has_groups_and_fits_eighty_columns(fedsvd):
    text = fedsvd("lr", "--help").out
    headings = ["Data:", "Model:", "Preparation:", "Matching records:", "Privacy:", "Output:", "Running:"]
    places = [text.index(f"\n{heading}\n") for heading in headings]
    assert places == sorted(places)
    assert max(map(len, text.splitlines())) <= 80
    assert text.index("--label") < text.index("Model:") < text.index("--alpha") < text.index("--missing")


def test_every_command_stands_under_a_heading_of_the_help(fedsvd):
    text = fedsvd("--help").out
    assert "\nCommands:" not in text  # where a command without a heading would be
    for heading, names in HEADINGS.items():
        under = text.split(f"\n{heading}:\n")[1].split("\n\n")[0]
        for name in names.split():
            assert f"\n  {name} " in f"\n{under}", name
    assert max(map(len, text.splitlines())) <= 80
