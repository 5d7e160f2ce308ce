"""The work of the CSP, label by label, and that of the TA. Each function is an entry of the table in ``labels.py``."""

from collections.abc import Iterator

from fedsvd.cost.kernels import Kernel, dense_svd, factor, factor_svd, top_svd, wide_factor
from fedsvd.cost.rates import Piece, Work
from fedsvd.cost.traffic import Expected, released_columns, sums_of
from fedsvd.linalg.dense_svd import FEW
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import SOLUTION, StepKind, listed
from fedsvd.protocol.sums import gram_batches
from fedsvd.protocol.tasks import Align, Mode
from fedsvd.protocol.upload import (
    Retention,
    batches,
    fits_whole,
    folds,
    krylov_basis,
    krylov_block,
    retention,
)

_SORT = 5000.0  # bytes of memory traffic that comparing one record is worth: it is sorted by two words or four
_PASSES = 24  # of block Krylov over a matrix too long on both sides: the data decides, and this is a middling case

Pieces = Iterator[Piece]


def summing(plan: SessionPlan, expected: Expected) -> Pieces:
    """Every sum, share by share as they come."""
    sums = sums_of(plan, expected)
    batch = max((max(planned.batches) * planned.kind.columns for planned in sums), default=0)
    together = sum(planned.length * planned.kind.columns for planned in sums)
    ids = float(plan.m * plan.check_ids)
    work = Work(memory=8.0 * plan.k * (together + 2 * ids))
    yield Piece("sums", work, max(2.0 * batch, (2 * plan.k + 1) * ids), keeps=(("ids", ids * plan.k),))


def matching(plan: SessionPlan, expected: Expected) -> Pieces:
    """Sets of ids, sorted."""
    wide = 24.0 if plan.align is Align.ECDH else 16.0
    yield Piece("matching", Work(memory=_SORT * plan.n), wide * plan.n)


def aggregating(plan: SessionPlan, expected: Expected) -> Pieces:
    """Shares into one sum; of words in mode B, else out of the ring, and into the store or the factor."""
    if plan.mode is not Mode.B:
        yield from _add_up(plan, expected)
        return
    words = float(plan.M * (plan.M + 1))  # two numbers for each word of the triangle
    batch, several = 2.0 * max(gram_batches(plan.M)), len(gram_batches(plan.M)) > 1
    numbers = words + 2 * batch + words * several
    yield Piece("add up", Work(memory=24 * plan.k * words), numbers, keeps=(("words", words),))


def _add_up(plan: SessionPlan, expected: Expected) -> Pieces:
    batch = float(max(b.shape[0] * b.shape[1] for b in batches(plan)))
    panel = float(max(rows * width for rows, width in plan.panels))
    total = float(sum(rows * width for rows, width in plan.panels))
    split = panel if len(batches(plan)) > len(plan.panels) else 0.0
    coming = 2.3 * batch  # the sum, and the share that is added to it
    work = Work(encode=8 * (1 + plan.k / 2) * total)  # added up and decoded in pieces that a cache holds
    yield Piece("add up", work, coming + split)
    if not folds(plan):
        store = _stored(plan)
        yield Piece("keep", Work(memory=16 * total), store + coming + split, keeps=(("store", store),))
        if retention(plan) is Retention.STORED:
            return
    width, length = plan.N + plan.targets, plan.M
    folded = factor(width, length, max(rows for rows, _ in plan.panels), expected.ill)
    if _takes_the_top(plan):  # a Gram matrix, added up
        folded = Kernel(Work(gemm=float(width) ** 2 * length), 1.0 * width**2)
    work = folded.work + Work(memory=16 * total)  # in addition a probe, two products with a few vectors
    kept = 1.0 * min(width, length) * width
    yield Piece("fold", work, folded.numbers + coming + split, keeps=(("factor", kept),))


def _solves(plan: SessionPlan) -> bool:
    """Whether the answer to the upload is coefficients."""
    return any(step.kind is StepKind.UPLOAD and step.name == SOLUTION for step in listed(plan.steps))


def _takes_the_top(plan: SessionPlan) -> bool:
    return plan.components is not None and not _solves(plan)


def _stored(plan: SessionPlan) -> float:
    """X' in memory where half of the budget holds it; on disk, an eighth of the budget at a time."""
    size = float(plan.M * plan.N)
    return size if 8 * size <= plan.memory // 2 else plan.memory / 8 / 8


def factorise(plan: SessionPlan, expected: Expected) -> Pieces:
    """The SVD, verified, or the coefficients; in mode B from the exact factor of the words."""
    if plan.mode is Mode.B:
        yield from _of_words(plan, expected)
        return
    r = released_columns(plan, expected)
    if _solves(plan):
        features = plan.N if plan.stacks_labels else plan.m
        kernel = dense_svd(features, features)
    elif retention(plan) is Retention.BOTH:
        kernel = _two_pass(plan, r, expected.ill)
        if _takes_the_top(plan):
            again = factor(plan.N, plan.M, plan.M, 1.0).work  # from what was stored
            kernel = top_svd(plan.M, plan.N, r, expected.ill, Kernel(kernel.work + again, kernel.numbers))
    elif fits_whole(plan):
        kernel = factor_svd(plan.M, plan.N, ill=expected.ill)
        if _takes_the_top(plan) and plan.M >= 2 * plan.N:
            kernel = top_svd(plan.M, plan.N, r, expected.ill, kernel)
            kernel = Kernel(kernel.work + Work(gemm=1.0 * plan.M * plan.N**2), kernel.numbers)
    else:
        kernel = _krylov(plan, r)
    yield Piece("factorise", kernel.work, kernel.numbers)


def _of_words(plan: SessionPlan, expected: Expected) -> Pieces:
    """Of an even Gram matrix, rounded; the factor of the words is made for what that would cost digits of."""
    solves, R, size = _solves(plan), wide_factor(plan.M), float(plan.M) ** 2
    side = plan.m if solves else plan.M
    cube, found, ill = float(side) ** 3, dense_svd(side, side), expected.ill
    if solves:
        rounded, extra = Work(solve=cube, memory=24.0 * size), Work(qr=4 / 3 * plan.M**3)
    elif side >= FEW * plan.planned_rank:
        top = top_svd(side, side, plan.planned_rank, 0.0, found)
        rounded = top.work + Work(solve=cube / 3, memory=24.0 * size)
        found, extra = Kernel(top.work, found.numbers), Work(gemm=cube, solve=cube / 3)
        ill = expected.ill**2  # a few values of data whose values are far apart: they need not be
    else:
        yield Piece("factorise", R.work, R.numbers, keeps=(("R", size),), frees=("words",))
        yield Piece("factorise", found.work + Work(gemm=2.0 * plan.M * plan.planned_rank**2), found.numbers)
        return
    # Where the data does not say otherwise, a part of what comes after the attempt is counted; memory is that of all.
    yield Piece("factorise", rounded + R.work * ill, R.numbers, keeps=(("R", size),), frees=("words",))
    yield Piece("factorise", (found.work + extra) * ill, found.numbers)


def answering(plan: SessionPlan, expected: Expected) -> Pieces:
    """Panels of U' and products of a challenge, which are small."""
    return iter(())


def _two_pass(plan: SessionPlan, r: int, ill: float) -> Kernel:
    """The SVD of the short side's factor; then the long side's vectors, panel by panel, in the place of X'."""
    long, short = max(plan.M, plan.N), min(plan.M, plan.N)
    inner, panel = dense_svd(short, short), float(max(rows * width for rows, width in plan.panels))
    product = Work(gemm=2.0 * long * short * r + 1.0 * long * r * r, memory=8.0 * long * (short + 3 * r))
    again = Work(solve=1.0 * long * r * r, memory=32.0 * long * r) * ill
    held = 8.0 * long + 3.0 * short * short  # a few probes of every row
    return Kernel(inner.work + product + again, max(inner.numbers, held + 3 * panel))


def _krylov(plan: SessionPlan, r: int) -> Kernel:
    block, basis = krylov_block(plan, r), krylov_basis(plan, r)
    one = Work(
        gemm=2.0 * plan.M * plan.N * block + 4.0 * (plan.M + plan.N) * basis * block, memory=8.0 * plan.M * plan.N
    )
    return Kernel(one * (_PASSES + 3), 1.5 * (plan.M + plan.N) * basis + 3.0 * max(plan.M, plan.N) * block)


def dealing(plan: SessionPlan) -> Pieces:
    """The TA: seeds."""
    yield Piece("deal", Work(keys=3.0 * plan.k))
