"""Step 6 (paper 3): factorise, verify, and only then answer.

``U', S'`` of what was collected: from the exact joint Gram matrix (sum family), by a dense SVD, from a folded factor,
from that and a second pass over what was stored, or as the top r of a matrix long on both sides by block Krylov. For
regressions: least squares on a factor of ``[X' y']``, by SVD with a relative rank cut-off. The CSP needs no randomness:
Krylov's start block is made of columns of X'.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import tee

import numpy as np

from fedsvd.errors import LocalProtocolError
from fedsvd.linalg.backend import add_gram, gram, matmul, namespace, norm, qr_r, to_numpy
from fedsvd.linalg.dense_svd import (
    SVD,
    dense_svd,
    fits,
    known_part,
    least_squares,
    rank,
    svd_of_even,
    tall_svd,
    top_of_gram,
)
from fedsvd.linalg.device import Device
from fedsvd.linalg.operators import Operator, PanelOperator, as_operator
from fedsvd.linalg.rounded_gram import solution_of_rounded, top_of_rounded
from fedsvd.linalg.solved_columns import SolvedColumns
from fedsvd.linalg.streaming_factor import StreamingFactor
from fedsvd.linalg.truncated_svd import truncated_svd
from fedsvd.linalg.two_pass import long_side, two_pass_svd
from fedsvd.linalg.verify import (
    Quality,
    verify_by_probes,
    verify_factor,
    verify_svd,
    verify_truncated,
)
from fedsvd.linalg.wide_factor import factor, rounded_within
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.shared import shares_inverse, shares_vectors
from fedsvd.protocol.tasks import Answer
from fedsvd.protocol.upload import fits_whole, krylov_basis, krylov_block, krylov_start
from fedsvd.roles.service_provider.collect import Both, Collector, Exact, Folded, LongSide, Whole
from fedsvd.storage.block_store import BlockStore, DeviceStore
from fedsvd.types import Array, Each, Float

_TOLERANCE = 1e-12
SMALL = 4096
"""A matrix with a longer side than this stays on its device."""

_MANY = 1 << 20  # numbers of a matrix that is factorised by way of products


@dataclass(frozen=True, repr=False)
class Factorised:
    """U' (M, r), S' (r,) and what was verified; a long U' is not here but in the first r columns of ``store``."""

    U_masked: Float
    sigma_scaled: Float
    residual: float
    orthogonality: float
    store: BlockStore | None = None


@dataclass(frozen=True, repr=False)
class Solved:
    """w' (features, targets), a basis of the null space (features, lost), the rank, and what was verified.

    R, the factor of ``[X' y']``, where users will ask for a matrix that is split among them.
    """

    w_masked: Float
    null_masked: Float
    rank: int
    residual: float
    R: Float | None = None


@dataclass(frozen=True)
class Verified:
    """What the CSP can say of its work: no factor, only how good it is."""

    residual: float
    orthogonality: float
    rank: int


def factorise(
    plan: SessionPlan, collector: Collector, device: Device | None, each: Each | None = None
) -> Factorised | Solved:
    """X' from where its panels went, as the plan's task wants it."""
    if isinstance(collector, Exact):
        return factorise_exact(plan, collector.words(), each)
    if isinstance(collector, Folded):
        return solve(plan, collector.factor())
    if isinstance(collector, Both):
        return factorise_both(plan, collector)
    if not isinstance(collector, Whole):
        raise LocalProtocolError("nothing was collected")
    with collector.store as store:
        return factorise_whole(plan, store, device)


def factorise_exact(plan: SessionPlan, words: Array, each: Each | None = None) -> Factorised | Solved:
    """U', S' or w' from the exact words of the joint Gram matrix, in units of F; where the words lie."""
    quick = _from_rounded(plan, words)
    if quick is not None:
        return quick
    found = factor(words, each)
    del words  # as large as the factor
    if plan.answer is Answer.SOLUTION:
        return solve(plan, found.R)
    R_t = namespace(found.R).matrix_transpose(found.R)
    if not isinstance(R_t, np.ndarray) and plan.components is not None and not _whole_pays(plan, R_t.shape, True):
        return replace(_top_on_device(plan, R_t), residual=found.residual)
    U, sigma = _all_of_square(R_t)
    kept = min(rank(sigma, plan.m, plan.n), plan.planned_rank)
    U_masked = to_numpy(U[:, :kept])
    orthogonality = norm(gram(U_masked.T) - np.eye(kept))
    return Factorised(U_masked, to_numpy(sigma[:kept]), found.residual, orthogonality)


def _from_rounded(plan: SessionPlan, words: Array) -> Factorised | Solved | None:
    """The same from G rounded to float64, where it is proved to have all digits that are asked for (ADR 0113)."""
    if not isinstance(words, np.ndarray):
        return None
    if plan.answer is Answer.SOLUTION:
        if shares_inverse(plan) or shares_vectors(plan):
            return None  # users will ask for the factor
        solution = solution_of_rounded(rounded_within(words), plan.targets)
        if solution is None:
            return None
        w, residual = solution
        return Solved(w, np.zeros((len(w), 0)), len(w), residual)
    top = top_of_rounded(rounded_within(words), plan.planned_rank, _TOLERANCE)
    if top is None:
        return None
    U, sigma, quality = top
    return Factorised(U, sigma, quality.residual, quality.orthogonality)


def _all_of_square(A: Array) -> tuple[Array, Array]:
    svd = dense_svd(A)
    verify_svd(A, svd.U, svd.sigma, svd.Vt)
    return svd.U, svd.sigma


def factorise_whole(plan: SessionPlan, store: BlockStore, device: Device | None = None) -> Factorised:
    """The SVD of X' from its store: dense where it fits, else the top r."""
    whole = slice(0, plan.M), slice(0, plan.N)
    if fits_whole(plan) and _whole_pays(plan, (plan.M, plan.N), isinstance(store, DeviceStore)):
        return _dense(plan, store.read(*whole))
    return _top(plan, _operator(plan, store, device), _start_block(plan, store, device))


def _whole_pays(plan: SessionPlan, shape: tuple[int, int], on_device: bool) -> bool:
    """Whether a matrix is better factorised whole than by its top alone; a device is slow at the one, not the other."""
    return fits(*shape) and not (on_device and plan.components is not None and min(shape) > SMALL)


def _top(plan: SessionPlan, operator: Operator, start: Array) -> Factorised:
    """The top r by block Krylov, verified."""
    r = plan.components or 1
    basis, block = krylov_basis(plan, r), krylov_block(plan, r)
    found = truncated_svd(operator, r, start, tolerance=_TOLERANCE, basis=basis, block=block)
    quality = verify_truncated(operator, found.U, found.sigma, found.Vt, _TOLERANCE)
    kept = min(r, rank(found.sigma, plan.m, plan.n))
    return _in_host_memory(found.U[:, :kept], found.sigma[:kept], quality)


def _in_host_memory(U: Array, sigma: Array, quality: Quality) -> Factorised:
    """What was found, in host memory, from which it is sent."""
    return Factorised(to_numpy(U), to_numpy(sigma), quality.residual, quality.orthogonality)


def factorise_both(plan: SessionPlan, collector: Both) -> Factorised:
    """The short side's vectors from its Gram matrix or factor; the long side's take the place of X' in its store."""
    store = collector.store
    side, K = LongSide(plan, store), collector.gram()
    top = None if K is None else top_of_gram(K, min(plan.components or 1, plan.M, plan.N))
    if K is not None and top is not None:
        sigma, _, quality = long_side(*top, math.sqrt(float(np.trace(K))), side, side.places)
    else:
        R, most = to_numpy(collector.factor()), plan.components or min(plan.M, plan.N)
        sigma, _, quality = two_pass_svd(R, side, side.places, (plan.m, plan.n), most)
    return Factorised(np.empty((0, len(sigma))), sigma, quality.residual, quality.orthogonality, store)


def _top_on_device(plan: SessionPlan, A: Array) -> Factorised:
    """The top r of a matrix that is too large to be factorised whole where it lies."""
    # Columns from all over it start the iteration.
    width = min(krylov_start(plan, plan.components or 1), A.shape[1])
    step = A.shape[1] // width
    return _top(plan, as_operator(A), A[:, : width * step : step])


def _dense(plan: SessionPlan, A: Array) -> Factorised:
    A = _near(A)
    tall = A.shape[0] >= 2 * A.shape[1]
    if A.shape[1] >= 2 * A.shape[0]:
        # No party asks for V': the factor of A^T has the U' and S' of A.
        R = qr_r(A.T)
        verify_factor(R, A)
        A = _near(R.T)
    if tall and plan.components is not None and (found := _top_of_tall(plan, A)) is not None:
        return found
    U, sigma, Vt = svd_of_tall(A) if tall else known_part(dense_svd(A), *A.shape)
    # The full product would be the work of the factorisation again where the matrix is long.
    quality = verify_by_probes(A, U, sigma, Vt) if tall else verify_svd(A, U, sigma, Vt)
    kept = rank(sigma, plan.m, plan.n)
    if plan.components is not None:
        kept = min(kept, plan.components)
    return _in_host_memory(U[:, :kept], sigma[:kept], quality)


def svd_of_tall(A: Array) -> SVD:
    """The thin SVD of A by its factor: where that is worth it by products, which are quicker than reflections.

    With the solved columns on the way to R, ``A^T = R^T Q``, the left vectors of A are one product, those of R^T with
    Q, orthonormal as they are. An even A has them from its Gram matrix. What is left, and rare, is corrected.
    """
    if not isinstance(A, np.ndarray) or A.shape[0] < 4 * A.shape[1] or A.size < _MANY:
        return tall_svd(A, qr_r(A))
    solved = SolvedColumns(A.shape[1], A.shape[0])
    folded = StreamingFactor(A.shape[1], solved=solved)
    folded.update(A)
    R = folded.factor()
    verify_factor(R, A.T)
    even = not (folded.route.cholesky or folded.route.householder)
    if even and (found := svd_of_even(A, add_gram(None, R.T))) is not None:
        return found
    columns = solved.of(R)
    if columns is None:
        return tall_svd(A, R)
    small, sigma, Vt = dense_svd(R)
    kept = rank(sigma, *A.shape)
    return SVD(columns.times(small[:, :kept].T).T, sigma[:kept], Vt[:kept, :])


def _top_of_tall(plan: SessionPlan, A: Array) -> Factorised | None:
    """The top r of a tall A in memory, verified, from its Gram matrix; None where that would cost digits."""
    if not isinstance(A, np.ndarray) or A.size < _MANY:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        top = top_of_gram(add_gram(None, A.T), min(plan.components or 1, A.shape[1]))
    if top is None:
        return None
    sigma, V = top
    U = matmul(A, V / sigma)
    return _in_host_memory(U, sigma, verify_truncated(A, U, sigma, V.T, _TOLERANCE))


def _near(A: Array) -> Array:
    """A in host memory where it is small: LAPACK is quicker with it than a device."""
    return to_numpy(A) if max(A.shape) <= SMALL else A


def _operator(plan: SessionPlan, store: BlockStore, device: Device | None) -> Operator:
    """X' by its products: the store's own where its blocks are worked on elsewhere, else panel by panel."""
    if callable(getattr(store, "matmul", None)):
        return as_operator(store)
    return PanelOperator((plan.M, plan.N), lambda: _panels(plan, store, device))


def _panels(plan: SessionPlan, store: BlockStore, device: Device | None) -> Iterator[tuple[slice, Array]]:
    """X' by panels as it is stored, where it is computed with: the next is on its way while one is worked on."""
    if isinstance(store, DeviceStore):
        return store.pieces()
    panels = store.panels(0, max(1, plan.memory // (8 * 8 * plan.N)))
    if device is None:
        return panels
    places, read = tee(panels)
    return zip((place for place, _ in places), device.ahead(panel for _, panel in read), strict=True)


def _start_block(plan: SessionPlan, store: BlockStore, device: Device | None) -> Array:
    """Columns from all over X'."""
    chosen = np.linspace(0, plan.N - 1, krylov_start(plan, plan.components or 1)).round().astype(int)
    if not isinstance(store, DeviceStore):
        height = max(1, plan.memory // (8 * 8 * plan.N))
        block: Array = np.concatenate([np.array(rows[:, chosen]) for _, rows in store.panels(0, height)])
    else:
        picked = [store.read(slice(0, plan.M), slice(column, column + 1)) for column in chosen.tolist()]
        block = namespace(*picked).concat(picked, axis=1)
    return device.put(block) if device is not None and isinstance(block, np.ndarray) else block


def solve(plan: SessionPlan, R: Array) -> Solved:
    """Least squares on the factor R of ``[features, labels]``: minimum over the kept rank, and the null space."""
    t, R = plan.targets, to_numpy(R)
    fit = least_squares(R[:, : R.shape[1] - t], R[:, R.shape[1] - t :], plan.m, plan.n)
    return Solved(fit.w, fit.null, fit.rank, fit.residual, R if shares_inverse(plan) or shares_vectors(plan) else None)
