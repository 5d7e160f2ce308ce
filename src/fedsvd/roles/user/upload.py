"""The upload of a masked matrix, and U' on its way back: the mask family and the paper's scheme (steps 5 and 6).

Words of the upload are in units of B, a power of two that the CSP is not told: it answers in these units. By columns,
where the matrix fits or is long the other way, P stands over all rows and U' comes as one message. By rows, where a
tall matrix does not fit, U' comes in panels and is unmasked into an array that may lie on disk.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedsvd.errors import LocalProtocolError
from fedsvd.linalg.answers import rank_shown
from fedsvd.linalg.backend import to_numpy
from fedsvd.linalg.widen import unit
from fedsvd.masks.remove import unmask_left
from fedsvd.protocol.messages import Factors
from fedsvd.protocol.tasks import Item, Task
from fedsvd.protocol.upload import batches
from fedsvd.roles.user.checks import Checked, check_factors, joint_trace
from fedsvd.roles.user.encoding import encoded
from fedsvd.roles.user.masking import Operand
from fedsvd.roles.user.opening import Opened, common_signs
from fedsvd.roles.user.requests import Fetch, Script, Upload
from fedsvd.roles.user.statistics import Prepared, squared_norm
from fedsvd.roles.user.work import Work
from fedsvd.secagg import fixed_point
from fedsvd.secagg.dither import least_filled
from fedsvd.types import Array, Float, Ring


@dataclass(frozen=True, repr=False)
class Panels:
    """Y_i, panel by panel; ``bounds`` are the powers of two that words count in, of the matrix and of the labels."""

    panel: Callable[[int], Array]
    bounds: tuple[float, float]


def open_masked(work: Work, prepared: Prepared) -> Script:
    """U and S of the joint matrix, from its sum under the masks; checked, but for the paper's scheme."""
    plan, masks = work.plan, work.masks
    B = entry_bound(work, prepared.F1)
    factors: Factors = yield masked_upload(work, column_or_row_panels(work, prepared.A_i, B))
    r = factors.U_masked.shape[1] if plan.tall or plan.published else rank_shown(factors.U_masked)
    U: Float = yield from left_vectors(work, factors, r)
    sigma = None if factors.sigma_scaled is None else factors.sigma_scaled[:r] * (B / masks.c)
    checked: Checked | None = None
    if not plan.published:
        checked = yield from check_factors(work, prepared, U, sigma)
    signs: Float = yield from common_signs(work, U)
    U *= signs
    trace = None if checked is None else checked.trace
    if plan.published and plan.task is Task.PCA and plan.releases(Item.SPECTRUM):
        trace = yield from joint_trace(work, squared_norm(work, prepared.A_i), unit(prepared.F1))
    energy = None if trace is None else math.ldexp(trace, 2 * prepared.E)
    released = None if sigma is None else np.ldexp(sigma, prepared.E)
    return Opened(U, released, r, factors.residual, factors.orthogonality, checked, energy, signs)


def masked_upload(work: Work, panels: Panels) -> Upload:
    """Y_i as words, batch by batch; a panel is made once and dropped with its last batch."""
    plan, cut = work.plan, batches(work.plan)
    exponents = tuple(fixed_point.exponent(bound) for bound in panels.bounds)
    held: dict[int, Array] = {}

    def batch(number: int) -> Ring:
        place = cut[number]
        if place.panel not in held:
            held.clear()  # before the next is made: a panel is as large as the memory allows
            held[place.panel] = panels.panel(place.panel)
        Y = held[place.panel][place.rows, :]
        matrix = Y.shape[1] - (plan.targets if plan.by_rows else 0)
        least = least_filled(*plan.smallest_window, plan.certain_bound)
        columns = slice(0, matrix), slice(matrix, Y.shape[1])
        parts = [
            (part, f, least if bound > 0 else 0)
            for part, f, bound in zip(columns, exponents, panels.bounds, strict=True)
        ]
        words = encoded(Y, parts, work.own.derive("last bits", number), work.device, work.masks.each)
        if number == len(cut) - 1:
            held.clear()
        return words

    return Upload(batch, len(cut))


def entry_bound(work: Work, F1: float) -> float:
    """B: a power of two that no entry of Y exceeds, in units of 2^E; 0 for a zero matrix."""
    plan, c = work.plan, work.masks.c
    size = 1.001 * c * F1 if plan.certain_bound else fixed_point.bound(1.001 * c, F1, *plan.smallest_window)
    return power_above(size)


def power_above(size: float) -> float:
    """The least power of two that is not below ``size``; 0 for 0."""
    if size == 0.0:
        return 0.0
    mantissa, power = math.frexp(size)
    return math.ldexp(1.0, power - 1 if mantissa == 0.5 else power)


def column_or_row_panels(work: Work, A_i: Operand, B: float) -> Panels:
    """A_i under its masks, in the order the plan says; A_i, T_i and Q are let go with the last panel of Y_i."""
    held: list[Operand | None] = [A_i]
    masks, last = work.masks, len(work.plan.panels) - 1

    def panel(w: int) -> Float:
        Y_iw = _panel(work, held[0], w)
        if w == last:
            held[0] = None
            masks.forget_right()
        return Y_iw

    return Panels(panel, (B, 0.0))


def _panel(work: Work, A_i: Operand | None, w: int) -> Float:
    if A_i is None:
        raise LocalProtocolError("a panel of Y_i was asked for after the last one")
    if work.plan.whole_shares:
        return _whole(work, A_i)
    if not work.plan.by_rows:
        columns: Float = work.masks.column_panel(A_i, w)
        return columns
    place = work.plan.left_windows[w]
    no_labels = work.put(np.empty((place.stop - place.start, 0)))
    rows: Float = work.masks.row_panel(A_i.rows(place.start, place.stop), no_labels, w)
    return rows


def _whole(work: Work, A_i: Operand) -> Float:
    """All of Y_i, as the paper has it before it cuts shares into mini-batches."""
    Y_i = np.empty((work.plan.M, work.plan.N))
    for w, window in enumerate(work.plan.right_windows):
        Y_i[:, window.outputs] = work.masks.column_panel(A_i, w)
    return Y_i


def left_vectors(work: Work, factors: Factors, r: int) -> Script:
    """U (m, r) from under P; signs are still the solver's."""
    plan, P = work.plan, work.masks.P
    if not plan.tall:
        return to_numpy(unmask_left(work.put(factors.U_masked[:, :r]), P))
    U = work.allocate((plan.m, r))
    for w, place in enumerate(plan.left_windows):
        rows: Float = yield Fetch(w, r)
        U[place] = to_numpy(P.window(w).left_t(work.put(rows)))
    return U
