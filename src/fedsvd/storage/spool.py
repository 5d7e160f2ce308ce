"""A private file for numbers that were read once and are needed again, in any order.

Text is slow to parse and Parquet slow to enter in the middle. Such a table is written once, as plain float64
rows, to a temporary file that has no name on POSIX: nobody else can open it, and it disappears with the last
reference to it, also when the process is killed. It is read back as a memory map, so memory stays bounded by
the panels in use; the disk holds 8 bytes for each entry.
"""

import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from fedsvd.errors import StorageError
from fedsvd.types import Float


def spooled(chunks: Iterable[Float], columns: int, scratch: Path | None) -> Float:
    """The chunks below one another as one read-only mapped array, shape (rows, columns); rows may be 0.

    ``scratch`` is the folder that holds the file, else the system's folder for temporary files (``TMPDIR``).
    """
    rows = 0
    try:
        with tempfile.TemporaryFile(prefix="fedsvd-", dir=scratch) as file:
            for chunk in chunks:
                file.write(np.ascontiguousarray(chunk, dtype=np.float64).data)
                rows += len(chunk)
            file.flush()
            if not rows:
                return np.empty((0, columns))
            return np.memmap(file, dtype=np.float64, mode="r", shape=(rows, columns))
    except OSError as fault:
        where = "the folder for temporary files" if scratch is None else str(scratch)
        raise StorageError(
            f"cannot keep {rows} rows of {columns} columns in {where}: {fault.strerror or type(fault).__name__}",
            "free disk space there, or give another folder: --scratch FOLDER, or fedsvd.open_source(data, scratch=...)",
        ) from fault
