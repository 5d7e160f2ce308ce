"""The family ``steps`` at home: products of this user's data with a few columns, where the user computes.

``X_i W`` and ``X_i^T Q``, X_i being (m, n_i), centred and scaled. A sparse table is multiplied as such and never made
dense; data in memory where it is; what fits a device stays there; everything else passes once a product, in panels of
records, as files keep them. A mean is taken off the product and a scale put on its rows, unless the mean is so far from
zero that the difference would lose digits: then they are applied to each panel.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from fedsvd.compress.reduce import columns_of, rows_of
from fedsvd.data.sparse import SparsePanels
from fedsvd.linalg.backend import matmul, namespace, to_numpy
from fedsvd.linalg.columns import Columns
from fedsvd.linalg.sparse_products import ByRows, has_sparse, sparse_products
from fedsvd.protocol.tasks import Split
from fedsvd.roles.user.masking import Operand
from fedsvd.roles.user.stored import StoredPanels, stored_entries
from fedsvd.roles.user.streamed import powers_of_two
from fedsvd.roles.user.work import Dense, Streamed, Work
from fedsvd.types import Array, Each, Float

_STAYS = 8  # the part of a device's memory, of which several users may have theirs, that one's data may take

Product = Callable[[Array], Array]
Read = Callable[[int, int], Array]
Turned = Callable[[Array, bool], Array]  # a product with panels, or with their transposes


@dataclass(repr=False)
class OwnSide:
    """This user's side: products with its data, and its rows of W, all where it computes."""

    times: Product  # X_i W, (n_i, b) to (m, b)
    transposed_times: Product  # X_i^T Q, (m, b) to (n_i, b)
    columns: Columns

    @property
    def W(self) -> Array:
        """(n_i, d)."""
        return self.columns.all

    def image(self, W: Array) -> Float:
        """``X_i W`` in host memory, where it is encoded and padded."""
        return to_numpy(self.times(W))

    def add(self, W: Array) -> None:
        """More columns."""
        self.columns = self.columns.with_more(W)


def own_side(work: Work, A_i: Operand) -> OwnSide:
    """Products by the first way that this data and this machine allow."""
    W = Columns(work.n_i, None if work.device is None else work.device.like)
    if work.spread is not None and isinstance(A_i, Streamed) and A_i.off_products:
        by_rows = work.plan.split is Split.VERTICAL
        made = work.spread.products(A_i.source, by_rows, work.panel(work.source.shape[1 if by_rows else 0]))
        if made is not None:
            along, over = made
            return OwnSide(*_adjusted(work, A_i, *((along, over) if by_rows else (over, along))), W)
    if isinstance(A_i, Streamed) and A_i.off_products:
        if isinstance(A_i.source, SparsePanels) and has_sparse(None if work.device is None else work.device.like):
            return OwnSide(*_of_stored(work, A_i), W)
        if A_i.at_once:
            memory, near = work.plan.memory, A_i
            return OwnSide(lambda W: near.times(W, memory), lambda Q: near.transposed_times(Q, memory), W)
    if isinstance(A_i, Streamed) and _stays(work):
        A_i = Dense(A_i.columns(0, work.n_i))
    if isinstance(A_i, Dense):
        A = A_i.A_i
        return OwnSide(lambda W: matmul(A, W), lambda Q: matmul(A.T, Q), W)
    return OwnSide(*_by_panels(work, A_i), W)


def _stays(work: Work) -> bool:
    """Whether this user's data is kept, centred and scaled, where it computes."""
    if work.device is None:
        return 16 * work.plan.m * work.n_i <= work.plan.memory
    return _STAYS * 8 * work.plan.m * work.n_i <= work.device.memory


def _of_stored(work: Work, A_i: Streamed) -> tuple[Product, Product]:
    """Products of a sparse table: on a device as a whole, in host memory panel by panel."""
    stored = stored_entries(work)
    assert stored is not None
    if work.device is not None:
        made = sparse_products(stored.all(), work.device.like)
        return _adjusted(work, A_i, *made)
    panels = _InPieces(stored, work.masks.each)
    along = _along(panels, work.source.shape[0 if stored.by_rows else 1])
    over = _over(panels, work.source.shape[1 if stored.by_rows else 0])
    return _adjusted(work, A_i, *_forward_and_back(stored.by_rows, along, over))


def _by_panels(work: Work, A_i: Operand) -> tuple[Product, Product]:
    """Products of data that is read in panels of records."""
    if not isinstance(A_i, Streamed) or not A_i.off_products:
        return _over_panels(work, A_i.rows, A_i.columns)
    source, device = A_i.source, work.device
    raw = _over_panels(
        work,
        lambda start, stop: rows_of(source, start, stop, device),
        lambda start, stop: columns_of(source, start, stop, device),
    )
    return _adjusted(work, A_i, *raw)


def _over_panels(work: Work, rows: Read, columns: Read) -> tuple[Product, Product]:
    m, n_i = work.source.shape
    by_rows = work.plan.split is Split.VERTICAL  # records are rows of X_i
    length, width = (m, n_i) if by_rows else (n_i, m)
    step, read = work.panel(width), rows if by_rows else columns
    places = [slice(start, min(start + step, length)) for start in range(0, length, step)]
    panels = _Panels(places, read)
    return _forward_and_back(by_rows, _along(panels, length), _over(panels, width))


@dataclass(frozen=True, repr=False)
class _Panels:
    """Records in panels, read again by each pass."""

    places: list[slice]
    read: Read

    def __iter__(self) -> Iterator[tuple[slice, Array]]:
        return ((place, self.read(place.start, place.stop)) for place in self.places)


class _InPieces:
    """What is stored of a table: in pieces for several threads once all of it is in memory, in panels until then."""

    def __init__(self, stored: StoredPanels, each: Each | None) -> None:
        self._stored, self._each = stored, each
        self._pieces: list[tuple[slice, _Both]] = []

    def __iter__(self) -> Iterator[tuple[slice, Any]]:
        if not self._pieces:
            self._pieces = [(place, _Both.of(panel, self._each)) for place, panel in self._stored.kept]
        return iter(self._pieces or self._stored)


@dataclass(frozen=True, repr=False)
class _Both:
    """A panel and its transpose, by rows."""

    own: ByRows
    turned: ByRows

    @classmethod
    def of(cls, panel: Any, each: Each | None) -> "_Both":
        return cls(ByRows(panel, each), ByRows(panel.T, each))

    @property
    def T(self) -> "_Both":
        return _Both(self.turned, self.own)


def _forward_and_back(by_rows: bool, along: Turned, over: Turned) -> tuple[Product, Product]:
    """``X_i W`` and ``X_i^T Q``: one has a row for each record, the other is a sum over them."""
    if by_rows:
        return lambda W: along(W, False), lambda Q: over(Q, True)
    return lambda W: over(W, False), lambda Q: along(Q, True)


def _along(panels: Iterable[tuple[slice, Any]], length: int) -> Turned:
    """Each record's own rows of a product."""

    def product(A: Array, transposed: bool) -> Array:
        found: Array | None = None
        for place, panel in panels:
            some = _matmul(panel.T if transposed else panel, A)
            if some.shape[0] == length:  # one panel is all there is
                found = some
                continue
            found = _zeros(length, A) if found is None else found
            found[place, :] = some
        return _zeros(length, A) if found is None else found

    return product


def _over(panels: Iterable[tuple[slice, Any]], width: int) -> Turned:
    """The sum over all records."""

    def product(A: Array, transposed: bool) -> Array:
        found: Array | None = None
        for place, panel in panels:
            some = _matmul(panel.T if transposed else panel, A[place, :])
            if found is None:
                found = some
            else:
                found += some
        return _zeros(width, A) if found is None else found

    return product


def _matmul(panel: Any, A: Array) -> Array:
    if isinstance(panel, _Both):
        return panel.own.times(A)
    # What SciPy stores by columns of memory it multiplies several times as slowly.
    return panel @ np.ascontiguousarray(A) if scipy.sparse.issparse(panel) else matmul(panel, A)


def _zeros(rows: int, A: Array) -> Array:
    shape = rows, A.shape[1]
    return np.zeros(shape) if isinstance(A, np.ndarray) else namespace(A).zeros(shape, dtype=A.dtype, device=A.device)


def _adjusted(work: Work, A_i: Streamed, times: Product, transposed_times: Product) -> tuple[Product, Product]:
    """Products with ``diag(f) (X - mean 1^T)`` from those with X."""
    factors = np.ones(work.source.shape[0]) if A_i.inverse is None else A_i.inverse
    for factor in powers_of_two(A_i.power):
        factors = factors * factor
    rows = work.put(np.ascontiguousarray(factors[:, None]))
    mean = None if A_i.mean is None else work.put(np.ascontiguousarray(A_i.mean[:, None]))

    def forward(W: Array) -> Array:
        product = times(W)
        if mean is not None:
            product -= mean * _column_sums(W)
        product *= rows
        return product

    def back(Q: Array) -> Array:
        scaled = np.multiply(Q, rows, order="C") if isinstance(Q, np.ndarray) else Q * rows
        product = transposed_times(scaled)
        if mean is not None:
            product -= matmul(mean.T, scaled)
        return product

    return forward, back


def _column_sums(W: Array) -> Array:
    return namespace(W).sum(W, axis=0)[None, :]
