"""A digest of the data that a party brings to a study, by which a table that changed after its approval is found.

One pass over the data, under the party's own key; the same pass gives what a session commits to (``data/hashed.py``).
"""

import hashlib
import hmac
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.hashed import begun_digest
from fedsvd.data.source import MatrixSource
from fedsvd.randomness.seed import Seed
from fedsvd.types import Float

_PANEL_BYTES = 1 << 24


class Table(Protocol):
    """What a party brings: its table, its labels, its row ids."""

    @property
    def table(self) -> MatrixSource: ...

    @property
    def labels(self) -> Float | None: ...

    @property
    def ids(self) -> NDArray[Any] | None: ...


class Reading:
    """What a pass over a party's table gave, and gives again as long as ``unchanged`` holds."""

    def __init__(self, unchanged: Callable[[], bool]) -> None:
        self._unchanged = unchanged
        self._content: dict[int, tuple[MatrixSource, bytes]] = {}

    def content(self, table: MatrixSource) -> bytes | None:
        """SHA-256 of a table's rows, as ``data.hashed`` has it of the transposed table; None where it must be read."""
        found = self._content.get(id(table))
        return found[1] if found is not None and self._unchanged() else None

    def once(self, table: MatrixSource, read: Callable[[MatrixSource], bytes]) -> bytes:
        """What a pass over this table gives, which is not repeated while it holds."""
        if id(table) not in self._content or not self._unchanged():
            self._content[id(table)] = table, read(table)
        return self._content[id(table)][1]


def source_digest(data: Table, key: Seed, reading: Reading | None = None) -> str:
    """A keyed digest of a table with its ids and labels; with a ``reading`` of it that still holds, nothing is read."""
    digest = hmac.new(key.derive("source").reveal(), digestmod=hashlib.sha256)
    if data.table.made_up:
        digest.update(data.table.content_digest())
        return digest.hexdigest()
    content = _content(data.table) if reading is None else reading.once(data.table, _content)
    digest.update(repr((data.table.shape, None if data.ids is None else data.ids.tolist())).encode())
    digest.update(content)
    if data.labels is not None:
        digest.update(np.ascontiguousarray(data.labels).data)
    return digest.hexdigest()


def _content(table: MatrixSource) -> bytes:
    digest = begun_digest(table.T.shape, 1)
    rows, columns = table.shape
    height = max(1, _PANEL_BYTES // (8 * columns))
    for start in range(0, rows, height):
        digest.update(np.ascontiguousarray(table.rows(start, min(start + height, rows)), "<f8").data)
    return digest.digest()
