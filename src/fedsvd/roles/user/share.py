"""Step 4 of the sum family: from L_i to the exact words of this user's Gram matrix (specification, step 4).

    A_i = c P [L_i 0] T_i / F        widened by zero columns, turned by T_i, under P and c in mode B
    G_i = (A_i + D_i)(A_i + D_i)^T   as words in units of F^2 2^-126, D_i integer noise on the grid

T_i and D_i follow from this user's own seed, P and c from the mask seed. F is a power of two above the joint norm, so
that entries of the sum stay below a quarter.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedsvd.linalg.backend import namespace, to_numpy
from fedsvd.linalg.device import Device
from fedsvd.linalg.exact_gram import Slices, row_panels, sliced
from fedsvd.linalg.householder import Reflectors
from fedsvd.linalg.widen import dither_deviation, draw_rows, unit, widen
from fedsvd.masks.orthogonal import normals_on, orthogonal, secret_scale
from fedsvd.protocol.tasks import Mode
from fedsvd.roles.user.shared import once_in_process
from fedsvd.roles.user.work import Work
from fedsvd.secagg import on_device
from fedsvd.secagg.pads import Pads
from fedsvd.secagg.pads_on_device import padded_there
from fedsvd.types import Array, Each, Ring

TOGETHER = 1 << 25  # words that a device makes at once: 512 MiB


@dataclass(frozen=True, repr=False)
class Unit:
    """What turns an answer back: ``S = 2^E F S' / c`` and ``U = P^T U'``; F is a power of two in units of 2^E."""

    c: float
    F: float
    P: Reflectors | None  # None in mode A

    def left(self, A: Array, each: Each | None = None) -> Array:
        """``P A`` for the rows that P acts on; label rows below them stay. ``each`` brings threads."""
        if self.P is None:
            return A
        rows = self.P.n
        if A.shape[0] == rows:
            return self.P.left(A, each)
        return namespace(A).concat((self.P.left(A[:rows, :], each), A[rows:, :]), axis=0)

    def left_t(self, U_masked: Array) -> Array:
        """``P^T U'``."""
        return U_masked if self.P is None else self.P.left_t(U_masked)


def common_unit(work: Work, F1: float) -> Unit:
    """P, c and F of this session's opened Gram matrix; the same at every user."""
    plan, seed = work.plan, work.masks.seed
    if plan.mode is Mode.A:
        return Unit(1.0, unit(F1), None)
    on = None if work.device is None else work.device.like

    def drawn() -> tuple[float, Reflectors]:
        c = secret_scale(seed.derive("c", "gram"))
        return c, orthogonal(plan.m, normals_on(seed.derive("P", "gram"), work.masks.each, on), on)

    c, P = once_in_process(work.memo, "P", (seed.reveal(),), drawn)
    return Unit(c, unit(F1, c), P)


def share(work: Work, L_i: Array, F1: float, common: Unit, name: str = "gram") -> Slices:
    """``A_i + D_i`` on its grid, for the sum of this name; L_i in units of 2^E."""
    plan, own = work.plan, work.own
    on = None if work.device is None else work.device.like
    T_t = draw_rows(
        L_i.shape[1], plan.widths[work.i], normals_on(own.derive("T", name), work.masks.each, on).normal, on
    )
    each = work.masks.each
    # T_i first, while L_i is triangular.
    A = widen(L_i * (common.c / common.F), T_t, each)
    del T_t  # half as large as A
    A = common.left(A, each)
    D_i = normals_on(own.derive("D", name), work.masks.each, on).normal(tuple(A.shape))
    D_i *= dither_deviation(F1, plan.N, common.c)
    if isinstance(D_i, np.ndarray):
        np.rint(D_i, out=D_i)
        return sliced(A, D_i, each=each)
    return sliced(A, namespace(D_i).round(D_i))


@dataclass(frozen=True, repr=False)
class Batches:
    """The words of each batch: rows of the upper triangle of G_i; the share is dropped with the last.

    On a device several batches are made at once, and ``padded`` puts the pads on there: one has too few rows for a
    product to fill a chip.
    """

    panels: list[tuple[int, int]]
    held: list[Slices]
    device: Device | None = None
    each: Each | None = None
    group: dict[str, Any] = field(default_factory=dict)  # what was made ahead: the words, and whose they are

    def __repr__(self) -> str:
        return f"Batches({len(self.panels)})"

    def __call__(self, number: int) -> Ring:
        words = self._words(number)
        return words if self.device is None else on_device.words_of(words, self.device)

    def padded(self, number: int, pads: Pads) -> Ring:
        """The same with pads, from a device."""
        assert self.device is not None
        return padded_there(self._words(number), pads, self.device, self.each)

    def _words(self, number: int) -> Array:
        if self.device is None:
            words = to_numpy(self.held[0].rows(*self.panels[number], self.each)).view(np.uint64)
        else:
            words = self._from_group(number)
        if number == len(self.panels) - 1:
            self.held.clear()
            self.group.clear()
        return words

    def _from_group(self, number: int) -> Array:
        if number >= self.group.get("last", 0):
            self.group.clear()
            ends, last = [0], number
            while last < len(self.panels) and (last == number or ends[-1] + self._count(last) <= TOGETHER):
                ends.append(ends[-1] + self._count(last))
                last += 1
            rows = self.panels[number][0], self.panels[last - 1][1]
            self.group.update(first=number, last=last, ends=ends, words=self.held[0].rows(*rows))
        place, ends = number - self.group["first"], self.group["ends"]
        return self.group["words"][ends[place] : ends[place + 1], :]

    def _count(self, number: int) -> int:
        (start, stop), m = self.panels[number], self.held[0].shape[0]
        return (stop - start) * (2 * m - start - stop + 1) // 2


def batches_of(work: Work, share_i: Slices) -> Batches:
    """The batches of this share."""
    return Batches(row_panels(work.plan.M), [share_i], work.device, work.masks.each)
