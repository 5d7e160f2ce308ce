"""How a text table is laid out: delimiter, header, names, which columns are text. Found from its first lines.

A number is what ``float`` reads, written in ASCII and without underscores, with a decimal point or, throughout a file
whose cells are not separated by commas, with a decimal comma. A byte order mark says how the text is encoded. A missing
entry is one of a few spellings, all of which become NaN and are refused later, by the checks of ``checks.py``. Nothing
here stores the content of a cell.
"""

import codecs
import csv
import gzip
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TextIO

from fedsvd.data.checks import expect_names
from fedsvd.errors import ConfigError, EmptyData, RaggedRows, UnknownFormat

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "None", "none", "-")
DELIMITERS = (",", ";", "\t", "|")
_SAMPLE_LINES = 100
_JUDGED_LINES, _JUDGED_CELLS = 20, 200  # enough to see whether a delimiter leaves numbers
_UTF8 = "utf-8-sig"
_SAMPLE_CHARS = 1 << 20


@dataclass(frozen=True)
class Layout:
    """What a parser must know of a text table before it reads the first row."""

    path: Path
    delimiter: str
    width: int
    names: tuple[str, ...] | None
    header_lines: int
    """How many physical lines end with the header; 0 without a header."""
    text: dict[int, int]
    """The columns that are text already in the sample, with the line of their first text."""
    longest_line: int
    """The length of the longest line in the sample, in characters."""
    decimal: str = "."
    plain_utf8: bool = True

    def how_numbers_are_written(self) -> str:
        """What a reader takes for a number here, for the fix of an error."""
        mark = "point" if self.decimal == "." else "comma"
        return (
            f"write numbers with a decimal {mark} and no other marks (cells were taken to be separated by "
            f"{self.delimiter!r}; delimiter and decimal say otherwise)"
        )

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Each row of the table with the line it ends on; refused when it is too long or too short."""
        for line, cells in records(self.path, self.delimiter):
            # A lone column may have an empty line for a missing entry; skipping it would shift the rows.
            if line <= self.header_lines or (not cells and self.width > 1):
                continue
            if len(cells or [""]) != self.width:
                raise RaggedRows(
                    f"line {line} of {self.path} has {len(cells)} cells, expected {self.width}",
                    f"write the same number of cells on each line, separated by {self.delimiter!r}",
                )
            yield line, cells or [""]


def lay_out(
    path: Path,
    delimiter: str | None,
    header: bool | None,
    names: Iterable[object] | None,
    decimal: str | None = None,
) -> Layout:
    """The layout of a file; ``delimiter``, ``decimal`` and ``header`` are found from the first lines unless given."""
    if decimal not in (None, ".", ","):
        raise ConfigError(f"the decimal mark is {decimal!r}", "give . or ,")
    if decimal is not None and decimal == delimiter:
        raise ConfigError(f"delimiter and decimal mark are both {decimal!r}", "cells need another separator")
    if delimiter is not None and len(delimiter) != 1:
        raise ConfigError(f"the delimiter is {delimiter!r}", "give one character")
    lines = _first_lines(path)
    delimiter = delimiter or _delimiter(lines, decimal)
    sample = list(_sample(lines, delimiter, path))
    if not sample:
        raise EmptyData(f"{path} has no rows", "write at least one row")
    width = len(sample[0][1])
    alike = [cells for _, cells in sample if len(cells) == width]
    decimal = decimal or _decimal(alike, delimiter)
    if header is None:
        header = has_header(alike, path, decimal)
    if header and names is not None:
        raise ConfigError(f"{path} has a header of its own, and names were given", "leave out names=[...]")
    given = [cell.strip() for cell in sample[0][1]] if header else names
    return Layout(
        path,
        delimiter,
        width,
        None if given is None else expect_names(given, width),
        sample[0][0] if header else 0,
        text_columns(sample[1:] if header else sample, width, decimal),
        max(map(len, lines)),
        decimal,
        _encoding(path) == _UTF8,
    )


def number(cell: str, decimal: str = ".") -> float | None:
    """The number in a cell, NaN when it is missing, None when it is text."""
    text = cell.strip()
    if text in MISSING:
        return float("nan")
    if decimal != ".":
        if "." in text:
            return None
        text = text.replace(decimal, ".")
    # float() also reads "1_000" and digits of other scripts, which no other reader of text tables does.
    if "_" in text or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None


def records(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """All records of a file with the line they end on; an empty line is an empty record."""
    try:
        with _open_text(path) as file:
            reader = csv.reader(file, delimiter=delimiter)
            for cells in reader:
                yield reader.line_num, cells
    except (csv.Error, UnicodeDecodeError, EOFError, OSError, zlib.error) as fault:
        raise _unreadable(path, fault) from None


def _first_lines(path: Path) -> list[str]:
    try:
        with _open_text(path) as file:
            lines, size = [], 0
            for line in islice(file, _SAMPLE_LINES):
                lines.append(line)
                size += len(line)
                if size > _SAMPLE_CHARS and len(lines) > 1:
                    break
    except (UnicodeDecodeError, EOFError, OSError, zlib.error) as fault:
        raise _unreadable(path, fault) from None
    return lines


def _open_text(path: Path) -> TextIO:
    # newline="" leaves line ends to the csv module, which keeps those inside quotes.
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding=_encoding(path), newline="")
    return path.open(encoding=_encoding(path), newline="")


def _encoding(path: Path) -> str:
    """UTF-8, with or without a byte order mark, or UTF-16 where its mark says so, as spreadsheets write it."""
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        mark = file.read(2)
    return "utf-16" if mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else _UTF8


def _unreadable(path: Path, fault: Exception) -> UnknownFormat:
    # The cause is named by its type only: its message may quote the file.
    kind = "not UTF-8 text" if isinstance(fault, UnicodeDecodeError) else f"unreadable ({type(fault).__name__})"
    return UnknownFormat(f"{path} is {kind}", "write it as a UTF-8 text table, one row on each line")


def _sample(lines: Sequence[str], delimiter: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(lines, delimiter=delimiter)
    try:
        yield from ((reader.line_num, cells) for cells in reader if cells)
    except csv.Error as fault:
        raise _unreadable(path, fault) from None


def _delimiter(lines: Sequence[str], decimal: str | None) -> str:
    """The delimiter that cuts most lines into the same number of cells; the more cells, the better.

    A comma that also stands inside of numbers cuts ``1,5;2,5`` into three cells, one of them ``5;2``: where two
    delimiters cut all lines alike, the one that leaves numbers wins.
    """

    def merit(delimiter: str) -> tuple[float, float, int]:
        try:
            rows = [cells for cells in csv.reader(lines, delimiter=delimiter) if cells]
        except csv.Error:  # a long line that this delimiter does not cut is one cell, longer than allowed
            return (0, 0, 0)
        width, lines_alike = Counter(map(len, rows)).most_common(1)[0] if rows else (1, 0)
        cells = [cell for row in rows[:_JUDGED_LINES] for cell in row[:_JUDGED_CELLS]] if width > 1 else []
        marks = ["."] if delimiter == "," else [".", ","] if decimal is None else [decimal]
        numbers = sum(any(number(cell, mark) is not None for mark in marks) for cell in cells)
        return (lines_alike if width > 1 else 0, numbers / max(1, len(cells)), width)

    return max((each for each in DELIMITERS if each != decimal), key=merit)


def _decimal(sample: Sequence[Sequence[str]], delimiter: str) -> str:
    """A comma where some column holds numbers only if commas are decimal marks, and none has a decimal point."""
    if delimiter == ",":
        return "."
    found = "."
    for j in range(len(sample[0])):
        cells = [row[j] for row in sample[1:] or sample]
        if all(number(cell) is not None for cell in cells):
            if any("." in cell for cell in cells):
                return "."
        elif all(number(cell, ",") is not None for cell in cells):
            found = ","
    return found


def has_header(sample: Sequence[Sequence[str]], path: Path, decimal: str) -> bool:
    """Whether the first record names the columns: text above numbers, or nothing but text."""
    first, rest = sample[0], sample[1:]
    if len(first) > 1 and [*first] in ([*map(str, range(len(first)))], ["", *map(str, range(len(first) - 1))]):
        raise UnknownFormat(
            f"the first line of {path} counts 0, 1, 2, ...: a header or data",
            "say which: header=True or header=False",
        )
    text = [number(cell, decimal) is None for cell in first]
    above_numbers = any(
        text[j] and all(number(cells[j], decimal) is not None for cells in rest) for j in range(len(first)) if rest
    )
    return above_numbers or all(text)


def text_columns(sample: Sequence[tuple[int, Sequence[str]]], width: int, decimal: str) -> dict[int, int]:
    """The columns that hold a text, with the line of the first."""
    text: dict[int, int] = {}
    for line, cells in sample:
        for column, cell in enumerate(cells[:width]):
            if column not in text and number(cell, decimal) is None:
                text[column] = line
    return text
