"""SVD and LSA at a user: U, S for all, Vt_i for its owner.

Vt_i is made locally, panel by panel: written where the user says, corrected, verified.

``Vt_i = S^-1 U^T X_i`` needs no message. It loses orthogonality like eps S_1 / S_r, so where that matters one sum
``sum_i Vt_i Vt_i^T = C C^T`` gives the correction ``Vt_i <- C^-1 Vt_i``, and all users' parts together are orthonormal
again to rounding. Where it does not matter the sum is made of zeros: the CSP must not learn which.

Vt_i is as large as the data. Where it fits the memory budget it is made once. Of ill-conditioned data the columns that
were solved on the way to L_i have been kept (``linalg.solved_columns``): ``X_i = L_i Q`` with Q orthonormal to rounding
at any condition number, so that ``C^-1 S^-1 U^T L_i``, m x m, is put right, and Vt_i is its product with Q. Otherwise
each panel's part of C's Gram matrix is added up as the panel is made, and C divides Vt_i where it stands, so that the
correction costs the work of one product and no pass over the data. Where it does not fit, it goes elsewhere (``Sink``)
and is made twice from the same panels, once for C and once to be written, because C repairs the rounding of the first
product. What a plan asks to be checked is measured on the way, ``X_i - U S Vt_i`` panel by panel, and judged by sums:
whether all errors together are rounding, and whether all parts together are orthonormal.
"""

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedsvd.errors import NumericalError, VerificationFailed
from fedsvd.linalg import backend
from fedsvd.linalg.dense_svd import corrected, correction, needs_correction
from fedsvd.linalg.solved_columns import SolvedColumns, multiply
from fedsvd.linalg.verify import bounds
from fedsvd.protocol.tasks import SAMPLED_PANELS, Check, Item
from fedsvd.roles.user.checks import Checked
from fedsvd.roles.user.opening import Opened, rest_in_zeros
from fedsvd.roles.user.openings import opening_of
from fedsvd.roles.user.requests import SCALE_UP, Local, Script
from fedsvd.roles.user.statistics import Prepared, in_common_unit, uncentred, with_norm
from fedsvd.roles.user.sums import (
    NORM_WIDTH,
    SPECTRUM_WIDTH,
    from_upper_triangle,
    total_sum,
    upper_triangle,
    within_bounds,
)
from fedsvd.roles.user.work import InMemory, Nowhere, Sink, Work
from fedsvd.types import Array, Float

_HANDED_OVER = 1 << 22  # numbers of Vt_i that a sink is given at once
# An entry of V^T V, which is 0 or 1 but for rounding, beyond this comes from singular values that are not the data's.
_FAR_FROM_ONE = 1024.0


@dataclass(frozen=True)
class Verified:
    """What a user measured of its own part; ``columns`` of its ``of`` columns were looked at."""

    columns: int
    of: int
    residual: float | None  # ||X_i - U S Vt_i||_F / ||X_i||_F; None where a truncated part must leave something over
    orthogonality: float | None = None  # ||V^T V - I||_F of all users' parts; None for a sample


@dataclass(frozen=True, repr=False)
class OwnVectors:
    """Vt_i, or what its sink made of it, and what was verified."""

    Vt_i: Any
    verified: Verified | None = None


def own_vectors(
    work: Work, U: Float, sigma: Float, product: Float | None = None, solved: SolvedColumns | None = None
) -> Script:
    """This user's rows of V, transposed: written, corrected and verified as plan and sink ask for.

    ``product``, where it is there, is ``X_i^T U``, (n_i, r): nothing but a division is left to do. ``solved`` is X_i as
    the product of its factor and orthonormal rows.
    """
    if len(sigma) and not float(np.min(sigma)) >= sys.float_info.min:
        raise NumericalError("a singular value is below the range of float64", SCALE_UP)
    ill = needs_correction(sigma)
    if solved is not None:
        Vt_i = yield from _of_solved(work, U, sigma, solved, ill)
        return OwnVectors(_handed_over(work, Vt_i))
    if product is not None:
        Vt_i = yield from _in_memory(work, lambda: _divided(product, sigma, ill), ill)
        return OwnVectors(_handed_over(work, Vt_i))
    if work.plan.reads_rows:
        return (yield from _by_rows(work, U, sigma, ill))
    W = (U / sigma).T
    if work.plan.check is Check.NONE and (work.sink is None or work.fits(len(sigma))):
        Vt_i = yield from _in_memory(work, lambda: right_vectors(work, W, ill), ill)
        return OwnVectors(_handed_over(work, Vt_i))
    C_t = None
    if work.plan.check is not Check.SAMPLE:
        gram = (yield Local("orthogonality", lambda: _gram(work, W))) if ill else None
        C_t = yield from _correction(work, gram)
    made, verified, gram, error = yield Local("right vectors", lambda: second_pass(work, W, U, sigma, C_t))
    yield from _expect_reconstructed(work, sigma, error)
    if work.plan.check is Check.ALL:
        verified = _with_orthogonality(work, verified, (yield from _joint_gram(work, "verified", gram)))
    return OwnVectors(made, verified)


def _divided(product: Float, sigma: Float, ill: bool) -> tuple[Float, Float | None]:
    Vt_i = np.ascontiguousarray((product / sigma).T)
    return Vt_i, backend.add_gram(None, Vt_i) if ill else None


def _of_solved(work: Work, U: Float, sigma: Float, solved: SolvedColumns, ill: bool) -> Script:
    """``Vt_i = B Q`` with ``B = C^-1 S^-1 U^T L_i``: what rounding took from B is put right, Q needs nothing."""
    B = backend.matmul((U / sigma).T, solved.R.T)
    C_t = yield from _correction(work, backend.add_gram(None, B) if ill else None)
    if C_t is not None:
        B = corrected(C_t, B)
    return (yield Local("right vectors", lambda: solved.times(B, work.masks.each)))


def _handed_over(work: Work, Vt_i: Float) -> Any:
    if work.sink is None:
        return Vt_i
    work.sink.open(*Vt_i.shape)
    step = max(1, _HANDED_OVER // max(1, len(Vt_i)))
    for start in range(0, work.n_i, step):
        work.sink.write(Vt_i[:, start : start + step])
    return work.sink.close()


def _in_memory(work: Work, make: Callable[[], tuple[Float, Float | None]], ill: bool) -> Script:
    """Vt_i as one array, corrected where it stands; ``make`` has its Gram matrix ready where that is needed."""
    Vt_i, gram = yield Local("right vectors", make)
    C_t = yield from _correction(work, gram)
    if C_t is None:
        return Vt_i
    return (yield Local("correction", lambda: corrected(C_t, Vt_i, out=Vt_i)))


def _by_rows(work: Work, U: Float, sigma: Float, ill: bool) -> Script:
    """Of a tall matrix: Vt_i is short, and the data is read in panels of rows."""
    Vt_i = yield from _in_memory(work, lambda: _added_up(work, U, sigma, ill), ill)
    verified: Verified | None = None
    if work.plan.check is not Check.NONE:
        verified, error = yield Local("verification", lambda: _verified_by_rows(work, U, sigma, Vt_i))
        yield from _expect_reconstructed(work, sigma, error)
    if work.plan.check is Check.ALL:
        gram = backend.gram(Vt_i)
        verified = _with_orthogonality(work, verified, (yield from _joint_gram(work, "verified", gram)))
    return OwnVectors(_handed_over(work, Vt_i), verified)


def _added_up(work: Work, U: Float, sigma: Float, ill: bool) -> tuple[Float, Float | None]:
    Vt_i = np.zeros((len(sigma), work.n_i))
    for part, X in work.row_panels("right vectors"):
        if work.device is None:
            backend.matmul((U[part] / sigma).T, X, Vt_i, add=True)
        else:
            Vt_i += backend.to_numpy(work.put((U[part] / sigma).T) @ X)
    return Vt_i, backend.gram(Vt_i) if ill else None


def _verified_by_rows(work: Work, U: Float, sigma: Float, Vt_i: Float) -> tuple[Verified, float]:
    error = size = 0.0
    if work.plan.components is not None:
        return Verified(work.n_i, work.n_i, None), 0.0
    SVt = work.put(sigma[:, None] * Vt_i)
    for part, X in work.row_panels("verification"):
        error = math.hypot(error, backend.norm(backend.matmul(work.put(np.asarray(U[part])), SVt) - X))
        size = math.hypot(size, backend.norm(X))
    return Verified(work.n_i, work.n_i, error / size if size else 0.0), error


def right_vectors(work: Work, W: Float, ill: bool = False) -> tuple[Float, Float | None]:
    """``Vt_i = W X_i``, in one pass over the data, and where that is ill the upper triangle of ``Vt_i Vt_i^T``."""
    W, gram = work.put(W), None
    Vt_i = np.empty((W.shape[0], work.n_i))
    for part, X in work.panels("right vectors", work.longest_panel):
        if work.device is None:
            made = Vt_i[:, part]
            multiply(W, X, made, work.masks.each)
        else:
            made = W @ X
            Vt_i[:, part] = backend.to_numpy(made)
        if ill:
            gram = backend.add_gram(gram, made, spent=True)
    return Vt_i, None if gram is None else backend.to_numpy(gram)


def _correction(work: Work, gram: Float | None) -> Script:
    """C^T of the users' joint Gram matrix, upper triangular, from this user's part of it; None where none is needed."""
    total = yield from _joint_gram(work, "orthogonality", gram)
    return None if total is None else correction(total)


def _joint_gram(work: Work, name: str, gram: Float | None) -> Script:
    """The sum of the users' parts of ``V^T V``, of the planned size; None where zeros alone were summed.

    Of ``gram`` the upper triangle is read.
    """
    r, rho = work.plan.planned_rank, 0 if gram is None else len(gram)
    own = upper_triangle(np.zeros((0, 0)) if gram is None else within_bounds(np.triu(gram)), r)
    total = yield from total_sum(work.plan, name, own, work.own, NORM_WIDTH)
    if gram is None:
        return None
    if not np.abs(total).max(initial=0.0) <= _FAR_FROM_ONE:
        raise VerificationFailed("the right singular vectors are not orthonormal by far")
    return from_upper_triangle(total, r)[:rho, :rho]


def _gram(work: Work, W: Float) -> Float:
    W = work.put(W)
    gram = work.put(np.zeros((W.shape[0], W.shape[0])))
    for _, X in work.panels("orthogonality"):
        gram += backend.gram(backend.matmul(W, X))
    return backend.to_numpy(gram)


def second_pass(
    work: Work, W: Float, U: Float, sigma: Float, C_t: Array | None
) -> tuple[Any, Verified | None, Float, float]:
    """Every panel, or a sample of them: made, checked, written to the sink."""
    plan, r = work.plan, len(sigma)
    sink: Sink = Nowhere() if plan.check is Check.SAMPLE else work.sink or InMemory()
    W, US, gram = work.put(W), work.put(U * sigma), work.put(np.zeros((r, r)))
    C_t = None if C_t is None else work.put(C_t)
    error = size = 0.0
    columns, whole = 0, plan.components is None
    sink.open(r, work.n_i)
    for X in _looked_at(work):
        Vt = backend.matmul(W, X)
        if C_t is not None:
            Vt = corrected(C_t, Vt, out=Vt if work.device is None else None)
        if not isinstance(sink, Nowhere):
            sink.write(backend.to_numpy(Vt))
        columns += X.shape[1]
        if plan.check is Check.ALL:
            gram += backend.gram(Vt)
        if plan.check is not Check.NONE and whole:
            difference = backend.matmul(US, Vt)
            difference -= X
            error, size = math.hypot(error, backend.norm(difference)), math.hypot(size, backend.norm(X))
    made = sink.close()
    if plan.check is Check.NONE:
        return made, None, backend.to_numpy(gram), 0.0
    residual = (error / size if size else 0.0) if whole else None
    return made, Verified(columns, work.n_i, residual), backend.to_numpy(gram), error


def _looked_at(work: Work) -> Iterator[Array]:
    if work.plan.check is Check.SAMPLE:
        yield from work.some_panels("right vectors", SAMPLED_PANELS)
    else:
        yield from (X for _, X in work.panels("right vectors"))


def _expect_reconstructed(work: Work, sigma: Float, error: float) -> Script:
    """Raise ``VerificationFailed``, at every user or at none, unless all users' errors together are rounding.

    A user whose data is small compared with the others' has none of its own digits in a result that is right normwise.
    Were each user to stop by itself, the one that stops would show the CSP whose data that is.
    """
    plan = work.plan
    if plan.check is Check.NONE or plan.components is not None:
        return
    norm = backend.norm(sigma)
    scale = math.ldexp(1.0, math.frexp(norm)[1])
    own = within_bounds(np.array([error / scale]))
    (total,) = yield from total_sum(plan, "reconstruction", own, work.own, SPECTRUM_WIDTH)
    allowed = math.sqrt(plan.k) * bounds(plan.m, plan.n, len(sigma)).residual * norm / scale
    if not total <= allowed + plan.k * math.ldexp(1.0, SPECTRUM_WIDTH - 100):
        raise _not_verified("residual")


def _with_orthogonality(work: Work, verified: Verified | None, gram: Float) -> Verified:
    assert verified is not None  # it was verified for this very check
    r = len(gram)
    orthogonality = backend.norm(gram - np.eye(r))
    if not orthogonality <= bounds(work.plan.m, work.plan.n, r).orthogonality:
        raise _not_verified("orthogonality")
    return replace(verified, orthogonality=orthogonality)


def _not_verified(what: str) -> VerificationFailed:
    return VerificationFailed(
        f"the {what} of all users' right singular vectors is beyond its bound",
        "nothing is released; run again, on another machine or backend if it repeats",
    )


@dataclass(frozen=True, repr=False)
class FactorsResult:
    """What a user holds after SVD or LSA: U (m, r), sigma (r,), its own Vt_i (r, n_i) where released."""

    U: Float
    sigma: Float
    Vt_i: Any  # an array, what its sink made of it, or None
    rank: int
    residual: float
    orthogonality: float
    verified: Verified | None = None  # what was measured of Vt_i
    checked: Checked | None = None  # what was verified of the CSP's answer
    total_energy: float | None = None  # the squared joint norm, where it is known

    def __repr__(self) -> str:
        return f"FactorsResult(U={self.U.shape}, rank={self.rank})"


def script(work: Work) -> Script:
    """Compress or mask, add up, open; agree on signs and orthogonality."""
    plan = work.plan
    prepared: Prepared = yield from in_common_unit(work, (yield from uncentred(work)))
    if prepared.zero:
        if plan.compress:
            yield from rest_in_zeros(work, "bound", 8 * (plan.M + 1) * plan.planned_rank)
        return FactorsResult(np.zeros((plan.m, 0)), np.zeros(0), np.zeros((0, work.n_i)), 0, 0.0, 0.0)
    prepared = yield from with_norm(work, prepared)
    opened: Opened = yield from opening_of(plan)(work, prepared)
    solved = prepared.solved
    del prepared  # what was compressed is as large as anything that follows
    U, sigma = opened.U, opened.sigma
    if sigma is None:
        raise NumericalError("an SVD releases its singular values", "list the spectrum in the release")
    Vt_i, verified = None, None
    if opened.own is not None and plan.releases(Item.OWN_PART):
        Vt_i = _handed_over(work, np.ascontiguousarray(opened.own.T))
    elif plan.releases(Item.OWN_PART):
        own = yield from own_vectors(work, U, sigma, opened.product, solved)
        Vt_i, verified = own.Vt_i, own.verified
    quality = opened.residual, opened.orthogonality
    return FactorsResult(U, sigma, Vt_i, len(sigma), *quality, verified, opened.checked, opened.total_energy)
