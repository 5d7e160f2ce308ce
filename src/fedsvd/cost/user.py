"""What a session costs a user, stage by stage: the scripts of ``roles.user`` as work and arrays alive.

Here are the mask family, the paper's scheme and predictions; the sum family is in ``cost_sum.py``.
"""

from fedsvd.compress.reduce import panel_width
from fedsvd.cost.common import User
from fedsvd.cost.glm import GlmUser
from fedsvd.cost.kernels import apply, draw, stored
from fedsvd.cost.masks import cached_right, left, own_columns, right_columns, right_rows
from fedsvd.cost.rates import Step, Work
from fedsvd.cost.sum import SumUser
from fedsvd.cost.traffic import Expected, released_columns
from fedsvd.linalg.backend import VECTORS
from fedsvd.linalg.windows import Form
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.shared import challenge_columns, shares_inverse, shares_vectors
from fedsvd.protocol.sums import ORDER_BLOCK, order_steps, sums_before
from fedsvd.protocol.tasks import Align, Item, Scheme, Task
from fedsvd.protocol.upload import batches
from fedsvd.roles.user.masked_rows import LINES
from fedsvd.roles.user.masking import OF_MEMORY

_POINT, _BLIND = 1.1, 0.75  # hashing an id to a point, and blinding one, in units of a key agreement
_LIMBS = 32  # products of limbs and slices behind one product in the ring


def user_steps(plan: SessionPlan, i: int, expected: Expected) -> list[Step]:
    """Every stage of user i, counted from 0."""
    kind = GlmUser if plan.glm is not None else SumUser if plan.scheme is Scheme.SUM else _MaskUser
    user = kind(plan, i, expected)
    user.keys()
    user.run()
    return user.steps


class _MaskUser(User):
    def __init__(self, plan: SessionPlan, i: int, expected: Expected) -> None:
        super().__init__(plan, i, expected)
        self.centred = plan.centre and not plan.stacks_labels
        # Features and labels of a horizontal regression lie apart and are copied side by side.
        self.joined = plan.task is Task.LR and not plan.by_rows

    def run(self) -> None:
        """Steps 3 to 8, or a prediction."""
        plan = self.plan
        if plan.task is Task.PREDICT:
            self.scores()
            return
        if plan.matches:
            self.matching()
            return
        if plan.stacks_labels:
            self.columns()
            self.upload_rows()
            self.coefficients()
            return
        self.operand()
        if plan.tall:
            self.upload_rows()
        else:
            self.upload_columns()
        if plan.task is Task.LR:
            self.step("unmask", apply(plan.left, plan.m, plan.targets, plan.block).work, 4.0 * plan.m * plan.targets)
        else:
            self.unmask()
            self.check()
            self.own_part()

    # --- before the upload ----------------------------------------------------------------------------------------

    def keys(self) -> None:
        """Session keys, seeds, row ids; in the paper's scheme the slices of Q, which come as bytes."""
        super().keys()
        if self.plan.published and not self.plan.opens_nothing:
            slices = float(self.slices())
            self.step("keys", Work(aes=8 * slices, memory=24 * slices), 4 * slices, keeps=slices)

    def slices(self) -> int:
        windows = self.plan.right_windows
        return sum(window.width * own_columns(self.plan, self.i, w) for w, window in enumerate(windows))

    def operand(self) -> None:
        """The data as A_i, its statistics, and the sums of these."""
        for planned in sums_before(self.plan):
            self.sum(planned)
        self.read_in_place()

    def read_in_place(self) -> None:
        """The data itself as A_i: one pass for means or the norm, one more for variances, centred as it is read."""
        size, piece = 8.0 * self.rows * self.n_i, self.piece
        copies = int(self.centred) + int(self.plan.unit_variance)
        self.step("statistics", Work(memory=(1 + self.centred) * size), (2 + copies) * piece)
        if self.plan.unit_variance or self.plan.task is Task.LR:
            self.step("statistics", Work(memory=(1 + copies) * size), (3 + copies) * piece)

    def columns(self) -> None:
        """A vertical regression's columns: means and energies in one pass, blinded labels in another."""
        plan, size = self.plan, 8.0 * self.rows * self.n_i
        piece = float(self.n_i * min(panel_width(self.n_i, plan.memory), self.rows))
        labels = float(plan.M * plan.targets)
        self.step("statistics", Work(memory=2 * size), piece)
        if not plan.published:
            self.step("statistics", self.times(plan.targets), piece)
        self.step("statistics", Work(memory=32 * labels), 3 * labels, keeps=labels)
        for planned in sums_before(plan):
            self.sum(planned)

    def times(self, columns: int) -> Work:
        """The data times so many vectors, where it lies: one by one, or as a product of a few of them."""
        size, few = 8.0 * self.rows * self.n_i, columns <= VECTORS
        return Work(memory=size * (columns if few else 1), gemm=0.0 if few else 2.0 * self.rows * self.n_i * columns)

    # --- the upload -----------------------------------------------------------------------------------------------

    def upload_columns(self) -> None:
        """Y_i by windows of columns: ``P A_i``, then T_i and Q."""
        plan = self.plan
        drawn = self.draw_left()
        total, peak = Work(), 0.0
        for w in range(len(plan.right_windows)):
            own = own_columns(plan, self.i, w)
            size, P = float(plan.M * own), left(plan, own)
            right = right_columns(plan, self.i, w)
            copied = self.copies() * size
            total += P.work + right.work + Work(memory=8 * (copied + size))
            peak = max(peak, copied + P.numbers, copied + size + right.numbers)
        self.step("mask", drawn + total, peak, keeps=cached_right(plan))
        self.pad(plan.M)
        self.held -= cached_right(plan)  # T_i and Q are dropped with the last panel

    def copies(self) -> int:
        """Copies of a window of A_i before it passes P: centred as it is read; a regression's, scaled and blinded."""
        return 2 * self.joined + int(self.centred)

    def draw_left(self) -> Work:
        """P, which stays until it is taken off U again."""
        plan, work, numbers = self.plan, Work(), 0.0
        for window in plan.left_windows:
            drawn = draw(plan.left, window.stop - window.start, plan.block)
            work += drawn.work
            self.step("mask", Work(), numbers + drawn.numbers)
            numbers += stored(plan.left, window.stop - window.start, plan.block)
        self.held += numbers
        return work

    def upload_rows(self) -> None:
        """``P [A_i, y_i]``, in memory or in passes over a file; then T_i and Q, by every panel of rows."""
        plan, width, wide = self.plan, self.width, self.width + self.plan.targets
        right = right_rows(plan, self.i)
        rows = max(panel.stop - panel.start for panel in plan.row_panels)
        work = right.once + right.a_row * plan.M + Work(memory=8.0 * plan.M * (6 * width + 3 * plan.N))
        work += left(plan, wide).work
        self.draw_P()
        size = float(plan.M * wide)
        fits = plan.published or 8 * LINES * size <= plan.memory
        if plan.published:  # one block of P after the other
            size, numbers = float(rows * wide), apply(plan.left, rows, wide, plan.block).numbers
        else:
            numbers = 0.0 if fits else plan.memory / 32  # in place on the lines, which are held
            work += Work() if fits else Work(memory=64.0 * size)  # four passes over the file
        masks = self.masks_held()
        held = size if fits else min(size, plan.memory / 64)  # else they are in a file, of which so much is mapped
        then = rows * (plan.N + plan.targets + wide * (not fits)) + right.working
        self.step(
            "mask", work, max(right.drawing, right.cached + masks + held + max(numbers, then)), keeps=right.cached
        )
        self.pad(rows)

    def draw_P(self) -> None:
        """P, drawn once by users of one process where its blocks are stored; else by each, whenever it is used."""
        plan = self.plan
        work = sum((draw(plan.left, n, plan.block).work for n in self.left_lengths()), Work())
        self.step("mask", work, once=self.stores_P)

    def masks_held(self) -> float:
        """Numbers of P's blocks, where they are stored."""
        if not self.stores_P:
            return 0.0
        return sum(stored(self.plan.left, n, self.plan.block) for n in self.left_lengths())

    @property
    def stores_P(self) -> bool:
        """Whether a quarter of the budget holds the blocks of P."""
        numbers = sum(stored(self.plan.left, n, self.plan.block) for n in self.left_lengths())
        return 8 * OF_MEMORY * numbers <= self.plan.memory

    def left_lengths(self) -> list[int]:
        """The rows of each window of P."""
        return [window.stop - window.start for window in self.plan.left_windows]

    def pad(self, rows: int) -> None:
        """Batches: floats into the ring, and k - 1 pads on top."""
        plan = self.plan
        width = max(width for _, width in plan.panels)
        sent = sum(8.0 * height * width for height, width in plan.panels)
        batch = max(b.shape[0] * b.shape[1] for b in batches(plan))
        work = Work(filled=sent, aes=(plan.k - 1) * sent)
        self.step("pad", work, float(rows * width + batch))

    # --- after the answer -----------------------------------------------------------------------------------------

    def unmask(self) -> None:
        """``U = P^T U'``; the message with U' is held to the end of the task."""
        plan, r = self.plan, released_columns(self.plan, self.expected)
        columns = plan.m if plan.full_matrices else r
        size = float(plan.m * columns)
        if plan.tall:
            self.unmask_panels(columns)
            return
        kernel = left(plan, columns)
        self.step("unmask", kernel.work, size + kernel.numbers, once=True)
        self.step("unmask", Work(memory=16 * size), size, keeps=2 * size)

    def unmask_panels(self, columns: int) -> None:
        """The same in panels, P drawn again; U lies on disk where half of the budget does not hold it."""
        plan, size = self.plan, float(self.plan.m * columns)
        kernel = left(plan, columns)
        if not self.stores_P:
            self.draw_P()
        U = size if 16 * size <= plan.memory else plan.memory / 64  # else so much of it is mapped
        self.step("unmask", kernel.work + Work(memory=128 * size), U + min(kernel.numbers, plan.memory / 16), keeps=U)

    def check(self) -> None:
        """Step 7: products of the data with U, panel by panel, and their sums; the paper's scheme has none."""
        plan, r = self.plan, released_columns(self.plan, self.expected)
        if plan.published:
            return
        work = Work(gemm=2.0 * plan.m * self.n_i * r, memory=8.0 * (plan.m * self.n_i + 2.0 * self.n_i * r))
        if plan.tall:  # rows of the data and of U, which may lie on disk
            piece = self.piece * (1 + self.centred + r / self.n_i) + self.n_i * r + (1 << 20)
        else:
            piece = float(plan.m + r) * self.panel * (1 + self.centred) + 2.0 * plan.m * r
        self.step("checks", work, piece)
        searched, columns = order_steps(plan), float(ORDER_BLOCK) if order_steps(plan) else 0.0
        passes = Work(gemm=4.0 * plan.m * self.n_i * columns, memory=8.0 * plan.m * self.n_i * (1 + plan.tall))
        self.step("order", passes * searched, piece + plan.m * columns * (searched + 2.0))
        for planned in self.checks:
            self.sum(planned)

    def keeps_product(self, r: int) -> bool:
        """Whether a quarter of the budget holds it."""
        return not self.plan.published and 4 * 8 * r * self.n_i <= self.plan.memory

    def own_part(self) -> None:
        """Vt_i, or scores; by eq. 6 in the paper's scheme."""
        plan = self.plan
        if plan.published and plan.task is not Task.PCA and plan.releases(Item.OWN_PART):
            self.recover()
        else:
            super().own_part()

    def recover(self) -> None:
        """``[Q_i^T]^R`` up, ``[Vt_i]^R`` back, and R_i off again."""
        plan, work, blind = self.plan, Work(), 0.0
        rows = plan.N if plan.full_matrices else released_columns(plan, self.expected)
        for w, window in enumerate(plan.right_windows):
            own = own_columns(plan, self.i, w)
            if own:
                work += draw(Form.HAAR, own).work + apply(Form.HAAR, own, window.width + rows).work
                blind += stored(Form.HAAR, own)
        part = float(rows * self.n_i)
        self.step("own part", work, blind + self.slices() + max(float(self.slices()), 3 * part), keeps=blind + part)

    def coefficients(self) -> None:
        """``w_i = T_i Q_i w'`` and the sums that follow it."""
        plan, t = self.plan, self.plan.targets
        lost = plan.N - self.expected.rank
        self.step("unmask", Work(gemm=2.0 * self.width * plan.N * (t + lost)), float(plan.N * (t + lost) * 3))
        for planned in (*self.checks, *self.endings):
            if not planned.name.startswith("score"):
                self.sum(planned)
        if plan.challenges:
            self.challenge()
        self.split_matrix()
        if plan.releases(Item.SCORE) and not plan.biased:
            self.scores()

    def split_matrix(self) -> None:
        """Parts of a matrix that the CSP splits: products of limbs, and single vectors through Python."""
        plan, N = self.plan, float(self.plan.N)
        if shares_inverse(plan):
            products = sum(_LIMBS * 2.0 * (N * N * n_i + N * n_i * n_i) for n_i in plan.counts)
            integers = plan.centre * N * N / 2 + sum(n_i * n_i for n_i in plan.counts) / 2
            self.step("inverse", Work(gemm=products, scalars=integers), 24.0 * N * N)
        elif shares_vectors(plan):
            self.step("path", Work(scalars=(2 + plan.targets) * N * N), 24.0 * N * N)

    def challenge(self) -> None:
        """Step 7 on split columns: two kinds of vectors under P, and up."""
        plan, columns = self.plan, challenge_columns(self.plan)
        if not self.stores_P:
            self.draw_P()
        sent = 8.0 * plan.M * columns
        work = (
            self.times(columns) + left(plan, columns).work + Work(filled=sent, aes=(plan.k - 1) * sent, normals=plan.M)
        )
        lines = 8 * LINES * plan.M * columns <= plan.memory  # else they are in a file
        self.step("challenge", work, (3.5 + lines) * plan.M * columns)

    def matching(self) -> None:
        """Ids hashed one by one; where users blind them, a point to each, and every user's set multiplied once."""
        plan, own = self.plan, float(self.n_i)
        self.step("hashing ids", Work(scalars=0.4 * own), 24 * own, keeps=2 * own)
        if plan.align is Align.ECDH:
            most = float(max(plan.counts))
            self.step("blinding", Work(keys=_POINT * own + _BLIND * plan.n, aes=64.0 * plan.n), 12 * most)

    def scores(self) -> None:
        """Partial scores of a prediction, added up for the label holder."""
        own = float(self.plan.m * self.plan.targets)
        work = Work(gemm=2.0 * own * self.n_i, memory=8.0 * self.rows * self.n_i / 4)
        self.step("own part", work, own, keeps=own)
        for planned in self.endings:
            if planned.name.startswith("score"):
                self.sum(planned)
