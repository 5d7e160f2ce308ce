"""What a task's script works on: the plan, this user's data and masks, and A_i in the forms it takes.

A_i stands for X_i wherever a Gram matrix is all that matters: compressed to m columns, or the data itself, centred and
scaled as it is read. Nothing here is ever said aloud.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsvd.compress.checkpoint import Checkpoint
from fedsvd.compress.reduce import compress, panel_width
from fedsvd.data.source import MatrixSource
from fedsvd.errors import NumericalError
from fedsvd.linalg import backend
from fedsvd.protocol.plan import SessionPlan
from fedsvd.randomness.seed import Seed
from fedsvd.roles.user.masking import Masks, Operand
from fedsvd.roles.user.requests import Local, Script, Sum
from fedsvd.secagg.fixed_point import bound
from fedsvd.types import Float

Progress = Callable[[str, int, int], None]  # stage, done, total


@dataclass(frozen=True, repr=False)
class Work:
    """One user's side of one task; ``i`` counts from 0."""

    plan: SessionPlan
    i: int
    source: MatrixSource  # X_i, (m, n_i)
    masks: Masks
    own: Seed
    labels: Float | None = None  # (samples, targets)
    weights: tuple[Float, Float] | None = None  # own coefficients and the intercept, to predict with
    checkpoint: Checkpoint | None = None
    progress: Progress | None = None

    @property
    def n_i(self) -> int:
        return self.source.shape[1]

    @property
    def leads(self) -> bool:
        """Whether this is user 1, who decides where somebody must."""
        return self.i == 0

    @property
    def holds_labels(self) -> bool:
        return self.i + 1 == self.plan.label_user

    def reduce(self, shift: Float | None = None) -> Any:
        """One pass of compression, as a ``Reduced``."""
        panel = panel_width(self.source.shape[0], self.plan.memory)
        report = None if self.progress is None else self._report("compress")
        return compress(self.source, shift=shift, panel=panel, checkpoint=self.checkpoint, progress=report)

    def panels(self, stage: str) -> Iterator[tuple[slice, Float]]:
        """X_i by column panels that fit the memory budget, with progress."""
        width = panel_width(self.source.shape[0], self.plan.memory)
        report = self._report(stage)
        for start in range(0, self.n_i, width):
            stop = min(start + width, self.n_i)
            yield slice(start, stop), self.source.columns(start, stop)
            report(stop, self.n_i)

    def row_panels(self, stage: str) -> Iterator[tuple[slice, Float]]:
        """X_i by row panels that fit the memory budget, with progress."""
        rows, width = self.source.shape
        height = panel_width(width, self.plan.memory)
        report = self._report(stage)
        for start in range(0, rows, height):
            stop = min(start + height, rows)
            yield slice(start, stop), self.source.rows(start, stop)
            report(stop, rows)

    def _report(self, stage: str) -> Callable[[int, int], None]:
        tell = self.progress
        return (lambda done, total: None) if tell is None else (lambda done, total: tell(stage, done, total))


@dataclass(frozen=True, repr=False)
class Dense:
    """A_i in memory."""

    A_i: Float

    def columns(self, start: int, stop: int) -> Float:
        return self.A_i[:, start:stop]

    def rows(self, start: int, stop: int) -> Float:
        return self.A_i[start:stop]


@dataclass(frozen=True, repr=False)
class Streamed:
    """A_i read from the source: less the mean of each row, times a scale of each row."""

    source: MatrixSource
    mean: Float | None = None
    inverse: Float | None = None

    def columns(self, start: int, stop: int) -> Float:
        X = self.source.columns(start, stop)
        if self.mean is not None:
            X = X - self.mean[:, None]
        return X if self.inverse is None else X * self.inverse[:, None]

    def rows(self, start: int, stop: int) -> Float:
        X = self.source.rows(start, stop)
        if self.mean is not None:
            X = X - self.mean[start:stop, None]
        return X if self.inverse is None else X * self.inverse[start:stop, None]


def joint_norm(work: Work, A_i: Operand) -> Script:
    """``F = sqrt(sum_i ||A_i||_F^2)`` by a users-only sum."""
    own = yield Local("norm", lambda: squared_norm(work, A_i))
    total = yield Sum("norm", np.array([own]))
    return float(np.sqrt(total[0]))


def squared_norm(work: Work, A_i: Operand) -> float:
    """``||A_i||_F^2``; numbers so small or large that it cannot be had are refused."""
    width, step = work.plan.widths[work.i], panel_width(work.plan.M, work.plan.memory)
    norms = [backend.norm(A_i.columns(start, min(start + step, width))) for start in range(0, width, step)]
    with np.errstate(over="ignore"):
        squared = float(np.sum(np.square(norms)))
    if squared < 1e-290 and max(norms) > 0:
        raise _out_of_range()
    return float(finite(squared))


def finite(energy: Any) -> Any:
    """Squared norms, unless one of them is beyond float64."""
    if not np.isfinite(energy).all():
        raise _out_of_range()
    return energy


def _out_of_range() -> NumericalError:
    return NumericalError("the squared norm of the data leaves the range of float64", "scale the data")


def entry_bound(work: Work, F: float) -> float:
    """B of step 4: what no entry of Y exceeds."""
    if work.plan.certain_bound:
        return work.masks.c * F
    return bound(work.masks.c, F, *work.plan.smallest_window)
