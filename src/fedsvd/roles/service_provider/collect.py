"""Where the sum of the users' batches goes: stored, or folded into a factor (step 5).

A *collector* takes panels of X' as they are completed. Short problems are stored as they are. A matrix with one long
side is folded into a triangular factor and dropped: O(M^2) memory, whatever the length. Where that side's singular
vectors are wanted, it is also stored, for a second pass that puts them in its place. A matrix long on both sides
goes to a block store, laid out for the passes that truncated SVD makes over it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from fedsvd.errors import VerificationFailed
from fedsvd.linalg import backend
from fedsvd.linalg.backend import namespace, to_numpy
from fedsvd.linalg.streaming_factor import StreamingFactor
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Mode
from fedsvd.protocol.upload import Batch, Retention, retention
from fedsvd.secagg import fixed_point, on_device
from fedsvd.storage.block_store import Access, BlockStore, DeviceStore
from fedsvd.types import Array, Each, Float, Ring

_TOGETHER = 1 << 18  # words that one thread decodes at a time

Storage = Callable[[tuple[int, int], Access, int], BlockStore]  # shape, access, budget in bytes


class Collector(Protocol):
    """Takes X' panel by panel."""

    def take(self, panel: int, X_masked: Array) -> None: ...


class Exact:
    """Words of the upper triangle of the joint Gram matrix, rows from the top (sum family, mode B)."""

    def __init__(self, M: int) -> None:
        self._count = M * (M + 1) // 2
        self._panels: list[Ring] = []
        self._words: Array = None  # all of them, where they come on a device
        self._end = 0

    def take(self, panel: int, X_masked: Array) -> None:
        """The next rows of the triangle."""
        if isinstance(X_masked, np.ndarray):
            self._panels.append(X_masked)
            return
        if self._words is None:
            xp, on = namespace(X_masked), X_masked.device
            self._words = xp.empty((self._count, 2), dtype=X_masked.dtype, device=on)
        self._words[self._end : self._end + X_masked.shape[0], :] = X_masked
        self._end += X_masked.shape[0]

    def words(self) -> Array:
        """All of them, (M (M + 1) / 2, 2); the panels are dropped."""
        panels, self._panels = self._panels, []
        if panels:
            return panels[0] if len(panels) == 1 else np.concatenate(panels)
        words, self._words = self._words, None
        return words


class Whole:
    """X' itself, (M, N), in a store that knows how it will be read."""

    def __init__(self, plan: SessionPlan, store: BlockStore) -> None:
        self._plan = plan
        self.store = store

    def take(self, panel: int, X_masked: Array) -> None:
        """A panel of rows into its place."""
        plan = self._plan
        there = self.store.there(X_masked) if isinstance(self.store, DeviceStore) else to_numpy(X_masked)
        self.store.write(plan.row_panels[panel], slice(0, plan.N), there)


class _Probe:
    """``G omega`` for the Gram matrix G of everything that passes and a few fixed vectors omega.

    It costs little, and finds a factor that has gone wrong without the data being there any more.
    """

    _PROBES = 2

    def __init__(self, width: int) -> None:
        angle = np.outer(np.arange(1, width + 1), np.arange(1, self._PROBES + 1)) ** 1.5
        self.omega: Array = np.cos(angle)
        self._probe: Array = np.zeros((width, self._PROBES))

    def take(self, columns: Array) -> None:
        """Columns of what G is made of, (width, any)."""
        if namespace(columns) is not namespace(self.omega):
            self.omega, self._probe = backend.like(self.omega, columns), backend.like(self._probe, columns)
        step = max(1, _TOGETHER // columns.shape[0]) if isinstance(columns, np.ndarray) else columns.shape[1]
        for start in range(0, columns.shape[1], step):
            part = columns[:, start : start + step]  # read twice while it is in a cache
            self._probe += backend.matmul(part, backend.matmul(part.T, self.omega))

    def expect(self, found: Array, energy: float) -> None:
        """Raise ``VerificationFailed`` unless ``G omega`` is what was found; ``energy`` is the trace of G."""
        scale = energy * backend.norm(self.omega)
        error = backend.norm(found - self._probe) / scale if scale > 0 else backend.norm(self._probe)
        if not error <= 1e-12:
            raise VerificationFailed(
                f"the folded factor disagrees with its probe by {error:.1e}", "nothing was released; run again"
            )


class Folded:
    """The triangular factor of ``[X' y']``; the panels are dropped."""

    def __init__(self, width: int, each: Each | None = None) -> None:
        self._factor = StreamingFactor(width, each)
        self._probe = _Probe(width)

    def take(self, panel: int, X_masked: Array) -> None:
        """Fold a panel in."""
        columns = X_masked.T
        self._factor.update_columns(columns)
        self._probe.take(columns)

    def factor(self) -> Array:
        """R, once it agrees with the probe; where the panels were."""
        R = self._factor.factor()
        self._probe.expect(R.T @ (R @ self._probe.omega), backend.norm(R) ** 2)
        return R


class Summed:
    """The Gram matrix of X' over its short side: where the top alone is asked for it may do, at half the work."""

    def __init__(self, width: int) -> None:
        self._probe = _Probe(width)
        self._K: Float | None = None

    def take(self, panel: int, X_masked: Array) -> None:
        """Add a panel's part."""
        columns = X_masked.T
        with np.errstate(over="ignore", invalid="ignore"):  # squares that overflow are found when the top is asked for
            self._K = backend.add_gram(self._K, columns, spent=True)
            self._probe.take(columns)

    def gram(self) -> Float | None:
        """K, its upper triangle, once it agrees with the probe; None where squares have left the range."""
        K = self._K
        if K is None or not np.isfinite(K).all():
            return None
        omega = self._probe.omega
        self._probe.expect(np.triu(K) @ omega + np.triu(K, 1).T @ omega, float(np.trace(K)))
        return K


class Both:
    """X' in a store, and its factor: the long side's singular vectors will take the place of what is stored.

    Where the top alone is asked for, the factor is made only should it be needed, from what was stored.
    """

    def __init__(self, plan: SessionPlan, store: BlockStore) -> None:
        self._plan, self.store = plan, store
        self._whole = Whole(plan, store)
        self._met: Folded | Summed | None = None

    def take(self, panel: int, X_masked: Array) -> None:
        """Fold a panel in, or add up its Gram matrix, and store it."""
        if self._met is None:
            top = self._plan.components is not None
            self._met = (Summed if top and isinstance(X_masked, np.ndarray) else Folded)(self._plan.N)
        self._met.take(panel, X_masked)
        self._whole.take(panel, X_masked)

    def gram(self) -> Float | None:
        """The Gram matrix of the short side, where it was added up."""
        return self._met.gram() if isinstance(self._met, Summed) else None

    def factor(self) -> Array:
        """R, once it agrees with the probe."""
        if isinstance(self._met, Folded):
            return self._met.factor()
        side, folded = LongSide(self._plan, self.store), Folded(self._plan.N)
        for panel, place in enumerate(side.places):
            folded.take(panel, side.read(place))
        return folded.factor()


def collector_for(plan: SessionPlan, storage: Storage, each: Each | None = None) -> Collector:
    """What this plan's panels go to."""
    kept = retention(plan)
    if kept is Retention.EXACT:
        return Exact(plan.M)
    if kept is Retention.FOLDED:
        return Folded(plan.N + plan.targets, each)
    # The other half of the budget is for what is computed from it.
    store = storage((plan.M, plan.N), Access.BY_ROWS, plan.memory // 2)
    return Both(plan, store) if kept is Retention.BOTH else Whole(plan, store)


class Collected:
    """Batches that were added up, on their way to a collector: decoded, and put together to panels."""

    def __init__(
        self, plan: SessionPlan, batches: Sequence[Batch], collector: Collector, each: Each | None = None
    ) -> None:
        self._plan, self._each = plan, each
        self._batches = batches
        self._complete: deque[tuple[int, Array]] = deque()
        self._panel: Array | None = None
        self.collector = collector

    def add(self, number: int, total: Array) -> None:
        """The sum of all users' shares of one batch, to be collected; it is decoded where it stands."""
        self._complete.append((number, total))

    def collect(self) -> int:
        """Decode the next of them, and pass on the panel that it completes; the batch's number."""
        number, total = self._complete.popleft()  # and so held by nothing else once it is decoded
        batch = self._batches[number]
        X_masked = total if self._plan.mode is Mode.B else decoded(total, self._each)
        del total
        if batch.last and batch.rows.start == 0:
            self.collector.take(batch.panel, X_masked)
            return number
        if self._panel is None:
            rows, width = self._plan.panels[batch.panel]
            self._panel = namespace(X_masked).empty((rows, width), dtype=X_masked.dtype, device=X_masked.device)
        self._panel[batch.rows, :] = X_masked
        del X_masked
        if batch.last:
            panel, self._panel = self._panel, None
            self.collector.take(batch.panel, panel)
        return number


class LongSide:
    """The rows of a stored X', its long side."""

    def __init__(self, plan: SessionPlan, store: BlockStore) -> None:
        self._store, self.places = store, plan.row_panels

    def read(self, place: slice) -> Float:
        """Rows ``place`` of X'."""
        return to_numpy(self._store.read(place, slice(None)))

    def write(self, place: slice, L: Float) -> None:
        """Singular vectors where the data was, in the first columns."""
        there = self._store.there(L) if isinstance(self._store, DeviceStore) else L
        self._store.write(place, slice(0, L.shape[1]), there)


def decoded(total: Array, each: Each | None = None) -> Array:
    """The numbers behind a sum, in units of the bound that the users agreed on; over the words, where they may be."""
    if not isinstance(total, np.ndarray):
        return on_device.decode(total, fixed_point.BITS)
    numbers: Float = total.view(np.float64) if total.flags.writeable else np.empty(total.shape)
    rows = max(1, _TOGETHER // max(1, total.shape[1]))

    def part(start: int) -> None:
        place = slice(start, start + rows)
        fixed_point.decode(total[place], fixed_point.BITS, out=numbers[place])

    for _ in (each or map)(part, range(0, len(total), rows)):
        pass
    return numbers
