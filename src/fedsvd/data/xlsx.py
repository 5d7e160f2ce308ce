"""Matrices in Excel workbooks (``.xlsx``), read by openpyxl row after row.

A sheet is a text table whose cells are typed: numbers have all their bits, dates become ISO text, formulas count
with the value that Excel stored, what Excel shows as an error (``#N/A``) is missing, and numbers stored as text are
numbers. So it is parsed as text tables are (``csv.py``) and goes once to a private temporary file. Empty rows,
and empty columns at the right end, are not part of the table.
"""

import datetime
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from fedsvd.data.checks import expect_names
from fedsvd.data.csv import CsvSource
from fedsvd.data.csv_layout import Given, Layout, has_header, text_columns
from fedsvd.errors import EmptyData, FedSVDError, MissingExtra, RaggedRows, UnknownFormat

_SAMPLE_ROWS = 100


class XlsxSource(CsvSource):
    """The table in one sheet of a workbook, opened for reading only."""

    def __init__(
        self,
        path: Path,
        names: Iterable[object] | None = None,
        *,
        sheet: str | None = None,
        header: bool | None = None,
        given: Given | None = None,
        scratch: Path | None = None,
    ) -> None:
        self._read(_lay_out(path, sheet, header, names, given or Given()), scratch)


@dataclass(frozen=True)
class SheetLayout(Layout):
    """What a parser must know of a sheet; lines are those that Excel numbers."""

    sheet: str = ""

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        for line, cells in _rows(self.path, self.sheet):
            if line <= self.header_lines:
                continue
            if any(cells[self.width :]):
                raise RaggedRows(
                    f"row {line} of sheet {self.sheet!r} of {self.path} has cells beyond column {self.width}",
                    "name every column in the first row, or remove what stands beyond the table",
                )
            yield line, (cells + [""] * self.width)[: self.width]

    def how_numbers_are_written(self) -> str:
        return "make every cell of the column a number in Excel"


def _lay_out(
    path: Path, sheet: str | None, header: bool | None, names: Iterable[object] | None, given: Given
) -> SheetLayout:
    sheet = sheet if sheet is not None else _only_sheet(path)
    sample: list[tuple[int, list[str]]] = []
    for row in _rows(path, sheet):
        sample.append(row)
        if len(sample) > _SAMPLE_ROWS:
            break
    width = max((len(_trimmed(cells)) for _, cells in sample), default=0)
    if not width:
        raise EmptyData(f"sheet {sheet!r} of {path} is empty", "write at least one row, or name another sheet")
    cells = [(line, (row + [""] * width)[:width]) for line, row in sample]
    if header is None:
        header = has_header([row for _, row in cells], path, given.writing())
    if header:
        named = len(_trimmed(cells[0][1]))
        if "" in cells[0][1][:named] or named < width:
            raise RaggedRows(
                f"row {cells[0][0]} of sheet {sheet!r} of {path} leaves a column of the table without a name",
                "name every column in the first row, and remove notes next to the table",
            )
        names = [cell.strip() for cell in cells[0][1]]
    known = None if names is None else expect_names(names, width)
    writing = given.in_columns(given.writing(), known)
    return SheetLayout(
        path=path,
        delimiter=",",
        width=width,
        names=known,
        header_lines=cells[0][0] if header else 0,
        text=text_columns(cells[1:] if header else cells, width, writing),
        longest_line=0,
        writing=writing,
        plain_utf8=False,  # PyArrow reads no workbooks
        sheet=sheet,
    )


def _only_sheet(path: Path) -> str:
    workbook = _workbook(path)
    try:
        filled = [sheet.title for sheet in workbook.worksheets if any(True for _ in _cells(sheet))]
    finally:
        workbook.close()
    if len(filled) != 1:
        which = ", ".join(map(repr, filled))
        fault = f"{path} has {len(filled)} sheets that are not empty" + (f": {which}" if filled else "")
        raise UnknownFormat(fault, f"name one: {path.name}#SHEET, or part=..." if filled else "write a table into it")
    return str(filled[0])


def _rows(path: Path, sheet: str) -> Iterator[tuple[int, list[str]]]:
    """Each row that is not empty, as text, with Excel's number of it."""
    workbook = _workbook(path)
    try:
        if sheet not in workbook.sheetnames:
            listed = ", ".join(map(repr, workbook.sheetnames))
            raise UnknownFormat(f"{path} has no sheet {sheet!r}", f"one of {listed}")
        yield from _cells(workbook[sheet])
    except (ValueError, KeyError, IndexError, zipfile.BadZipFile, OSError) as fault:
        if isinstance(fault, FedSVDError):
            raise
        raise UnknownFormat(f"sheet {sheet!r} of {path} is damaged", "save it again as .xlsx") from None
    finally:
        workbook.close()


def _cells(sheet: Any) -> Iterator[tuple[int, list[str]]]:
    if hasattr(sheet, "reset_dimensions"):
        sheet.reset_dimensions()  # some programs write a wrong size; the rows themselves are right
    for line, row in enumerate(sheet.iter_rows(values_only=True), start=1):
        cells = [_text(value) for value in row]
        if any(cells):
            yield line, cells


def _workbook(path: Path) -> Any:
    try:
        import openpyxl
    except ImportError:
        raise MissingExtra("Excel workbooks need openpyxl", "pip install 'fedsvd[data]'") from None
    try:
        # From memory: what fails to load does not leave its file open.
        return openpyxl.load_workbook(BytesIO(path.read_bytes()), read_only=True, data_only=True)
    except (openpyxl.utils.exceptions.InvalidFileException, zipfile.BadZipFile, KeyError, ValueError, OSError):
        raise UnknownFormat(f"{path} is not an .xlsx workbook", "save it again as .xlsx") from None


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date().isoformat()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    text = repr(value) if isinstance(value, float) else str(value)
    # Excel's errors (#N/A, #DIV/0!, #VALUE!) stand where a number could not be computed.
    return "NA" if text.startswith("#") and text.rstrip("!?").isupper() else text


def _trimmed(cells: list[str]) -> list[str]:
    """The cells without the empty ones at the right end."""
    end = len(cells)
    while end and not cells[end - 1]:
        end -= 1
    return cells[:end]
