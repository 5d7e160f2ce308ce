"""The local work of a user whose data goes up under masks, label by label: P from the left, T_i and Q from the right.

The mask family, predictions and matchings. Each function is an entry of the table in ``labels.py``;
the kernels of the masks are at the end, as ``roles.user.masking`` applies them.
"""

from dataclasses import dataclass

from fedsvd.compress.reduce import panel_width
from fedsvd.cost import users
from fedsvd.cost.kernels import Kernel, apply, draw, stored
from fedsvd.cost.rates import Piece, Work
from fedsvd.cost.users import Pieces, User
from fedsvd.linalg.backend import VECTORS
from fedsvd.linalg.windows import HAAR_RIGHT_LIMIT, Form
from fedsvd.masks.right import LEAST_ROWS, SLAB
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.shared import challenge_columns
from fedsvd.protocol.sums import ORDER_BLOCK, order_steps
from fedsvd.protocol.upload import batches, writes_out
from fedsvd.roles.user.masked_rows import LINES
from fedsvd.roles.user.masking import OF_MEMORY
from fedsvd.secagg.neighbours import degree

_POINT, _BLIND = 1.1, 0.75  # hashing an id to a point, and blinding one, in units of a key agreement
_LIMBS = 32  # products of limbs and slices behind one product in the ring


# --- before the upload ------------------------------------------------------------------------------------------------


def norm(user: User) -> Pieces:
    """One pass over the data for the norm, and one for means, centred as it is read."""
    size, copies = 8.0 * user.rows * user.n_i, int(user.centred) + int(user.plan.unit_variance)
    yield Piece("statistics", Work(memory=(1 + user.centred) * size), (2 + copies) * user.piece)


def variances(user: User) -> Pieces:
    """One more pass."""
    size, copies = 8.0 * user.rows * user.n_i, int(user.centred) + int(user.plan.unit_variance)
    yield Piece("statistics", Work(memory=(1 + copies) * size), (3 + copies) * user.piece)


def scale(user: User) -> Pieces:
    """A regression's columns on split columns: means and energies in one pass. Those of split rows are small."""
    if user.plan.stacks_labels:
        yield Piece("statistics", Work(memory=16.0 * user.rows * user.n_i), _rows_together(user))


def labels(user: User) -> Pieces:
    """The labels, blinded, which takes another pass."""
    plan, size = user.plan, float(user.plan.M * user.plan.targets)
    yield Piece("statistics", _times(user, plan.targets), _rows_together(user))
    yield Piece("statistics", Work(memory=32 * size), 3 * size, keeps=(("labels", size),))


def _rows_together(user: User) -> float:
    return float(user.n_i * min(panel_width(user.n_i, user.plan.memory), user.rows))


def _times(user: User, columns: int) -> Work:
    """The data times a few vectors, where it is stored: one by one, or as a product of several."""
    size, few = 8.0 * user.rows * user.n_i, columns <= VECTORS
    return Work(memory=size * (columns if few else 1), gemm=0.0 if few else 2.0 * user.rows * user.n_i * columns)


# --- the upload -------------------------------------------------------------------------------------------------------


def uploading(user: User) -> Pieces:
    """Y_i, from data that is read by rows or by columns."""
    yield from _upload_rows(user) if user.plan.reads_rows else _upload_columns(user)


def _upload_columns(user: User) -> Pieces:
    """``P A_i``, then T_i and Q."""
    plan, own = user.plan, user.width
    drawn = draw(plan.left, plan.masked_rows, plan.block)  # P stays until it is taken off U again
    yield Piece("mask", Work(), drawn.numbers, keeps=(("P", _blocks_of_P(plan)),))
    # A_i is copied before it passes P: centred as it is read.
    size, P, right = float(plan.M * own), left(plan, own), _right(plan, user.i, plan.M, own, plan.N)
    copied = int(user.centred) * size
    work = drawn.work + P.work + right.work + Work(memory=8 * (copied + size))
    peak = max(copied + P.numbers, copied + size + right.numbers)
    yield Piece("mask", work, peak, keeps=(("Q", stored(plan.right, plan.N, plan.block)),))
    yield _pad(plan, plan.M, frees=("Q",))  # T_i and Q are dropped with the last panel


def _upload_rows(user: User) -> Pieces:
    """``P [A_i, y_i]``, in memory or in passes over a file; then T_i and Q, by every panel of rows."""
    plan, width, wide = user.plan, user.width, user.width + user.plan.targets
    right = right_rows(plan, user.i)
    rows = max(panel.stop - panel.start for panel in plan.row_panels)
    size = float(plan.M * wide)
    fits = 8 * LINES * size <= plan.memory
    # In slabs that a cache holds, lines are written once; their products are counted with the rows.
    copies = 2 * wide if fits and writes_out(plan, user.i) else 6 * width + 3 * plan.N
    work = right.once + right.a_row * plan.M + Work(memory=8.0 * plan.M * copies)
    work += left(plan, wide).work
    yield _draw_P(plan)
    numbers = 0.0 if fits else plan.memory / 32  # in place on the lines, which are held
    work += Work() if fits else Work(memory=64.0 * size)  # four passes over the file
    masks = _blocks_of_P(plan) if _stores_P(plan) else 0.0
    held = size if fits else min(size, plan.memory / 64)  # else they are in a file, of which this much is mapped
    then = rows * (plan.N + plan.targets + wide * (not fits)) + right.working
    peak = max(right.drawing, right.cached + masks + held + max(numbers, then))
    yield Piece("mask", work, peak, keeps=(("T Q", right.cached),))
    yield _pad(plan, rows)


def _pad(plan: SessionPlan, rows: int, frees: tuple[str, ...] = ()) -> Piece:
    """Batches: floats into the ring, and the pads of all neighbours on top."""
    width = max(width for _, width in plan.panels)
    sent = sum(8.0 * height * width for height, width in plan.panels)
    batch = max(b.shape[0] * b.shape[1] for b in batches(plan))
    return Piece("pad", Work(filled=sent, aes=degree(plan.k) * sent), float(rows * width + batch), frees=frees)


def _draw_P(plan: SessionPlan) -> Piece:
    """P, drawn once by users of one process where its blocks are stored; else by each, whenever it is used."""
    return Piece("mask", draw(plan.left, plan.masked_rows, plan.block).work, once=_stores_P(plan))


def _stores_P(plan: SessionPlan) -> bool:
    """Whether a quarter of the budget holds the blocks of P."""
    return 8 * OF_MEMORY * _blocks_of_P(plan) <= plan.memory


def _blocks_of_P(plan: SessionPlan) -> float:
    return stored(plan.left, plan.masked_rows, plan.block)


# --- after the answer -------------------------------------------------------------------------------------------------


def unmask(user: User) -> Pieces:
    """``U = P^T U'``; the message with U' is held to the end of the session."""
    plan = user.plan
    size, kernel = float(plan.m * user.r), left(plan, user.r)
    if not plan.tall:
        yield Piece("unmask", kernel.work, size + kernel.numbers, once=True)
        yield Piece("unmask", Work(memory=16 * size), size, keeps=(("U", 2 * size),))
        return
    if not _stores_P(plan):  # in panels, with P drawn again
        yield _draw_P(plan)
    U = size if 16 * size <= plan.memory else plan.memory / 64  # else it is on disk, and this much of it is mapped
    work, numbers = kernel.work + Work(memory=128 * size), U + min(kernel.numbers, plan.memory / 16)
    yield Piece("unmask", work, numbers, keeps=(("U", U),))


def solution(user: User) -> Pieces:
    """Coefficients from under P; on split columns ``w_i = T_i Q_i w'``, and the null space where rank is lost."""
    plan, t = user.plan, user.plan.targets
    if not plan.stacks_labels:
        yield Piece("unmask", apply(plan.left, plan.m, t, plan.block).work, 4.0 * plan.m * t)
        return
    columns = t + plan.N - user.expected.rank
    yield Piece("unmask", Work(gemm=2.0 * user.width * plan.N * columns), float(plan.N * columns * 3))


def checks(user: User) -> Pieces:
    """Step 7: products of the data with U, panel by panel. Those of split columns are counted with the challenge."""
    plan, r = user.plan, user.r
    if plan.stacks_labels:
        return
    work = Work(gemm=2.0 * plan.m * user.n_i * r, memory=8.0 * (plan.m * user.n_i + 2.0 * user.n_i * r))
    yield Piece("checks", work, _checked_together(user))


def _checked_together(user: User) -> float:
    plan, r = user.plan, user.r
    if plan.tall:  # rows of the data and of U, which may be on disk
        return user.piece * (1 + user.centred + r / user.n_i) + user.n_i * r + (1 << 20)
    return float(plan.m + r) * user.panel * (1 + user.centred) + 2.0 * plan.m * r


def order(user: User) -> Pieces:
    """Two products of the data with a few directions outside of U, in every step of the search."""
    plan, searched, columns = user.plan, order_steps(user.plan), float(ORDER_BLOCK)
    passes = Work(gemm=4.0 * plan.m * user.n_i * columns, memory=8.0 * plan.m * user.n_i * (1 + plan.tall))
    yield Piece("order", passes * searched, _checked_together(user) + plan.m * columns * (searched + 2.0))


def right_vectors(user: User) -> Pieces:
    """Vt_i, from the product that the checks made where it was kept."""
    yield from users.right_vectors(user, _keeps_product(user))


def scores(user: User) -> Pieces:
    """Scores of a PCA."""
    yield from users.scores(user, _keeps_product(user))


def _keeps_product(user: User) -> bool:
    """Whether a quarter of the budget holds it."""
    return 4 * 8 * user.r * user.n_i <= user.plan.memory


# --- split columns ----------------------------------------------------------------------------------------------------


def challenge(user: User) -> Pieces:
    """Step 7 on split columns: two kinds of vectors under P, and up."""
    plan, columns = user.plan, challenge_columns(user.plan)
    if not _stores_P(plan):
        yield _draw_P(plan)
    sent = 8.0 * plan.M * columns
    work = _times(user, columns) + left(plan, columns).work
    work += Work(filled=sent, aes=degree(plan.k) * sent, normals=plan.M)
    lines = 8 * LINES * plan.M * columns <= plan.memory  # else they are in a file
    yield Piece("challenge", work, (3.5 + lines) * plan.M * columns)


def inverse(user: User) -> Pieces:
    """Parts of an inverse that the CSP splits: products of limbs, and single vectors through Python."""
    plan, N = user.plan, float(user.plan.N)
    products = sum(_LIMBS * 2.0 * (N * N * n_i + N * n_i * n_i) for n_i in plan.counts)
    integers = plan.centre * N * N / 2 + sum(n_i * n_i for n_i in plan.counts) / 2
    yield Piece("inverse", Work(gemm=products, scalars=integers), 24.0 * N * N)


def path(user: User) -> Pieces:
    """Singular vectors that the CSP splits, for the penalties of a ridge."""
    N = float(user.plan.N)
    yield Piece("path", Work(scalars=(2 + user.plan.targets) * N * N), 24.0 * N * N)


# --- matching ---------------------------------------------------------------------------------------------------------


def hashing(user: User) -> Pieces:
    """Ids, hashed one by one."""
    own = float(user.n_i)
    yield Piece("hashing ids", Work(scalars=0.4 * own), 24 * own, keeps=(("hashes", 2 * own),))


def blinding(user: User) -> Pieces:
    """Every id as a point, and every user's set multiplied once."""
    plan, most = user.plan, float(max(user.plan.counts))
    yield Piece("blinding", Work(keys=_POINT * user.n_i + _BLIND * plan.n, aes=64.0 * plan.n), 12 * most)


# --- the masks --------------------------------------------------------------------------------------------------------

_NOTHING = Kernel(Work())


def left(plan: SessionPlan, columns: float) -> Kernel:
    """``P`` times this many columns."""
    return apply(plan.left, plan.masked_rows, columns, plan.block)


@dataclass(frozen=True)
class RightRows:
    """T_i and Q in an upload by rows: drawn once, cached, used for every row."""

    once: Work
    a_row: Work
    drawing: float  # numbers at the peak of drawing
    cached: float
    working: float  # numbers of the tallest window on its way, on top of what is cached


def right_rows(plan: SessionPlan, i: int) -> RightRows:
    """What T_i and Q cost the user at position i in an upload by rows."""
    width, N = plan.widths[i], plan.N
    rows = max(panel.stop - panel.start for panel in plan.row_panels)
    once, through = _right(plan, i, 0, width, N), _right(plan, i, rows, width, N).numbers
    a_row = _right(plan, i, 1, width, N).work + once.work * -1.0
    if writes_out(plan, i):
        return RightRows(once.work, a_row, once.numbers, stored(plan.right, N) + width * N, 0.0)
    kept = stored(_rotation(width), width) + stored(plan.right, N, plan.block)
    return RightRows(once.work, a_row, once.numbers, kept, max(through - kept, 0.0))


def _rotation(width: int) -> Form:
    return Form.HAAR if width <= HAAR_RIGHT_LIMIT else Form.MIXING


def _right(plan: SessionPlan, i: int, rows: int, own: int, width: int) -> Kernel:
    """``rows x own`` numbers through T_i and Q, into rows x width."""
    size, spread = float(rows * own), float(rows * width)
    turns = own > 0
    form = _rotation(own)
    T_i, turn = (draw(form, own), apply(form, own, rows)) if turns else (_NOTHING, _NOTHING)
    before = size + (stored(form, own) if turns else 0.0)
    Q = draw(plan.right, width, plan.block)
    if writes_out(plan, i):
        return _written_out(plan, rows, own, T_i, Q)
    across = apply(plan.right, width, rows, plan.block)
    # Of the rows, those that pass Q together; a haar mask is one window and passes all of them.
    slab = min(1.0, max(SLAB / spread, LEAST_ROWS / rows)) if plan.right is Form.MIXING and rows else 1.0
    passing = stored(plan.right, width, plan.block) + slab * (spread + across.numbers)
    through = spread + max(Q.numbers, passing)
    work = T_i.work + turn.work + Q.work + across.work + Work(memory=8 * spread)
    return Kernel(work, before + max(turn.numbers, through))


def _written_out(plan: SessionPlan, rows: int, own: int, T_i: Kernel, Q: Kernel) -> Kernel:
    """``T_i Q_i`` made a matrix, and one product with it."""
    form, width = _rotation(own), plan.N
    explicit, across = apply(form, own, own), apply(plan.right, width, own)
    product = Work(gemm=2.0 * rows * own * width, memory=8.0 * rows * width)
    forming = stored(form, own) + own * own + Q.numbers + own * width + across.numbers
    work = T_i.work + Q.work + explicit.work + across.work + product
    return Kernel(work, max(forming, stored(plan.right, width) + own * width + 1.0 * rows * width))
