"""Step 4 of the sum family: from L_i to the exact words of this user's Gram matrix (specification, step 4).

    A_i = c P [L_i 0] T_i / F        widened by zero columns, turned by T_i, under P and c in mode B
    G_i = (A_i + D_i)(A_i + D_i)^T   as words in units of F^2 2^-126, D_i integer noise on the grid

T_i and D_i follow from this user's own seed, P and c from the mask seed. F is a power of two above the joint norm, so
that entries of the sum stay below a quarter.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedsvd.linalg.backend import like, namespace, to_numpy
from fedsvd.linalg.exact_gram import Slices, row_panels, sliced
from fedsvd.linalg.householder import Reflectors
from fedsvd.linalg.widen import dither_deviation, draw_rows, unit, widen
from fedsvd.masks.orthogonal import orthogonal, secret_scale
from fedsvd.protocol.tasks import Mode
from fedsvd.randomness.keystream import ThreadedNormals
from fedsvd.roles.user.work import Work
from fedsvd.types import Array, Ring


@dataclass(frozen=True, repr=False)
class Unit:
    """What turns an answer back: ``S = 2^E F S' / c`` and ``U = P^T U'``; F is a power of two in units of 2^E."""

    c: float
    F: float
    P: Reflectors | None  # None in mode A

    def left(self, A: Array) -> Array:
        """``P A`` for the rows that P acts on; label rows below them stay."""
        if self.P is None:
            return A
        rows = self.P.n
        if A.shape[0] == rows:
            return self.P.left(A)
        return namespace(A).concat((self.P.left(A[:rows, :]), A[rows:, :]), axis=0)

    def left_t(self, U_masked: Array) -> Array:
        """``P^T U'``."""
        return U_masked if self.P is None else self.P.left_t(U_masked)


def common_unit(work: Work, F1: float) -> Unit:
    """P, c and F of this session's opened Gram matrix; the same at every user."""
    plan, seed = work.plan, work.masks.seed
    if plan.mode is Mode.A:
        return Unit(1.0, unit(F1), None)
    c = secret_scale(seed.derive("c", "gram"))
    on = None if work.device is None else work.device.like
    return Unit(c, unit(F1, c), orthogonal(plan.m, ThreadedNormals(seed.derive("P", "gram"), work.masks.each), on))


def share(work: Work, L_i: Array, F1: float, common: Unit, name: str = "gram") -> Slices:
    """``A_i + D_i`` on its grid, for the sum of this name; L_i in units of 2^E."""
    plan, own = work.plan, work.own
    on = None if work.device is None else work.device.like
    normals = ThreadedNormals(own.derive("T", name), work.masks.each).normal
    T_t = draw_rows(L_i.shape[1], plan.widths[work.i], normals, on)
    A = widen(common.left(L_i * (common.c / common.F)), T_t)
    D_i = ThreadedNormals(own.derive("D", name), work.masks.each).normal(tuple(A.shape))
    D_i *= dither_deviation(F1, plan.N, common.c)
    np.rint(D_i, out=D_i)
    return sliced(A, D_i if isinstance(A, np.ndarray) else like(D_i, A))


def batches_of(work: Work, share_i: Slices) -> Callable[[int], Ring]:
    """The words of each batch: rows of the upper triangle of G_i; the share is dropped with the last."""
    panels, held = row_panels(work.plan.M), [share_i]

    def batch(number: int) -> Ring:
        words = to_numpy(held[0].rows(*panels[number], work.masks.each)).view(np.uint64)
        if number == len(panels) - 1:
            held.clear()
        return words

    return batch
