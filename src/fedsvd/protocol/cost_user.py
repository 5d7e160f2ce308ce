"""What a session costs a user, stage by stage: the scripts of ``roles.user`` as work and arrays alive.

``alive`` counts the arrays the user makes and the messages it holds, at the peak of the stage. Its data at rest is not
counted; panels of it are views, as they are of float64 arrays in memory and of ``.npy`` files.
"""

from dataclasses import dataclass
from functools import cached_property

from fedsvd.compress.reduce import panel_width
from fedsvd.linalg.windows import Form
from fedsvd.protocol.cost_kernels import apply, compress, draw, stored
from fedsvd.protocol.cost_masks import kept_right, left, own_columns, right_columns, right_rows
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.rates import Work
from fedsvd.protocol.tasks import SAMPLED_PANELS, Check, Item, Task
from fedsvd.protocol.traffic import Expected, kept, words_after, words_before
from fedsvd.protocol.upload import batches
from fedsvd.secagg.wide import WORDS

_FIRST = 4096  # columns of the provisional mean


@dataclass(frozen=True)
class Step:
    """One stage of a role: its name, its work, and the bytes alive at its peak."""

    stage: str
    work: Work
    alive: int


class Account:
    """The steps of one role so far, and the numbers it holds between them."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.held = 0.0

    def step(self, stage: str, work: Work, numbers: float = 0.0, *, keeps: float = 0.0) -> None:
        """A stage that needs these numbers on top of what is held, and leaves some behind."""
        self.steps.append(Step(stage, work, int(8 * (self.held + numbers))))
        self.held += keeps


def user_steps(plan: SessionPlan, i: int, expected: Expected) -> list[Step]:
    """Every stage of user i, counted from 0."""
    user = _User(plan, i, expected)
    user.keys()
    if plan.task is Task.PREDICT:
        user.scores()
        return user.steps
    if plan.stacks_labels:
        user.columns()
        user.upload_rows()
        user.coefficients()
        return user.steps
    user.operand()
    if plan.by_rows:
        user.upload_rows()
    else:
        user.upload_columns()
    if plan.task is Task.LR:
        user.step("unmask", apply(plan.left, plan.m, plan.targets, plan.block).work, 4.0 * plan.m * plan.targets)
    else:
        user.unmask()
        user.own_part()
    return user.steps


class _User(Account):
    def __init__(self, plan: SessionPlan, i: int, expected: Expected) -> None:
        super().__init__()
        self.plan, self.i, self.expected = plan, i, expected
        self.n_i, self.width = plan.counts[i], plan.widths[i]
        self.rows = plan.m if plan.stacks_labels else plan.M
        self.centred = plan.centre and not plan.stacks_labels
        # Features and labels of a horizontal regression lie apart and are copied side by side.
        self.until_uploaded = 0.0  # A_i, where it was compressed
        self.joined = plan.task is Task.LR and not plan.stacks_labels

    @cached_property
    def panel(self) -> int:
        """Columns that are met together; a regression on split columns meets rows instead, however many."""
        return min(panel_width(self.rows, self.plan.memory), self.n_i)

    # --- before the upload ----------------------------------------------------------------------------------------

    def keys(self) -> None:
        """Session keys, the group seed, row ids; in the paper's scheme the slices of Q, which come as bytes."""
        plan = self.plan
        work = Work(keys=3.0 * plan.k, scalars=0.3 * plan.m * plan.check_ids)
        slices = float(self.slices()) if plan.published and plan.task is not Task.PREDICT else 0.0
        self.step("keys", work + Work(aes=8 * slices, memory=24 * slices), 4 * slices, keeps=slices)

    def slices(self) -> int:
        windows = self.plan.right_windows
        return sum(window.width * own_columns(self.plan, self.i, w) for w, window in enumerate(windows))

    def sum(self, name: str, words: int) -> None:
        """A users-only sum; numbers without a bound pass through Python digit by digit."""
        wide = 0 if name in ("orthogonality", "scores") else words // WORDS
        padded = 8.0 * words * (self.plan.k + 1)
        work = Work(scalars=wide, aes=padded, encode=16.0 * words, memory=32.0 * words)
        numbers = 9.0 if wide else 1.0 if name == "scores" and self.i + 1 != self.plan.label_user else 3.0
        self.step("sums", work, numbers * words)

    def operand(self) -> None:
        """A_i, centred where the task asks for it, and its norm."""
        plan, rows = self.plan, self.rows
        for name, words in words_before(plan):
            self.sum(name, words)
        if not plan.compress or (plan.task in (Task.SVD, Task.LSA) and self.n_i <= plan.m):
            self.read_in_place()
            return
        if self.centred:
            first = min(_FIRST, self.n_i)
            self.step("compress", Work(memory=8.0 * rows * first), (1.0 + self.joined) * rows * first)
        made = compress(rows, self.n_i, self.centred, plan.memory)
        joined = float(self.joined * rows)
        self.step("compress", made.work + Work(memory=8 * joined * self.n_i), made.numbers + 2 * joined * self.panel)
        size = float(rows * self.width)
        # R stands beside A_i until the mean's column is appended, and once more where rows are scaled.
        self.step("statistics", Work(memory=8 * 5 * size), 3 * size, keeps=size)
        self.until_uploaded = size
        if plan.unit_variance or plan.task is Task.LR:
            self.step("statistics", Work(memory=8 * 3 * size), 3 * size)

    def read_in_place(self) -> None:
        """The data itself as A_i: a pass for each statistic, centred and scaled as it is read."""
        size, piece = 8.0 * self.rows * self.n_i, float(self.rows * self.panel)
        copies = int(self.centred) + int(self.plan.unit_variance)
        if self.centred:
            self.step("statistics", Work(memory=size / 2))
        if self.plan.unit_variance or self.plan.task is Task.LR:
            self.step("statistics", Work(memory=(3 + copies) * size), (3 + copies) * piece)
        self.step("statistics", Work(memory=(3 + copies) * size), (2 + copies) * piece)

    def columns(self) -> None:
        """A vertical regression's columns: means, energies and blinded labels in three passes."""
        plan, size = self.plan, 8.0 * self.rows * self.n_i
        piece = float(self.n_i * min(panel_width(self.n_i, plan.memory), self.rows))
        passes = 2 + 3 * (plan.centre and not plan.biased)
        labels = float(plan.M * plan.targets)
        self.step("statistics", Work(memory=passes * size / 2), piece)
        if not plan.published:
            self.step("statistics", Work(memory=size, gemm=2.0 * self.rows * self.n_i * plan.targets), piece)
        self.step("statistics", Work(memory=32 * labels), 3 * labels, keeps=labels)
        for name, words in words_before(plan):
            self.sum(name, words)

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
        self.step("mask", drawn + total, peak, keeps=kept_right(plan))
        self.pad(plan.M)
        # A_i, T_i and Q are let go with the last panel.
        self.held -= self.until_uploaded + kept_right(plan)

    def copies(self) -> int:
        """Copies of a window of A_i before it meets P: centred as it is read; a regression's, scaled and blinded."""
        return 2 * self.joined + int(self.centred and not self.plan.compress)

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
        work = right.once + right.a_row * plan.M + Work(memory=8.0 * plan.M * (4 * width + 2 * plan.N))
        P, drawn = left(plan, wide), sum((draw(plan.left, n, plan.block).work for n in self.left_lengths()), Work())
        work += P.work + drawn
        size = float(plan.M * wide)
        fits = plan.published or 8 * 3 * size <= plan.memory
        if plan.published:  # one block of P after the other
            size, numbers = float(rows * wide), apply(plan.left, rows, wide, plan.block).numbers
        else:
            numbers = P.numbers if fits else plan.memory / 16
            work += Work() if fits else Work(memory=64.0 * size)  # four passes over the file
        masks = min(sum(stored(plan.left, n, plan.block) for n in self.left_lengths()), plan.memory / 64)
        held = size if fits else min(size, plan.memory / 16)
        then = rows * (width + 2 * wide + plan.N + plan.targets) + right.beside
        self.step("mask", work, max(right.drawing, right.kept + masks + held + max(numbers, then)), keeps=right.kept)
        self.pad(rows)

    def left_lengths(self) -> list[int]:
        """The rows of each window of P."""
        return [window.stop - window.start for window in self.plan.left_windows]

    def pad(self, rows: int) -> None:
        """Batches: floats into the ring, and k - 1 pads on top."""
        plan = self.plan
        width = max(width for _, width in plan.panels)
        sent = sum(8.0 * height * width for height, width in plan.panels)
        batch = max(b.shape[0] * b.shape[1] for b in batches(plan))
        # The last bits are filled with dice, which takes as long as encoding three times.
        work = Work(encode=4 * sent, aes=(plan.k - 1) * sent, memory=sent)
        self.step("pad", work, float(rows * width + batch))

    # --- after the answer -----------------------------------------------------------------------------------------

    def unmask(self) -> None:
        """``U = P^T U'``; the message with U' is held to the end of the task."""
        plan, r = self.plan, kept(self.plan, self.expected)
        columns = plan.m if plan.full_matrices else r
        size = float(plan.m * columns)
        if plan.tall:
            self.unmask_panels(columns)
            return
        kernel = left(plan, columns)
        self.step("unmask", kernel.work + Work(memory=16 * size), size + kernel.numbers, keeps=2 * size)

    def unmask_panels(self, columns: int) -> None:
        """The same in panels, P drawn again; U lies on disk where half of the budget does not hold it."""
        plan, size = self.plan, float(self.plan.m * columns)
        kernel = left(plan, columns)
        work = sum((draw(plan.left, n, plan.block).work for n in self.left_lengths()), kernel.work)
        U = size if 16 * size <= plan.memory else 0.0
        self.step("unmask", work + Work(memory=64 * size), U + min(kernel.numbers, plan.memory / 16), keeps=U)

    def own_part(self) -> None:
        """Vt_i, or scores: one pass over the data; eq. 6 in the paper's scheme."""
        plan, r, n_i = self.plan, kept(self.plan, self.expected), self.n_i
        if not plan.releases(Item.OWN_PART):
            return
        part, pass_ = float(r * n_i), Work(gemm=2.0 * r * plan.m * n_i, memory=16.0 * r * n_i)
        if plan.task is Task.PCA:
            work = pass_ + Work(memory=16.0 * plan.m * n_i)
            part = part if self.expected.in_memory else float(r * self.panel)
            self.step("own part", work, part + plan.m * self.panel, keeps=part)
        elif plan.published:
            self.recover()
        elif self.expected.in_memory and plan.check is Check.NONE:
            self.step("own part", pass_, plan.m * r + part, keeps=part)
            self.correct(r)
        else:
            self.own_panels(r)

    def correct(self, r: int) -> None:
        for name, words in words_after(self.plan, self.expected):
            self.sum(name, words)
            if name == "orthogonality" and self.expected.corrected:
                square = float(r * r)
                work = Work(solve=2.0 * square * self.n_i + square * r / 3, memory=8.0 * r * self.n_i)
                self.step("own part", work, r * self.n_i + 4 * square)

    def own_panels(self, r: int) -> None:
        """Vt_i panel by panel: made twice where it is corrected, compared with the data where that is asked for."""
        plan, square, check = self.plan, float(r * r), self.plan.check
        n_i = min(self.n_i, SAMPLED_PANELS * self.panel) if check is Check.SAMPLE else self.n_i
        work = Work(gemm=2.0 * r * plan.m * n_i, memory=16.0 * r * n_i)
        for name, words in words_after(plan, self.expected):
            self.sum(name, words)
            if name == "orthogonality" and self.expected.corrected:
                work = work * 2 + Work(solve=2.0 * square * n_i)
        if check is not Check.NONE:
            work += Work(gemm=2.0 * r * plan.m * n_i, memory=48.0 * plan.m * n_i)
        if check is Check.ALL:
            work += Work(solve=square * n_i)
        held = float(r * self.n_i) if self.expected.in_memory and check is not Check.SAMPLE else 0.0
        panels = (2.0 * r + 2.0 * plan.m * (check is not Check.NONE)) * self.panel
        self.step("own part", work, held + panels + 3 * square + plan.m * r, keeps=held)

    def recover(self) -> None:
        """``[Q_i^T]^R`` up, ``[Vt_i]^R`` back, and R_i off again."""
        plan, work, blind = self.plan, Work(), 0.0
        rows = plan.N if plan.full_matrices else kept(plan, self.expected)
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
        scored = plan.releases(Item.SCORE) and not plan.biased
        for name, words in words_after(plan, self.expected):
            if not name.startswith("score"):
                self.sum(name, words)
        if scored:
            self.scores()

    def scores(self) -> None:
        """Partial scores of a prediction, added up for the label holder."""
        plan, own = self.plan, float(self.plan.m * self.plan.targets)
        work = Work(gemm=2.0 * own * self.n_i, memory=8.0 * self.rows * self.n_i / 4)
        self.step("own part", work, own, keeps=own)
        self.sum("score norm", WORDS)
        self.sum("scores", plan.m * plan.targets)
