"""``fedsvd bench scale``: studies of growing size, how their time grows, and what the cost model estimated.

Every size is predicted before it is run: by the cost model at this machine's measured rates and the time that making
the data takes; after the first size also by what that one took in addition to its work, and how its work differed. JSON
always, a plot where matplotlib is.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fedsvd.cli.group import Group
from fedsvd.cli.options import FormatOption, Quiet
from fedsvd.cli.output import Format, Output, duration
from fedsvd.cli.watch import watched
from fedsvd.cost.calibration import rated
from fedsvd.errors import ConfigError
from fedsvd.protocol.tasks import Task
from fedsvd.results.folder import expect_free
from fedsvd.types import byte_size, bytes_of
from fedsvd_lab.scale import Case, Step, exponent, generation, measured, modelled

bench = Group(help="Speed, memory and bytes, measured on this machine.")
_SIZES = {Task.SVD: "100k,200k,500k,1M,2M", Task.LR: "100k,200k,500k,1M"}


@bench.callback()
def _group() -> None:
    """Speed, memory and bytes, measured on this machine."""


@bench.command()
def scale(
    task: Annotated[Task, typer.Option(help="svd: columns grow. lr: rows grow, columns split.")] = Task.SVD,
    short: Annotated[int, typer.Option(min=2, help="The side that stays: rows of an SVD, columns of lr.")] = 1000,
    sizes: Annotated[str | None, typer.Option(help="The side that grows, such as 100k,1M,2M.")] = None,
    alpha: Annotated[float, typer.Option(min=0.0, help="Decay of the spectrum (svd): j^-alpha.")] = 0.01,
    memory: Annotated[str, typer.Option(help="What a role may use.")] = "1 GiB",
    alone: Annotated[bool, typer.Option("--alone", help="Also time the centralised streaming route.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for scale.json and scale.png.")] = Path("bench"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what lies there.")] = False,
    quiet: Quiet = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """Run sizes in steps on made data, one process per role; fit the growth and compare with the cost model."""
    if task not in _SIZES:
        raise ConfigError(f"no scale benchmark for {task}", f"one of {', '.join(_SIZES)}")
    output = Output(format, quiet)
    if not overwrite and (out / "scale.json").exists():
        expect_free(out, False)
    cases = [Case(task, short, long, alpha, memory=_bytes(memory)) for long in _lengths(sizes or _SIZES[task])]
    steps = _run(output, cases, alone)
    record = _record(cases, steps)
    out.mkdir(parents=True, exist_ok=True)
    (out / "scale.json").write_text(json.dumps(record, indent=1) + "\n")
    plotted = _plot(record, out / "scale.png")
    if plotted is None:
        output.line("no plot: matplotlib is not installed (pip install 'fedsvd[report]')")
    output.answer({**record, "plot": plotted}, lambda console: _show(console, record, out))


def _bytes(text: str) -> int:
    try:
        return int(str(bytes_of(text)))
    except ValueError:
        raise ConfigError(f"memory is {text!r}", 'a number of bytes, or a text such as "512 MiB"') from None


def _lengths(text: str) -> list[int]:
    units = {"": 1, "k": 1000, "m": 10**6}
    found = []
    for word in text.lower().replace(" ", "").split(","):
        unit = word[-1:] if word[-1:] in units else ""
        try:
            found.append(int(float(word.removesuffix(unit)) * units[unit]))
        except ValueError:
            raise ConfigError(f"sizes is {text!r}", "numbers such as 100k,1M,2M") from None
    if len(found) < 2 or min(found) < 4 or found != sorted(set(found)):
        raise ConfigError(f"sizes is {text!r}", "two sizes or more, growing")
    return found


def _run(output: Output, cases: list[Case], alone: bool) -> list[Step]:
    machine, factor, overhead, steps = rated().machine, 1.0, 0.0, []
    for case in cases:
        made = generation(case) / 2  # two parties make their halves at the same time
        model = modelled(case, machine)
        estimated = overhead + made + factor * model
        output.line(f"{case.task} {case.short:,} x {case.long:,}: about {duration(estimated)} estimated")
        with watched(output) as seen:
            step = measured(case, estimated, alone=alone, seen=seen)
        output.line(f"{case.task} {case.short:,} x {case.long:,}: {duration(step.seconds)} measured")
        overhead, factor = step.seconds - step.busy, max(step.busy - made, 0.01) / model
        steps.append(step)
    return steps


def _record(cases: list[Case], steps: list[Step]) -> dict[str, Any]:
    sizes = [step.long for step in steps]
    return {
        "what": f"{cases[0].task}, two parties, the short side {cases[0].short}, one process per role",
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "task": cases[0].task,
        "short": cases[0].short,
        "alpha": cases[0].alpha,
        "memory": cases[0].memory,
        "exponent": exponent(sizes, [step.seconds for step in steps]),
        "exponent_of_growing_stages": exponent(sizes, [step.growing for step in steps]),
        "steps": [step.record() for step in steps],
    }


def _show(console: Console, record: dict[str, Any], out: Path) -> None:
    table = Table(
        "size", "estimated", "measured", "measured / estimated", "making data", "bytes", "peak memory of a role"
    )
    for step in record["steps"]:
        ratio = step["seconds"] / step["predicted"]
        cells = (duration(step["predicted"]), duration(step["seconds"]), f"{ratio:.2f}", duration(step["generation"]))
        most = max(step["peak_memory"].values(), default=0)
        table.add_row(f"{step['long']:,}", *cells, byte_size(step["bytes_total"]), byte_size(most))
    console.print(table)
    console.print(f"time grows like n^{record['exponent']:.3f}", end="; ")
    console.print(f"that of the passes over the data like n^{record['exponent_of_growing_stages']:.3f}")
    for step in record["steps"]:
        if step["alone"] is not None:
            both = step["seconds"] / step["alone"]["seconds"], step["cpu"] / step["alone"]["cpu"]
            console.print(f"{step['long']:,}: {both[0]:.2f} times the centralised route, {both[1]:.2f} in CPU time")
    console.print(f"written: {out}/scale.json")


def _plot(record: dict[str, Any], path: Path) -> str | None:
    """Measured and estimated times over sizes, both axes logarithmic; None without matplotlib."""
    try:
        from matplotlib.backends.backend_svg import FigureCanvasSVG as _  # noqa: F401  part of any installation
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    sizes = [step["long"] for step in record["steps"]]
    axes.loglog(sizes, [step["seconds"] for step in record["steps"]], "o-", label="measured")
    axes.loglog(sizes, [step["predicted"] for step in record["steps"]], "x--", label="estimated")
    axes.loglog(sizes, [step["generation"] / 2 for step in record["steps"]], ":", label="of it, making the data")
    axes.set(xlabel="length of the growing side", ylabel="seconds", title=record["what"])
    axes.legend(title=f"growth n^{record['exponent']:.2f}")
    figure.savefig(path, dpi=120)
    return str(path)
