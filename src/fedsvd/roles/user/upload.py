"""The upload of a masked matrix, and U' on its way back: the mask family (steps 5 and 6).

Words of the upload are in units of B, a power of two that the CSP is not sent: it answers in these units. Masks stand
over whole sides, and Y_i goes up by rows; U' comes as one message, or in panels of rows where it is long, and is
unmasked into an array that may lie on disk.

``encoded`` is a batch of Y_i as words of the ring, its last bits filled: everything of step 4 but the pads. It happens
where Y_i lies, on the host in slabs that stay in a cache, by as many threads as there are. A batch has two parts with
an exponent each: the matrix, and the labels next to it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedsvd.linalg.answers import expect_energy, expect_orthonormal, rank_shown
from fedsvd.linalg.backend import matmul, to_numpy
from fedsvd.linalg.device import Device
from fedsvd.linalg.signs import flip
from fedsvd.masks.apply import unmask_left
from fedsvd.protocol.messages import Factors
from fedsvd.protocol.tasks import Check, Item, Task
from fedsvd.protocol.upload import Batch, batches
from fedsvd.randomness.keystream import Each, Keystream
from fedsvd.randomness.seed import Seed
from fedsvd.roles.user.checks import Checked, check_factors
from fedsvd.roles.user.masked_rows import RowsUnderP, passes_of
from fedsvd.roles.user.masking import Operand
from fedsvd.roles.user.opening import Opened, common_signs, orthogonality_of
from fedsvd.roles.user.requests import Fetch, Local, Script, Upload
from fedsvd.roles.user.shared import once_for
from fedsvd.roles.user.statistics import Prepared, in_data_units
from fedsvd.roles.user.work import Work
from fedsvd.secagg import dither, fixed_point, on_device
from fedsvd.secagg.dither import least_filled
from fedsvd.secagg.pads import Pads
from fedsvd.types import Array, Float, Ring

Part = tuple[slice, int, int]  # columns, exponent, how many last bits are filled at least


SLAB = 1 << 17
"""Entries that get their masks, last bits and pads while they are in a cache."""


def encoded(
    Y: Array, parts: Sequence[Part], seed: Seed, device: Device | None, each: Each | None, *, spent: bool = False
) -> Ring:
    """These columns of Y side by side, as writeable words in host memory; in Y's own where it is ``spent``."""
    if device is None:
        return _on_host(Y, parts, seed, each or map, spent)
    codes = []
    for number, (columns, f, least) in enumerate(parts):
        if columns.stop > columns.start:
            words = on_device.encode(Y[:, columns], f)
            dither.fill_on_device(words, least, seed.derive("part", number), device, each or map)
            codes.append(words)
    return on_device.words_of(codes[0] if len(codes) == 1 else device.xp.concat(codes, axis=1), device)


def _on_host(Y: Float, parts: Sequence[Part], seed: Seed, each: Each, spent: bool) -> Ring:
    first, stop = parts[0][0].start, parts[-1][0].stop
    in_place = spent and (first, stop) == (0, Y.shape[1]) and Y.flags.c_contiguous and Y.flags.writeable
    payload = Y.view(np.uint64) if in_place else np.empty((Y.shape[0], stop - first), np.uint64)
    step = max(1, SLAB // max(1, stop - first))

    def slab(number: int) -> None:
        rows, stream = slice(number * step, (number + 1) * step), Keystream.of(seed, "slab", number)
        for columns, f, least in parts:
            words = payload[rows, columns.start - first : columns.stop - first]
            dither.encode_filled(Y[rows, columns], f, least, stream, words)

    for _ in each(slab, range(-(-Y.shape[0] // step))):
        pass
    return payload


@dataclass(frozen=True, repr=False)
class Panels:
    """Y_i, panel by panel; ``bounds`` are the powers of two that words count in, of the matrix and of the labels.

    Where a panel can be made in slabs, ``under`` makes their rows under P, and T_i and Q follow slab by slab. What is
    to be done ``then``, after the last one, is done where that one is made.
    """

    panel: Callable[[int], Array]
    bounds: tuple[float, float]
    under: RowsUnderP | None = None
    then: Callable[[], None] = lambda: None


def open_masked(work: Work, prepared: Prepared) -> Script:
    """U and S of the joint matrix, from its sum under the masks; checked."""
    masks = work.masks
    B = entry_bound(work, prepared.F1)
    factors: Factors = yield masked_upload(work, panels_of_operand(work, prepared.A_i, B))
    sigma = factors.sigma_scaled
    if sigma is not None:
        expect_energy(sigma, 1.001 * masks.c * prepared.F1 / B)
    U: Float = yield from left_vectors(work, factors)
    r = U.shape[1]
    sigma = None if sigma is None else sigma[:r] * (B / masks.c)
    kept: list[Float] | None = [] if _keeps_product(work, r) else None
    checked: Checked = yield from check_factors(work, prepared, U, sigma, kept)
    signs: Float = yield from common_signs(work, U)
    U = flip(U, signs)
    product = np.ldexp(kept[0] * signs, prepared.E) if kept else None
    energy = None if checked.trace is None else in_data_units(checked.trace, prepared.E)
    released = None if sigma is None else np.ldexp(sigma, prepared.E)
    orthogonality: float = yield Local("orthogonality", lambda: orthogonality_of(U))
    return Opened(U, released, r, checked.residual, orthogonality, checked, energy, product)


def _keeps_product(work: Work, r: int) -> bool:
    """Whether ``X_i^T U``, which step 7 makes, is all that V_i still needs, and fits a quarter of the memory."""
    plan = work.plan
    asked = plan.task in (Task.SVD, Task.LSA) and plan.releases(Item.OWN_PART) and plan.check is Check.NONE
    return asked and work.device is None and 4 * 8 * r * work.n_i <= plan.memory


def masked_upload(work: Work, panels: Panels) -> Upload:
    """Y_i as words, batch by batch; a panel is made once and dropped with its last batch."""
    plan, cut = work.plan, batches(work.plan)
    exponents = tuple(fixed_point.exponent(bound) for bound in panels.bounds)
    held: dict[int, Array] = {}

    def parts(width: int) -> list[Part]:
        matrix = width - (plan.targets if plan.stacks_labels else 0)
        least = least_filled(plan.M, plan.N, plan.certain_bound)
        columns = slice(0, matrix), slice(matrix, width)
        return [
            (part, f, least if bound > 0 else 0)
            for part, f, bound in zip(columns, exponents, panels.bounds, strict=True)
        ]

    def batch(number: int) -> Ring:
        place = cut[number]
        if place.panel not in held:
            held.clear()  # before the next is made: a panel is as large as the memory allows
            held[place.panel] = panels.panel(place.panel)
        Y = held[place.panel][place.rows, :]
        own = work.own.derive("last bits", number)
        words = encoded(Y, parts(Y.shape[1]), own, work.device, work.masks.each, spent=True)
        if number == len(cut) - 1:
            held.clear()
        return words

    def padded(number: int, pads: Pads) -> Ring:
        place, under = cut[number], panels.under
        rows, width = place.shape
        whole = place.last and place.rows.start == 0
        step = max(1, SLAB // width)
        if under is not None and whole and (cuts := under.slabs(place.panel, step)) is not None:
            own = work.own.derive("last bits", number)
            made = _in_slabs(work, under, place, cuts, parts(width), own, pads)
            if number == len(cut) - 1:
                panels.then()
            return made
        words, starts = batch(number), range(0, rows, step)
        for _ in (work.masks.each or map)(lambda at: pads.onto(words[at : at + step].reshape(-1), at * width), starts):
            pass
        return words

    fused = work.device is None and work.masks.written_out is not None
    return Upload(batch, len(cut), padded if fused else None)


def _in_slabs(
    work: Work, under: RowsUnderP, place: Batch, cuts: Sequence[slice], parts: Sequence[Part], seed: Seed, pads: Pads
) -> Ring:
    """A panel as padded words in one pass: each slab gets all its masks, bits and pads while it is in a cache."""
    masks, (rows, width) = work.masks, place.shape
    words = np.empty((rows, width), np.uint64)

    def slab(number: int) -> None:
        part, stream = words[cuts[number]], Keystream.of(seed, "slab", number)
        Y = masks.under_right(under.slab(place.panel, cuts[number]), alone=True)
        for columns, f, least in parts:
            dither.encode_filled(Y[:, columns], f, least, stream, part[:, columns])
        pads.onto(part.reshape(-1), cuts[number].start * width)

    for _ in (masks.each or map)(slab, range(len(cuts))):
        pass
    under.passed(place.panel)
    return words


def entry_bound(work: Work, F1: float) -> float:
    """B: a power of two that no entry of Y exceeds, in units of 2^E; 0 for a zero matrix."""
    plan, c = work.plan, work.masks.c
    size = 1.001 * c * F1 if plan.certain_bound else fixed_point.bound(1.001 * c, F1, plan.M, plan.N)
    return power_above(size)


def power_above(size: float) -> float:
    """The least power of two that is not below ``size``; 0 for 0."""
    if size == 0.0:
        return 0.0
    mantissa, power = math.frexp(size)
    return math.ldexp(1.0, power - 1 if mantissa == 0.5 else power)


def panels_of_operand(work: Work, A_i: Operand, B: float) -> Panels:
    """A_i under its masks, in the order the plan says; A_i, T_i and Q are dropped with the last panel of Y_i."""
    return under_masks(work, A_i, work.plan.widths[work.i], (B, 0.0), work.masks.forget_right)


def under_masks(
    work: Work, A_i: Operand, width: int, bounds: tuple[float, float], then: Callable[[], None] = lambda: None
) -> Panels:
    """A_i, ``width`` wide, under P, T_i and Q, by panels of rows; ``then`` when the last of them has been made."""
    masks, under = work.masks, RowsUnderP(work, A_i, width)

    def panel(w: int) -> Array:
        Y_iw = masks.under_right(under.panel(w))
        if w == len(work.plan.row_panels) - 1:
            then()
        return Y_iw

    return Panels(panel, bounds, under, then)


def left_vectors(work: Work, factors: Factors) -> Script:
    """U (m, rho) from under P, without the zero columns beyond the rank; signs are still the solver's."""
    plan = work.plan
    if plan.tall:
        return (yield from _in_lines(work))
    return (yield Local("unmask", lambda: _at_once(work, factors.U_masked)))


def _at_once(work: Work, U_masked: Float) -> Float:
    """U from all of U'; read-only where users of one process share it."""

    def unmasked() -> Float:
        return to_numpy(unmask_left(work.put(U_masked[:, : rank_shown(U_masked)]), work.masks.P))

    # Users of one mask seed share one P; where the seeds differ, so do these.
    U: Float = once_for(work.memo, U_masked, f"unmask {id(work.masks.P)}", work.plan.k, unmasked)
    if work.memo is not None:
        U.flags.writeable = False
    return U


def _in_lines(work: Work) -> Script:
    """U of a tall matrix: panels of U' as they come, then P's passes backwards; in memory, or in a private file."""
    plan, r, passes = work.plan, work.plan.planned_rank, passes_of(work)
    lines, gram = work.allocate((r, plan.m)), np.zeros((r, r))
    for w, place in enumerate(plan.row_panels):
        rows: Float = yield Fetch(w, r)
        gram += matmul(rows.T, rows)
        lines[:, place] = to_numpy(passes.last_t(place, work.put(rows))).T
    rho = expect_orthonormal(gram, plan.m)
    yield Local("unmask", lambda: passes.backward(lines[:rho]))
    return lines[:rho].T
