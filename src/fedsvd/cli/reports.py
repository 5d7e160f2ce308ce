"""What draws ``report.html`` and figures: the ``report`` extra, where it is installed; and ``fedsvd report``."""

import re
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsvd.cli.options import Figures, FormatOption
from fedsvd.cli.output import Format, Output
from fedsvd.errors import MissingExtra, StorageError
from fedsvd.results.folder import REPORT
from fedsvd.storage import private

if TYPE_CHECKING:
    from fedsvd.results.result import PartyResult
    from fedsvd.results.write import Draw

_LONGEST = 40  # characters of a name in a file name
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


def expect_matplotlib() -> None:
    """Raise unless figures can be drawn here."""
    if find_spec("matplotlib") is None:
        raise MissingExtra("--figures needs Matplotlib", "pip install 'fedsvd[report]'")


def expect_figures(into: Path) -> None:
    """Raise unless figures can be drawn into this folder, which is there from now on."""
    expect_matplotlib()
    try:
        into.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as fault:
        raise StorageError(
            f"cannot draw figures in {into}: {fault.strerror or type(fault).__name__}",
            "name another folder: --figures DIR",
        ) from fault


def draw_figures(folder: Path, into: Path) -> list[Path]:
    """Every picture of a results folder as files, and in ``parties/NAME`` those of each party's folder inside it."""
    # Imported here: --help needs neither NumPy nor Matplotlib.
    from fedsvd.results.drawings.axes import as_files
    from fedsvd.results.drawings.declared import all_pictures
    from fedsvd.results.write import PARTIES, party_folders, read_result

    expect_figures(into)
    written = []
    inside = [] if (here := read_result(folder)).index is not None else party_folders(folder)
    for result, target in [(here, into), *((read_result(own), into / PARTIES / own.name) for own in inside)]:
        pictures = all_pictures(result)
        for picture, stem in zip(pictures, stems([(each.name, each.of) for each in pictures]), strict=True):
            for kind, content in as_files(picture).items():
                target.mkdir(mode=0o700, parents=True, exist_ok=True)
                private.replace(target / f"{stem}.{kind}", content)
            written.append(target / stem)
    return written


def stems(drawn: list[tuple[str, str]]) -> list[str]:
    """File names of drawings: of several of one kind, with what each is of, or its number where that is no name."""
    counts, found = Counter(name for name, _ in drawn), list[str]()
    for place, (name, of) in enumerate(drawn):
        words = re.sub(r"[^A-Za-z0-9]+", "-", of).strip("-").lower()[:_LONGEST]
        number = 1 + sum(other == name for other, _ in drawn[:place])
        stem = name if counts[name] == 1 else f"{name}-{words or number}"
        found.append(f"{stem}-{number}" if stem in found else stem)
    return found


def report(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="A results folder, yours or what all share.")],
    out: Annotated[Path | None, typer.Option("--out", help="The page to write; RESULTS-report.html otherwise.")] = None,
    figures: Figures = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Draw the report of a results folder again, and its figures as files."""
    from fedsvd.results.report.page import render
    from fedsvd.results.write import read_result

    page = render(read_result(results))
    # Next to the folder, not inside: its manifest lists what it holds.
    target = out or results.absolute().parent / f"{results.absolute().name}-{REPORT}"
    private.replace(target, page.encode())
    drawn = [] if figures is None else [str(path) for path in draw_figures(results, figures)]
    found = {"report": str(target), **({"figures": drawn} if figures is not None else {})}
    output = Output(format)
    output.answer(found, lambda console: console.print(f"report: {target}"))
    if figures is not None:
        output.line(f"{len(drawn)} figures: {figures}")
