"""What draws ``report.html``: the ``report`` extra, where it is installed; and ``fedsvd report``."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsvd.cli.options import FormatOption
from fedsvd.cli.output import Format, Output
from fedsvd.results.folder import REPORT
from fedsvd.storage import private

if TYPE_CHECKING:
    from fedsvd.results.result import PartyResult
    from fedsvd.results.write import Draw

WITHOUT = "none, because jinja2 is missing: pip install 'fedsvd[report]'"


def drawing() -> "Draw | None":
    """Draws a report, where the extra that it needs is installed."""
    if find_spec("jinja2") is None:
        return None
    return _draw


def _draw(result: "PartyResult") -> str:
    # Imported here: a role that starts has nothing to draw yet.
    from fedsvd.results.report.page import render

    return render(result)


def drawn(folder: Path) -> str | None:
    """Where the report of a results folder is, if it has one."""
    return str(folder / REPORT) if (folder / REPORT).is_file() else None


def report(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="A results folder, yours or what all share.")],
    out: Annotated[Path | None, typer.Option("--out", help="The page to write; RESULTS-report.html otherwise.")] = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Draw the report of a results folder again."""
    from fedsvd.results.report.page import render
    from fedsvd.results.write import read_result

    page = render(read_result(results))
    # Next to the folder, not inside: its manifest lists what it holds.
    target = out or results.absolute().parent / f"{results.absolute().name}-{REPORT}"
    private.replace(target, page.encode())
    Output(format).answer({"report": str(target)}, lambda console: console.print(f"report: {target}"))
