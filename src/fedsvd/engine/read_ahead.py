"""The next panel is read, or made, while this one is computed with: a bounded pipeline of one panel.

A thread of its own reads one panel ahead of a pass that goes forward; reading and generating give up the interpreter's
lock, as BLAS and AES do, so the two overlap where a core or a disk has time. Never more than one panel waits, and the
source underneath is never read by two threads at once. A caller that jumps about reads as before. The core knows
nothing of this: it is handed a source like any other.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from numpy.typing import NDArray

from fedsvd.data.source import Index, MatrixSource
from fedsvd.data.sparse import SparsePanels
from fedsvd.data.views import OfOther
from fedsvd.types import Array, Digest, Float

_Run = tuple[int, int, int]  # axis, start, stop


class ReadAhead(OfOther):
    """A source that has read the following panel already when it is asked for."""

    def __init__(self, base: MatrixSource) -> None:
        super().__init__(base.shape, base.dtype, base.names)
        self._base = base
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="fedsvd-reader")
        self._waiting: tuple[_Run, Future[Float]] | None = None
        self._last: _Run = (-1, 0, 0)

    @property
    def made_up(self) -> bool:
        return self._base.made_up

    def fingerprint(self) -> Digest:
        return self._base.fingerprint()

    def content_digest(self) -> bytes:
        return self._reader.submit(self._base.content_digest).result()  # after what is being read

    def expect_unchanged(self) -> None:
        self._reader.submit(self._base.expect_unchanged).result()

    def inspect(self) -> None:
        self._base.inspect()

    def columns_on(self, xp: Any, device: Any, start: int, stop: int) -> Array | None:
        return self._base.columns_on(xp, device, start, stop)

    def rows_on(self, xp: Any, device: Any, start: int, stop: int) -> Array | None:
        return self._base.rows_on(xp, device, start, stop)

    def rows(self, start: int, stop: int) -> Float:
        return self._read((0, start, stop))

    def columns(self, start: int, stop: int) -> Float:
        return self._read((1, start, stop))

    def _read(self, run: _Run) -> Float:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and waiting[0] == run:
            panel = waiting[1].result()
        else:
            # What waits is not wanted; it has to end all the same before the source is read again.
            panel = self._reader.submit(self._panel_of, run).result()
        axis, start, stop = run
        goes_on = start == 0 or self._last == (axis, self._last[1], start)
        self._last = run
        if goes_on and stop < self.shape[axis] and stop > start:
            following = axis, stop, min(2 * stop - start, self.shape[axis])
            self._waiting = following, self._reader.submit(self._panel_of, following)
        return panel

    def _panel_of(self, run: _Run) -> Float:
        axis, start, stop = run
        return self._base.columns(start, stop) if axis else self._base.rows(start, stop)

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        return self._reader.submit(self._base._cells, rows, columns).result()

    def _place(self, row: int, column: int) -> str:
        return self._base._place(row, column)


def read_ahead(source: MatrixSource) -> MatrixSource:
    """The source with a reader of its own; a sparse one as it is, for callers that ask it for sparse panels."""
    return source if isinstance(source, SparsePanels) else ReadAhead(source)
