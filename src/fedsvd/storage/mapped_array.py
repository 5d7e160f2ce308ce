"""An array on disk that is used like one in memory: for scratch, or a result, as long as the data.

What a block store holds is read panel by panel, through its interface. This one is an array over a map of a private
file. Pages that were touched count as memory of the process until the system wants them back, so the array hands them
back itself: it counts what slices touch, and after a fixed number of bytes unmaps all of it; the numbers stay in the
file.

A slice across the layout would map up to 2 MiB for each of its runs, however short they are. It is read as a copy, and
written, by system calls instead. What touches the whole array at once, without slices, has all of it in memory.
"""

import math
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np

from fedsvd.storage.scratch import PrivateFile
from fedsvd.types import Float

_RESIDENT = 4  # of the budget that the array does not fit, the part that may stay in memory: a fourth
_LEAST_RUN = 1 << 11  # bytes: below it a system call for each run costs more than the pages
_TOGETHER = 8  # runs that are laid out for writing at once


class Pages:
    """The file behind an array and its map, of which about ``resident`` bytes stay in memory."""

    def __init__(self, file: PrivateFile, size: int, resident: int) -> None:
        self._file, self._resident, self._touched = file, resident, 0
        self._map = mmap.mmap(file.file.fileno(), size)
        self.cells = np.frombuffer(self._map, np.float64)
        self._start = self.cells.__array_interface__["data"][0]

    def touch(self, size: int) -> None:
        """Count bytes that are about to be touched; unmap what was touched before where both are too much."""
        self._touched += size
        if self._touched > self._resident:
            self._touched = size
            if hasattr(mmap, "MADV_DONTNEED"):
                # On a shared map this only unmaps pages: changed ones stay with the file and are written out.
                self._map.madvise(mmap.MADV_DONTNEED)

    def read(self, runs: Float) -> Float:
        """A copy of a view, (runs, length of a run)."""
        out, start = np.empty(runs.shape), self._offset(runs)
        for number, run in enumerate(out):
            self._file.read(start + number * runs.strides[0], run)
        return out

    def write(self, runs: Float, block: Float) -> None:
        """The numbers of ``block`` into the places of a view of the same shape."""
        start = self._offset(runs)
        for first in range(0, len(runs), _TOGETHER):
            for number, run in enumerate(np.ascontiguousarray(block[first : first + _TOGETHER]), first):
                self._file.write(start + number * runs.strides[0], run)

    def _offset(self, view: Float) -> int:
        offset: int = view.__array_interface__["data"][0] - self._start
        return offset


class MappedArray(np.ndarray[Any, Any]):
    """Numbers of a mapped file. A slice along the layout is a view, one across it a copy; results are plain arrays."""

    pages: Pages | None

    def __array_finalize__(self, obj: Any) -> None:
        pages = getattr(obj, "pages", None)
        self.pages = pages if pages is not None and np.may_share_memory(self, obj) else None

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        if array is self:
            return array
        return array[()] if return_scalar else np.asarray(array)

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        if not isinstance(found, MappedArray):
            return found
        if found.pages is None:
            return found.view(np.ndarray)
        if _across(found):
            return found.pages.read(found) if _by_lines(found) else found.pages.read(found.T).T
        found.pages.touch(found.nbytes)
        return found

    def __setitem__(self, index: Any, value: Any) -> None:
        place = super().__getitem__(index)
        if not isinstance(place, MappedArray) or place.pages is None:
            super().__setitem__(index, value)
        elif _across(place):
            block = np.broadcast_to(value, place.shape)
            place.pages.write(*((place, block) if _by_lines(place) else (place.T, block.T)))
        else:
            place.pages.touch(place.nbytes)
            super().__setitem__(index, value)


def scratch_array(shape: tuple[int, int], budget: int, directory: str | os.PathLike[str] | None) -> Float:
    """Zeros of this shape: in memory within ``budget`` bytes or without a scratch folder, else on disk."""
    size = 8 * math.prod(shape)
    if directory is None or size <= budget or size == 0:
        return np.zeros(shape)
    file = PrivateFile(Path(directory))
    try:
        file.reserve(size)
        pages = Pages(file, size, budget // _RESIDENT)
    except BaseException:
        file.close()
        raise
    cells = pages.cells.reshape(shape).view(MappedArray)
    cells.pages = pages
    return cells


def _by_lines(view: Float) -> bool:
    """Whether numbers of a row are neighbours in the file."""
    return view.strides[1] == view.itemsize


def _across(view: Float) -> bool:
    """Whether a view has two sides and consists of several runs of neighbours, each worth a system call."""
    if view.ndim != 2 or view.flags.forc:
        return False
    inner, outer = (1, 0) if _by_lines(view) else (0, 1)
    run = view.shape[inner] * view.itemsize
    return view.strides[inner] == view.itemsize and view.strides[outer] > 0 and run >= _LEAST_RUN
