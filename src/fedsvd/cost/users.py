"""The local work of a user, label by label: what all families share, and the sum family (steps 3 to 8).

Each function is an entry of the table in ``labels.py``. ``numbers`` are those of the arrays the user makes and of the
messages it holds, at the peak of a piece. Its data at rest is not counted; panels of it are views, as they are of
float64 arrays in memory and of ``.npy`` files.
"""

import math
from collections.abc import Iterator
from functools import cached_property

from fedsvd.compress.centre import SHIFT_COLUMNS
from fedsvd.compress.reduce import panel_width, viewed_width
from fedsvd.cost import kernels
from fedsvd.cost.rates import Piece, Work
from fedsvd.cost.traffic import Expected, expected_steps, released_columns
from fedsvd.linalg.windows import Form
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import PlannedStep, StepKind, What
from fedsvd.protocol.sums import ORDER_BLOCK, gram_batches, order_steps, summed
from fedsvd.protocol.tasks import PERMUTED_TABLES, SAMPLED_PANELS, Check, Item, Mode, Scheme
from fedsvd.protocol.upload import upload_bytes
from fedsvd.secagg.neighbours import degree
from fedsvd.secagg.pads import SHORT
from fedsvd.secagg.sums import PlannedSum, SumKind

_CHECKED = 1.5  # signatures that take as long to check, in key agreements
_STARTED, _DERIVED = 0.1, 0.5  # the same of a short stream under a key that is there, and of a key of its own
_TAG = 30.0  # bytes of memory traffic that a word's tag is worth
_SPECIAL = 30.0  # numbers read and written, for each row, by the special functions of a model's family

SHARE = "share"
"""The name of what was made for a sum or an upload; it is dropped when that is done."""

Pieces = Iterator[Piece]


class User:
    """One user, at position i from 0: the shapes that its work depends on."""

    def __init__(self, plan: SessionPlan, i: int, expected: Expected) -> None:
        self.plan, self.i, self.expected = plan, i, expected
        self.n_i, self.width = plan.counts[i], plan.widths[i]
        self.rows = plan.m if plan.by_rows else plan.M
        self.r = released_columns(plan, expected)
        self.stored = expected.stored[i] if expected.stored else 1.0
        self.centred = plan.centre and not plan.stacks_labels  # as it is read

    @cached_property
    def steps(self) -> tuple[PlannedStep, ...]:
        """What is expected to be played."""
        return tuple(expected_steps(self.plan, self.expected))

    @cached_property
    def opened(self) -> frozenset[What]:
        """What the steps open."""
        return frozenset(step.what for step in self.steps)

    def plays(self, name: str) -> bool:
        """Whether a step of this name is expected."""
        return any(step.name == name for step in self.steps)

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

    @property
    def L_i(self) -> float:
        """Numbers of the local factor."""
        return float(self.plan.M * self.plan.factor_widths[self.i])

    @cached_property
    def by_panels(self) -> bool:
        """Whether Vt_i is made panel by panel: it is not held, or it is compared with the data."""
        held = self.expected.in_memory or What.CANONICAL in self.opened
        return not held or self.plan.check is not Check.NONE

    @cached_property
    def solved(self) -> float:
        """Numbers of the solved columns that Vt_i is made of, where data is ill-conditioned and they are kept."""
        plan = self.plan
        whole = plan.compress and plan.components is None and What.VECTORS in self.opened
        solves = whole and self.expected.ill and self.n_i >= 1.25 * plan.m  # else the factor is never square
        if not (solves and self.plays("orthogonality") and not self.by_panels):
            return 0.0
        updates = kernels.chunks(plan.m, self.n_i - 2 * plan.m, viewed_width(plan.m)).total()
        return float(plan.m * self.n_i + (updates + 2) * plan.m**2)  # the factor of each chunk, and that of all


def nothing(user: User) -> Pieces:
    """Work that is counted with another label, or is small next to it."""
    return iter(())


def seeding(user: User) -> Pieces:
    """Session keys, seeds, row ids; at the end everyone's signatures."""
    plan = user.plan
    # Agreements with neighbours and own signatures; three of each party are checked, once in a process.
    yield Piece("keys", Work(keys=degree(plan.k) + 2.0, scalars=0.3 * plan.m * plan.check_ids))
    yield Piece("keys", Work(keys=3.0 * _CHECKED * plan.k), once=True)
    if not plan.matches:
        yield Piece(
            "reading", Work(memory=12.0 * user.stored * user.rows * user.n_i)
        )  # once, to see that it is all numbers


# --- sums -------------------------------------------------------------------------------------------------------------


def add_up(user: User, step: PlannedStep) -> Pieces:
    """A sum; numbers without a public unit pass through Python one by one."""
    planned = summed(step)
    words = float(planned.length * planned.kind.columns)
    batch = float(max(planned.batches) * planned.kind.columns)
    if step.kind is StepKind.GRAM:
        # The share, its padded copy and the reply of one batch are alive with the slices and the totals so far; then
        # the totals of several batches are joined, without the slices.
        joined = words * (len(planned.batches) > 1) - _slices(user)
        yield Piece("sums", _work_of(user, planned), words + max(3 * batch, joined), frees=(SHARE,))
        return
    # Shares, padded copies and replies are of one batch; wide numbers are integers of Python as well.
    numbers = words + (8.0 if planned.kind is SumKind.WIDE else 4.0) * batch
    yield Piece("sums", _work_of(user, planned), numbers, frees=(SHARE,))
    if planned.receiver is None:
        yield Piece("sums", Work(hashed=8.0 * words), once=True)  # into the digest of what all users saw


def _work_of(user: User, planned: PlannedSum) -> Work:
    """Encoded, tagged, padded with every neighbour; the reply opened and its tag compared."""
    words = 8.0 * planned.length * planned.kind.columns  # in bytes
    wide = float(planned.length) if planned.kind is SumKind.WIDE else 0.0
    opens = planned.receiver in (None, user.i + 1)
    pads = degree(user.plan.k) + 1.5 * (1 + opens)  # of neighbours; the group's, and keys of tags, both ways
    tags = _TAG * planned.length * (1 + opens)
    # The pads of a long batch have keys of their own; those of a short sum begin elsewhere under one key of a pair.
    each = _STARTED if planned.length * planned.kind.columns <= SHORT else _DERIVED
    keys = each * len(planned.batches) * (1 + degree(user.plan.k))
    return Work(scalars=wide, aes=pads * words, encode=2 * words, memory=4 * words + tags, keys=keys)


def script(user: User) -> Pieces:
    """A sum of a preparation or of a foreign task: two passes over the table at most."""
    yield Piece("prepare", Work(memory=2 * 32.0 * user.plan.m * user.n_i), 4.0 * user.plan.m * user.panel)


def describe(user: User) -> Pieces:
    """One pass over a table, column by column: each is sorted, binned and added up."""
    sorts = 16.0 * math.log2(max(user.n_i, 2))
    yield Piece("describe", Work(memory=(64.0 + sorts) * user.plan.m * user.n_i), 12.0 * user.n_i)


# --- the local factor and its share -----------------------------------------------------------------------------------


def first_mean(user: User) -> Pieces:
    """The mean of a few columns, by which all are shifted."""
    first, joined = min(SHIFT_COLUMNS, user.n_i), float(user.rows * user.plan.joins_labels)
    yield Piece("compress", Work(memory=8.0 * user.rows * first), user.rows + joined * first)


def compress(user: User) -> Pieces:
    """L_i from one pass; then the column of its mean, the common unit, and the scales of its rows."""
    plan, rows, size = user.plan, user.rows, user.L_i
    # Features and labels of a regression lie apart and are copied side by side.
    joined = float(rows * plan.joins_labels)
    made = kernels.compress(rows, user.n_i, plan.centre, plan.memory, user.expected.ill)
    making = user.solved + made.numbers + 1.5 * joined * user.panel
    yield Piece("compress", made.work + Work(memory=8 * joined * user.n_i), making, keeps=(("solved", user.solved),))
    passes = 5 + 3 * plan.unit_variance + 6 * plan.joins_labels
    # The factor is alive together with its scaled copies: with a power of two in two steps, and once more by rows.
    yield Piece("statistics", Work(memory=8 * passes * size), 3 * size, keeps=(("L_i", size),))
    if plan.ridge_columns and user.i == 0:
        yield Piece("statistics", Work(qr=4 / 3 * rows**3 * 2, memory=32 * size), 4 * size)


def _slices(user: User) -> float:
    return 2.5 * user.plan.M * user.width  # five matrices of float32


def share(user: User) -> Pieces:
    """Widen, rotate by T_i and in mode B by P, slice, dither; the slices stay until the last batch is made."""
    plan, masked = user.plan, user.plan.mode is Mode.B
    if plan.glm is not None:
        yield from _weighted_factor(user)
    made = kernels.share(plan.m, plan.M, plan.factor_widths[user.i], user.width, masked)
    grams = kernels.words(plan.M, user.width)
    P = kernels.stored(Form.HAAR, plan.m) if masked else 0.0
    yield Piece("share", made.work, made.numbers, keeps=(("P", P), (SHARE, _slices(user))))
    yield Piece("share", grams.work, grams.numbers, frees=() if masked else ("L_i",))


def evaluate(user: User) -> Pieces:
    """One pass over the rows at given coefficients: the deviance and its weights."""
    rows, piece = _equations(user) * user.n_i, float(_equations(user) * user.panel)
    pass_ = Work(gemm=2.0 * user.plan.m * rows, memory=8.0 * rows * (user.plan.m + _SPECIAL))
    yield Piece("evaluate", pass_, piece * (_SPECIAL + user.plan.m))


def information(user: User) -> Pieces:
    """The information of a model by few digits: made in that pass, where it is asked for."""
    P, piece = user.plan.M - 1, float(_equations(user) * user.panel)
    yield Piece("evaluate", Work(gemm=2.0 * P * P * user.n_i), piece * (_SPECIAL + 2 * user.plan.m) + P * P)


def _weighted_factor(user: User) -> Pieces:
    """L_i of the weighted rows: made in that pass, in a cache, and counted where a Gram matrix is summed."""
    plan, M = user.plan, user.plan.M
    rows, piece = _equations(user) * user.n_i, float(_equations(user) * user.panel)
    made = kernels.compress(M, rows, False, plan.memory, user.expected.ill)
    yield Piece("evaluate", made.work, made.numbers + 2 * piece * M, keeps=(("L_i", user.L_i),))


def _equations(user: User) -> int:
    return 1 if user.plan.glm is None else user.plan.glm.equations


# --- mode A: the users open the sum -----------------------------------------------------------------------------------


def factorise(user: User) -> Pieces:
    """R of the opened sum, at every user; of a model, what is solved with it as well."""
    M = user.plan.M
    R, square = kernels.wide_factor(M), float(M * M)
    yield Piece("factorise", R.work, 2.0 * sum(gram_batches(M)) + R.numbers, keeps=(("R", square),), once=True)
    if user.plan.glm is not None:
        solved = kernels.dense_svd(M, M)
        work = solved.work + Work(qr=4 / 3 * M**3)
        yield Piece("solve", work, solved.numbers + 3.0 * square, frees=("R",))


def answer(user: User) -> Pieces:
    """At user 1: U and S from R, or coefficients."""
    plan, M = user.plan, user.plan.M
    if What.COEFFICIENTS in user.opened:
        found = kernels.dense_svd(plan.m, plan.m)
        yield Piece("factorise", found.work + Work(qr=4 / 3 * M**3), found.numbers + 3.0 * M * M)
    elif plan.glm is None:
        found, size = kernels.dense_svd(M, M), _answered(user)
        # Then U, with its signs, is copied into the message.
        numbers = max(found.numbers, 2.0 * M * M + 3 * size)
        yield Piece("factorise", found.work, numbers, keeps=(("answer", size),), frees=_without_R(user))


def acceptance(user: User) -> Pieces:
    """At the others: the test of user 1's answer on their own R."""
    plan, M = user.plan, user.plan.M
    if user.i == 0 or plan.glm is not None:
        return
    if What.COEFFICIENTS in user.opened:  # the normal equations
        yield Piece("acceptance", Work(gemm=4.0 * M * M * plan.targets), 2.0 * M * M)
        return
    tested, size = kernels.acceptance(M, plan.planned_rank), _answered(user)
    work, numbers = tested.work + Work(aes=8 * size), 2 * size + tested.numbers
    yield Piece("acceptance", work, numbers, keeps=(("answer", size),), frees=_without_R(user))


def _answered(user: User) -> float:
    return float((user.plan.m + 1) * user.plan.planned_rank)


def _without_R(user: User) -> tuple[str, ...]:
    """R is dropped with the answer, unless a regression on components follows."""
    return () if What.COMPONENTS in user.opened else ("R",)


def regression(user: User) -> Pieces:
    """On components: a square factor of the features' columns, and the table at the end."""
    M = user.plan.M
    work = Work(qr=4 / 3 * M**3, gemm=4.0 * M * M * user.plan.planned_rank)
    yield Piece("factorise", work, 4.0 * M * M, frees=("R",))


def inference(user: User) -> Pieces:
    """The table of a regression, from R."""
    M, found = user.plan.M, kernels.dense_svd(user.plan.M, user.plan.M)
    yield Piece("inference", found.work + Work(qr=4 / 3 * M**3, gemm=4.0 * M**3), found.numbers + 6.0 * M * M)


def permuted(user: User) -> Pieces:
    """Parallel analysis: the table in memory, permuted again and again; at the end the spectra of the sum."""
    m, size = user.plan.m, float(user.plan.m * user.n_i)
    grams = PERMUTED_TABLES * m * (m + 1) / 2
    work = Work(gemm=PERMUTED_TABLES * size * m, memory=PERMUTED_TABLES * 24.0 * size, aes=8.0 * size)
    yield Piece("permuted", work, 3 * size + grams)
    spectra = kernels.dense_svd(m, m)
    yield Piece("permuted", spectra.work * PERMUTED_TABLES, spectra.numbers + grams, keeps=((SHARE, grams),))


# --- mode B: the CSP opens the sum ------------------------------------------------------------------------------------


def uploading(user: User) -> Pieces:
    """Words under the pads of all neighbours."""
    plan, sent = user.plan, float(upload_bytes(user.plan))
    work = Work(aes=degree(plan.k) * sent, memory=2 * sent)
    yield Piece("pad", work, kernels.words(plan.M, user.width).numbers, frees=(SHARE,))


def unmask(user: User) -> Pieces:
    """U from under P."""
    plan, size = user.plan, float(user.plan.m * user.plan.planned_rank)
    kernel = kernels.apply(Form.HAAR, plan.m, plan.planned_rank)
    work = kernel.work + Work(memory=16 * size)
    yield Piece("unmask", work, size + kernel.numbers, keeps=(("U", size),), frees=("P",))


def solution(user: User) -> Pieces:
    """Coefficients from under P."""
    plan = user.plan
    yield Piece("unmask", kernels.apply(Form.HAAR, plan.m, plan.targets).work, 4.0 * plan.m * plan.targets)


def checks(user: User) -> Pieces:
    """The checks of step 7: products of L_i with a few columns."""
    plan, r, width = user.plan, float(user.plan.planned_rank), user.plan.factor_widths[user.i]
    columns = 2.0 * plan.targets if What.COEFFICIENTS in user.opened else 3.0 * r
    columns += 2.0 * order_steps(plan) * ORDER_BLOCK  # two with each direction outside of U that is searched
    products = Work(gemm=2.0 * user.L_i * columns, memory=32.0 * plan.m * columns)
    yield Piece("checks", products, (width + 2.0 * plan.m) * columns / 2)
    if user.plays("C"):  # U S^-1, turned, times L_i, and its Gram matrix
        yield Piece("checks", Work(), 2 * plan.m * r + width * r + r * r)


def signs(user: User) -> Pieces:
    """What was compressed is dropped once the answer is checked."""
    yield Piece("checks", frees=("L_i",))


# --- the own part of the result ---------------------------------------------------------------------------------------


def right_vectors(user: User, product: bool = False) -> Pieces:
    """Vt_i; ``product`` says whether the checks of the answer left the product that it is made of."""
    plan, r, n_i = user.plan, user.r, user.n_i
    part, square = float(r * n_i), float(r * r)
    if user.solved:  # from the solved columns, in their place
        size = float(plan.m * r)
        small = Work(gemm=3.0 * size * r, solve=4 / 3 * square * r)  # of a square matrix, which is put right
        yield Piece("own part", small * user.expected.ill, 10 * square)
        work = Work(gemm=2.0 * size * n_i, memory=16.0 * part)
        numbers = 2 * size + min(part, 2 * square)
        yield Piece("own part", work, numbers, keeps=(("own part", part),), frees=("solved",))
    elif user.by_panels:
        yield from _own_panels(user)
    else:
        U = 0.0 if plan.tall else float(plan.m * r)  # else it is on disk, and rows of it are read
        yield Piece("own part", _own_pass(user, product), U + part, keeps=(("own part", part),))


def _own_pass(user: User, product: bool) -> Work:
    r, n_i = user.r, user.n_i
    return Work(memory=32.0 * r * n_i) if product else Work(gemm=2.0 * r * user.plan.m * n_i, memory=16.0 * r * n_i)


def correction(user: User) -> Pieces:
    """Vt_i is corrected in place; its Gram matrix, the triangle of it and their words are there as well."""
    square = float(user.r * user.r)
    work = Work(solve=square * user.n_i + square * user.r / 3, gemm=square * user.n_i, memory=8.0 * user.r * user.n_i)
    yield Piece("own part", work * user.expected.ill, 10 * square)


def _own_panels(user: User) -> Pieces:
    """Vt_i panel by panel: made twice where it is corrected, compared with the data where that is asked for."""
    plan, r, square, check = user.plan, user.r, float(user.r * user.r), user.plan.check
    n_i = min(user.n_i, SAMPLED_PANELS * user.panel) if check is Check.SAMPLE else user.n_i
    work = Work(gemm=2.0 * r * plan.m * n_i, memory=16.0 * r * n_i)
    if user.plays("orthogonality"):
        work += (work + Work(gemm=square * n_i, solve=square * n_i)) * user.expected.ill
    if check is not Check.NONE:
        work += Work(gemm=2.0 * r * plan.m * n_i, memory=48.0 * plan.m * n_i)
    if check is Check.ALL:
        work += Work(solve=square * n_i)
    held = float(r * user.n_i) if user.expected.in_memory and check is not Check.SAMPLE else 0.0
    panels = (2.0 * r + 2.0 * plan.m * (check is not Check.NONE)) * user.panel
    yield Piece("own part", work, held + panels + 3 * square + plan.m * r, keeps=(("own part", held),))


def scores(user: User, product: bool = False) -> Pieces:
    """Scores of a PCA: one pass over the data, in pieces that a cache holds; rows of split columns in panels."""
    plan, r, n_i = user.plan, user.r, user.n_i
    if not plan.releases(Item.OWN_PART):
        return  # squared scores of a regression, which are small
    part = float(r * (n_i if user.expected.in_memory else user.panel))
    if plan.scheme is Scheme.STEPS:
        yield Piece("own part", Work(), 2 * part, keeps=(("own part", part),))  # the certificate has made them
        return
    work = _own_pass(user, product) + Work(memory=16.0 * plan.m * n_i)
    centred = plan.m * user.panel if plan.reads_rows else min(plan.m * user.panel, 1 << 18)
    yield Piece("own part", work, 2 * part + centred, keeps=(("own part", part),))


def partial_scores(user: User) -> Pieces:
    """Partial scores of a prediction, added up for the label holder."""
    own = float(user.plan.m * user.plan.targets)
    work = Work(gemm=2.0 * own * user.n_i, memory=8.0 * user.rows * user.n_i / 4)
    yield Piece("own part", work, own, keeps=(("own part", own),))
