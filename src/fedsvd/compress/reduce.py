"""Compress: ``X_i = L_i W_i^T`` with L_i m x min(m, n_i), from one streaming pass (step 3).

``L_i L_i^T = X_i X_i^T``, so the joint matrix of the L_i has the U and S of the joint matrix of the X_i, and upload and
the CSP's work no longer depend on n. W_i is never formed. The data is read once, in panels of columns; a killed pass
resumes from its checkpoint. Centring rides along in the same pass (``centre.py``).

*Panels* are read where they are computed with: in memory, or on a device. A source that can make its numbers on a
device (``columns_on``, ``rows_on``) does so, and nothing travels. Every other panel is read here and moved there, the
next one already on its way while the caller works on one.

*Parts* are computed apart and merged in a tree (``engine = "dask"``). Each is the factor of some columns, as the bytes
of its checkpoint, which carry a digest; two of them merge into one. Nothing here knows what runs the parts or where:
workers import this file and call these functions.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedsvd.compress.checkpoint import Checkpoint, Progressed, panel_digest
from fedsvd.data.checks import to_float
from fedsvd.data.source import MatrixSource, Reopen
from fedsvd.errors import ConfigError
from fedsvd.linalg import backend
from fedsvd.linalg.backend import to_numpy
from fedsvd.linalg.device import Device, host_or
from fedsvd.linalg.solved_columns import SolvedColumns, prepared
from fedsvd.linalg.streaming_factor import StreamingFactor, even_factor
from fedsvd.types import Array, Each, Float, byte_size, enough_bytes, expect_shape


def columns_of(source: MatrixSource, start: int, stop: int, device: Device | None) -> Array:
    """Columns ``start .. stop-1``, shape (rows, stop - start)."""
    if device is None:
        return source.columns(start, stop)
    made = source.columns_on(device.xp, device.like.device, start, stop)
    return device.put(source.columns(start, stop)) if made is None else made


def rows_of(source: MatrixSource, start: int, stop: int, device: Device | None) -> Array:
    """Rows ``start .. stop-1``, shape (stop - start, columns)."""
    if device is None:
        return source.rows(start, stop)
    made = source.rows_on(device.xp, device.like.device, start, stop)
    return device.put(source.rows(start, stop)) if made is None else made


def column_panels(
    source: MatrixSource, width: int, device: Device | None, first: int = 0
) -> Iterator[tuple[slice, Array]]:
    """All columns from ``first`` on, in panels of ``width``; the last may be narrower."""
    return _panels(source, 1, width, device, first)


def row_panels(source: MatrixSource, height: int, device: Device | None) -> Iterator[tuple[slice, Array]]:
    """All rows, in panels of ``height``; the last may be lower."""
    return _panels(source, 0, height, device, 0)


def _panels(
    source: MatrixSource, axis: int, width: int, device: Device | None, first: int
) -> Iterator[tuple[slice, Array]]:
    end, read = source.shape[axis], (source.rows, source.columns)[axis]
    places = [slice(start, min(start + width, end)) for start in range(first, end, width)]
    if device is None:
        yield from ((place, read(place.start, place.stop)) for place in places)
        return
    make = (source.rows_on, source.columns_on)[axis]
    for done, place in enumerate(places):
        made = make(device.xp, device.like.device, place.start, place.stop)
        if made is None:
            rest = places[done:]
            yield from zip(rest, device.ahead(read(place.start, place.stop) for place in rest), strict=True)
            return
        yield place, made
        del made  # before the next is made


Progress = Callable[[int, int], None]  # columns read, columns in all


class Spread(Protocol):
    """What computes with a source in parts, somewhere else."""

    def factor(
        self, source: MatrixSource, shift: Float | None, panel: int, progress: Progress | None = None
    ) -> StreamingFactor:
        """The factor of all columns less the shift, read in panels of this width."""

    def products(self, source: MatrixSource, by_rows: bool, panel: int) -> "Turned | None":
        """Products with all records, rows of the source or its columns; None for what is in this process's memory."""


Turned = tuple[Callable[[Float], Float], Callable[[Float], Float]]
"""A product along the records, a row for each, and one over them, a sum."""

PANELS = 6
"""Panels alive at once at most: one in use, one that is read ahead, what is made of it, what that is compared with,
and what a norm or a copy takes."""


@dataclass(frozen=True, repr=False)
class Reduced:
    """The factor of one user's data: ``L_i`` (m, r) and, when centred, the local mean.

    With a mean, L_i is the factor of the data less *its own* mean; ``centre.at_offset`` moves it to the joint one.
    ``offset_i`` is the same mean counted from the shift: it keeps the digits that ``mean_i`` has no space for.
    ``solved``, where it was asked for and all columns have taken the route for it, holds ``Q`` of ``X_i = L_i Q``.
    """

    L_i: Array
    count: int | float  # rows, or the sum of their weights
    mean_i: Float | None = None
    shift: Float | None = None
    offset_i: Float | None = None
    solved: SolvedColumns | None = None

    def __repr__(self) -> str:
        return f"Reduced(shape={tuple(self.L_i.shape)}, count={self.count}, centred={self.mean_i is not None})"


def panel_width(m: int, budget: int | None = None) -> int:
    """Columns per panel: about eight times m, fewer where ``PANELS`` of them would not fit the budget, in bytes."""
    wanted = max(8 * m, 4096)
    if budget is None:
        return wanted
    fits = budget // (PANELS * 8 * m)
    if fits < 1:
        raise ConfigError(
            f"a memory budget of {byte_size(budget)} holds no line of {m} numbers",
            f"allow at least {enough_bytes(PANELS * 8 * m)}",
        )
    return min(wanted, fits)


def thread_numbers(m: int, budget: int) -> int:
    """Numbers that all threads together have for their sums and pieces: what panels would take, now views."""
    return max(4 * m * panel_width(m, budget), budget // 32)


def viewed_width(m: int) -> int:
    """Columns per panel of data in memory, of which a panel is a view: long products for all threads."""
    return max(8 * m, 1 << 15)


def device_width(m: int, memory: int) -> int:
    """Columns per panel on a device of this much memory: long products, and space for what is made of them."""
    many, enough = memory // (16 * 8 * m), min(2 * m, memory // (6 * 8 * m))
    return max(1, many, enough)


def compress(
    source: MatrixSource,
    *,
    shift: Float | None = None,
    panel: int | None = None,
    checkpoint: Checkpoint | None = None,
    progress: Progress | None = None,
    device: Device | None = None,
    spread: Spread | None = None,
    weights: Float | None = None,
    each: Each | None = None,
    solved: bool = False,
    scratch: int | None = None,
    labels: int = 0,
) -> Reduced:
    """L_i of a source of shape (m, n_i), from one pass over its columns, made here or by what ``spread`` asks.

    With ``shift`` (this user's own, ``centre.own_shift``) the pass also takes the mean out: the factor is that of
    ``[1, (X_i - shift)^T]``. The shift is what saves digits when the mean is large against the spread. With ``weights``
    every column, and its 1, is multiplied by the root of its weight; such a pass has no checkpoint and runs here.
    ``solved`` asks for the columns that are solved on the way, as large as the data; ``each`` brings threads,
    which have ``scratch`` numbers at most. The last ``labels`` rows of the source are labels of the others.
    """
    m, n_i = source.shape
    panel = panel or panel_width(m)
    root = None if weights is None else np.sqrt(weights)
    count = n_i if weights is None else math.fsum(weights)
    if shift is not None:
        expect_shape("shift", shift, m)
    if weights is not None:
        expect_shape("weights", weights, n_i)
        checkpoint = spread = None
    if spread is not None:
        return _reduced(spread.factor(source, shift, panel, progress).factor(), count, shift)
    if device is not None and checkpoint is None:
        R = even_factor(_there(source, panel, device, shift, root, progress), m + (shift is not None))
        if R is not None:
            return _reduced(R, count, shift)
    state = checkpoint.load(source, shift, device) if checkpoint is not None else None
    less = None if shift is None else host_or(device, shift[:, None])
    # The factor centres by itself, piece by piece; on a device, or with weights, a panel is centred here.
    plain = state is None and device is None and root is None
    inside = less if plain else None
    kept = SolvedColumns(m, n_i) if solved and plain and shift is None else None
    width = m + (shift is not None)
    state = state or Progressed(StreamingFactor(width, each, shift=inside, solved=kept, scratch=scratch, labels=labels))
    factor, done = state.factor, state.done
    for place, X in column_panels(source, panel, device, done):
        done = place.stop
        X_p = X if inside is not None else _augmented(X, less)
        factor.update_columns(X_p if root is None else X_p * host_or(device, root[None, place]))
        if checkpoint is not None and (checkpoint.due(done) or done == n_i):
            width = done - place.start
            checkpoint.save(Progressed(factor, done, width, panel_digest(to_numpy(X))), source, shift)
        if progress is not None:
            progress(done, n_i)
    return _reduced(factor.factor(), count, shift, kept)


def _augmented(X: Array, shift: Array | None) -> Array:
    """The panel less the shift (m, 1), under a row of ones, where there is a shift."""
    xp = backend.namespace(X)
    if shift is None or xp is np:
        return prepared(X, shift)
    augmented = xp.empty((X.shape[0] + 1, X.shape[1]), dtype=X.dtype, device=X.device)
    augmented[1:, :] = X - shift
    augmented[0, :] = 1.0
    return augmented


def _reduced(R: Array, count: int | float, shift: Float | None, kept: SolvedColumns | None = None) -> Reduced:
    xp = backend.namespace(R)
    if shift is None:
        return Reduced(xp.matrix_transpose(R), count, solved=None if kept is None else kept.of(R))
    # The first row of R is sqrt(count) (1, mean_i - shift) up to sign; below it stands the centred factor.
    first = backend.to_numpy(R[0, :])
    offset_i = first[1:] / first[0]
    return Reduced(xp.matrix_transpose(R[1:, 1:]), count, shift + offset_i, shift, offset_i)


def _there(
    source: MatrixSource, panel: int, device: Device, shift: Float | None, root: Float | None, progress: Progress | None
) -> Iterator[Array]:
    """The panels on a device, as the factor wants them: less the shift, under a row of ones, times roots of weights."""
    less = None if shift is None else device.put(shift[:, None])
    for place, X in column_panels(source, panel, device):
        if less is not None:
            xp = backend.namespace(X)
            augmented = xp.ones((X.shape[0] + 1, X.shape[1]), dtype=X.dtype, device=X.device)
            augmented[1:, :] = X
            augmented[1:, :] -= less
            X = augmented
            del augmented
        yield X if root is None else X * device.put(root[None, place])
        del X
        if progress is not None:
            progress(place.stop, source.shape[1])


def part_of_source(reopen: Reopen, start: int, stop: int, panel: int, shift: Float | None) -> bytes:
    """The factor of columns ``start .. stop-1``, read here in panels."""
    source = reopen()
    factor = _factor_less(source.shape[0], shift)
    for first in range(start, stop, panel):
        factor.update_columns(source.columns(first, min(first + panel, stop)))
    return factor.to_bytes()


def part_of_array(X: Float, shift: Float | None) -> bytes:
    """The factor of columns that are here already."""
    X = to_float(X, lambda i, j: "a block of a Dask array")
    factor = _factor_less(X.shape[0], shift)
    factor.update_columns(X)
    return factor.to_bytes()


def merged(parts: Sequence[bytes]) -> bytes:
    """The factor of all columns of these parts."""
    first, *rest = (StreamingFactor.from_bytes(part) for part in parts)
    for other in rest:
        first.merge(other)
    return first.to_bytes()


def _factor_less(m: int, shift: Float | None) -> StreamingFactor:
    """Of columns less the shift, under a row of ones, where there is one: centring rides along (``centre.py``)."""
    return StreamingFactor(m + (shift is not None), shift=None if shift is None else shift[:, None])
