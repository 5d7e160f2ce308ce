"""How a text table is laid out: delimiter, header, names, which columns are text. Found from its first lines.

A number is what ``float`` reads, written in ASCII and without underscores; a missing entry is one of a few spellings,
all of which become NaN and are refused later, by the checks of every source. Nothing here keeps a cell's content.
"""

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
_SAMPLE_CHARS = 1 << 20


@dataclass(frozen=True)
class Layout:
    """What a parser must know of a text table before it reads the first row."""

    path: Path
    delimiter: str
    width: int
    names: tuple[str, ...] | None
    header_lines: int
    """How many physical lines end with the header; 0 when there is none."""
    text: dict[int, int]
    """The columns that are text already in the sample, with the line of their first text."""
    longest_line: int
    """The length of the longest line in the sample, in characters."""

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


def lay_out(path: Path, delimiter: str | None, header: bool | None, names: Iterable[object] | None) -> Layout:
    """The layout of a file; ``delimiter`` and ``header`` are found from the first lines unless given."""
    if delimiter is not None and len(delimiter) != 1:
        raise ConfigError(f"the delimiter is {delimiter!r}", "give one character")
    lines = _first_lines(path)
    delimiter = delimiter or _delimiter(lines)
    sample = list(_sample(lines, delimiter, path))
    if not sample:
        raise EmptyData(f"{path} has no rows", "write at least one row")
    width = len(sample[0][1])
    if header is None:
        header = _has_header([cells for _, cells in sample if len(cells) == width], path)
    if header and names is not None:
        raise ConfigError(f"{path} has a header of its own, and names were given", "leave out names=[...]")
    given = [cell.strip() for cell in sample[0][1]] if header else names
    return Layout(
        path,
        delimiter,
        width,
        None if given is None else expect_names(given, width),
        sample[0][0] if header else 0,
        _text_columns(sample[1:] if header else sample, width),
        max(map(len, lines)),
    )


def number(cell: str) -> float | None:
    """The number in a cell, NaN when it is missing, None when it is text."""
    text = cell.strip()
    if text in MISSING:
        return float("nan")
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
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


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


def _delimiter(lines: Sequence[str]) -> str:
    """The delimiter that cuts most lines into the same number of cells; the more cells, the better."""

    def merit(delimiter: str) -> tuple[float, int]:
        try:
            widths = Counter(len(cells) for cells in csv.reader(lines, delimiter=delimiter) if cells)
        except csv.Error:  # a long line that this delimiter does not cut is one cell, longer than allowed
            return (0, 0)
        width, lines_alike = widths.most_common(1)[0] if widths else (1, 0)
        return (lines_alike if width > 1 else 0, width)

    return max(DELIMITERS, key=merit)


def _has_header(sample: Sequence[Sequence[str]], path: Path) -> bool:
    """Whether the first record names the columns: text above numbers, or nothing but text."""
    first, rest = sample[0], sample[1:]
    if len(first) > 1 and [*first] in ([*map(str, range(len(first)))], ["", *map(str, range(len(first) - 1))]):
        raise UnknownFormat(
            f"the first line of {path} counts 0, 1, 2, ...: a header or data",
            "say which: header=True or header=False",
        )
    text = [number(cell) is None for cell in first]
    above_numbers = any(
        text[j] and all(number(cells[j]) is not None for cells in rest) for j in range(len(first)) if rest
    )
    return above_numbers or all(text)


def _text_columns(sample: Sequence[tuple[int, Sequence[str]]], width: int) -> dict[int, int]:
    text: dict[int, int] = {}
    for line, cells in sample:
        for column, cell in enumerate(cells[:width]):
            if column not in text and number(cell) is None:
                text[column] = line
    return text
