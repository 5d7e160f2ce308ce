"""Step 8 of a regression on split columns with inference: the block of ``(A^T A)^-1`` that is a user's own.

The CSP's S is ``Q^T T^T (A^T A)^-1 T Q``, and user i is to have ``Q_i S Q_i^T`` of it, which T_i turns into its own
block: standard errors and covariances of its own coefficients. S is split among the users (``split_matrix.py``), user l
sends user i its part of that product, and no user ever has S or any block but its own. The error of the intercept needs
the joint means: they reach the CSP under a mask, S is bordered by its products with them, and one number, ``mean^T (A^T
A)^-1 mean``, comes out at every user.

A user checks at home what it can: no variance may be smaller than without the other columns. Beyond that a CSP that
lies about S falsifies standard errors, not coefficients; the threat model says so.
"""

import math
from dataclasses import dataclass

import numpy as np

from fedsvd.errors import VerificationFailed
from fedsvd.linalg.backend import to_numpy
from fedsvd.linalg.ring_forms import GRID_BITS, LOW_HALVES, Integers, quadratic, square
from fedsvd.protocol.shared import INVERSE, SHARED_BITS, VECTOR_BITS, own_form_bytes
from fedsvd.roles.user.columns import Columns
from fedsvd.roles.user.requests import Local, Script
from fedsvd.roles.user.split_matrix import (
    Parts,
    Units,
    as_bytes,
    as_integers,
    common_right_mask,
    exchanged,
    masked_row,
    noisy,
    opened,
    own_rows,
    signed,
)
from fedsvd.roles.user.sums import bound_sum, wide_sum_of_floats
from fedsvd.roles.user.work import Work
from fedsvd.secagg.words128 import add_into, to_integers
from fedsvd.statistics.inference import Totals
from fedsvd.statistics.own_block import OwnBlock, infer_own
from fedsvd.types import Float, Ring

_FORM_BITS = SHARED_BITS + 2 * GRID_BITS  # a step of Q_i S Q_i^T is 2^-174 of the unit of S
_FORM_NOISE = _FORM_BITS - 58
_INTERCEPT_BITS = SHARED_BITS + 2 * VECTOR_BITS
_INTERCEPT_NOISE = _INTERCEPT_BITS - 100  # the unit may lie 2^16 above the largest number
_SLACK = 1e-6
_LOW_BITS = 64 * LOW_HALVES


@dataclass(frozen=True, repr=False)
class OwnInverse:
    """A user's own block of the inverse Gram matrix, in the data's units, and what all users have of the fit."""

    block: Float  # (n_i, n_i)
    intercept: float  # mean^T (X^T X)^-1 mean of all columns; 0 without an intercept
    squares: Float  # residual squares of each target, in units of the CSP's labels
    condition: float

    def __repr__(self) -> str:
        return f"OwnInverse(block={self.block.shape})"


def own_table(work: Work, columns: Columns, w_i: Float, intercept: Float, rank: int, units: Units) -> Script:
    """The regression table of this user's own columns, for each target; ``units`` are the CSP's.

    The variance of the labels is the label holder's to know: it adds it to a sum that all users open, so that all print
    the same R2 and F.
    """
    plan, t = work.plan, work.plan.targets
    own: OwnInverse = yield from own_inverse(work, columns, units.columns, rank == plan.N)
    totals = yield from wide_sum_of_floats("totals", _label_squares(work, columns), work.own)
    weight, log_weights = float(plan.m), 0.0
    if work.row_weights is not None:
        weight, log_weights = float(np.sum(work.row_weights)), float(np.sum(np.log(work.row_weights)))
    scale = np.where(columns.inverse > 0, columns.inverse, 1.0)
    about = OwnBlock(own.block, columns.squared / scale**2, 1.0 / weight + own.intercept, plan.N, rank, own.condition)
    residual, found = own.squares * (units.labels * units.targets) ** 2, []
    for k in range(t):
        total = float(totals[k]) if totals[k] > 2.0**-1000 else 0.0  # less is the noise of the sum
        left = min(float(residual[k]), total)
        sums = Totals(plan.m, left, total, total - left, log_weights)
        found.append(infer_own(about, w_i[:, k], float(intercept[k]) if plan.centre else None, sums))
    return tuple(found)


def _label_squares(work: Work, columns: Columns) -> Float:
    """Squares of the labels about their mean, at the label holder."""
    if work.labels is None:
        return np.zeros(work.plan.targets)
    squares = np.square(work.labels - columns.label_mean)
    weights = 1.0 if work.row_weights is None else work.row_weights[:, None]
    total: Float = np.sum(squares * weights, axis=0)
    return total


def own_inverse(work: Work, columns: Columns, unit: float, full: bool) -> Script:
    """The own block, where A has full rank; ``unit`` is what the CSP's A is in: its S counts in 1 / unit^2."""
    plan = work.plan
    mean = (columns.mean + columns.rest) * columns.inverse
    v_i = np.zeros((int(plan.centre), plan.N))
    Q: Integers = yield from common_right_mask(work)
    if plan.centre:
        v_i[0] = masked_row(work, mean)
    size = float(np.abs(v_i).max(initial=0.0))
    E = yield from bound_sum("vector bound", math.frexp(size)[1] if size else None, work.own)
    parts: Parts = yield from opened(work, INVERSE, v_i, E or 0)
    made: dict[int, bytes] = yield Local("inverse", lambda: _parts_of_others(work, parts, Q))
    received = yield from exchanged(work, lambda i: made[i], lambda i: own_form_bytes(plan, i))
    return (yield Local("inverse", lambda: _found(work, columns, parts, Q, received, unit, E or 0, full)))


def _parts_of_others(work: Work, parts: Parts, Q: Integers) -> dict[int, bytes]:
    """What this user sends every other one: its mask in that user's products, with noise."""
    plan, side = work.plan, work.plan.N
    M = square(parts.mask, side + int(plan.centre))
    scalar = _bordered(parts.mask, parts) if plan.centre else []
    found = {}
    for i in range(plan.k):
        if i != work.i:
            form = to_integers(quadratic(Q[own_rows(work, i)], M[:side, :side]))
            hidden = noisy(form, _FORM_NOISE, work, "own inverse", i)
            last = noisy(scalar, _INTERCEPT_NOISE, work, "intercept", i)
            found[i] = as_bytes(hidden, LOW_HALVES) + as_bytes(last)
    return found


def _bordered(triangle: Ring, parts: Parts) -> list[int]:
    """``[-b, 1] M [-b, 1]^T`` in the ring, b what is on the users' vector: the form of the vector without it."""
    b = parts.border[0]
    row = np.append(-b, 1)
    side = len(row)
    M = np.zeros((side, side), object)
    M[np.triu_indices(side)] = to_integers(triangle)
    diagonal = int(np.sum(M.diagonal() * row * row))
    np.fill_diagonal(M, 0)
    return [diagonal + 2 * int(row @ (M @ row))]


def _found(
    work: Work, columns: Columns, parts: Parts, Q: Integers, received: list[bytes], unit: float, E: int, full: bool
) -> OwnInverse:
    plan, n_i = work.plan, work.n_i
    side, low = plan.N, own_form_bytes(plan, work.i) - 32 * int(plan.centre)
    ours = add_into(parts.total.copy(), parts.mask)
    own = quadratic(Q[own_rows(work, work.i)], square(ours, side + int(plan.centre))[:side, :side])
    forms = [to_integers(own), *(as_integers(content[:low], LOW_HALVES) for content in received)]
    power = parts.exponent - _FORM_BITS
    C = np.zeros((n_i, n_i))
    C[np.triu_indices(n_i)] = [_number(sum(each), _LOW_BITS, power) for each in zip(*forms, strict=True)]
    C = np.triu(C) + np.triu(C, 1).T
    T_i = work.masks.T_i
    if T_i is not None:
        C = to_numpy(T_i.left(work.put(to_numpy(T_i.left(work.put(C))).T)))
    C = 0.5 * (C + C.T) * unit**2
    if full:
        _expect_plausible(columns, C)
    intercept = 0.0
    if plan.centre:
        scalars = [_bordered(ours, parts)[0], *(as_integers(content[low:])[0] for content in received)]
        power = parts.exponent + 2 * E - _INTERCEPT_BITS
        intercept = max(0.0, _number(sum(scalars), 256, power) * unit**2)
    scaled: Float = C * columns.inverse * columns.inverse[:, None]
    return OwnInverse(scaled, intercept, parts.numbers, parts.condition)


def _number(total: int, bits: int, power: int) -> float:
    return math.ldexp(float(signed(total, bits)), power)


def _expect_plausible(columns: Columns, C: Float) -> None:
    """Other columns can only add to a variance, and a covariance has no negative direction."""
    least = float(np.linalg.eigvalsh(C)[0])
    if not (bool(np.all(np.diag(C) * columns.squared >= 1.0 - _SLACK)) and least >= -_SLACK * float(np.max(C))):
        raise VerificationFailed(
            "the inverse Gram matrix in the CSP's answer is not one of these columns", "nothing is released"
        )
