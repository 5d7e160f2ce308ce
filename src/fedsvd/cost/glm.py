"""What a generalised linear model costs a user: a pass, two sums and a factorisation for each evaluation.

How many evaluations there are is decided by the data; ``Expected`` says how many iterations are assumed.
"""

from fedsvd.cost.exact import share as share_of
from fedsvd.cost.exact import wide_factor, words
from fedsvd.cost.kernels import compress, dense_svd
from fedsvd.cost.rates import Work
from fedsvd.cost.sum import SumUser
from fedsvd.cost.traffic import evaluations_of
from fedsvd.protocol.sums import FELL, evaluation_sums

_SPECIAL = 30.0  # numbers read and written, for each row, by the special functions of a family


class GlmUser(SumUser):
    """One user of a generalised linear model; nothing is alive from one evaluation to the next but the last factor."""

    def run(self) -> None:
        """Every evaluation that is expected."""
        assert self.plan.glm is not None
        left_out = evaluations_of(self.plan, self.plan.glm, self.expected)
        for number, without in enumerate(left_out, start=1):
            self.evaluate(number, FELL not in without)

    def evaluate(self, number: int, with_gram: bool) -> None:
        """One pass over the rows; the sums; the joint factor and what is solved with it."""
        plan, M = self.plan, self.plan.M
        assert plan.glm is not None
        totals, gram = evaluation_sums(plan, number)
        rows = plan.glm.equations * self.n_i
        piece = float(plan.glm.equations * self.panel)
        pass_ = Work(gemm=2.0 * plan.m * rows, memory=8.0 * rows * (plan.m + _SPECIAL))
        self.step("evaluate", pass_, piece * (_SPECIAL + plan.m))
        if not with_gram:
            self.sum(totals)
            return
        made = compress(M, rows, False, plan.memory, self.expected.ill)
        self.step("evaluate", made.work + Work(memory=24.0 * M * rows), made.numbers + 2 * piece * M, keeps=self.L_i)
        self.sum(totals)
        shared, grams = share_of(plan.m, M, plan.factor_widths[self.i], self.width, False), words(M, self.width)
        slices = 3.0 * M * self.width
        self.step("share", shared.work + grams.work, max(shared.numbers, slices + grams.numbers))
        self.held -= self.L_i
        total, batch = 2.0 * gram.length, 2.0 * max(gram.batches)
        self.step("sums", self.work_of(gram), slices + total + 3 * batch)
        R, solved = wide_factor(M), dense_svd(M, M)
        self.step("factorise", R.work, total + R.numbers, keeps=float(M * M), once=True)
        self.step("solve", solved.work + Work(qr=4 / 3 * M**3), solved.numbers + 3.0 * M * M)
        self.held -= float(M * M)
