"""``fedsvd init``: a commented job.toml and policy.toml, from a few questions or from options.

An answer that cannot be used is asked for again, with what is wrong with it; an option that cannot be used is an error.
What is written is read back first, so that ``fedsvd plan job.toml`` finds nothing wrong but data that is not there yet.
"""

import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from fedsvd.cli.options import FormatOption
from fedsvd.cli.output import Format, Output
from fedsvd.errors import ConfigError, StorageError
from fedsvd.policy.policy_file import POLICY, spelt_policy
from fedsvd.policy.rules import Policy
from fedsvd.protocol.parties import NAME
from fedsvd.protocol.tasks import Answer, Split, Task
from fedsvd.storage import private
from fedsvd.studies.job_faults import NAME_RULE
from fedsvd.studies.job_file import job_from, schema
from fedsvd.tasks.declared import declared
from fedsvd.tasks.option import TASKS
from fedsvd.tasks.options import applies
from fedsvd.types import near

JOB, DICTIONARY = "job.toml", "dictionary.toml"
Said = TypeVar("Said")
_ANY_DICTIONARY = {"says": {"columns": {"age": {"range": [0, 120]}}}}  # in the place of one that is yet to be written
_ASKED = [str(task) for task in TASKS if task.line]  # with a command of its own


def init(
    folder: Annotated[Path, typer.Argument(help="Where the files go.")] = Path(),
    name: Annotated[str | None, typer.Option("--name", help="The study's name.")] = None,
    task: Annotated[str | None, typer.Option("--task", help=f"One of {', '.join(_ASKED)}.")] = None,
    split: Annotated[Split | None, typer.Option("--split", help="What the parties hold differently.")] = None,
    party: Annotated[list[str] | None, typer.Option("--party", metavar="NAME", help="Once for each party.")] = None,
    components: Annotated[int | None, typer.Option(min=1, help="How many components.")] = None,
    label: Annotated[str | None, typer.Option("--label", help="The column to predict.")] = None,
    schema_file: Annotated[
        Path | None, typer.Option("--schema", metavar="FILE", help="Write the JSON Schema of job files, and no more.")
    ] = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Write a job.toml and a policy.toml to begin with; asks for what options do not say."""
    output = Output(format)
    if schema_file is not None:
        _write({schema_file: json.dumps(schema(), indent=2) + "\n"})
        output.answer({"written": [str(schema_file)]}, lambda console: console.print(f"wrote {schema_file}"))
        return
    _expect_free([folder / JOB, folder / POLICY])  # before the questions, not after them
    ask = Asking(sys.stdin.isatty() and format is Format.TEXT)
    chosen = ask(f"What to compute ({', '.join(_ASKED)})", task, "pca", _task)
    study = ask("The study's name", name, f"our-{chosen}", _name)
    named = ", ".join(party) if party else None
    parties = ask("The parties' names, with commas", named, "hospital-a, hospital-b, hospital-c", _parties)
    divided = declared(chosen).splits[0]
    if len(declared(chosen).splits) > 1 or split is not None:
        divided = ask("Parties hold different rows or columns", split, "rows", _split)
    count = ask("How many components", components, "5", _count) if applies("components", chosen) else ""
    target = ask(*_label(chosen, label), _column) if applies("label", chosen) else ""
    text = job_text(study, chosen, divided, parties, count, target)
    described = {"dictionary": _ANY_DICTIONARY} if declared(chosen).by_dictionary else {}
    job_from(tomllib.loads(text) | described, folder)  # a job file that is right, or an error that says why not
    files = {folder / JOB: text, folder / POLICY: spelt_policy(Policy())}
    _write(files)
    first = f"fedsvd dictionary propose {folder / 'data' / parties[0]}.csv --out {folder / DICTIONARY}"
    steps = [*([first] if described else []), f"fedsvd plan {folder / JOB}", f"fedsvd run {folder / JOB}"]
    said = [f"wrote {' and '.join(map(str, files))}", "next: put the tables where the [[party]] entries say, then"]
    output.answer(
        {"written": [str(path) for path in files]},
        lambda console: console.print("\n  ".join(["\n".join(said), *steps]), soft_wrap=True),
    )


def _label(task: Task, given: str | None) -> tuple[str, str | None, str]:
    """The question for the label column, what is given, and the default."""
    usual = declared(task).first_label
    return f"The column {'of times' if usual == 'time' else 'to predict'}", given, usual


class Asking:
    """Questions with defaults: put to the person at a terminal until the answer can be used, else the default."""

    def __init__(self, interactive: bool) -> None:
        self.interactive = interactive

    def __call__(self, question: str, given: object, default: str, read: Callable[[str], Said]) -> Said:
        if given is not None:
            return read(str(given).strip())
        while self.interactive:
            try:
                return read(str(typer.prompt(question, default=default, err=True)).strip())
            except ConfigError as error:
                typer.echo(f"{error.fault}: {error.fix}", err=True)
        return read(default)


def _task(word: str) -> Task:
    if word not in _ASKED:
        raise ConfigError(f"{word!r} is not a task", f"one of {', '.join(_ASKED)}{near(word, _ASKED)}")
    return Task(word)


def _name(word: str) -> str:
    if re.fullmatch(NAME, word) is None:
        raise ConfigError(f"{word!r} cannot be a name", NAME_RULE)
    return word


def _parties(words: str) -> list[str]:
    names = [_name(word.strip()) for word in words.split(",") if word.strip()]
    if len(names) < 2:
        raise ConfigError(f"{len(names)} parties are named", "name at least two, with commas between them")
    if len({name.lower() for name in names}) < len(names):
        raise ConfigError("two parties have the same name", "give every party a name of its own")
    return names


def _split(word: str) -> Split:
    known = {"rows": Split.HORIZONTAL, "columns": Split.VERTICAL, **{str(split): split for split in Split}}
    if word.lower() not in known:
        raise ConfigError(f"{word!r} is neither rows nor columns", f"type rows or columns{near(word, known)}")
    return known[word.lower()]


def _count(word: str) -> str:
    if not word.isdecimal() or int(word) < 1:
        raise ConfigError(f"{word!r} is not a number of components", "a whole number, 1 or more")
    return str(int(word))


def _column(word: str) -> str:
    if not word:
        raise ConfigError("the name of a column is empty", "type it as it stands in the header of the table")
    return word


def job_text(name: str, task: Task, split: Split, parties: list[str], components: str, label: str) -> str:
    """A job file with a comment on every line that a person may want to change."""
    vertical = split is Split.VERTICAL
    same = "different columns of the same rows" if vertical else "different rows of the same columns"
    lines = [
        "# A study, for every rung: fedsvd plan, run --env sim, run --env local, job submit.",
        "# Every key is described in docs/job-file.md.",
        "[job]",
        f"name = {json.dumps(name)}",
        _with(f'task = "{task}"', task.in_a_sentence),
        _with(f'split = "{split}"', same),
    ]
    if components:
        rules = "or a share of the variance: 0.95, mle, parallel, gavish-donoho" if task is Task.PCA else ""
        lines.append(_with(f"components = {components}", rules) if rules else f"components = {components}")
    lines += [f"label = {json.dumps(label)}"] if label else []
    lines += [f"label_party = {json.dumps(parties[-1])}"] if label and vertical else []
    lines += [_with(line, comment) for line, comment in declared(task).first_lines]
    without = 'compared, not part of the data; without one it warns (ids = "trust": no warning)'
    lines.append(_with('# id = "patient"', f"names the rows; {without if vertical else 'it is not part of the data'}"))
    lines += [_with("# sort_by_id = true", "every party sorts its own rows by id first")] if vertical else []
    lines.append(_with('# memory = "2 GiB"', "for panels and batches, in each role"))
    mark = "" if declared(task).by_dictionary else "# "
    lines += ["", _with(f"{mark}[dictionary]", "the consortium's codebook: columns, units, levels")]
    lines.append(_with(f'{mark}file = "{DICTIONARY}"', "fedsvd dictionary propose FILE writes a first one"))
    if declared(task).answer is not Answer.SUMS and not vertical:
        lines += ["", _with("# [prepare]", "what is done to every party's table first")]
        lines.append(_with('# columns = ["age", "weight"]', "those of the study; all where left out"))
        lines.append(_with('# missing = "drop"', "rows with an empty cell; an error where left out"))
    lines += ["", "# [masks]", _with('# scheme = "auto"', "or sum, mask, steps"), ""]
    lines += [_with("# [csp]", "between institutions"), '# address = "csp.example.org:7443"', ""]
    lines += [_with("# [authority]", "a Trusted Authority deals the masks"), '# name = "ta"']
    for party in parties:
        path = json.dumps(f"data/{party}.csv")
        lines += ["", "[[party]]", f"name = {json.dumps(party)}"]
        lines.append(_with(f"data = {path}", "on one machine; between institutions site.toml says"))
    return "\n".join(lines) + "\n"


def _with(line: str, comment: str) -> str:
    return f"{line:<34}  # {comment}"


def _expect_free(paths: Iterable[Path]) -> None:
    taken = [str(path) for path in paths if path.exists()]
    if taken:
        raise StorageError(f"{' and '.join(taken)} is there already", "name another folder, or move it away")


def _write(files: dict[Path, str]) -> None:
    _expect_free(files)
    for path, text in files.items():
        private.make_folders_or_say(path.parent)
        private.create(path, text.encode())
