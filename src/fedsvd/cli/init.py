"""``fedsvd init``: a commented job.toml and policy.toml, from a few questions or from options.

What is written is read back before it is kept, so that ``fedsvd plan job.toml`` finds nothing to complain about but
data that is not there yet.
"""

import json
import sys
import tomllib
from pathlib import Path
from typing import Annotated

import typer

from fedsvd.cli.options import FormatOption
from fedsvd.cli.voice import Format, Voice
from fedsvd.errors import ConfigError, StorageError
from fedsvd.identity.policy import POLICY, spelt_policy
from fedsvd.protocol.release import Policy
from fedsvd.protocol.tasks import Split, Task
from fedsvd.runtime.job import TASKS, job_from, schema

JOB = "job.toml"
_ABOUT = {
    Task.SVD: "singular values and vectors",
    Task.PCA: "principal components",
    Task.LSA: "latent semantic analysis",
    Task.LR: "linear regression",
}


def init(
    folder: Annotated[Path, typer.Argument(help="Where the files go.")] = Path(),
    name: Annotated[str | None, typer.Option("--name", help="The study's name.")] = None,
    task: Annotated[str | None, typer.Option("--task", help="svd, pca, lsa or lr.")] = None,
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
    voice = Voice(format)
    if schema_file is not None:
        _write({schema_file: json.dumps(schema(), indent=2) + "\n"})
        voice.answer({"written": [str(schema_file)]}, lambda console: console.print(f"wrote {schema_file}"))
        return
    ask = _Asking(sys.stdin.isatty() and format is Format.TEXT)
    chosen = Task(_one_of("task", ask("What to compute (svd, pca, lsa, lr)", task, "pca"), TASKS))
    study = ask("The study's name", name, f"our-{chosen}")
    parties = party or ask("The parties' names, with commas", None, "hospital-a, hospital-b, hospital-c").split(",")
    rows = "horizontal" if chosen is Task.PCA else ask("Parties hold different rows or columns", split, "rows")
    divided = Split.VERTICAL if rows in ("columns", Split.VERTICAL) else Split.HORIZONTAL
    count = "" if chosen is Task.LR else ask("How many components", components, "5")
    target = ask("The column to predict", label, "outcome") if chosen is Task.LR else ""
    text = job_text(study.strip(), chosen, divided, [word.strip() for word in parties], count, target)
    job_from(tomllib.loads(text), folder)  # a job file that is right, or an error that says why not
    files = {folder / JOB: text, folder / POLICY: spelt_policy(Policy())}
    _write(files)
    voice.answer(
        {"written": [str(path) for path in files]},
        lambda console: console.print(
            f"wrote {' and '.join(map(str, files))}\nnext: put the tables where the [[party]] entries say, then\n"
            f"  fedsvd plan {folder / JOB}\n  fedsvd run {folder / JOB}"
        ),
    )


class _Asking:
    """Questions with defaults: put to the person at a terminal, answered by the default elsewhere."""

    def __init__(self, somebody: bool) -> None:
        self._somebody = somebody

    def __call__(self, question: str, given: object, default: str) -> str:
        if given is not None:
            return str(given)
        return str(typer.prompt(question, default=default, err=True)) if self._somebody else default


def _one_of(what: str, word: str, words: tuple[Task, ...]) -> str:
    if word not in words:
        raise ConfigError(f"{what} is {word!r}", f"one of {', '.join(words)}")
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
        _with(f'task = "{task}"', _ABOUT[task]),
        _with(f'split = "{split}"', same),
    ]
    if components:
        lines.append(f"components = {components}")
    if task is Task.LR:
        lines += [f"label = {json.dumps(label)}", _with("# alpha = 0.1", "a ridge")]
        lines += [f"label_party = {json.dumps(parties[-1])}"] if vertical else []
    if task is Task.PCA:
        lines.append('release = ["components", "mean", "spectrum"]  # leave "spectrum" out to show others less')
        lines.append(_with("# unit_variance = true", "scale every column first"))
    without = 'compared, not part of the data; without one it warns (ids = "trust": no warning)'
    lines.append(_with('# id = "patient"', f"names the rows; {without if vertical else 'it is not part of the data'}"))
    lines += [_with("# sort_by_id = true", "every party sorts its own rows by id first")] if vertical else []
    lines.append(_with('# memory = "2 GiB"', "for panels and batches, in each role"))
    lines += ["", "# [masks]", _with('# scheme = "auto"', "or compressed, mixing"), ""]
    lines += [_with("# [csp]", "between institutions"), '# address = "csp.example.org:7443"', ""]
    lines += [_with("# [authority]", "a Trusted Authority deals the masks"), '# name = "ta"']
    for party in parties:
        path = json.dumps(f"data/{party}.csv")
        lines += ["", "[[party]]", f"name = {json.dumps(party)}"]
        lines.append(_with(f"data = {path}", "on one machine; between institutions site.toml says"))
    return "\n".join(lines) + "\n"


def _with(line: str, comment: str) -> str:
    return f"{line:<32}# {comment}"


def _write(files: dict[Path, str]) -> None:
    taken = [str(path) for path in files if path.exists()]
    if taken:
        raise StorageError(f"{' and '.join(taken)} is there already", "name another folder, or move it away")
    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as fault:
            raise StorageError(f"cannot write {path}: {fault.strerror}", "name another folder") from None
