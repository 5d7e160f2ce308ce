"""What a person at the command line reads when something is wrong: options, names, and the nearest of them."""

import errno
import re

import numpy as np
import pandas as pd
import pytest
import typer
from typer.main import get_command

from fedsvd import FederatedPCA, Policy, Simulation, prepared
from fedsvd.cli.main import HEADINGS, cli
from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError, DataWarning, EmptyData, NotConverged, NotNumeric, ReleaseRefused
from fedsvd.protocol.tasks import Split
from fedsvd.service.failures import first_cause
from fedsvd.service.records import Failure
from fedsvd.storage.faults import what_helps
from fedsvd.studies.parties import Extent, expect_fitting
from fedsvd.tasks.surface import Surface, spelt
from fedsvd.types import near


@pytest.mark.parametrize(
    ("fix", "found"),
    [
        ('say how they are treated: missing = "mean", "constant" or "drop"', "--missing mean, constant or drop"),
        ("leave out (drop), make indicators of the levels (categories)", "leave out (--drop), make indicators"),
        ("or give them an order ([prepare.ordinal])", "or give them an order (--ordinal)"),
        ('else drop = ["stage"]', "else --drop stage"),
        ('classes = ["no", "yes"], in a', "--class no --class yes, in a"),
        ("name all of them: classes = [...]", "name all of them: --class NAME for each"),
        ("times = [30, 60] or", "--times 30 --times 60 or"),
        ("say so too: intercept = false; or", "--no-intercept; or"),
        ('name one: [dictionary] file = "dictionary.toml";', "name one: --dictionary dictionary.toml;"),
        (
            "chol = { missing = [-9] } in the map of the table;",
            "chol = { missing = [-9] } in the map of the table, --map;",
        ),
        ("check the path", "check the path"),
        ('centre = "joint" under [prepare] would compare them', "--centre joint would compare them"),
    ],
)
def test_keys_of_a_job_file_are_options_at_the_command_line(fix, found):
    assert found in spelt(fix, Surface.OPTIONS)


@pytest.mark.parametrize(
    ("fix", "found"),
    [
        ('missing = "mean" or "drop"', 'missing="mean" or "drop" of fedsvd.prepared'),
        ("leave it out (drop)", "leave it out (drop= of fedsvd.prepared)"),
        ("intercept = false", "fit_intercept=False"),
        ('set scheme = "sum" under [masks]', 'set masks=Masks(scheme="sum")'),
        (
            'bili = { factor = 2.0, missing = ["."] } in the map of the table',
            '"."] } in the map of the table, map= of fedsvd',
        ),
    ],
)
def test_keys_of_a_job_file_are_keywords_in_python(fix, found):
    assert found in spelt(fix, Surface.KEYWORDS)


def test_the_map_of_a_table_is_where_the_surface_has_it_and_is_said_once():
    text = "say so in the map of the table; or leave it out"
    places = {
        Surface.OPTIONS: "--map",
        Surface.KEYS: "map of its [[party]]",
        Surface.KEYWORDS: "map= of fedsvd.prepared",
        Surface.SITE: "[table] of site.toml",
    }
    for surface, place in places.items():
        said = spelt(text, surface)
        assert said == f"say so in the map of the table, {place}; or leave it out"
        assert all(spelt(said, other) == said for other in (Surface.KEYS, Surface.SITE, surface))
    # A line about one column is no key of [table], which describes the file.
    line = "temp = { factor = 0.5 } in the map of the table; or leave it out"
    said = spelt(line, Surface.SITE)
    assert said == line.replace("; or", ", [table.map] of site.toml; or")
    assert spelt(said, Surface.KEYS) == said


def test_an_estimator_speaks_of_keywords_and_a_command_of_options(fedsvd, three):
    frames = [pd.read_csv(f"{name}.csv").drop(columns="pid") for name in "abc"]
    with pytest.raises(NotNumeric, match=r"categories= of fedsvd\.prepared.*drop=\[\"dead\"\] of fedsvd\.prepared"):
        FederatedPCA(federation=Simulation(policy=Policy.permissive())).fit(frames)
    said = " ".join(fedsvd("pca", *three).err.split())
    assert "party a, party b and party c: column 'dead' holds text on line 2" in said
    assert (
        "(--categories), or leave the column out: name it as id (--id) if it names the rows, else --drop dead" in said
    )


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
        (("pca", "--columns", "age,bmi", "--name", "größe"), "--name is not usable. Fix: letters a to z"),
        (("glm", "--label", "y", "--family", "binomal"), "'--family': 'binomal' is not one of"),
        (("lr", "--label", "y", "--alpha", "-1"), "'--alpha': give a number from 0 up"),
        (("lr", "--label", "y", "--alpha", "half"), "'--alpha': give a number "),
        (("lr", "--formula", "y ~ age +"), "the formula ends where a term should stand. Fix: write terms such as"),
        (("lr", "--formula", "y ~ age", "--label", "y"), "leave it out (--label): it stands left of ~"),
        (("pca", "--columns", "age,bmi", "--constant", "3"), "set --missing constant too, or leave out (--constant)"),
        (("cox", "--label", "y", "--event", "dead"), "column 'dead' holds text, and is read as numbers. Fix: name a"),
        (("lr", "--label", "y", "--weights", "dead"), "or number its levels from 0, in their order (--ordinal)"),
        (
            ("survival", "--label", "y", "--event", "age", "--times", "9", "--times", "3"),
            "the times at which counts are opened do not rise. Fix: name each above the one before (--times)",
        ),
        (("pca", "--columns", "age,bmi", "--figures", "a.csv/drawn"), "cannot draw figures in a.csv/drawn"),
        (("pca", "--columns", "age,bmi", "--scratch", "none"), "another folder for temporary files (--scratch)"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_fix_names_what_a_person_can_type(fedsvd, three, words, says):
    said = fedsvd(words[0], *three, *words[1:])
    assert said.code in (1, 2)
    assert says in " ".join((said.err + said.out).split())


def test_a_name_that_two_options_have_is_one_mistake(fedsvd, three):
    words = ("--label", "y", "--event", "age", "--times", "9", "--group", "deed", "--groups", "yes", "--groups", "no")
    said = " ".join(fedsvd("survival", *three, *words).err.split())
    assert "the table has no column 'deed'" in said
    assert "did you mean 'dead'?" in said
    assert "problems were found" not in said


def test_a_map_of_a_column_that_no_table_has_is_pointed_out(fedsvd, three, tmp_path):
    (tmp_path / "a.toml").write_text("[map]\nbmii = { factor = 3 }\n")
    says = "the map is of column 'bmii', and the table has none of that name; did you mean 'bmi'?"
    study = ("--columns", "age,bmi", "--components", "1", "--map", "a=a.toml")
    assert f"party a: {says}" in " ".join(fedsvd("pca", *three, *study).err.split())
    assert f"a.csv: {says}" in " ".join(fedsvd("look", "a.csv", "--map", "a.toml").out.split())
    frames = [pd.read_csv(f"{name}.csv")[["age", "bmi"]] for name in "abc"]
    with pytest.warns(DataWarning, match=f"^{re.escape(says)}"):  # one map of all tables
        prepared(frames, map={"bmii": {"factor": 3}})
    with pytest.warns(DataWarning, match=f"^party 2: {re.escape(says)}"):
        prepared(frames, map=[None, {"bmii": {"factor": 3}}, None])


def test_a_map_of_several_tables_may_name_columns_of_one(three, recwarn):
    frames = [pd.read_csv(f"{name}.csv")[["age", "bmi"]] for name in "ab"]
    frames[1] = frames[1].rename(columns={"bmi": "BMI"})
    tables = prepared(frames, map={"BMI": {"name": "bmi"}})
    assert [table.names for table in tables] == [("age", "bmi")] * 2
    assert not [each for each in recwarn if issubclass(each.category, DataWarning)]


def test_ids_with_zeros_in_front_are_subjects(fedsvd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng, results = np.random.default_rng(8), []
    frames = [
        pd.DataFrame({"who": np.repeat(np.arange(40), 4), "x": rng.normal(size=160), "y": rng.normal(size=160)})
        for _ in "ab"
    ]
    for written in (lambda who: f"{who:04d}", lambda who: f"P{who}"):
        for name, frame in zip("ab", frames, strict=True):
            frame.assign(who=frame["who"].map(written)).to_csv(f"{name}.csv", index=False)
        words = ("--party", "a.csv", "--party", "b.csv", "--label", "y", "--subject", "who", "--overwrite")
        assert fedsvd("mixed", *words).code == 0
        results.append(pd.read_csv("results/mixed/coefficients.csv"))
    pd.testing.assert_frame_equal(*results)


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
    with pytest.raises(Exception, match='align = "ecdh"'):
        expect_fitting(Split.VERTICAL, {"a": Extent(10, 2), "b": Extent(9, 3)})


def test_a_table_of_labels_alone_is_refused_with_its_reason():
    with pytest.raises(EmptyData, match="no column is left once ids, labels and dropped ones are taken out"):
        open_source(pd.DataFrame({"y": [1.0, 2.0]})).without(["y"])


class Stopped:
    """A job that its researcher ended before any member failed."""

    name, state, failures = "ours", "stopped", ()


def test_a_job_that_was_stopped_sends_no_one_to_a_log():
    _, error = first_cause(Stopped)
    assert (error.fault, error.fix) == (
        "the job is stopped",
        "it has ended for good: submit it again, if it is still wanted",
    )


class Broken:
    """A job whose first member refused it for a reason of its own data."""

    name, state, failures = "ours", "broken", (Failure(who="party/b", code=ReleaseRefused.code, stage="enlisting"),)

    class job:
        parties = ()


def test_the_dictionary_of_a_table_takes_that_table_once_its_range_is_widened(fedsvd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stay = [*range(1, 40), 900]
    stage = [*["none"] * 20, *["mild"] * 20]
    pd.DataFrame({"stay": stay, "stage": stage}).to_csv(tmp_path / "t.csv", index=False)
    noted = fedsvd("dictionary", "propose", "t.csv", "--out", "d.toml")
    assert "1 records are outside of the proposed range, and a study refuses them: widen range in the file" in noted.err
    said = fedsvd("dictionary", "check", "d.toml", "t.csv")
    assert said.code == 1
    assert "in the map of the table, --map; if they are right, widen the range of the dictionary" in " ".join(
        said.out.split()
    )
    assert "site.toml" not in said.out
    proposed = (tmp_path / "d.toml").read_text()
    (tmp_path / "d.toml").write_text(re.sub(r"range = .*", "range = [0, 1000]", proposed))
    assert "The table fits the dictionary" in fedsvd("dictionary", "check", "d.toml", "t.csv").out


def test_a_refusal_reaches_the_others_as_a_sentence_and_who_to_ask():
    who, error = first_cause(Broken)
    assert (who, error.code) == ("party/b", "FSVD-110")
    assert error.fault == "party/b in enlisting: the plan releases more than a party allows"
    assert error.fix.startswith("ask party/b: its log has the details; once it is put right, resume the job")
    assert error.fix.endswith("fedsvd job resume ours")


def test_a_search_that_did_not_converge_is_to_be_asked_for_in_another_way_and_is_not_resumed(monkeypatch):
    monkeypatch.setattr(Broken, "failures", (Failure(who="party/b", code=NotConverged.code, stage="computing"),))
    _, error = first_cause(Broken)
    assert 'scheme = "sum" instead of steps' in error.fix
    assert "resume" not in error.fix


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


def commands(group, *before):
    """Every command of a group and of its groups, with all words."""
    context = typer.Context(group)
    for name in group.list_commands(context):
        _, command, _ = group.resolve_command(context, [name])
        yield (*before, name), command
        if hasattr(command, "list_commands"):
            yield from commands(command, *before, name)


def test_the_help_of_every_command_is_plain_and_fits_eighty_columns(fedsvd):
    for words, command in commands(get_command(cli)):
        if words[0] in ("bench", "reproduce"):  # of another distribution
            continue
        text = fedsvd(*words, "--help").out
        assert text.startswith("Usage: "), words
        assert max(map(len, text.splitlines())) <= 80, words
        assert command.get_short_help_str(200).split(".")[0] in " ".join(text.split()), words


def test_arguments_stand_apart_from_options_under_the_names_of_the_usage_line(fedsvd):
    text = fedsvd("dictionary", "check", "--help").out
    assert text.splitlines()[0].endswith("dictionary check [OPTIONS] DICTIONARY [FILE]")
    arguments, options = text.split("\nArguments:\n")[1].split("\nOptions:\n")
    assert [line.split()[0] for line in arguments.splitlines() if line] == ["DICTIONARY", "[FILE]"]
    assert options.lstrip().startswith("--map")
    assert fedsvd("look", "--help").out.splitlines()[0].endswith("look [OPTIONS] FILE...")


def test_a_pipe_is_as_wide_as_columns_says(fedsvd, three, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    narrow = fedsvd("look", "a.csv", "b.csv")
    assert max(map(len, (narrow.out + narrow.err).splitlines())) <= 80
    monkeypatch.delenv("COLUMNS")
    assert max(map(len, fedsvd("look", "a.csv", "b.csv").out.splitlines())) > 80


def test_a_notice_is_no_wider_than_the_terminal(fedsvd, three, monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    said = fedsvd("lr", *three, "--label", "y", "--drop", "dead", "--quiet")
    notices = [line for line in said.err.splitlines() if line.startswith(("Privacy: ", "  "))]
    assert notices
    assert max(map(len, notices)) <= 70


def test_every_command_stands_under_a_heading_of_the_help(fedsvd):
    text = fedsvd("--help").out
    assert "\nCommands:" not in text  # where a command without a heading would be
    for heading, names in HEADINGS.items():
        under = text.split(f"\n{heading}:\n")[1].split("\n\n")[0]
        for name in names.split():
            assert f"\n  {name} " in f"\n{under}", name
    assert max(map(len, text.splitlines())) <= 80
