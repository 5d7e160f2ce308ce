"""Matrices in ``.npy`` files, mapped into memory and never loaded whole.

Both orders on disk serve both directions: C order reads rows in runs and columns in strides, Fortran order the
other way round; the operating system keeps only the pages in use. A file of Python objects would have to be
unpickled, which can run code: it is refused by its header, unread.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from fedsvd.data.arrays import ArraySource
from fedsvd.data.checks import expect_matrix, not_numeric
from fedsvd.errors import UnknownFormat


class NpySource(ArraySource):
    """The matrix in one ``.npy`` file, opened for reading only."""

    def __init__(self, path: Path, names: Iterable[object] | None = None) -> None:
        super().__init__(_mapped(path), names)


def _mapped(path: Path) -> NDArray[Any]:
    try:
        shape, dtype = _header(path)
    except (ValueError, KeyError, OSError):
        raise UnknownFormat(f"{path} has no .npy header", "write it with numpy.save") from None
    if dtype.hasobject or dtype.names is not None:
        raise not_numeric(f"every column of {path}", "Python objects" if dtype.hasobject else "records")
    expect_matrix(shape)
    try:
        return npy_format.open_memmap(path, mode="r")
    except (ValueError, OSError):
        raise UnknownFormat(f"{path} is shorter than its header says", "write or copy it again") from None


def _header(path: Path) -> tuple[tuple[int, ...], np.dtype[Any]]:
    with path.open("rb") as file:
        version = npy_format.read_magic(file)
        # Version 3 exists only for records with names beyond latin-1, and 2 reads its layout.
        read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
        shape, _, dtype = read(file)
    return shape, dtype
