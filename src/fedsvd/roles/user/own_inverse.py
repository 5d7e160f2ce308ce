"""Step 7 and 8 of a regression on split columns with inference: the block of ``(A^T A)^-1`` that is a user's own.

The CSP's S is ``Q^T T^T (A^T A)^-1 T Q``, and user i is to have ``Q_i S Q_i^T`` of it, which T_i turns into its own
block: standard errors and covariances of its own coefficients. S is split among the users (``split_matrix.py``), user l
sends user i its part of that product, and no user ever has S or any block but its own. The error of the intercept needs
the joint means: they reach the CSP under a mask, and one number, ``mean^T (A^T A)^-1 mean``, comes out at every user.

Nothing of this is the CSP's word. Each user j has a secret ``g_j = A_j^T eta_j``, which the CSP multiplies by S under
the users' mask, and user i gets two products: ``u_i = Q_i S g`` of all users' g together, and that of its own g_i.

- The latter must be its block times g_i: a user that altered its part of the block does not know g_i.
- ``A^T A u = g`` is what makes S the inverse of the joint columns: ``A u`` is one more column of the product under P
  that checks the solution (``challenge.py``).
- The mean goes up a second time, times a secret number: a CSP that adds to the one form of it misses the other.

For k = 2, u_i is one draw from a normal law that user i could draw from itself: its covariance follows from its block.
"""

import math
from dataclasses import dataclass

import numpy as np

from fedsvd.errors import VerificationFailed
from fedsvd.linalg.backend import norm, to_numpy
from fedsvd.linalg.extended import Pair, congruence, product, sliced
from fedsvd.linalg.ring_forms import GRID_BITS, LOW_HALVES, Integers, quadratic, square
from fedsvd.protocol.shared import INVERSE, INVERSE_BITS, VECTOR_BITS, own_form_bytes, own_probe_bytes
from fedsvd.protocol.sums import IMPLAUSIBLE, PROBE
from fedsvd.randomness.keystream import Keystream
from fedsvd.roles.user.challenge import Probe
from fedsvd.roles.user.columns import Columns
from fedsvd.roles.user.requests import Local, Script
from fedsvd.roles.user.split_matrix import (
    Parts,
    Units,
    Whole,
    as_bytes,
    as_integers,
    as_pair,
    common_right_mask,
    exchanged,
    masked_row,
    noisy,
    opened,
    own_rows,
    signed,
)
from fedsvd.roles.user.sums import any_user, bound_sum, wide_sum_of_floats
from fedsvd.roles.user.work import Work
from fedsvd.secagg.words128 import to_integers
from fedsvd.statistics.inference import Totals
from fedsvd.statistics.own_block import OwnBlock, infer_own
from fedsvd.types import Float, Ring

_FORM_BITS = INVERSE_BITS + 2 * GRID_BITS  # a step of Q_i S Q_i^T is 2^-224 of the unit of S
_FORM_NOISE = _FORM_BITS - INVERSE_BITS + 2
_PROBE_BITS = INVERSE_BITS + VECTOR_BITS + GRID_BITS
_PROBE_NOISE = _PROBE_BITS - INVERSE_BITS + 2
_INTERCEPT_BITS = INVERSE_BITS + 2 * VECTOR_BITS
_INTERCEPT_NOISE = _INTERCEPT_BITS - 128  # the unit may lie 2^16 above the largest number, for both factors
_KEY_BITS = 40
_SECRET_EXPONENT = 5  # |A_j^T eta| is below 2^5 ||A||_F, but for a chance below 1e-100
_SLACK = 1e-6
_LOST = 2.0**-40  # of a product with g_i, in addition to what the condition takes
MOST_CONDITION = 1e10
"""Up to here standard errors have about six digits and more; beyond, float64 columns under masks hold fewer."""


@dataclass(frozen=True, repr=False)
class OwnInverse:
    """A user's own block of the inverse Gram matrix, in the data's units, and the condition of all columns."""

    block: Float  # (n_i, n_i)
    intercept: float  # mean^T (X^T X)^-1 mean of all columns; 0 without an intercept
    condition: float
    exact: bool  # whether the condition leaves digits

    def __repr__(self) -> str:
        return f"OwnInverse(block={self.block.shape})"


@dataclass(frozen=True, repr=False)
class _Received:
    """What came out of the parts of all users, on columns as they are scaled."""

    block: Float
    own: Float  # the product with our own g
    joint: Float  # u_i
    intercept: float
    fits: bool  # whether block and products can be those of one inverse of these columns


def own_table(
    work: Work, columns: Columns, w_i: Float, intercept: Float, rank: int, own: OwnInverse, e: Float | None
) -> Script:
    """The regression table of this user's own columns, for each target; e are residual squares, at the label holder.

    The squares of labels and residuals are the label holder's to know: it adds them to a sum that all users open, so
    that all print the same R2 and F.
    """
    plan, t = work.plan, work.plan.targets
    squares = np.zeros(2 * t)
    if e is not None:
        squares = np.concatenate((_label_squares(work, columns), e * columns.label_scale**2))
    totals = yield from wide_sum_of_floats("totals", squares, work.own)
    weight, log_weights = float(plan.m), 0.0
    if work.row_weights is not None:
        weight, log_weights = float(np.sum(work.row_weights)), float(np.sum(np.log(work.row_weights)))
    scale = np.where(columns.inverse > 0, columns.inverse, 1.0)
    norms = columns.squared / scale**2
    about = OwnBlock(own.block, norms, 1.0 / weight + own.intercept, plan.N, rank, own.condition, own.exact)
    found = []
    for k in range(t):
        total = float(totals[k]) if totals[k] > 2.0**-1000 else 0.0  # less is the noise of the sum
        left = min(max(float(totals[t + k]), 0.0), total)
        sums = Totals(plan.m, left, total, total - left, log_weights)
        found.append(infer_own(about, w_i[:, k], float(intercept[k]) if plan.centre else None, sums))
    return tuple(found)


def _label_squares(work: Work, columns: Columns) -> Float:
    """Squares of the labels about their mean, at the label holder."""
    assert work.labels is not None
    squares = np.square(work.labels - columns.label_mean)
    weights = 1.0 if work.row_weights is None else work.row_weights[:, None]
    total: Float = np.sum(squares * weights, axis=0)
    return total


def own_inverse(work: Work, columns: Columns, units: Units, full: bool, F1: float) -> Script:
    """The own block, where A has full rank, and the probe by which the solution's check covers it."""
    plan, k = work.plan, work.plan.k
    g_i: Float = yield Local("inverse", lambda: columns.transposed(Keystream.of(work.own, "eta").normal(plan.M)))
    g_i = g_i / F1 if F1 else g_i
    Q: Integers = yield from common_right_mask(work)
    mean = masked_row(work, (columns.mean + columns.rest) * columns.inverse) if plan.centre else np.zeros(plan.N)
    size = norm(mean)
    E = (yield from bound_sum("vector bound", math.frexp(size)[1] if size else None, work.own)) or 0
    vectors = np.zeros((k + 2 * int(plan.centre), plan.N))
    vectors[work.i] = np.ldexp(masked_row(work, g_i), -_SECRET_EXPONENT)
    if plan.centre:
        vectors[k:] = np.ldexp(mean, -E)
    parts: Parts = yield from opened(work, INVERSE, vectors, _key(work) if plan.centre else 1)
    made: dict[int, bytes] = yield Local("inverse", lambda: _parts_of_others(work, parts, Q))
    received = yield from exchanged(
        work, lambda i: made[i], lambda i: own_form_bytes(plan, i) + own_probe_bytes(plan, i)
    )
    found: _Received = yield Local("inverse", lambda: _found(work, columns, parts, Q, received, units, E, g_i))
    # Were each user to stop by itself, a CSP that spoils one user's part would learn how that user's columns lie.
    if (yield from any_user(IMPLAUSIBLE, full and not found.fits, work.own)):
        raise VerificationFailed(
            "the inverse Gram matrix in the CSP's answer, or what users sent each other of it, is not one of these "
            "columns"
        )
    x_i: Float = yield Local("inverse", lambda: columns.times(found.joint[:, None])[:, 0])
    own = np.array([columns.energy() * norm(found.joint) ** 2, float(np.trace(found.block))])
    length, trace = yield from wide_sum_of_floats(PROBE, own, work.own)
    condition = F1 * math.sqrt(max(float(trace), 0.0))
    exact = full and condition <= MOST_CONDITION * math.sqrt(plan.N)
    if full and not condition / (2 * plan.N) <= parts.numbers[0] <= 2 * condition:
        raise VerificationFailed("the CSP wrote a condition that these columns do not have")
    probe = Probe(x_i, math.sqrt(max(float(length), 0.0)), g_i) if exact else Probe.of_nothing(work, columns)
    block: Float = found.block * columns.inverse * columns.inverse[:, None]
    return OwnInverse(block, found.intercept, float(parts.numbers[0]), exact), probe


def _key(work: Work) -> int:
    """The number that the mean goes up with a second time: every user's, not the CSP's."""
    return 1 + int(Keystream.of(work.checks, "key", INVERSE).words(1)[0]) % (1 << _KEY_BITS)


def _parts_of_others(work: Work, parts: Parts, Q: Integers) -> dict[int, bytes]:
    """What this user sends every other one: its mask in that user's products, with noise."""
    plan, N = work.plan, work.plan.N
    ours = _Words.of(work, parts.mask)
    M, forms = square(ours.triangle, N), ours.forms(parts) if plan.centre else []
    found = {}
    for i in range(plan.k):
        if i != work.i:
            form = to_integers(quadratic(Q[own_rows(work, i)], M))
            own, joint = ours.products(parts, Q[own_rows(work, i)], i)
            found[i] = (
                as_bytes(noisy(form, _FORM_NOISE, work, "own inverse", i), LOW_HALVES)
                + as_bytes(noisy([*own, *joint], _PROBE_NOISE, work, "probes", i))
                + as_bytes(noisy(forms, _INTERCEPT_NOISE, work, "intercept", i))
            )
    return found


@dataclass(frozen=True, repr=False)
class _Words:
    """The words of a shared inverse, one user's or the sum of them: the triangle, S times all vectors, two forms."""

    triangle: Ring
    S: Whole  # (N, N)
    along: Whole  # (vectors, N)
    last: list[int]
    k: int

    @classmethod
    def of(cls, work: Work, words: Ring) -> "_Words":
        N, count = work.plan.N, work.plan.k + 2 * int(work.plan.centre)
        side = N * (N + 1) // 2
        S = np.zeros((N, N), object)
        S[np.triu_indices(N)] = S.T[np.triu_indices(N)] = to_integers(words[:side])
        along = np.array(to_integers(words[side : side + count * N]), object).reshape(count, N)
        return cls(words[:side], S, along, to_integers(words[side + count * N :]), work.plan.k)

    def products(self, parts: Parts, rows: Integers, i: int) -> tuple[list[int], list[int]]:
        """``Q_i S g`` for the g of user i, and for that of all users; b is taken off."""
        both = np.stack((self.along[i], self.along[: self.k].sum(axis=0)), axis=1)
        border = np.stack((parts.border[i], parts.border[: self.k].sum(axis=0)), axis=1)
        found = rows.astype(object) @ (both - self.S @ border)
        return list(found[:, 0]), list(found[:, 1])

    def forms(self, parts: Parts) -> list[int]:
        """``v^T S v`` of the mean, and ``v^T S v`` times the key; b is taken off."""
        (first, second), (b, d) = self.along[self.k :], parts.border[self.k :]
        along = self.S @ b
        plain = self.last[0] - 2 * int(b @ first) + int(b @ along)
        keyed = self.last[1] - int(b @ second) - int(d @ first) + int(d @ along)
        return [plain, keyed]


def _found(
    work: Work,
    columns: Columns,
    parts: Parts,
    Q: Integers,
    received: list[bytes],
    units: Units,
    E: int,
    g_i: Float,
) -> _Received:
    plan, n_i, unit = work.plan, work.n_i, units.columns**2
    low, rows = own_form_bytes(plan, work.i), Q[own_rows(work, work.i)]
    ours = _Words.of(work, parts.ours)
    own, joint = ours.products(parts, rows, work.i)
    form = to_integers(quadratic(rows, square(ours.triangle, plan.N)))
    forms = _added([form, *(as_integers(content[:low], LOW_HALVES) for content in received)])
    rest = _added(
        [[*own, *joint, *(ours.forms(parts) if plan.centre else [])], *map(as_integers, (c[low:] for c in received))]
    )
    power = parts.exponent - _PROBE_BITS + _SECRET_EXPONENT
    u = as_pair(rest[: 2 * n_i], power, (2, n_i))
    C = as_pair(forms, parts.exponent - _FORM_BITS, (len(forms),), 64 * LOW_HALVES)
    block, products = _without_rotation(work, _symmetric(C, n_i), Pair(u.high.T, u.low.T))
    intercept, keyed = 0.0, True
    if plan.centre:
        plain, second = (signed(value) for value in rest[2 * n_i :])
        intercept = max(0.0, math.ldexp(float(plain), parts.exponent + 2 * E - _INTERCEPT_BITS) * unit)
        key = _key(work)
        keyed = abs(second - key * plain) <= (key + 1) * plan.k << _INTERCEPT_NOISE
    block, products = block * unit, products * unit
    fits = keyed and _plausible(columns, block) and _belong(work, parts, block, products[:, 0], g_i, unit)
    return _Received(block, products[:, 0], products[:, 1], intercept, fits)


def _added(lists: list[list[int]]) -> list[int]:
    return [sum(values) for values in zip(*lists, strict=True)]


def _symmetric(C: Pair, n: int) -> Pair:
    """The matrix behind its upper triangle."""
    found = []
    for part in (C.high, C.low):
        A = np.zeros((n, n))
        A[np.triu_indices(n)] = part
        found.append(np.triu(A) + np.triu(A, 1).T)
    return Pair(*found)


def _without_rotation(work: Work, C: Pair, u: Pair) -> tuple[Float, Float]:
    """``T_i C T_i^T`` and ``T_i u``: in about 100 bits, for T_i mixes numbers of very different size."""
    T_i = work.masks.T_i
    if T_i is None:
        return C.high, u.high
    T = to_numpy(T_i.left(work.put(np.eye(work.n_i))))
    turned = congruence(T, C)
    block = 0.5 * (turned.high + turned.high.T)
    return block, product(sliced(Pair(T, np.zeros_like(T))), sliced(u)).high


def _belong(work: Work, parts: Parts, block: Float, own: Float, g_i: Float, unit: float) -> bool:
    """Whether the product with g_i is the block's own: rounding of g takes what the condition takes of it."""
    with np.errstate(over="ignore", invalid="ignore"):
        largest = math.ldexp(unit, parts.exponent)
        variances = np.maximum(np.diag(block), 0.0)
        lost = _LOST * (
            np.abs(block) @ np.abs(g_i) + math.ldexp(work.plan.N * norm(g_i), -8) * np.sqrt(variances * largest)
        )
        far = np.abs(own - block @ g_i)
        return bool(np.all(far <= lost + math.ldexp(work.plan.k * largest, 8 - INVERSE_BITS)))


def _plausible(columns: Columns, C: Float) -> bool:
    """Other columns can only add to a variance, and a covariance has no negative direction."""
    if not np.isfinite(C).all():
        return False
    least = float(np.linalg.eigvalsh(C)[0])
    return bool(np.all(np.diag(C) * columns.squared >= 1.0 - _SLACK)) and least >= -_SLACK * float(np.max(C))
