"""A generalised linear model on split rows: iteratively reweighted least squares by exact sums (mode A).

A session plays ``statistics.glm.fit``: for each request every user makes one pass over its own rows, the users add up
totals and one Gram matrix of weighted rows, all factorise the sum, and user 1 sends what follows from its factor. The
others test it on theirs (``Proposal.accepts``) before they evaluate the model there, since coefficients that user 1 is
free to choose would weight single rows. How many sums follow, and how a session ends, is decided by opened sums and by
user 1's numbers alone, so it is decided alike at every user. A step that is to be halved needs no Gram matrix.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any

import numpy as np

from fedsvd.errors import DataError, LocalProtocolError, NumericalError, VerificationFailed
from fedsvd.linalg.backend import column_norms, qr_r, to_numpy
from fedsvd.linalg.streaming_factor import StreamingFactor
from fedsvd.linalg.wide_factor import WideFactor, factor
from fedsvd.protocol.quality import PAIRS, QUALITY, QUALITY_BITS, ROC, ROCPlan, quality_numbers
from fedsvd.roles.user import negative_binomial
from fedsvd.roles.user.digits import DigitsSession, DigitSums
from fedsvd.roles.user.home import Home
from fedsvd.roles.user.models import Model, expect_counts, lanes_of, models, panels_of, split_labels
from fedsvd.roles.user.requests import ASK_ITS_OWNER, SCALE_DOWN, Common, Local, Script, Sum
from fedsvd.roles.user.share import batches_of, common_unit, share
from fedsvd.roles.user.squared_scores import BEYOND, errors_of, exact_squares
from fedsvd.roles.user.statistics import below_squares
from fedsvd.roles.user.sums import from_upper_triangle, sum_of_fives, wide_sum_of_floats
from fedsvd.roles.user.work import Work
from fedsvd.statistics.glm import GLMInference
from fedsvd.statistics.irls import Answer, Proposal, Request, Squares, not_converged
from fedsvd.statistics.multinomial import MultinomialInference
from fedsvd.statistics.newton import refused
from fedsvd.statistics.newton_requests import Point
from fedsvd.statistics.pooled_roc import PooledROC, grid, own_counts
from fedsvd.statistics.ranking import Quality, quality, within
from fedsvd.statistics.robust import Errors
from fedsvd.types import Float, Ring

_MOST = 2.0**1000  # what a user sends for a number beyond it; 500 of them are a float64
_OVERFLOW = 2.0**990
_NOTHING = 2.0**-1000  # noise of a column of zeros is below
_LANES, _PANELS_A_LANE = 8, 4
_SQUARABLE = 300  # as a power of two


@dataclass(frozen=True, repr=False)
class GLMResult:
    """What every user holds: one model, or one to each class against the rest."""

    models: tuple[GLMInference | MultinomialInference, ...]
    coefficients: Float  # (1 or classes, features)
    intercept: Float  # (1 or classes,)
    rank: int
    residual: float  # of the last factor, from the exact sum; by few digits, of the last step in standard errors
    bits: float = 0.0  # that users opened, by few digits
    quality: Quality | None = None  # of all users' rows, where it is released
    roc: PooledROC | None = None  # likewise
    means: Float | None = None  # of all users' features, opened at the beginning by few digits
    own: Mapping[str, Float] = field(default_factory=dict)  # what this user alone has, under declared names

    def __repr__(self) -> str:
        return f"GLMResult(coefficients={self.coefficients.shape}, rank={self.rank})"


def script(work: Work) -> Script:
    """All models of the plan, one after the other."""
    if work.labels is None or work.plan.glm is None:
        raise LocalProtocolError(
            "a generalised linear model needs this party's labels", "name the label column (label)"
        )
    session = DigitsSession(work) if work.plan.glm.few_digits else FittingSession(work)
    errors: Errors = yield from errors_of(work)
    found = []
    if isinstance(session, DigitsSession) and work.plan.glm.facts.only_few_digits:
        found.append((yield from negative_binomial.fit(work, session, work.plan.glm, work.labels, errors)))
    else:
        for model in models(work.plan, errors):
            found.append((yield from session.play(model)))
    first = int(work.plan.centre)
    if isinstance(found[0], MultinomialInference):
        W = found[0].symmetric()
    else:
        W = np.stack([model.solution for model in found])
    intercept = W[:, 0] if first else np.zeros(len(W))
    measured, bits = (None, None), session.bits
    if quality_numbers(work.plan):
        sums = session if isinstance(session, DigitSums) else DigitSums(work)
        measured = yield from _quality(work, sums, found[0])
        bits = sums.bits
    rank = found[0].rank - first
    about = session.residual, bits, *measured, session.means
    return GLMResult(tuple(found), W[:, first:], intercept, rank, *about)


def _quality(work: Work, sums: DigitSums, model: GLMInference) -> Script:
    """How well the model ranks and predicts all users' rows: by pairs inside each user, and by counts if released."""
    y, eta = yield Local("evaluate", lambda: _predicted(work, model))

    def own() -> Float:
        share = model.family.evaluate(eta, y).mu
        pairs = *within(y, eta), float(np.sum(np.square(y - share)))
        return np.array([*pairs, np.sum(eta), np.sum(np.square(eta))][: quality_numbers(work.plan)])

    values: Float = yield Local("evaluate", own)
    total, _ = yield from sums.sized(QUALITY, values, QUALITY_BITS, work.plan.k, fails=refused)
    measured, about, k = quality(total[:PAIRS], work.plan.n), ROCPlan.of(work.plan), work.plan.k
    if about is None:
        return measured, None
    across, squared = total[PAIRS:].tolist()
    edges = grid(across, squared, work.plan.n, about.thresholds, model.family)
    counts: Float = yield Local("evaluate", lambda: own_counts(y, eta, edges))
    joint = yield from sum_of_fives(work.plan, ROC, counts, about.least)
    return measured, PooledROC.of(joint, edges, model.family, about.thresholds, about.least, k)


def _predicted(work: Work, model: GLMInference) -> tuple[Float, Float]:
    """This user's outcomes, and the linear predictor of its rows."""
    about, parts = work.plan.glm, []
    assert about is not None
    for place, X in panels_of(work, False, 1):
        y, offset, _ = split_labels(about, work.labels[place])  # type: ignore[index]
        parts.append((y, model.linear_predictor(X, 0.0 if offset is None else offset)))
    outcome, eta = (np.concatenate(each) for each in zip(*parts, strict=True))
    if not np.isin(outcome, (0.0, 1.0)).all():
        raise DataError(
            "the quality of a model is of records that are cases or controls, and the target has shares of trials",
            "leave quality and roc out",
        )
    return outcome, eta


@dataclass(frozen=True, repr=False)
class _Pass:
    """One user's part of an evaluation: totals in the order asked for, a factor of its weighted rows, its energies."""

    totals: Float
    L_i: Float  # (M, p)
    energy: Float  # (M,)


class FittingSession:
    """The evaluations of one session, numbered through all of its models."""

    def __init__(self, work: Work) -> None:
        assert work.plan.glm is not None
        self.work, self._plan, self._about = work, work.plan, work.plan.glm
        self._evaluations, self._number = count(1), 0
        self.residual, self.bits = 0.0, 0.0
        self.means: Float | None = None  # not opened by themselves

    def play(self, model: Model) -> Script:
        """The fit of one model, by what all users open and what user 1 proposes."""
        steps = model.fit()
        asked = next(steps)
        while True:
            if isinstance(asked, Proposal):
                answer: Answer | Float = yield from self.agree(asked)
            elif isinstance(asked, Squares):
                answer = yield from self._squares(model, asked)
            else:
                answer = yield from self._evaluate(model, asked)
            try:
                asked = steps.send(answer)
            except StopIteration as end:
                return end.value

    def agree(self, own: Proposal) -> Script:
        """User 1's numbers, once they are those of our own factor but for rounding."""
        # A null model has fewer coefficients; its answer is as long, so that no length says which model it is of.
        padded = np.concatenate((own.numbers, np.zeros(self._plan.M + 3 - len(own.numbers))))
        content: bytes = yield Common(f"answer {self._number}", padded.astype("<f8").tobytes)
        numbers: Float = np.frombuffer(content, "<f8").astype(np.float64)[: len(own.numbers)]
        accepted: bool = yield Local("acceptance", lambda: own.accepts(numbers))
        if not accepted:
            raise VerificationFailed("the coefficients that user 1 sent do not solve the joint problem", ASK_ITS_OWNER)
        return numbers

    def _squares(self, model: Model, asked: Squares) -> Script:
        """The joint sum of squared scores, in all digits; not finite where a row of leverage 1 leaves none."""
        at = Point(asked.beta, np.zeros(self._plan.m), information=False, turn=asked.root)
        own: Float = yield Local("evaluate", lambda: Home(self.work, model).squared_scores(at)[0])
        own = own if np.isfinite(own).all() else np.full_like(own, BEYOND)
        total = yield from exact_squares(self.work, own, f" {self._number}")
        found = from_upper_triangle(total, len(asked.beta))
        return found if float(np.abs(total).max()) < BEYOND / 2.0 else np.full_like(found, np.nan)

    def _evaluate(self, model: Model, request: Request) -> Script:
        """The joint sums at given coefficients; no Gram matrix where none is needed."""
        number, plan = next(self._evaluations), self._plan
        self._number = number
        if number > self._about.evaluations:
            raise not_converged(self._about.max_iterations)
        made: _Pass = yield Local("evaluate", lambda: _own_pass(self.work, model, request))
        padded = np.concatenate((made.totals, np.zeros(self._about.totals - len(made.totals)), made.energy))
        summed: Float = yield from wide_sum_of_floats(f"totals {number}", padded, self.work.own)
        totals = dict(zip(request.totals, _unbounded(summed).tolist(), strict=False))
        expect_counts(plan, totals)
        energy = _unbounded(summed[self._about.totals :])
        if not request.gram or totals.get("deviance", 0.0) > request.most:
            return Answer(None, totals)
        if not np.isfinite(energy).all():
            if request.beta is None:
                raise NumericalError("the squared norm of a column leaves the range of float64", SCALE_DOWN)
            return Answer(None, totals | {"deviance": math.inf})
        if request.beta is None and np.any(made.L_i[energy <= _NOTHING]):
            raise below_squares()
        R = yield from self._joint_factor(made.L_i, energy, f"gram {number}")
        return Answer(R[:, [0, -1]] if request.constant_only else R, totals)

    def _joint_factor(self, L_i: Float, energy: Float, name: str) -> Script:
        """R of all users' weighted rows, in their own units; columns are scaled by powers of two for the sum."""
        work, present = self.work, energy > _NOTHING
        _, powers = np.frexp(np.sqrt(np.where(present, energy, 1.0)))
        inverse = np.where(present, np.ldexp(1.0, -powers), 0.0)
        F1 = math.sqrt(math.fsum((energy * inverse * inverse).tolist()))
        if F1 == 0.0:
            return np.zeros((self._plan.M, self._plan.M))
        unit = common_unit(work, F1)

        def made() -> object:
            return batches_of(work, share(work, work.put(L_i * inverse[:, None]), F1, unit, name))

        batches = yield Local("share", made)
        words: Ring = yield Sum(name, batches)
        found: WideFactor = yield Local("factorise", lambda: work.once(words, lambda: factor(words, work.masks.each)))
        self.residual = found.residual
        R: Float = to_numpy(found.R) * np.where(present, np.ldexp(unit.F, powers), 0.0)
        return R


def _unbounded(totals: Float) -> Float:
    """Opened totals, infinite where a user's own was."""
    found: Float = np.where(np.abs(totals) >= _OVERFLOW, np.copysign(np.inf, totals), totals)
    return found


def _own_pass(work: Work, model: Model, request: Request) -> _Pass:
    """One pass over this user's rows at the coefficients of a request, in panels that fit the memory.

    Panels go to lanes in turn, and a lane has a factor of its own, so that threads do not wait for each other. How many
    lanes there are follows from the plan, not from the machine: the numbers are the same on any number of cores.
    """
    M, width = work.plan.M, 2 if request.constant_only else work.plan.M
    parts: list[tuple[float, ...]] = []
    lanes = [_Rows(width) for _ in range(lanes_of(work))]

    panels = panels_of(work, request.constant_only, len(lanes))
    while group := list(islice(panels, len(lanes))):
        found: list[tuple[float, ...]] = [()] * len(group)

        def pass_on(number: int, group: list[tuple[slice, Float]] = group, found: list[Any] = found) -> None:
            place, X = group[number]
            with np.errstate(over="ignore", invalid="ignore"):  # what overflows is sent as a number beyond all others
                part = model.contribution(request, X, work.labels[place])  # type: ignore[index]
                if part.rows is not None:
                    lanes[number].add(part.rows)
            found[number] = part.totals

        for _ in (work.masks.each or map)(pass_on, range(len(group))):
            pass
        parts += found
    with np.errstate(over="ignore", invalid="ignore"):
        totals = _bounded(np.array([math.fsum(column) for column in zip(*parts, strict=True)]))
        L, energy = _merged(lanes) if request.gram else (np.zeros((width, 0)), np.zeros(width))
        energy = _bounded(energy)
    if not request.constant_only:
        return _Pass(totals, L, energy)
    # The model with a constant has two columns: those of the intercept and of the working target.
    wide, wide_energy = np.zeros((M, L.shape[1])), np.zeros(M)
    wide[[0, -1]], wide_energy[[0, -1]] = L, energy
    return _Pass(totals, wide, wide_energy)


def _bounded(values: Float) -> Float:
    """What can be summed: a number that is not finite as one beyond all others."""
    cut: Float = np.clip(np.nan_to_num(values, nan=_MOST, posinf=_MOST, neginf=-_MOST), -_MOST, _MOST)
    return cut


class _Rows:
    """The factor of weighted rows; columns are divided by powers of two near the norms of the first panel.

    Columns of one size let the running factor take its fast route, and powers of two change no digit.
    """

    def __init__(self, width: int) -> None:
        self._factor = StreamingFactor(width)
        self.powers = np.ones(width)
        self._others = np.arange(0)  # columns whose power is not 1
        self.overflow = False

    def add(self, rows: Float) -> None:
        """One more panel, (rows, width), which is scaled in place."""
        if self._factor.rows == 0:
            self.powers = _powers(np.linalg.norm(rows, axis=0))
            self._others = np.flatnonzero(self.powers != 1.0)
        if 4 * len(self._others) > len(self.powers):
            rows /= self.powers
        elif len(self._others):
            rows[:, self._others] /= self.powers[self._others]
        if not math.isfinite(np.dot(rows.reshape(-1), rows.reshape(-1))):
            self.overflow = True
        if not self.overflow:
            self._factor.update(rows)

    def factor(self) -> Float:
        """R, (p, width), of the columns divided by their powers."""
        return to_numpy(self._factor.factor())


def _powers(norms: Float) -> Float:
    """Powers of two near these norms; in units of the most frequent one, where its square is far from overflow."""
    _, powers = np.frexp(np.where(np.isfinite(norms), norms, 1.0))
    usual = int(np.bincount(powers - powers.min()).argmax() + powers.min())
    found: Float = np.ldexp(1.0, powers - usual if abs(usual) < _SQUARABLE else powers)
    return found


def _merged(lanes: list[_Rows]) -> tuple[Float, Float]:
    """L, (width, p), with ``L L^T`` the Gram matrix of all lanes' rows, and the energies of its columns."""
    powers = np.maximum.reduce([lane.powers for lane in lanes])
    if any(lane.overflow for lane in lanes):
        return np.zeros((len(powers), 0)), np.full(len(powers), np.inf)
    stacked = np.concatenate([lane.factor() * (lane.powers / powers) for lane in lanes])
    R = stacked if len(lanes) == 1 else qr_r(stacked)
    L: Float = R.T * powers[:, None]
    return L, np.square(column_norms(R) * powers)
