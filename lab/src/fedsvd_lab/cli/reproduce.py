"""``fedsvd reproduce``: the paper's tables and figures, run here and put next to the paper's own numbers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from fedsvd.cli.options import FormatOption, Quiet, Scratch
from fedsvd.cli.output import Format, Output, duration, facts, listing
from fedsvd.errors import ConfigError
from fedsvd.types import near

if TYPE_CHECKING:
    from fedsvd_lab.experiments.reproduce import Summary

_SEED = 100
Names = Annotated[list[str], typer.Argument(help="Experiments, or 'all'; without any, a list of them.")]


def reproduce(
    names: Names = [],  # noqa: B006  (typer wants a list, and no code changes it)
    quick: Annotated[bool, typer.Option("--quick", help="Sizes that take minutes on two cores.")] = False,
    smoke: Annotated[bool, typer.Option("--smoke", hidden=True, help="Sizes that take seconds.")] = False,
    data: Annotated[Path | None, typer.Option(help="Folder with wine/, mnist/ and ml-100k/.")] = None,
    fetch: Annotated[bool, typer.Option("--fetch", help="Download data sets that are not here.")] = False,
    out: Annotated[Path, typer.Option(help="Where everything is written.")] = Path("results/reproduce"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Run finished cases again.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the data that is drawn.")] = _SEED,
    scratch: Scratch = None,
    quiet: Quiet = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """The paper's tables and figures: its own numbers, our run of its scheme, our default, side by side."""
    # Imported here: --help needs none of the experiments.
    from fedsvd.cli.local_run import ended_by_signals
    from fedsvd_lab.baselines.pool import cores
    from fedsvd_lab.datasets.library import Library
    from fedsvd_lab.experiments.context import Context
    from fedsvd_lab.experiments.experiment import Size, experiments
    from fedsvd_lab.experiments.reproduce import reproduce as run_experiments

    output = Output(format, quiet)
    known = experiments()
    if not names:
        rows = [(name, experiment.title) for name, experiment in known.items()]
        output.answer({"experiments": dict(rows)}, lambda console: console.print(listing(("name", "what"), rows)))
        return
    chosen = _chosen(names, list(known))
    size = Size.SMOKE if smoke else Size.QUICK if quick else Size.FULL
    context = Context(Library.here(data, fetch), scratch, seed, cores(), output.line)
    if fresh:
        for name in chosen:
            (out / "rows" / f"{name}.jsonl").unlink(missing_ok=True)
    with ended_by_signals(), output.notices_of_warnings():
        summary = run_experiments(chosen, size, context, out)
    output.answer(_record(summary, out), lambda console: _show(console, summary, out))
    if summary.missing:
        raise typer.Exit(1)


def _chosen(names: list[str], known: list[str]) -> list[str]:
    if "all" in names:
        return known
    for name in names:
        if name not in known:
            raise ConfigError(f"no experiment is named {name!r}", f"one of all, {', '.join(known)}{near(name, known)}")
    return [name for name in known if name in names]


def _record(summary: "Summary", out: Path) -> dict[str, object]:
    return {
        "ran": summary.ran,
        "finished_before": summary.finished_before,
        "not_run": summary.missing,
        "comparisons": len(summary.verdicts),
        "comparisons_that_hold": sum(verdict.holds for verdict in summary.verdicts),
        "seconds": summary.seconds,
        "out": str(out),
    }


def _show(console: Console, summary: "Summary", out: Path) -> None:
    held = sum(verdict.holds for verdict in summary.verdicts)
    console.print(
        facts(
            {
                "cases": f"{summary.ran} run, {summary.finished_before} finished before",
                "comparisons": f"{held} of {len(summary.verdicts)} hold",
                "time": duration(summary.seconds),
                "page": out / "reproduce.html",
                "tables": out / "tables.md",
                "rows": out / "rows.csv",
            }
        )
    )
    for verdict in summary.verdicts:
        if not verdict.holds:
            numbers = f"{verdict.value:.3g} against {verdict.bar:.3g}"
            console.print(f"does not hold: {verdict.check} ({verdict.case}; {verdict.method}: {numbers})")
    for name, lines in summary.missing.items():
        for line in lines:
            console.print(f"not run: {name}: {line}")
