"""What a task's script works on: the plan, this user's data and masks, and A_i in the forms it takes.

A_i stands for X_i wherever a Gram matrix is all that matters: compressed to m columns, or the data itself, centred and
scaled as it is read (``streamed.py``). Nothing here is ever sent.

A ``Sink`` is where a user's own part of a result goes while it is made: Vt_i, or the scores, as large as its data. It
is written panel by panel, in order of its columns. What ``close`` returns stands for it in the result. Sinks that
write files are in ``results/vector_files.py``.
"""

import hashlib
import math
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedsvd.compress.checkpoint import Checkpoint
from fedsvd.compress.reduce import (
    Spread,
    column_panels,
    columns_of,
    compress,
    device_width,
    panel_width,
    row_panels,
    thread_numbers,
    viewed_width,
)
from fedsvd.data.source import MatrixSource
from fedsvd.linalg.device import Device
from fedsvd.prepare.blinding import EachPart
from fedsvd.prepare.rule import Rule
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Check, Task
from fedsvd.randomness.seed import Seed
from fedsvd.roles.user.masking import Masks
from fedsvd.roles.user.streamed import Streamed as Streamed
from fedsvd.roles.user.streamed import long_panels
from fedsvd.storage.record_file import RecordFile
from fedsvd.types import Array, Float, Ring


class Sink(Protocol):
    """Takes the panels of one matrix."""

    def open(self, rows: int, columns: int) -> None: ...
    def write(self, panel: Float) -> None: ...
    def close(self) -> Any:
        """What stands for the matrix in the result."""


class InMemory:
    """One array."""

    def open(self, rows: int, columns: int) -> None:
        self._array, self._done = np.empty((rows, columns)), 0

    def write(self, panel: Float) -> None:
        self._array[:, self._done : self._done + panel.shape[1]] = panel
        self._done += panel.shape[1]

    def close(self) -> Float:
        return self._array


class Nowhere:
    """Made, checked, dropped."""

    def open(self, rows: int, columns: int) -> None:
        pass

    def write(self, panel: Float) -> None:
        pass

    def close(self) -> None:
        pass


Progress = Callable[[str, int, int], None]  # stage, done, total
Playing = Generator[tuple[str, Float], Float, Mapping[str, Float]]  # a foreign task's script: steps, totals, outputs

_SLAB = 1 << 18  # numbers that stay in a cache while they pass some steps
_THREADS = 4  # that pass slabs: a step takes about 0.1 ms, and more threads wait for the interpreter's lock


def commitment_salt(own: Seed) -> bytes:
    """What a user opens, to an auditor, to show what it committed to; 32 bytes of its own."""
    return own.derive("commitment").reveal()


@dataclass(frozen=True, repr=False)
class Work:
    """One user's side of one task; ``i`` counts from 0."""

    plan: SessionPlan
    i: int
    source: MatrixSource  # X_i, (m, n_i)
    masks: Masks
    own: Seed
    checks: Seed  # the users': the secret vectors of step 7
    labels: Float | None = None  # (samples, targets)
    ids: NDArray[Any] | None = None  # of the records, where they are matched
    weights: tuple[Float, Float] | None = None  # own coefficients and the intercept, to predict with
    row_weights: Float | None = None  # (n_i,), of our records, where the plan is of weighted rows
    clusters: NDArray[Any] | None = None  # (n_i,), to which group each record belongs, where errors are robust to it
    persons: NDArray[np.intp] | None = None  # (n_i,), whose each record is, where persons have several: home tests
    checkpoint: Checkpoint | None = None
    search: RecordFile | None = None  # what earlier sessions of the job found by steps
    sink: Sink | None = None  # where what is as large as the data is written; None: memory
    progress: Progress | None = None
    device: Device | None = None  # where this user computes; None for NumPy
    spread: Spread | None = None  # what factors the source in parts, elsewhere
    each_part: EachPart | None = None  # what multiplies points of large sets of ids in parts
    allocate: Callable[[tuple[int, int]], Float] = np.empty  # memory or disk for a result as long as the data
    memo: dict[Hashable, Any] | None = None  # what users of one process computed from equal inputs
    granted: float = math.inf  # bits at which this user ends a study by few digits
    rule: Rule | None = None  # by which tables are prepared together
    key: Seed | None = None  # the users': of the digests of levels
    statistic: Callable[[Float], Playing] | None = None  # what plays a foreign task on X_i
    on_means: Callable[[Float], None] | None = None  # compares joint means with own ones; may end the study here

    def opened_means(self, means: Float) -> None:
        """Hand the joint means to this user's owner as soon as all users hold them, before anything else is sent."""
        if self.on_means is not None:
            self.on_means(means)

    @property
    def n_i(self) -> int:
        return self.source.shape[1]

    @property
    def leads(self) -> bool:
        """Whether this is user 1, which decides where one user must."""
        return self.i == 0

    def commitment(self) -> bytes:
        """A salted commitment to the data: to its contents where the source hashes them, else to its shape."""
        content = self.source.content_digest()
        if content and self.labels is not None:
            content += hashlib.sha256(np.ascontiguousarray(self.labels, "<f8").data).digest()
        if content and self.row_weights is not None:
            content += hashlib.sha256(np.ascontiguousarray(self.row_weights, "<f8").data).digest()
        if content and self.clusters is not None:
            content += hashlib.sha256(repr(self.clusters.astype(np.str_).tolist()).encode()).digest()
        return hashlib.sha256(commitment_salt(self.own) + repr(self.source.shape).encode() + content).digest()

    def once(self, words: Ring, work: Callable[[], Any]) -> Any:
        """What ``work`` makes of these words; made once where users of one process share a memo."""
        if self.memo is None:
            return work()
        key = hashlib.sha256(np.ascontiguousarray(words).data).digest()
        if key not in self.memo:
            self.memo[key] = work()
        return self.memo[key]

    def reduce(self, shift: Float | None = None) -> Any:
        """One pass of compression, as a ``Reduced``; with the solved columns where Vt_i will be made of them."""
        panel = self.panel(self.source.shape[0]) if self.row_weights is not None else self.longest_panel
        report = None if self.progress is None else self._report("compress")
        return compress(
            self.source,
            shift=shift,
            panel=panel,
            checkpoint=self.checkpoint,
            progress=report,
            device=self.device,
            spread=self.spread,
            weights=self.row_weights,
            each=self.masks.each,
            solved=self.makes_vectors,
            scratch=thread_numbers(self.source.shape[0], self.plan.memory),
            labels=max(0, self.source.shape[0] - self.plan.m),
        )

    @property
    def makes_vectors(self) -> bool:
        """Whether all rows of Vt_i are made, in memory, and nothing of them is measured on the way."""
        plan = self.plan
        makes = plan.task in (Task.SVD, Task.LSA) and plan.own_vectors
        makes = makes and plan.components is None and plan.check is Check.NONE
        return makes and (self.sink is None or self.fits(plan.planned_rank))

    def fits(self, r: int) -> bool:
        """Whether r rows of Vt_i, together with the panels of a pass, fit the memory budget, in host memory."""
        return self.device is None and 2 * 8 * r * self.n_i <= self.plan.memory

    def panel(self, across: int) -> int:
        """How many columns of this height, or rows of this width, are read at once."""
        device = self.device
        return panel_width(across, self.plan.memory) if device is None else device_width(across, device.memory)

    @property
    def longest_panel(self) -> int:
        """How many columns a panel has of which nothing as large is made: many where it is a view of the data."""
        rows = self.source.shape[0]
        panel = self.panel(rows)
        return max(panel, viewed_width(rows)) if self.near and self.source.dtype == np.float64 else panel

    def panels(self, stage: str, columns: int | None = None) -> Iterator[tuple[slice, Array]]:
        """X_i by column panels that fit the memory budget, or ``columns`` at a time, where this user computes."""
        report = self._report(stage)
        for place, X in column_panels(self.source, columns or self.panel(self.source.shape[0]), self.device):
            yield place, X
            report(place.stop, self.n_i)

    def some_panels(self, stage: str, count: int) -> Iterator[Array]:
        """``count`` of these panels, the first and the last among them, evenly spread; all where there are no more."""
        width = self.panel(self.source.shape[0])
        starts = range(0, self.n_i, width)
        chosen = np.unique(np.linspace(0, len(starts) - 1, min(count, len(starts))).round().astype(int)).tolist()
        report = self._report(stage)
        for done, place in enumerate(chosen, start=1):
            yield columns_of(self.source, starts[place], min(starts[place] + width, self.n_i), self.device)
            report(done, len(chosen))

    def row_panels(self, stage: str) -> Iterator[tuple[slice, Array]]:
        """X_i by row panels that fit the memory budget, where this user computes, with progress."""
        rows, width = self.source.shape
        report = self._report(stage)
        for place, X in row_panels(self.source, self.panel(width), self.device):
            yield place, X
            report(place.stop, rows)

    def row_places(self, stage: str) -> Iterator[slice]:
        """The places of these panels, for a caller that reads them otherwise, with progress."""
        rows, width = self.source.shape
        step, report = self.panel(width), self._report(stage)
        for start in range(0, rows, step):
            stop = min(start + step, rows)
            yield slice(start, stop)
            report(stop, rows)

    @property
    def near(self) -> bool:
        """Whether the data lies in memory, where small parts of it may be read by several threads."""
        return self.device is None and self.source.in_memory

    def over_rows(self, stage: str, rows: int, width: int, make: Callable[[slice], Any]) -> list[Any]:
        """What ``make`` gives for all rows of this width, part by part, in order, with progress of a stage.

        Where the source is in memory these are slabs that stay in a cache, made by a few threads; else panels that
        fit the memory budget, one after the other.
        """
        near = self.near
        height = max(1, _SLAB // width) if near else self.panel(width)
        places = [slice(start, min(start + height, rows)) for start in range(0, rows, height)]
        made, report = [None] * len(places), self._report(stage)

        def some(first: int) -> None:
            for number in range(first, len(places), threads):
                made[number] = make(places[number])
                if not near:
                    report(places[number].stop, rows)

        each, threads = (self.masks.each, _THREADS) if near else (None, 1)
        for _ in (each or map)(some, range(threads)):
            pass
        if near:
            report(rows, rows)
        return made

    def long_panels(self, rows: int, width: int) -> Iterator[slice]:
        """Rows of this width in few parts, of data in memory that is multiplied in place."""
        return long_panels(rows, width, self.plan.memory)

    def put(self, A: Float) -> Array:
        """A where this user computes."""
        return A if self.device is None else self.device.put(A)

    def _report(self, stage: str) -> Callable[[int, int], None]:
        report = self.progress if stage else None
        return (lambda done, total: None) if report is None else (lambda done, total: report(stage, done, total))


def reported(progress: Progress | None, stage: str, work: Callable[[], Any]) -> Callable[[], Any]:
    """The same work, with its beginning and its end reported."""
    if progress is None:
        return work

    def with_reports() -> Any:
        progress(stage, 0, 1)
        value = work()
        progress(stage, 1, 1)
        return value

    return with_reports


@dataclass(repr=False)
class Dense:
    """A_i in memory, or on the device, until it is dropped: it may be as large as anything that follows."""

    A_i: Array

    def drop(self) -> None:
        """Forget A_i: nothing will ask for it again."""
        del self.A_i

    def columns(self, start: int, stop: int) -> Array:
        return self.A_i[:, start:stop]

    def rows(self, start: int, stop: int) -> Array:
        return self.A_i[start:stop, :]
