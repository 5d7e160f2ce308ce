"""A block store whose blocks are worked on by a cluster: X' of the CSP where it is long on both sides.

The matrix lies in panels of whole columns, a private file each, in a scratch folder that the workers see too. A worker
loads a panel when the first product asks for it and caches it in memory for the passes to come; a worker that dies is
replaced by another that loads the same file. A product sends the narrow block and brings back its share: X' itself
does not travel. Dask spills what does not fit the workers' memory.
"""

import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fedsvd.compress.reduce import merged, part_of_array
from fedsvd.engine.cluster import Cluster
from fedsvd.linalg.streaming_factor import StreamingFactor
from fedsvd.storage.block_store import Access, BlockStore, spans
from fedsvd.storage.private import open_new
from fedsvd.storage.scratch import expect_space
from fedsvd.types import Float

_PANEL_BYTES = 1 << 26


class ClusterStore(BlockStore):
    """An m x n matrix in panels of columns under ``directory``, multiplied by the workers of a cluster."""

    def __init__(
        self, shape: tuple[int, int], access: Access, directory: Path, cluster: Cluster, panel: int | None = None
    ) -> None:
        super().__init__(shape, access)
        m, n = shape
        self._client = cluster.client
        self._spans = list(spans(n, panel or max(1, min(-(-n // cluster.workers), _PANEL_BYTES // (8 * m)))))
        expect_space(directory, 8 * m * n)
        self._folder = Path(tempfile.mkdtemp(prefix="fedsvd-", dir=directory))  # mode 0700
        self._discard = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._loaded: dict[int, Any] = {}
        for number, span in enumerate(self._spans):
            with open_new(self._folder / str(number)) as file:
                file.truncate(8 * m * (span.stop - span.start))

    # --- products, by the workers ---------------------------------------------------------------------------------

    def matmul(self, B: Float) -> Float:
        """``X' B``, one pass."""
        shares = [
            self._client.submit(_times, self._panel(j), B[span], pure=False) for j, span in enumerate(self._spans)
        ]
        total: Float = self._in_a_tree(shares, _sum).result()
        return total

    def rmatmul(self, B: Float) -> Float:
        """``X'^T B``, one pass."""
        block = self._client.scatter(B, broadcast=True)
        shares = [
            self._client.submit(_transposed_times, self._panel(j), block, pure=False) for j in range(len(self._spans))
        ]
        return np.concatenate(self._client.gather(shares))

    def factor(self) -> StreamingFactor:
        """The running factor of all columns, (m wide)."""
        parts = [self._client.submit(part_of_array, self._panel(j), None, pure=False) for j in range(len(self._spans))]
        return StreamingFactor.from_bytes(self._in_a_tree(parts, merged).result())

    def _in_a_tree(self, futures: list[Any], join: Callable[[list[Any]], Any]) -> Any:
        while len(futures) > 1:
            pairs = [futures[i : i + 2] for i in range(0, len(futures), 2)]
            futures = [self._client.submit(join, p, pure=False) if len(p) == 2 else p[0] for p in pairs]
        return futures[0]

    def _panel(self, j: int) -> Any:
        """Panel j on a worker, as a future that can be computed again."""
        if j not in self._loaded:
            shape = self.shape[0], self._spans[j].stop - self._spans[j].start
            self._loaded[j] = self._client.submit(_load, str(self._folder / str(j)), shape, pure=False)
        return self._loaded[j]

    # --- the laws of a store --------------------------------------------------------------------------------------

    def _write(self, rows: slice, cols: slice, block: Float) -> None:
        for j, inner, outer in self._overlapping(cols):
            self._mapped(j, "r+")[rows, inner] = block[:, outer]
            self._loaded.pop(j, None)

    def _read(self, rows: slice, cols: slice) -> Float:
        out = np.zeros((rows.stop - rows.start, cols.stop - cols.start), order="F")
        for j, inner, outer in self._overlapping(cols):
            out[:, outer] = self._mapped(j, "r")[rows, inner]
        return out

    def _release(self) -> None:
        self._loaded.clear()
        self._discard()

    def _mapped(self, j: int, mode: Any) -> Float:
        shape = self.shape[0], self._spans[j].stop - self._spans[j].start
        return np.memmap(self._folder / str(j), np.float64, mode, shape=shape, order="F")

    def _overlapping(self, cols: slice) -> list[tuple[int, slice, slice]]:
        """Panel, where the columns lie in it, and where in the block."""
        found = []
        for j, span in enumerate(self._spans):
            start, stop = max(span.start, cols.start), min(span.stop, cols.stop)
            if start < stop:
                inner = slice(start - span.start, stop - span.start)
                found.append((j, inner, slice(start - cols.start, stop - cols.start)))
        return found


def _load(path: str, shape: tuple[int, int]) -> Float:
    return np.fromfile(path, np.float64).reshape(shape, order="F")


def _times(panel: Float, B: Float) -> Float:
    product: Float = panel @ B
    return product


def _transposed_times(panel: Float, B: Float) -> Float:
    product: Float = panel.T @ B
    return product


def _sum(shares: list[Float]) -> Float:
    total: Float = shares[0] + shares[1]
    return total
