"""What a session costs a user in every scheme: keys, sums, and its own part of the result.

``alive`` counts the arrays the user makes and the messages it holds, at the peak of the stage. Its data at rest is not
counted; panels of it are views, as they are of float64 arrays in memory and of ``.npy`` files.
"""

from functools import cached_property

from fedsvd.compress.reduce import panel_width
from fedsvd.cost.rates import Account, Work
from fedsvd.cost.traffic import Expected, released_columns, sums_of
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.sums import sums_after
from fedsvd.protocol.tasks import SAMPLED_PANELS, Check, Item, Task
from fedsvd.secagg.sums import PlannedSum, SumKind

_ENDINGS = (
    "permuted",
    "orthogonality",
    "reconstruction",
    "verified",
    "intercept",
    "null space",
    "score bound",
    "scores",
)
_TAG = 30.0  # bytes of memory traffic that a word's tag is worth


class User(Account):
    """One user, at position i from 0."""

    def __init__(self, plan: SessionPlan, i: int, expected: Expected) -> None:
        super().__init__()
        self.plan, self.i, self.expected = plan, i, expected
        self.n_i, self.width = plan.counts[i], plan.widths[i]
        self.rows = plan.m if plan.by_rows else plan.M

    @cached_property
    def panel(self) -> int:
        """Columns that are read together; a regression on split columns reads rows instead, however many."""
        return min(panel_width(self.rows, self.plan.memory), self.n_i)

    @property
    def piece(self) -> float:
        """Numbers that are read together: columns, or rows where columns are long."""
        if not self.plan.reads_rows:
            return float(self.rows * self.panel)
        return float(self.n_i * min(panel_width(self.n_i, self.plan.memory), self.rows))

    def keys(self) -> None:
        """Session keys, seeds, row ids; at the end everyone's signatures."""
        plan = self.plan
        self.step("keys", Work(keys=11.0 * plan.k, scalars=0.3 * plan.m * plan.check_ids))
        if not plan.matches:
            self.step("reading", Work(memory=12.0 * self.rows * self.n_i))  # once, to see that it is all numbers

    # --- sums -----------------------------------------------------------------------------------------------------

    def sum(self, planned: PlannedSum) -> None:
        """A sum; numbers without a public unit pass through Python one by one."""
        wide = planned.kind is SumKind.WIDE
        words = float(planned.length * planned.kind.columns)
        batch = float(max(planned.batches) * planned.kind.columns)
        # Shares, padded copies and replies are of one batch; wide numbers are integers of Python as well.
        self.step("sums", self.work_of(planned), words + (8.0 if wide else 4.0) * batch)

    def work_of(self, planned: PlannedSum) -> Work:
        """Encoded, tagged, padded against every other user; the reply opened and its tag compared."""
        words = 8.0 * planned.length * planned.kind.columns  # in bytes
        wide = float(planned.length) if planned.kind is SumKind.WIDE else 0.0
        opens = planned.receiver in (None, self.i + 1)
        pads = (self.plan.k - 1) + 1.5 * (1 + opens)  # of all pairs; the group's, and keys of tags, both ways
        tags = _TAG * planned.length * (1 + opens)
        # A key to each pad of a batch is derived by itself.
        keys = 0.5 * len(planned.batches) * self.plan.k
        return Work(scalars=wide, aes=pads * words, encode=2 * words, memory=4 * words + tags, keys=keys)

    @cached_property
    def checks(self) -> tuple[PlannedSum, ...]:
        """The sums of step 7, which check the CSP's answer."""
        return tuple(planned for planned in sums_after(self.plan) if planned.name not in _ENDINGS)

    @cached_property
    def endings(self) -> tuple[PlannedSum, ...]:
        """The sums of step 8, and the null space of a regression that loses rank."""
        return tuple(planned for planned in sums_of(self.plan, self.expected) if planned.name in _ENDINGS)

    # --- after the answer -----------------------------------------------------------------------------------------

    def own_part(self) -> None:
        """Vt_i, or scores: one pass over the data."""
        plan, r, n_i = self.plan, released_columns(self.plan, self.expected), self.n_i
        if not plan.releases(Item.OWN_PART):
            return
        part, pass_ = float(r * n_i), Work(gemm=2.0 * r * plan.m * n_i, memory=16.0 * r * n_i)
        if self.keeps_product(r):
            pass_ = Work(memory=32.0 * r * n_i)
        if plan.task is Task.PCA:
            work = pass_ + Work(memory=16.0 * plan.m * n_i)
            part = part if self.expected.in_memory else float(r * self.panel)
            # In pieces that a cache holds; rows of split columns in panels.
            centred = plan.m * self.panel if plan.reads_rows else min(plan.m * self.panel, 1 << 18)
            self.step("own part", work, 2 * part + centred, keeps=part)
        elif (self.expected.in_memory or plan.task is Task.CCA) and plan.check is Check.NONE:
            U = 0.0 if plan.tall else float(plan.m * r)  # else it lies on disk, and rows of it are read
            self.step("own part", pass_, U + part, keeps=part)
            self.correct(r)
        else:
            self.own_panels(r)

    def correct(self, r: int) -> None:
        """The sum that corrects Vt_i; it is made of zeros, and nothing is corrected, where that is not needed."""
        for planned in self.endings:
            self.sum(planned)
        if self.expected.ill:
            square = float(r * r)
            work = Work(solve=square * self.n_i + square * r / 3, gemm=square * self.n_i, memory=8.0 * r * self.n_i)
            # It is corrected where it stands; its Gram matrix, the triangle of it and their words are there as well.
            self.step("own part", work * self.expected.ill, 10 * square)

    def keeps_product(self, r: int) -> bool:
        """Whether the check of the answer leaves the product that Vt_i is made of: never in the sum family."""
        return False

    def own_panels(self, r: int) -> None:
        """Vt_i panel by panel: made twice where it is corrected, compared with the data where that is asked for."""
        plan, square, check = self.plan, float(r * r), self.plan.check
        n_i = min(self.n_i, SAMPLED_PANELS * self.panel) if check is Check.SAMPLE else self.n_i
        work = Work(gemm=2.0 * r * plan.m * n_i, memory=16.0 * r * n_i)
        for planned in self.endings:
            self.sum(planned)
            if planned.name == "orthogonality":
                work += (work + Work(gemm=square * n_i, solve=square * n_i)) * self.expected.ill
        if check is not Check.NONE:
            work += Work(gemm=2.0 * r * plan.m * n_i, memory=48.0 * plan.m * n_i)
        if check is Check.ALL:
            work += Work(solve=square * n_i)
        held = float(r * self.n_i) if self.expected.in_memory and check is not Check.SAMPLE else 0.0
        panels = (2.0 * r + 2.0 * plan.m * (check is not Check.NONE)) * self.panel
        self.step("own part", work, held + panels + 3 * square + plan.m * r, keeps=held)
