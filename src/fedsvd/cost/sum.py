"""What a session of the sum family costs a user: compress, share, open or upload, check (steps 3 to 8)."""

from fedsvd.compress.centre import SHIFT_COLUMNS
from fedsvd.compress.reduce import viewed_width
from fedsvd.cost.common import User
from fedsvd.cost.exact import acceptance, share, wide_factor, words
from fedsvd.cost.kernels import apply, chunks, compress, dense_svd, stored
from fedsvd.cost.rates import Work
from fedsvd.cost.traffic import released_columns
from fedsvd.linalg.windows import Form
from fedsvd.protocol.sums import ORDER_BLOCK, order_steps, planned_sums, sums_before
from fedsvd.protocol.tasks import PERMUTED_TABLES, Answer, Check, Item, Mode, Task
from fedsvd.protocol.upload import upload_bytes


class SumUser(User):
    """One user of the sum family; ``held`` has L_i from its compression to the share, in mode B to the last check."""

    def run(self) -> None:
        """Steps 3 to 8, or a preparation."""
        plan = self.plan
        if plan.answer is Answer.SUMS:
            self.prepare()
            return
        self.factor()
        for planned in sums_before(plan):
            if planned.name != "gram":
                self.sum(planned)
        self.share()
        if plan.mode is Mode.A:
            self.held -= self.L_i
            self.open()
        else:
            self.upload()
            self.held -= self.L_i
        if plan.permutes:
            self.permute()
        if plan.factors:
            self.own_part()

    @property
    def L_i(self) -> float:
        """Numbers of the local factor."""
        return float(self.plan.M * self.plan.factor_widths[self.i])

    @property
    def solved(self) -> float:
        """Numbers of the solved columns that Vt_i is made of, where data is ill-conditioned and they are kept."""
        plan = self.plan
        makes = plan.task in (Task.SVD, Task.LSA) and plan.own_vectors and plan.components is None
        if not (makes and self.expected.ill and self.expected.in_memory and plan.check is Check.NONE):
            return 0.0
        updates = chunks(plan.m, self.n_i - 2 * plan.m, viewed_width(plan.m)).total()
        return float(plan.m * self.n_i + (updates + 2) * plan.m**2)  # a factor to each chunk, and that of all

    def prepare(self) -> None:
        """Passes over the table, two to a sum at most, and the sums."""
        panel = float(self.plan.m * self.panel)
        for planned in planned_sums(self.plan):
            self.step("prepare", Work(memory=2 * 32.0 * self.plan.m * self.n_i), 4 * panel)
            self.sum(planned)

    def factor(self) -> None:
        """L_i from one pass, then the column of its mean, the common unit, and the scales of its rows."""
        plan, rows, size = self.plan, self.rows, self.L_i
        # Features and labels of a regression lie apart and are copied side by side.
        joined = float(rows * plan.joins_labels)
        if plan.centre:
            first = min(SHIFT_COLUMNS, self.n_i)
            self.step("compress", Work(memory=8.0 * rows * first), rows + joined * first)
        made = compress(rows, self.n_i, plan.centre, plan.memory, self.expected.ill)
        making = made.numbers + 1.5 * joined * self.panel
        self.step("compress", made.work + Work(memory=8 * joined * self.n_i), self.solved + making, keeps=self.solved)
        passes = 5 + 3 * plan.unit_variance + 6 * plan.joins_labels
        # The factor is alive together with its scaled copies: with a power of two in two steps, and once more by rows.
        self.step("statistics", Work(memory=8 * passes * size), 3 * size, keeps=size)
        if plan.ridge_columns and self.i == 0:
            self.step("statistics", Work(qr=4 / 3 * rows**3 * 2, memory=32 * size), 4 * size)

    def share(self) -> None:
        """Widen, rotate by T_i and in mode B by P, slice, dither; the slices stay until the last batch is made."""
        plan, p, q = self.plan, self.plan.factor_widths[self.i], self.width
        masked = plan.mode is Mode.B
        made, grams = share(plan.m, plan.M, p, q, masked), words(plan.M, q)
        P = stored(Form.HAAR, plan.m) if masked else 0.0
        slices = 3.0 * plan.M * q
        self.step("share", made.work, made.numbers, keeps=P + slices)
        self.step("share", grams.work, grams.numbers)
        self.held -= slices
        self.slices_held, self.P_held = slices, P

    def open(self) -> None:
        """Mode A: the sum, opened by all; R at every user, U and S by user 1, tested by the others."""
        plan, M = self.plan, self.plan.M
        (gram,) = (planned for planned in sums_before(plan) if planned.name == "gram")
        total = 2.0 * gram.length
        batch = 2.0 * max(gram.batches)
        # The share, its padded copy and the reply of one batch are alive together with the slices and the totals so
        # far.
        twice = total if len(gram.batches) > 1 else 0.0
        self.step("sums", self.work_of(gram), max(self.slices_held + total + 3 * batch, total + twice))
        R = wide_factor(M)
        self.step("factorise", R.work, total + R.numbers, keeps=float(M * M), once=True)
        if plan.task is Task.LR:
            self.solve()
            return
        size = float((plan.m + 1) * plan.planned_rank)
        if plan.task is Task.PCR:  # a square factor of the features' columns first; the table at the end
            self.step("factorise", Work(qr=4 / 3 * M**3, gemm=4.0 * M * M * plan.planned_rank), 4.0 * M * M)
        if self.i == 0:
            found = dense_svd(M, M)
            # Then U, with its signs, is copied into the message.
            self.step("factorise", found.work, max(found.numbers, 2.0 * M * M + 3 * size), keeps=size)
        else:
            tested = acceptance(M, plan.planned_rank)
            self.step("acceptance", tested.work + Work(aes=8 * size), 2 * size + tested.numbers, keeps=size)
        self.held -= float(M * M)

    def own_part(self) -> None:
        """Vt_i, or scores; of ill-conditioned data from the solved columns, in their place."""
        r = released_columns(self.plan, self.expected)
        if not self.solved:
            super().own_part()
            return
        self.held -= self.solved
        size, square, part = float(self.plan.m * r), float(r * r), float(r * self.n_i)
        small = Work(gemm=3.0 * size * r, solve=4 / 3 * square * r)  # of a square matrix, which is put right
        self.step("own part", small * self.expected.ill, self.solved + 10 * square)
        for planned in self.endings:
            self.sum(planned)
        work = Work(gemm=2.0 * size * self.n_i, memory=16.0 * part)
        self.step("own part", work, self.solved + 2 * size + min(part, 2 * square), keeps=part)

    def permute(self) -> None:
        """Parallel analysis: the table in memory, permuted again and again, and the sum of the Gram matrices."""
        (planned,) = (each for each in self.endings if each.name == "permuted")
        size, grams = float(self.plan.m * self.n_i), float(planned.length)
        work = Work(gemm=PERMUTED_TABLES * size * self.plan.m, memory=PERMUTED_TABLES * 24.0 * size, aes=8.0 * size)
        self.step("permuted", work, 3 * size + grams)
        self.held += grams
        self.sum(planned)
        self.held -= grams
        spectra = dense_svd(self.plan.m, self.plan.m)
        self.step("permuted", spectra.work * float(PERMUTED_TABLES), spectra.numbers + grams)

    def solve(self) -> None:
        """Mode A of a regression: coefficients from R at user 1; the others test its normal equations."""
        plan, M = self.plan, self.plan.M
        if self.i == 0:
            found = dense_svd(plan.m, plan.m)
            self.step("factorise", found.work + Work(qr=4 / 3 * M**3), found.numbers + 3.0 * M * M)
        else:
            self.step("acceptance", Work(gemm=4.0 * M * M * plan.targets), 2.0 * M * M)
        if plan.releases(Item.INFERENCE):
            found = dense_svd(M, M)
            self.step("inference", found.work + Work(qr=4 / 3 * M**3, gemm=4.0 * M**3), found.numbers + 6.0 * M * M)

    def upload(self) -> None:
        """Mode B: words under the pads of all pairs; then the CSP's answer, from under P, checked by sums."""
        plan, sent = self.plan, float(upload_bytes(self.plan))
        work = Work(aes=(plan.k - 1) * sent, memory=2 * sent)
        self.step("pad", work, self.slices_held + words(plan.M, self.width).numbers)
        if plan.task is Task.LR:
            self.step("unmask", apply(Form.HAAR, plan.m, plan.targets).work, 4.0 * plan.m * plan.targets)
            self.check(2.0 * plan.targets)
            return
        size = float(plan.m * plan.planned_rank)
        kernel = apply(Form.HAAR, plan.m, plan.planned_rank)
        self.step("unmask", kernel.work + Work(memory=16 * size), size + kernel.numbers, keeps=size)
        self.held -= self.P_held
        self.check(3.0 * plan.planned_rank)

    def check(self, columns: float) -> None:
        """The checks of step 7: products of L_i with so many columns, and their sums."""
        # The checks' own products, and two with each direction outside of U that is searched.
        columns += 2.0 * order_steps(self.plan) * ORDER_BLOCK
        products = Work(gemm=2.0 * self.L_i * columns, memory=32.0 * self.plan.m * columns)
        width = self.plan.factor_widths[self.i]
        self.step("checks", products, (width + 2.0 * self.plan.m) * columns / 2)
        for planned in self.checks:
            if planned.name == "C":  # U S^-1, turned, times L_i, and its Gram matrix; then the sum's triangle
                r = float(self.plan.planned_rank)
                self.step("checks", Work(), 2 * self.plan.m * r + width * r + r * r)
                self.step("sums", Work(), 2 * r * r + 4.0 * max(planned.batches) * planned.kind.columns)
            self.sum(planned)
