"""How a text table is laid out: delimiter, header, names, which columns are text. Found from its first lines.

A number is what ``float`` reads, written in ASCII and without underscores, with a decimal point or, throughout a file
whose cells are not separated by commas, with a decimal comma (``Writing``). A byte order mark says how the text is
encoded, or its owner does. A missing entry is one of a few spellings, and of those that its owner adds; all become NaN
and are refused later, by the checks of ``checks.py``. Nothing here stores the content of a cell.
"""

import codecs
import csv
import gzip
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TextIO

from fedsvd.data.checks import expect_names
from fedsvd.data.written import MISSING, MISSING_TEXTS, PLAIN, Writing
from fedsvd.errors import ConfigError, EmptyData, RaggedRows, UnknownFormat

DELIMITERS = (",", ";", "\t", "|")
_SAMPLE_LINES = 100
_JUDGED_LINES, _JUDGED_CELLS = 20, 200  # enough to see whether a delimiter leaves numbers
_UTF8 = "utf-8-sig"
_SAMPLE_CHARS = 1 << 20
_WITH_COMMA = Writing(",")


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
    writing: Writing = PLAIN
    plain_utf8: bool = True

    def how_numbers_are_written(self) -> str:
        """What a reader takes for a number here, for the fix of an error."""
        mark, between = "point" if self.writing.decimal == "." else "comma", self.writing.thousands
        others = f"{between!r} before every three digits" if between else "no other marks"
        return (
            f"write numbers with a decimal {mark} and {others} (cells were taken to be separated by "
            f"{self.delimiter!r}; delimiter, decimal and thousands in the map of the table say otherwise)"
        )

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Each row of the table with the line it ends on; refused when it is too long or too short."""
        for line, cells in records(self.path, self.delimiter, self.writing.encoding):
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
    given: "Given | None" = None,
) -> Layout:
    """The layout of a file; ``delimiter``, ``decimal`` and ``header`` are found from the first lines unless given."""
    given = given or Given()
    _expect_marks(delimiter, decimal, given)
    if given.thousands and decimal is None:
        decimal = "," if given.thousands == "." else "."
    lines = _first_lines(path, given.encoding)
    delimiter = delimiter or _delimiter(lines, decimal)
    sample = list(_sample(lines, delimiter, path))
    if not sample:
        raise EmptyData(f"{path} has no rows", "check that it is the right file, and that what wrote it left rows in")
    width = len(sample[0][1])
    alike = [cells for _, cells in sample if len(cells) == width]
    writing = given.writing(decimal or _decimal(alike, delimiter))
    if header is None:
        header = has_header(alike, path, writing)
    if header and names is not None:
        raise ConfigError(f"{path} has a header of its own, and names were given", "leave out names=[...]")
    found = [cell.strip() for cell in sample[0][1]] if header else names
    known = None if found is None else expect_names(found, width)
    writing = given.in_columns(writing, known)
    return Layout(
        path,
        delimiter,
        width,
        known,
        sample[0][0] if header else 0,
        text_columns(sample[1:] if header else sample, width, writing),
        max(map(len, lines)),
        writing,
        _encoding(path, given.encoding) == _UTF8,
    )


@dataclass(frozen=True)
class Given:
    """What the owner of a file says of its cells: encoding, marks inside of numbers, spellings of missing entries."""

    encoding: str | None = None
    thousands: str | None = None
    missing: tuple[str, ...] = ()
    missing_in: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by the name of a column
    marks_in: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # likewise: decimal, thousands

    def writing(self, decimal: str = ".") -> Writing:
        """How cells are written, with this decimal mark."""
        missing, texts = (*MISSING, *self.missing), (*MISSING_TEXTS, *self.missing)
        return Writing(decimal, self.thousands or "", missing, texts, encoding=self.encoding)

    def in_columns(self, writing: Writing, names: Sequence[str] | None) -> Writing:
        """The same, with what stands for a missing entry in some of these columns, and their own marks."""
        places = {name: place for place, name in enumerate(names or ())}
        missing = {places[name]: codes for name, codes in self.missing_in.items() if name in places and codes}
        marks = {places[name]: both for name, both in self.marks_in.items() if name in places}
        return replace(writing, missing_in=missing, marks_in=marks) if missing or marks else writing


def _expect_marks(delimiter: str | None, decimal: str | None, given: Given) -> None:
    """Refuse marks that no reader could tell apart, and an encoding that does not exist."""
    if decimal not in (None, ".", ","):
        raise ConfigError(f"the decimal mark is {decimal!r}", "give . or ,")
    if decimal is not None and decimal == delimiter:
        raise ConfigError(f"delimiter and decimal mark are both {decimal!r}", "cells need another separator")
    if delimiter is not None and len(delimiter) != 1:
        raise ConfigError(f"the delimiter is {delimiter!r}", "give one character")
    if given.thousands not in (None, "", ".", ",", "'", " "):
        raise ConfigError(f"the mark between thousands is {given.thousands!r}", "give . or , or ' or a blank")
    if given.thousands and given.thousands in (decimal, delimiter):
        raise ConfigError(f"{given.thousands!r} stands between thousands and is another mark too", "give other marks")
    if given.encoding is not None:
        try:
            codecs.lookup(given.encoding)
        except (LookupError, ValueError):
            raise ConfigError(
                f"the encoding is {given.encoding[:40]!r}", 'give one such as "latin-1" or "cp1252"'
            ) from None


def records(path: Path, delimiter: str, encoding: str | None = None) -> Iterator[tuple[int, list[str]]]:
    """All records of a file with the line they end on; an empty line is an empty record."""
    try:
        with _open_text(path, encoding) as file:
            reader = csv.reader(file, delimiter=delimiter)
            for cells in reader:
                yield reader.line_num, cells
    except (csv.Error, UnicodeDecodeError, EOFError, OSError, zlib.error) as fault:
        raise _unreadable(path, fault) from None


def _first_lines(path: Path, encoding: str | None) -> list[str]:
    try:
        with _open_text(path, encoding) as file:
            lines, size = [], 0
            for line in islice(file, _SAMPLE_LINES):
                lines.append(line)
                size += len(line)
                if size > _SAMPLE_CHARS and len(lines) > 1:
                    break
    except (UnicodeDecodeError, EOFError, OSError, zlib.error) as fault:
        raise _unreadable(path, fault) from None
    return lines


def _open_text(path: Path, encoding: str | None) -> TextIO:
    # newline="" leaves line ends to the csv module, which keeps those inside quotes.
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding=_encoding(path, encoding), newline="")
    return path.open(encoding=_encoding(path, encoding), newline="")


def _encoding(path: Path, given: str | None) -> str:
    """What is given; else UTF-8, with or without a byte order mark, or UTF-16 where its mark says so, as spreadsheets
    write it."""
    if given is not None:
        return given
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        mark = file.read(2)
    return "utf-16" if mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else _UTF8


def _unreadable(path: Path, fault: Exception) -> UnknownFormat:
    # The cause is named by its type only: its message may quote the file.
    kind = "not UTF-8 text" if isinstance(fault, UnicodeDecodeError) else f"unreadable ({type(fault).__name__})"
    fix = "write it as a UTF-8 text table, one row on each line"
    if isinstance(fault, UnicodeDecodeError):
        fix = f'say how it is encoded: encoding = "{encoding_of(path)}" in the map of the table; or save it as UTF-8'
    return UnknownFormat(f"{path} is {kind}", fix)


def encoding_of(path: Path) -> str:
    """How text that is not UTF-8 is probably encoded, by its first bytes."""
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        beginning = file.read(_SAMPLE_CHARS)
    if 0 in beginning:
        return "utf-16"
    # Windows has quotes, dashes and the euro where latin-1 has control characters.
    return "cp1252" if any(0x80 <= byte < 0xA0 for byte in beginning) else "latin-1"


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
        ways = [Writing(mark) for mark in marks]
        numbers = sum(any(way.number(cell) is not None for way in ways) for cell in cells)
        return (lines_alike if width > 1 else 0, numbers / max(1, len(cells)), width)

    return max((each for each in DELIMITERS if each != decimal), key=merit)


def _decimal(sample: Sequence[Sequence[str]], delimiter: str) -> str:
    """A comma where some column holds numbers only if commas are decimal marks, and none has a decimal point."""
    if delimiter == ",":
        return "."
    found = "."
    for j in range(len(sample[0])):
        cells = [row[j] for row in sample[1:] or sample]
        if all(PLAIN.number(cell) is not None for cell in cells):
            if any("." in cell for cell in cells):
                return "."
        elif all(_WITH_COMMA.number(cell) is not None for cell in cells):
            found = ","
    return found


def has_header(sample: Sequence[Sequence[str]], path: Path, writing: Writing) -> bool:
    """Whether the first record names the columns: text above numbers, or nothing but text."""
    first, rest = sample[0], sample[1:]
    if len(first) > 1 and [*first] in ([*map(str, range(len(first)))], ["", *map(str, range(len(first) - 1))]):
        raise UnknownFormat(
            f"the first line of {path} counts 0, 1, 2, ...: a header or data",
            "say which: header=True or header=False",
        )
    text = [writing.number(cell) is None for cell in first]
    above_numbers = any(
        text[j] and all(writing.number(cells[j]) is not None for cells in rest) for j in range(len(first)) if rest
    )
    return above_numbers or all(text)


def text_columns(sample: Sequence[tuple[int, Sequence[str]]], width: int, writing: Writing) -> dict[int, int]:
    """The columns that hold a text, with the line of the first."""
    text: dict[int, int] = {}
    for line, cells in sample:
        for column, cell in enumerate(cells[:width]):
            if column not in text and writing.number(cell, column) is None:
                text[column] = line
    return text
