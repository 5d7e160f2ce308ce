"""What a command prints: its result on standard output, everything else on standard error.

With ``--format json`` standard output carries one JSON object and nothing more, so that a program may read it; with
``text`` it is written for a person. Warnings of ours are shown as notices, whatever the filters of Python's warnings
say: a setting that reveals more is never silent, nor is data that may not be what the study takes it for.
"""

import json
import os
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TextIO

import typer
from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text

from fedsvd.errors import BegunAgain, DataWarning, PrivacyWarning, RowsNotCompared
from fedsvd.protocol.parties import named

if TYPE_CHECKING:
    from fedsvd.engine.progress import Progress
    from fedsvd.results.folder import Table as Columns

_PIPE_WIDTH = 160
_NOTICE_WIDTH = 100  # at most: longer lines are hard to read
_COLUMNS_SHOWN = 8
_HEADS = {  # a kind before what it is of
    PrivacyWarning: "Privacy",
    RowsNotCompared: "Rows",
    DataWarning: "Data",
    BegunAgain: "Method",
}


class Format(StrEnum):
    """What standard output carries."""

    TEXT = "text"
    JSON = "json"


class Output:
    """What one command prints."""

    def __init__(self, format: Format, quiet: bool = False, surface: str = "keys") -> None:
        self.format = format
        self._surface = surface  # whose words notices have
        self.quiet = quiet
        self.notices: list[str] = []

    @contextmanager
    def progress(self, names: tuple[str, ...]) -> "Iterator[Progress | None]":
        """What a run in this process calls with (party, stage, done, total); None when the person asked for quiet."""
        if self.quiet:
            yield None
            return
        from fedsvd.engine import progress

        with progress.shown(names, self.line) as report:
            yield report

    @contextmanager
    def notices_of_warnings(self, names: tuple[str, ...] = ()) -> Iterator[None]:
        """Warnings of ours in this block are notices, in which parties are called by their names."""
        with warnings.catch_warnings():
            for kind in _HEADS:
                warnings.simplefilter("always", kind)
            others = warnings.showwarning

            def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
                head = next((head for kind, head in _HEADS.items() if issubclass(category, kind)), None)
                if head is not None:
                    self.notice(named(str(message), names), head)
                else:
                    others(message, category, *where, **more)

            warnings.showwarning = show
            yield

    def notice(self, text: str, head: str = "Privacy") -> None:
        """Something the person should know, once."""
        from fedsvd.tasks.surface import Surface, spelt  # which brings all options along

        text = spelt(text, Surface(self._surface))
        if text in self.notices:
            return
        self.notices.append(text)
        width = min(_console(sys.stderr).width, _NOTICE_WIDTH)
        typer.echo(textwrap.fill(f"{head}: {text}", width, subsequent_indent="  "), err=True)

    def line(self, text: str) -> None:
        """A line about the work under way."""
        if not self.quiet:
            typer.echo(text, err=True)

    def table(self, table: Table) -> None:
        """A table about the work under way."""
        if not self.quiet:
            _console(sys.stderr).print(table)

    def answer(self, record: Mapping[str, Any], show: Callable[[Console], None]) -> None:
        """The result: the record in JSON, or what ``show`` writes for a person."""
        if self.format is Format.JSON:
            typer.echo(json.dumps({**record, "notices": self.notices}, ensure_ascii=False, allow_nan=False))
        else:
            show(_console(sys.stdout))


def _console(file: TextIO) -> Console:
    # Names come from files and may look like markup. A pipe has no width, and lines are for tools to cut, unless
    # COLUMNS says one; Rich reads that itself.
    known = file.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return Console(file=file, highlight=False, markup=False, width=None if known else _PIPE_WIDTH)


def facts(rows: Mapping[str, object]) -> "Facts":
    """Names and values side by side."""
    return Facts(rows)


class Facts:
    """Names and values side by side, without a frame; no line is padded to a width."""

    def __init__(self, rows: Mapping[str, object]) -> None:
        self._rows = {name: str(value) for name, value in rows.items()}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        first = max(map(len, self._rows), default=0) + 2
        width = max(options.max_width - first, 20)
        for name, value in self._rows.items():
            lines = [part for line in value.split("\n") for part in textwrap.wrap(line, width) or [""]]
            yield Text.assemble((name.ljust(first), "bold"), f"\n{' ' * first}".join(lines))


def bullets(console: Console, title: str, lines: Sequence[str]) -> None:
    """A heading, and a line of a list for each; what goes on in the next line stands under its first word."""
    console.print()
    console.print(title, style="bold")
    for line in lines:
        console.print("\n".join(textwrap.wrap(f"- {line}", max(console.width, 20), subsequent_indent="  ")))


def top_of(table: "Columns", count: int) -> Table:
    """The first rows of a table, and of its columns what fits on a screen; says of how many they are."""
    columns = dict(list(table.columns.items())[:_COLUMNS_SHOWN])
    rows = zip(*(list(column[:count]) for column in columns.values()), strict=True)
    shown = listing(list(columns), [[number(cell) for cell in row] for row in rows])
    if (length := len(next(iter(columns.values())))) > count:
        shown.caption = f"the first {count} of {length:,}"
    return shown


def number(cell: object) -> object:
    """A cell of a table for a person: numbers to six digits."""
    return f"{cell:.6g}" if isinstance(cell, float) else cell


def listing(header: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """A small table with a header."""
    table = Table(*header)
    for row in rows:
        table.add_row(*map(str, row))
    return table


def duration(seconds: float) -> str:
    """A time for a person: ``0.25 s``, ``3 min 20 s``."""
    if seconds < 60:
        return f"{seconds:.2g} s"
    return f"{int(seconds // 60)} min {seconds % 60:.0f} s"
