"""How a command speaks: its result on standard output, everything else on standard error.

With ``--format json`` standard output carries one JSON object and nothing more, so that a program may read it; with
``text`` it is written for a person. Privacy warnings are shown as notices, whatever the filters of Python's warnings
say: a setting that reveals more is never silent.
"""

import json
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TextIO

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedsvd.errors import PrivacyWarning
from fedsvd.protocol.parties import named

if TYPE_CHECKING:
    from fedsvd.runtime.folder import Table as Columns

_PIPE_WIDTH = 160
_COLUMNS_SHOWN = 8


class Format(StrEnum):
    """What standard output carries."""

    TEXT = "text"
    JSON = "json"


class Voice:
    """What one command says."""

    def __init__(self, format: Format, quiet: bool = False) -> None:
        self.format = format
        self.quiet = quiet
        self.notices: list[str] = []

    @contextmanager
    def heeding(self, names: tuple[str, ...] = ()) -> Iterator[None]:
        """Privacy warnings raised in this block are notices, in which parties are called by their names."""
        with warnings.catch_warnings():
            warnings.simplefilter("always", PrivacyWarning)
            others = warnings.showwarning

            def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
                if issubclass(category, PrivacyWarning):
                    self.notice(named(str(message), names))
                else:
                    others(message, category, *where, **more)

            warnings.showwarning = show
            yield

    def notice(self, text: str) -> None:
        """Something the person should know, once."""
        if text in self.notices:
            return
        self.notices.append(text)
        typer.echo(textwrap.fill(f"Privacy: {text}", 100, subsequent_indent="  "), err=True)

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
    # Names come from files and may look like markup. A pipe has no width; lines are for tools to cut.
    return Console(file=file, highlight=False, markup=False, width=None if file.isatty() else _PIPE_WIDTH)


def facts(rows: Mapping[str, object]) -> Table:
    """Names and values beside each other, without a frame."""
    table = Table.grid(padding=(0, 2))
    for name, value in rows.items():
        table.add_row(Text(name, style="bold"), str(value))
    return table


def top_of(table: "Columns", count: int) -> Table:
    """The first rows of a table, and of its columns what fits on a screen."""
    columns = dict(list(table.columns.items())[:_COLUMNS_SHOWN])
    rows = zip(*(list(column[:count]) for column in columns.values()), strict=True)
    return listing(list(columns), [[number(cell) for cell in row] for row in rows])


def number(cell: object) -> object:
    """A cell of a table for a person: numbers to six digits."""
    return f"{cell:.6g}" if isinstance(cell, float) else cell


def listing(header: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """A small table with a header."""
    table = Table(*header)
    for row in rows:
        table.add_row(*map(str, row))
    return table


def size(count: float) -> str:
    """A number of bytes for a person: ``3.2 MB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def duration(seconds: float) -> str:
    """A time for a person: ``0.25 s``, ``3 min 20 s``."""
    if seconds < 60:
        return f"{seconds:.2g} s"
    return f"{int(seconds // 60)} min {seconds % 60:.0f} s"
