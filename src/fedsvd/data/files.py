"""Files that hold a matrix, known by their suffix; each reader is imported when a file of its kind is opened.

A file that holds several tables (the sheets of a workbook, the arrays of an ``.npz``, the layers of an ``.h5ad``) is
named ``FILE#PART``, unless a file of exactly that name exists.

A folder is a table in several files, one below the other in the order of their names (``StackedSource``).
"""

import glob
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.csv import CsvSource
from fedsvd.data.csv_layout import Given
from fedsvd.data.npy import open_npy
from fedsvd.data.source import CHANGED_FIX, Index, MatrixSource
from fedsvd.errors import ConfigError, DataError, RaggedRows, SourceChanged, UnknownFormat
from fedsvd.storage.faults import reading
from fedsvd.storage.file_stamp import Watch
from fedsvd.types import near

_TEXT = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_OF_PARTS = (".xlsx", ".xlsm", ".npz", ".h5ad")
_SUFFIXES = (*_TEXT, ".parquet", ".npy", *_OF_PARTS)


@dataclass(frozen=True)
class TextSettings:
    """What the caller says of a text table; None is found from its first lines."""

    delimiter: str | None = None
    decimal: str | None = None
    header: bool | None = None
    given: Given = field(default_factory=Given)

    def expect_none(self, what: str, part: str | None = None) -> None:
        """Refuse settings that do not apply to ``what``."""
        if (self.delimiter, self.decimal, self.header) != (None, None, None):
            raise ConfigError(f"delimiter, decimal and header describe text tables, not {what}", "leave them out")
        if self.given != Given():
            raise ConfigError(f"encoding, thousands and missing describe text tables, not {what}", "leave them out")
        if part is not None:
            raise ConfigError(f"{what} has no parts to choose from", "leave part out")


def open_file(
    path: Path, names: Sequence[object] | None, text: TextSettings, part: str | None, scratch: Path | None
) -> MatrixSource:
    """The table in a file, a folder of files, or all files that fit a path with ``*``; its files are watched."""
    watch = Watch(lambda: files_of(path))  # before anything is read
    try:
        with reading(f"{path} cannot be read"):
            source = _opened(path, names, text, part, scratch)
    except DataError:
        _expect_same(watch)
        raise
    _expect_same(watch)
    source.watch(watch)
    return source


def _expect_same(watch: Watch) -> None:
    if (changed := watch.changed()) is not None:
        raise SourceChanged(f"{changed} changed while it was opened", CHANGED_FIX)


def _opened(
    path: Path, names: Sequence[object] | None, text: TextSettings, part: str | None, scratch: Path | None
) -> MatrixSource:
    if path.is_dir():
        text.expect_none(f"the folder {path.name}", part)
        return _open_folder(path, names, scratch)
    if not path.exists() and "#" in path.name and part is None:
        name, _, part = path.name.rpartition("#")
        path = path.with_name(name)
    if not path.exists() and _is_glob(path):
        from fedsvd.data.duckdb_query import from_glob

        text.expect_none(f"the files {path.name}", part)
        return named_already(from_glob(path, scratch), names)
    suffix = next((end for end in _SUFFIXES if path.name.lower().endswith(end)), None)
    if suffix is None:
        raise UnknownFormat(f"no reader for {path.name}", f"use one of {', '.join(_SUFFIXES)}")
    if not path.is_file():
        raise UnknownFormat(f"there is no file {path}", f"check the path{_near_file(path)}")
    if suffix not in _OF_PARTS and part is not None:
        raise ConfigError(f"{path.name} holds one table, and part {part!r} of it was asked for", "leave #PART out")
    if suffix in _TEXT:
        delimiter = text.delimiter or ("\t" if suffix.startswith(".tsv") else None)
        how = {"delimiter": delimiter, "decimal": text.decimal}
        return CsvSource(path, names, **how, header=text.header, given=text.given, scratch=scratch)
    if suffix in (".xlsx", ".xlsm"):
        from fedsvd.data.xlsx import XlsxSource

        # A sheet has missing entries and columns of text with marks, and no other setting.
        marks = replace(text.given, missing=(), missing_in={}, marks_in={})
        TextSettings(text.delimiter, text.decimal, given=marks).expect_none(path.name)
        return XlsxSource(path, names, sheet=part, header=text.header, given=text.given, scratch=scratch)
    text.expect_none(path.name)
    return _open_binary(path, suffix, names, part, scratch)


def settings_of(path: Path, text: TextSettings) -> TextSettings:
    """Those of these settings that a file of this kind can have: one description may serve several files."""
    name = path.name.lower().partition("#")[0]
    if name.endswith(_TEXT):
        return text
    sheet = name.endswith((".xlsx", ".xlsm"))
    return TextSettings(given=replace(text.given, encoding=None, thousands=None) if sheet else Given())


def files_of(path: Path) -> tuple[Path, ...]:
    """The files that ``open_file`` reads for a path."""
    if not path.exists() and "#" in path.name:
        path = path.with_name(path.name.rpartition("#")[0])
    if not path.exists() and _is_glob(path):
        return tuple(Path(found) for found in sorted(glob.glob(str(path), recursive=True)))
    if path.is_dir():
        parts = path.rglob("*") if path.name.lower().endswith(".zarr") else path.glob("*.[pP][aA]*")
        return tuple(sorted(part for part in parts if part.is_file()))
    return (path,)


def _is_glob(path: Path) -> bool:
    return any(mark in str(path) for mark in "*?[")


def _open_binary(
    path: Path, suffix: str, names: Sequence[object] | None, part: str | None, scratch: Path | None
) -> MatrixSource:
    if suffix == ".npy":
        return open_npy(path, names, scratch)
    if suffix == ".npz":
        from fedsvd.data.npy import open_npz

        return open_npz(path, names, part, scratch)
    if suffix == ".h5ad":
        from fedsvd.data.h5ad import open_h5ad

        return named_already(open_h5ad(path, part, scratch), names)
    from fedsvd.data.parquet import ParquetSource

    return named_already(ParquetSource(path, scratch=scratch), names)


def _open_folder(path: Path, names: Sequence[object] | None, scratch: Path | None) -> MatrixSource:
    if path.name.lower().endswith(".zarr"):
        from fedsvd.data.arrays import ZarrSource

        return ZarrSource(path, names)
    from fedsvd.data.files import open_parts
    from fedsvd.data.parquet import ParquetSource

    return named_already(open_parts(path, ".parquet", lambda part: ParquetSource(part, scratch=scratch)), names)


def named_already(source: MatrixSource, names: Sequence[object] | None) -> MatrixSource:
    """The source itself; names given for one that brings its own are refused."""
    if names is not None:
        raise ConfigError(
            "names were given for data that brings its own",
            "give names=[...] to arrays, .npy, sparse matrices and text tables without a header only",
        )
    return source


class StackedSource(MatrixSource):
    """Sources of the same columns as one source; a row belongs to the part it lies in."""

    def __init__(self, parts: Sequence[MatrixSource]) -> None:
        first = parts[0]
        for number, part in enumerate(parts):
            if part.shape[1] != first.shape[1] or part.names != first.names:
                raise RaggedRows(f"part {number} has other columns than part 0", "write all parts with one schema")
        self._parts = tuple(parts)
        self._starts = np.concatenate(([0], np.cumsum([part.shape[0] for part in parts])))
        kind = np.result_type(*(part.dtype for part in parts))
        super().__init__((int(self._starts[-1]), first.shape[1]), kind, first.names)

    @property
    def text_names(self) -> frozenset[str]:
        return self._parts[0].text_names

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        if isinstance(rows, slice):
            first, last = np.searchsorted(self._starts, (rows.start, rows.stop - 1), side="right") - 1
            pieces = [
                self._parts[p]._cells(
                    slice(max(rows.start - self._starts[p], 0), min(rows.stop, self._starts[p + 1]) - self._starts[p]),
                    columns,
                )
                for p in range(first, last + 1)
            ]
            return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        owner = np.searchsorted(self._starts, rows, side="right") - 1
        width = np.arange(self.shape[1])[columns].size
        out = np.empty((rows.size, width), self.dtype)
        for p in np.unique(owner):
            mine = owner == p
            out[mine] = self._parts[p]._cells(rows[mine] - self._starts[p], columns)
        return out

    def _values(self, position: int) -> NDArray[Any]:
        return np.concatenate([part._values(position) for part in self._parts])

    def _text_values(self, position: int) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        values, missing = zip(*(part._text_values(position) for part in self._parts), strict=True)
        return np.concatenate(values), np.concatenate(missing)

    def _place(self, row: int, column: int) -> str:
        part = int(np.searchsorted(self._starts, row, side="right")) - 1
        return f"{self._parts[part]._place(row - int(self._starts[part]), column)} of part {part}"


def open_parts(folder: Path, suffix: str, open_part: Callable[[Path], MatrixSource]) -> MatrixSource:
    """The files of this suffix in a folder, as one table."""
    files = sorted(path for path in folder.iterdir() if path.name.lower().endswith(suffix) and path.is_file())
    if not files:
        raise UnknownFormat(f"no file ends in {suffix} in the folder {folder}", f"name a folder of {suffix} parts")
    return StackedSource([open_part(path) for path in files])


def _near_file(path: Path) -> str:
    """The file of the same folder that may be meant, as the end of a fix."""
    if not path.parent.is_dir():
        return f": there is no folder {path.parent}"
    return near(path.name, sorted(each.name for each in path.parent.iterdir() if each.is_file()))
