"""The upload: its mini-batches (section 3.2 of the paper), and whether the CSP keeps what they add up to.

Both follow from shapes and the memory budget, so that every role, and the cost model, knows them alike.
"""

from dataclasses import dataclass
from enum import Enum, auto

from fedsvd.errors import StorageError
from fedsvd.linalg.windows import Form
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.sums import gram_batches
from fedsvd.protocol.tasks import Answer, Scheme
from fedsvd.secagg.batches import batch_rows

_OVERSAMPLED = 8
_NARROWEST = 32  # columns below which a product is no faster than reading the matrix


@dataclass(frozen=True)
class Batch:
    """Rows ``rows`` of panel ``panel``; ``last`` when the panel ends with it."""

    panel: int
    rows: slice
    width: int
    last: bool

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.stop - self.rows.start, self.width


def batches(plan: SessionPlan) -> tuple[Batch, ...]:
    """Every batch of the upload, in the order in which the CSP asks for them."""
    if plan.scheme is Scheme.SUM:
        words = gram_batches(plan.M)
        return tuple(Batch(panel, slice(0, count), 2, last=True) for panel, count in enumerate(words))
    cut = []
    for panel, (rows, width) in enumerate(plan.panels):
        slices = batch_rows(rows, width, plan.batch_memory, held=max(2, plan.k))
        cut += [Batch(panel, rows_, width, rows_ is slices[-1]) for rows_ in slices]
    return tuple(cut)


def upload_bytes(plan: SessionPlan) -> int:
    """Bytes of one user's share: of the Gram matrix, or of the masked matrix."""
    return 8 * sum(rows * width for rows, width in (batch.shape for batch in batches(plan)))


def fits_whole(plan: SessionPlan) -> bool:
    """Whether X', its factors and a working copy fit the CSP's budget."""
    return plan.memory >= 8 * 4 * plan.M * plan.N


def fits_folded(plan: SessionPlan) -> bool:
    """Whether a factor of the side that is folded, and a panel, fit the CSP's budget."""
    return plan.N <= plan.M and plan.memory >= 8 * 6 * plan.N**2


class Retention(Enum):
    """What becomes of the panels of X' at the CSP."""

    EXACT = auto()  # words of the joint Gram matrix, which is factorised as it is
    STORED = auto()  # stored: a dense SVD where it fits, else passes of block Krylov
    FOLDED = auto()  # folded into a triangular factor and dropped
    BOTH = auto()  # folded, and stored for a second pass that makes the long side's singular vectors


def retention(plan: SessionPlan) -> Retention:
    """A store is there only where a second pass is needed."""
    if plan.scheme is Scheme.SUM:
        return Retention.EXACT
    if plan.answer is Answer.SOLUTION:
        return Retention.FOLDED
    return Retention.STORED if fits_whole(plan) or not fits_folded(plan) else Retention.BOTH


def expect_route(plan: SessionPlan) -> None:
    """Raise ``StorageError`` where the CSP could not factorise within its budget."""
    if retention(plan) is not Retention.STORED or fits_whole(plan) or plan.components is not None:
        return
    raise StorageError(
        f"a full SVD of {plan.M} x {plan.N} does not fit a memory budget of {plan.memory} bytes",
        "ask for a number of components, or allow more memory",
    )


def folds(plan: SessionPlan) -> bool:
    """Whether the CSP folds panels into a triangular factor and drops them, instead of storing X'."""
    return retention(plan) is Retention.FOLDED


def krylov_start(plan: SessionPlan, r: int) -> int:
    """Columns of X' that truncated SVD starts from: no copy of an equal value is missed from r of them or more."""
    return min(max(r + _OVERSAMPLED, _NARROWEST), plan.M, plan.N)


def krylov_block(plan: SessionPlan, r: int) -> int:
    """Columns that are multiplied at once: of a large r a quarter."""
    return min(krylov_start(plan, r), max(_NARROWEST, r // 4 + _OVERSAMPLED))


def krylov_basis(plan: SessionPlan, r: int) -> int:
    """Columns of its basis: as many as a third of the budget holds, and no fewer than it can restart with.

    A restart copies half of it, and a quarter of the budget is left to the store and to the columns in hand.
    """
    fits, block = plan.memory // (3 * 8 * (plan.M + plan.N)), krylov_block(plan, r)
    return max(r + 4 * block, min(fits, max(r + 8 * block, 4 * r, 256)))


def writes_out(plan: SessionPlan, i: int) -> bool:
    """Whether the user at position i, from 0, multiplies by ``T_i Q_i`` as a matrix rather than by reflectors.

    It takes w_i rows through Q once, and GEMM does the rest, instead of M rows that are zero in the others' places.
    After compression w_i is M, and nothing would be saved.
    """
    width = plan.widths[i]
    pays = width * (plan.N + plan.M) < plan.N * plan.M and 8 * width * plan.N <= plan.memory // 4
    return pays and plan.right is Form.HAAR
