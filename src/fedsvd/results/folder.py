"""Folders of arrays and tables that are there in full or not at all, private, with a hash of every file.

A folder is written next to its final place under a temporary name and renamed at the end, so that half a result is
never read. Folders have mode 0700 and files 0600. ``manifest.json`` lists every file with its SHA-256, and carries one
of itself: it shows damage, not forgery, because a party that can change a file can change its hash.
"""

import csv
import errno
import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import StorageError
from fedsvd.storage import private
from fedsvd.storage.mapped_array import MappedArray

MANIFEST = "manifest.json"
REPORT = "report.html"
UNFINISHED = "NOT-FINISHED.txt"  # there where the job of these results did not end well
LONGEST_IN_MEMORY = 1 << 28  # bytes of a file; a longer one is mapped
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # what spreadsheets compute
_QUOTED = re.compile('[",\r\n]')  # what stands in quotes where it is written as CSV
_WRITTEN = 1 << 25  # bytes of an array on disk that are copied at a time
LONGEST_TABLE = 2_000_000
"""Entries beyond which an array is not written as text a second time: it takes minutes, and is too long to read."""


@dataclass(frozen=True, repr=False)
class Table:
    """Columns of one length under names, for people and their tools."""

    name: str
    columns: Mapping[str, Sequence[object] | NDArray[Any]]

    @property
    def size(self) -> int:
        return sum(len(column) for column in self.columns.values())


def expect_free(target: Path, overwrite: bool) -> None:
    """Refuse a place that is taken; with ``overwrite`` an older result may be replaced, and nothing else."""
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not overwrite:
        raise StorageError(f"{target} is there already", "name another folder, or replace this one: --overwrite")
    if not (target / MANIFEST).is_file():
        raise StorageError(f"{target} is not a result of fedsvd, and is left as it is", "name another folder")


@contextmanager
def fresh_folder(target: Path, overwrite: bool = False) -> Iterator[Path]:
    """An empty private folder that takes the name ``target`` when the block ends well, and vanishes when not."""
    target = target.absolute()
    expect_free(target, overwrite)
    try:
        private.make_folders(target.parent)
        partial = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as fault:
        raise _unusable(target, fault) from None
    try:
        yield partial
        _put_in_place(partial, target)
    except StorageError:
        raise
    except OSError as fault:
        raise _unusable(target, fault) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _put_in_place(partial: Path, target: Path) -> None:
    if not target.exists():
        partial.rename(target)
        return
    # Two renames: between them the old result is complete under another name.
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
    target.rename(old / target.name)
    try:
        partial.rename(target)
    except OSError:
        (old / target.name).rename(target)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def save_array(folder: Path, name: str, array: NDArray[Any]) -> None:
    """``NAME.npy``."""
    with private.new_file(folder / f"{name}.npy") as file:
        write_array(file, array)


def write_array(file: BinaryIO, array: NDArray[Any]) -> None:
    """The array as a file of NumPy's."""
    if not isinstance(array, MappedArray):
        np.save(file, array, allow_pickle=False)
        return
    # Some lines of the file at a time, so that what lies on disk is not read into memory at once.
    np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
    lines = array if array.flags.c_contiguous else array.T
    step = max(1, _WRITTEN // max(1, lines[:1].nbytes))
    for start in range(0, len(lines), step):
        file.write(np.ascontiguousarray(lines[start : start + step]).data)


def save_table(folder: Path, table: Table) -> None:
    """``NAME.csv``, and ``NAME.parquet`` where pyarrow is installed; floats in CSV read back bit for bit.

    A text that a spreadsheet would take for a formula has an apostrophe before it in CSV, and only there.
    """
    for suffix, write in table_writers(table).items():
        with private.new_file(folder / f"{table.name}.{suffix}") as file:
            write(file)


def table_writers(table: Table) -> dict[str, Callable[[BinaryIO], None]]:
    """What writes a table, by the suffix of the file."""
    arrow = _arrow(table) if find_spec("pyarrow") is not None else None
    shown = _without_formulas(table)
    plain_arrow = arrow if shown is table else None

    def write_csv(file: BinaryIO) -> None:
        text = TextIOWrapper(file, encoding="utf-8", newline="")
        writer = csv.writer(_Lines(text))
        writer.writerow(shown.columns)
        if plain_arrow is not None and all(_plain(column) for column in plain_arrow.columns):
            from pyarrow import csv as arrow_csv

            text.flush()
            # Seven times quicker; its other way would put every text in quotes.
            arrow_csv.write_csv(plain_arrow, file, arrow_csv.WriteOptions(include_header=False, quoting_style="none"))
        else:
            # NumPy's own numbers print their type; Python's print the shortest text that reads back.
            plain = [column.tolist() if isinstance(column, np.ndarray) else column for column in shown.columns.values()]
            writer.writerows(zip(*plain, strict=True))
            text.flush()
        text.detach()

    def write_parquet(file: BinaryIO) -> None:
        from pyarrow import parquet

        assert arrow is not None

        # Numbers of a result hardly repeat: a dictionary of them takes twice the time, and more space.
        texts = [field.name for field in arrow.schema if str(field.type) == "string"]
        parquet.write_table(arrow, file, use_dictionary=texts)

    return {"csv": write_csv} if arrow is None else {"csv": write_csv, "parquet": write_parquet}


class _Lines:
    """Rows that end with a line feed; the csv module puts a carriage return in quotes only if it ends rows itself."""

    def __init__(self, text: TextIOWrapper) -> None:
        self._text = text

    def write(self, row: str) -> int:
        return self._text.write(f"{row.removesuffix(chr(13) + chr(10))}\n")


def _without_formulas(table: Table) -> Table:
    """The table with an apostrophe before every text that begins as a formula does; itself where no text does.

    A text that begins with apostrophes and then as a formula gets one more, so that taking one away restores all.
    """

    def shown(cell: object) -> object:
        return f"'{cell}" if isinstance(cell, str) and cell.lstrip("'")[:1] in _FORMULA and cell.strip("'") else cell

    def needed(column: Sequence[object] | NDArray[Any]) -> bool:
        texts = not isinstance(column, range) and (not isinstance(column, np.ndarray) or column.dtype.kind in "UO")
        return texts and any(shown(cell) is not cell for cell in column)

    guarded = {name for name, column in table.columns.items() if shown(name) is not name or needed(column)}
    if not guarded:
        return table
    columns = {str(shown(name)): table.columns[name] for name in table.columns}
    for name in guarded:
        columns[str(shown(name))] = [shown(cell) for cell in table.columns[name]]
    return Table(table.name, columns)


def _plain(column: Any) -> bool:
    """Whether pyarrow writes a column as the csv module does: numbers, and texts that need no quotes."""
    if str(column.type) in ("double", "int64"):
        return True
    if str(column.type) != "string" or column.null_count:
        return False
    texts = column.to_pylist()
    return all(texts) and not _QUOTED.search("".join(texts))


def _arrow(table: Table) -> Any:
    """The same as a pyarrow table; a column of numbers is not copied."""
    import pyarrow as pa

    def taken(column: Sequence[object] | NDArray[Any]) -> Any:
        if isinstance(column, range):
            column = np.asarray(column)
        if isinstance(column, np.ndarray) and column.dtype.kind == "U":
            column = column.tolist()
        # Not pa.array, which imports pandas, where there is one, to see whether this is a column of its own.
        if not isinstance(column, np.ndarray) and all(type(cell) is str for cell in column):
            words = [str(cell).encode() for cell in column]
            ends = np.cumsum([0, *map(len, words)])
            if ends[-1] < 1 << 31:
                buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(words))]
                return pa.Array.from_buffers(pa.string(), len(words), buffers)
        if not isinstance(column, np.ndarray) or column.dtype not in (np.float64, np.int64):
            return pa.array(column if isinstance(column, np.ndarray) else list(column))
        kind, numbers = pa.from_numpy_dtype(column.dtype), pa.py_buffer(np.ascontiguousarray(column))
        return pa.Array.from_buffers(kind, len(column), [None, numbers])

    return pa.table({name: taken(column) for name, column in table.columns.items()})


def save_manifest(folder: Path, record: Mapping[str, Any]) -> None:
    """``manifest.json``: the record, every file's hash, and the manifest's own."""
    there = {path.name: _described(path) for path in sorted(folder.iterdir()) if path.is_file()}
    complete = {**record, "files": there}
    with private.new_file(folder / MANIFEST) as file:
        file.write(_spelt(complete))


def _spelt(complete: Mapping[str, Any]) -> bytes:
    """A manifest as it is written, with its own hash."""
    record = {**complete, "sha256": manifest_digest(complete)}
    return json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def read_manifest(folder: Path) -> dict[str, Any]:
    """The record of a folder whose files are all as they were written; anything else is refused."""
    record = manifest_record(folder)
    for name, about in record["files"].items():
        path = folder / name
        if Path(name).name != name or not path.is_file():
            raise _damaged(folder, f"{name} is missing")
        if hashed_file(path) != about["sha256"]:
            raise _damaged(folder, f"{name} is not as it was written")
    return record


def to_look_at(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """What the owner of a table should look at in it, from the facts of its own result: units, and pooled levels."""
    return (*(facts.get("prepared") or {}).get("look_at", ()), *facts.get("look_at", ()))


def manifest_record(folder: Path) -> dict[str, Any]:
    """What the manifest says, if it is as it was written; the files that it lists are not read."""
    try:
        record = private.plain_json((folder / MANIFEST).read_bytes())
    except OSError as fault:
        reason = fault.strerror or type(fault).__name__
        raise StorageError(f"{folder} holds no readable {MANIFEST}: {reason}", "name a results folder") from None
    except ValueError:
        raise _damaged(folder, f"{MANIFEST} is not JSON") from None
    if not isinstance(record, dict) or not isinstance(record.get("files"), dict):
        raise _damaged(folder, f"{MANIFEST} is not of this program")
    own = record.pop("sha256", None)
    if own != manifest_digest(record):
        raise _damaged(folder, f"{MANIFEST} is not as it was written")
    return record


def mark_unfinished(folder: Path, text: str) -> bool:
    """Write in a folder of results, in its manifest and in a file, that their job did not end; False if it is there.

    Written after the results themselves: that the job failed elsewhere is known only then.
    """
    record = manifest_record(folder)
    if UNFINISHED in record["files"]:
        return False
    private.replace(folder / UNFINISHED, f"{text}\n".encode())
    described = {**record["files"], UNFINISHED: _described(folder / UNFINISHED)}
    complete = {**record, "not_finished": text, "files": described}
    private.replace(folder / MANIFEST, _spelt(complete))
    return True


def mark_finished(folder: Path) -> bool:
    """Take back what ``mark_unfinished`` wrote: the job ended after all; False if it is not there."""
    record = manifest_record(folder)
    if UNFINISHED not in record["files"]:
        return False
    described = {name: about for name, about in record["files"].items() if name != UNFINISHED}
    complete = {**record, "files": described}
    complete.pop("not_finished", None)
    private.replace(folder / MANIFEST, _spelt(complete))
    (folder / UNFINISHED).unlink(missing_ok=True)
    return True


def load_array(folder: Path, name: str) -> NDArray[Any]:
    """The array in ``NAME.npy``."""
    try:
        path = folder / f"{name}.npy"
        # What was written panel by panel is not read into memory at once either.
        mode: Literal["r"] | None = "r" if path.stat().st_size > LONGEST_IN_MEMORY else None
        array: NDArray[Any] = np.load(path, mmap_mode=mode, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        raise _damaged(folder, f"{name}.npy cannot be read") from None
    return array


def _described(path: Path) -> dict[str, Any]:
    about: dict[str, Any] = {"sha256": hashed_file(path), "bytes": path.stat().st_size}
    if path.suffix == ".npy":
        with path.open("rb") as file:
            np.lib.format.read_magic(file)
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        about |= {"shape": list(shape), "dtype": str(dtype)}
    return about


def hashed_file(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def manifest_digest(record: Mapping[str, Any]) -> str:
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(b"fedsvd/manifest/1\x00" + text.encode()).hexdigest()


def _damaged(folder: Path, what: str) -> StorageError:
    return StorageError(f"the results in {folder} are damaged: {what}", "take them from a backup, or run the job again")


def _unusable(target: Path, fault: OSError) -> StorageError:
    reason = fault.strerror or type(fault).__name__
    fixes = {
        errno.ENOSPC: "free space on that disk, or name a folder on another one: --out",
        errno.EDQUOT: "free space on that disk, or name a folder on another one: --out",
        errno.EACCES: "name a folder that you may write to: --out",
        errno.ENOTDIR: "a folder on the way to it is a file: name another one: --out",
    }
    return StorageError(f"cannot write to {target}: {reason}", fixes.get(fault.errno or 0, "name another one: --out"))
