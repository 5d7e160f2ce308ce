"""What one user's masks cost: P from the left, T_i and Q from the right, as ``roles.user.masking`` applies them."""

from dataclasses import dataclass

from fedsvd.cost.kernels import Kernel, apply, draw, stored
from fedsvd.cost.rates import Work
from fedsvd.linalg.windows import HAAR_RIGHT_LIMIT, Form
from fedsvd.masks.right import LEAST_ROWS, SLAB
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.upload import writes_out

_NOTHING = Kernel(Work())


def own_columns(plan: SessionPlan, i: int, w: int) -> int:
    """How many columns the user at position i has in window w."""
    own = plan.right_windows[w].columns[i]
    return int(own.stop - own.start)


def left(plan: SessionPlan, columns: float) -> Kernel:
    """``P`` times this many columns, window after window into one result."""
    work, peak = Work(), 0.0
    for rows in plan.left_windows:
        kernel = apply(plan.left, rows.stop - rows.start, columns, plan.block)
        work += kernel.work
        peak = max(peak, kernel.numbers)
    result = plan.masked_rows * columns if len(plan.left_windows) > 1 else 0.0
    return Kernel(work, peak + result)


def right_columns(plan: SessionPlan, i: int, w: int) -> Kernel:
    """All rows of one window through T_i and Q; ``c P A_i`` is there beforehand."""
    return _right(plan, i, plan.M, own_columns(plan, i, w), plan.right_windows[w].width)


def cached_right(plan: SessionPlan) -> float:
    """Numbers of Q that stay after an upload by columns: all of a single window, none of many."""
    aggregated = not plan.published
    return stored(plan.right, plan.N, plan.block) if aggregated and len(plan.right_windows) == 1 else 0.0


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
    if plan.published:
        return RightRows(once.work, a_row, 0.0, 0.0, through)
    if writes_out(plan, i):
        return RightRows(once.work, a_row, once.numbers, stored(plan.right, N) + width * N, 0.0)
    kept = stored(_rotation(width), width) + stored(plan.right, N, plan.block)
    return RightRows(once.work, a_row, once.numbers, kept, max(through - kept, 0.0))


def _rotation(width: int) -> Form:
    return Form.HAAR if width <= HAAR_RIGHT_LIMIT else Form.MIXING


def _right(plan: SessionPlan, i: int, rows: int, own: int, width: int) -> Kernel:
    """``rows x own`` numbers through T_i and Q, into rows x width."""
    size, spread = float(rows * own), float(rows * width)
    if plan.published:
        return Kernel(Work(gemm=2.0 * size * width, memory=8 * spread), size + spread)
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
