"""The iteration of reweighted least squares, for any model whose Newton step is a weighted regression.

It holds no data: each step asks for the joint sum at given coefficients and solves from what comes back. The last
column of a sum is the working target at the start, where no coefficients are known yet, and the working *residual* from
then on: a step is solved for, and not the coefficients after it, so that rounding is that of the step. It ends when the
next step is below ``tolerance`` standard errors, or below what rounding makes of it, or tiny and no longer shrinks;
that step is taken, and standard errors follow from the joint sum at its end. A step that does not lower the penalised
deviance is halved; so are all steps after one that grows where the deviance is too flat to show it.

Where the likelihood stops to change while the coefficients still move, they have no finite value: ``Separated``; so
where outcomes, none of them a share, are all predicted without error. Where the iterations are used up it is that only
if the last of them, several in a row, moved so; else ``NotConverged``.

Parties that run the same iteration must come to the same requests, and a factorisation may differ in its last digit
between machines. So everything that follows from a factor is yielded as a ``Proposal``, answered by the numbers of one
party, which each of the others tests on its own factor. All else is arithmetic that IEEE 754 leaves no choice in.
"""

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedsvd.errors import DataError, NotConverged, Separated, ShapeError
from fedsvd.statistics.robust import Errors
from fedsvd.statistics.triangle import EPS, Triangle, triangle
from fedsvd.statistics.undefined import Numbers, is_array
from fedsvd.types import Float

_SLACK = 1e-9  # a deviance may rise by so much of itself through rounding of the joint sum
_LEAST_FALL = 0.1  # of what the first derivative promises
_MOST_HALVINGS = 20
# A step below _STALLED standard errors does not change the likelihood. In a regular problem the coefficients then move
# at most half as far as before, or as the step shrinks. Where one moves farther than both, by a quotient of _APART, and
# by _STILL_MOVING of itself and of the error it had at the weights of the start, it will move for ever.
_STALLED = 1e-6
_APART = 1.3
_STILL_MOVING = 0.01
_FOR_EVER = 6  # iterations in a row that move so: the first ones of a regular problem may
_NO_DEVIANCE = 1e-7  # per unit of weight: all outcomes are predicted without error
_NO_SHARE = 1e-9  # of the deviance: the entropy of shares, which is 0 where all targets are outcomes
_ROUNDING = 8.0  # units of it in a step
_NOISE = 1e-5  # standard errors: where a step so small is longer than the last one, both are rounding
_EXCUSED = 1024.0  # units of rounding in the normal equations of another party's coefficients
_ROUGH = 1e-6  # of the length of a step, which another party measured


@dataclass(frozen=True, repr=False)
class Request:
    """What the driver needs next, from all parties together."""

    purpose: str  # "step", "last", "null" or "likelihood"
    iteration: int
    beta: Float | None  # None: the start, which each row has of its own
    totals: tuple[str, ...]
    gram: bool
    constant_only: bool = False  # the model with a constant and no features
    scale: float = 1.0
    most: float = math.inf  # with a larger deviance the step is halved, and no Gram matrix is needed


@dataclass(frozen=True, repr=False)
class Contribution:
    """A party's part of the joint sum: rows whose Gram matrix is added (or None), and totals in the order asked for.

    The last column of the rows is the working target where the request has no coefficients, else the working residual.
    """

    rows: Float | None
    totals: tuple[float, ...]


@dataclass(frozen=True, repr=False)
class Answer:
    """The joint sum: R, (any, q + 1), with the summed Gram matrix ``R^T R``, and the totals by name."""

    factor: Float | None
    totals: Mapping[str, float]


_TAIL = 4  # numbers of a proposal after its coefficients: length, rounding, whether they move, rank


@dataclass(frozen=True, repr=False)
class Proposal:
    """What follows from a factor: the coefficients of the whole step, its length, what of it is rounding, the rank."""

    numbers: Float  # (q + 4,)
    problem: Triangle
    since: Float | None  # the coefficients that the step starts from

    def accepts(self, numbers: Float) -> bool:
        """Whether these numbers, of another party, are those of our own factor but for rounding."""
        if numbers.shape != self.numbers.shape or numbers[-1] != self.numbers[-1]:
            return False
        problem, beta = self.problem, numbers[:-_TAIL]
        step = beta if self.since is None else beta - self.since
        size = float(np.linalg.norm(problem.A))
        reach = float(np.linalg.norm(problem.B)) + size * float(np.linalg.norm(problem.scale * beta))
        normal = problem.A.T @ (problem.B[:, 0] - problem.A @ (problem.scale * step))
        allowed = _EXCUSED * math.sqrt(len(beta)) * EPS
        if not float(np.linalg.norm(normal)) <= allowed * size * reach:
            return False
        length, rounding = _length(problem, beta, self.since), float(self.numbers[1 - _TAIL])
        if not abs(float(numbers[1 - _TAIL]) - rounding) <= _ROUGH * rounding:
            return False
        return self.since is None or abs(length - float(numbers[-_TAIL])) <= _ROUGH * length + allowed * reach


@dataclass(frozen=True)
class Limits:
    """What an iteration knows of its model, and when it ends."""

    n: int
    weight: float
    tolerance: float
    max_iterations: int
    dispersion: bool
    outcomes: bool  # the target is a class, and may be predicted without error


@dataclass(frozen=True, repr=False)
class Fit:
    """Where the iteration ended: coefficients, and the weighted problem and the totals there."""

    beta: Float
    problem: Triangle
    totals: Mapping[str, float]
    iterations: int
    halvings: int


@dataclass(frozen=True, repr=False)
class _Point:
    """Coefficients at which the joint sum is known."""

    beta: Float
    answer: Answer
    objective: float


@dataclass(frozen=True, repr=False)
class Squares:
    """What robust errors need next: the sum of squared scores at these coefficients, in the coordinates of a root."""

    beta: Float
    root: Float  # (q, q)


Steps = Generator[Request | Proposal | Squares, Answer | Float, Any]
"""A fit: a ``Request`` is answered by an ``Answer``, a ``Proposal`` by the numbers that all parties take, and
``Squares`` by a matrix."""


def asked(request: Request) -> Steps:
    """The ``Answer`` to one request."""
    answer = yield request
    assert isinstance(answer, Answer)
    return answer


def squares(beta: Float, root: Numbers, errors: Errors) -> Steps:
    """The sum of squared scores; None where errors are not robust, or there are none."""
    if not (errors.robust and is_array(root)):
        return None
    total = yield Squares(beta, root)
    assert isinstance(total, np.ndarray)
    return total


def iterate(
    start: Answer,
    limits: Limits,
    penalty: Float | None,
    totals: tuple[str, ...],
    *,
    last: tuple[str, ...] = (),
    free: int = 0,
    constant_only: bool = False,
) -> Steps:
    """From the answer to the first request to the end, a ``Fit``; ``||penalty @ beta||^2`` is added to the deviance.

    ``totals`` are asked for at each step: the deviance, ``pearson`` where a scale is estimated, and the ``entropy`` of
    targets that may be shares; ``last`` at the end, without which problem and totals are those a step before.

    Coefficients before ``free`` have no part in the norm that is least where the columns are dependent.
    """
    with np.errstate(divide="ignore"):
        errors = 1.0 / np.linalg.norm(_factor(start)[:, :-1], axis=0)
    before = np.zeros_like(errors)
    purpose = "null" if constant_only else "step"
    point: _Point | None = None
    halvings, step, moved, damping = 0, math.inf, 0, 0
    for iteration in range(1, limits.max_iterations + 2):
        problem = _problem(point.answer if point else start, limits.n, penalty, point.beta if point else None)
        proposal = _proposal(problem, point, free, step, before, errors)
        numbers = yield proposal
        assert isinstance(numbers, np.ndarray)
        previous, (step, rounding, moving, _) = step, map(float, numbers[-_TAIL:])
        target = numbers[:-_TAIL]
        if point is not None:
            before, moved = np.abs(target - point.beta), moved + 1 if moving else 0
            unit = _unit(limits, problem, point.answer.totals)
            if penalty is None and moving and step <= _STALLED * unit:
                raise separated()
            grows = previous <= step and _unseen(point, step)
            # Of nearly dependent columns a step has an error of its own, the rounding of residuals times the condition.
            noise = grows and damping and step <= _NOISE * unit
            if step <= max(limits.tolerance * unit, rounding) or noise:
                end = Fit(target, problem, point.answer.totals, iteration - 1, halvings)
                return (yield from _at_the_end(end, limits, penalty, last)) if last else end
            if penalty is None and limits.outcomes and _without_error(point, limits.weight):
                raise separated()
            # Expected weights may be less than half of the curvature there is: whole steps then jump over the end.
            damping += grows
        if iteration > limits.max_iterations:
            break
        request = Request(purpose, iteration, target, totals, gram=True, constant_only=constant_only)
        point, halved = yield from _advance(point, target, step, rounding, penalty, request, damping)
        halvings += halved
    if moved >= _FOR_EVER and penalty is None:
        raise separated()
    raise not_converged(limits.max_iterations)


def _problem(answer: Answer, n: int, penalty: Float | None, since: Float | None) -> Triangle:
    """The weighted problem of a step from these coefficients, or of the first ones."""
    if penalty is None:
        return triangle(_factor(answer), 1, n)
    rest = None if since is None else -(penalty @ since)
    return triangle(_factor(answer), 1, n, penalty, rest)


def _at_the_end(end: Fit, limits: Limits, penalty: Float | None, totals: tuple[str, ...]) -> Steps:
    """The same with the problem and the totals at its coefficients: those before were one step away."""
    answer = yield from asked(Request("last", end.iterations + 1, end.beta, totals, gram=True))
    return replace(end, problem=_problem(answer, limits.n, penalty, end.beta), totals=answer.totals)


def _without_error(point: _Point, weight: float) -> bool:
    """Whether all targets are outcomes and predicted as such; shares have a deviance of 0 where the model is theirs."""
    outcomes = point.answer.totals.get("entropy", 0.0) <= _NO_SHARE * point.objective
    return outcomes and point.objective <= _NO_DEVIANCE * weight


def _proposal(
    problem: Triangle, point: _Point | None, free: int, last: float, before: Float, errors: Float
) -> Proposal:
    """The step that a factor asks for."""
    target = problem.solve(free, None if point is None else point.beta[:, None])[:, 0]
    length, moving = math.inf, False
    if point is not None:
        length = _length(problem, target, point.beta)
        usual = before * max(0.5, _APART * length / last)
        least = _STILL_MOVING * (np.abs(point.beta) + errors)
        moving = bool(np.any(np.abs(_determined(problem, target - point.beta)) > np.maximum(usual, least)))
    reach = float(np.linalg.norm(problem.A)) * float(np.linalg.norm(problem.scale * target))
    rounding = _ROUNDING * EPS * (float(np.linalg.norm(problem.B)) + reach)
    numbers = np.concatenate((target, (length, rounding, float(moving), float(problem.rank))))
    return Proposal(numbers, problem, None if point is None else point.beta)


def _determined(problem: Triangle, step: Float) -> Float:
    """A step without what dependent columns leave open: that is rounding, as large as units differ."""
    if problem.full:
        return step
    null, scaled = problem.Vt[problem.rank :].T, problem.scale * step
    found: Float = (scaled - null @ (null.T @ scaled)) / problem.scale
    return found


def _length(problem: Triangle, target: Float, since: Float | None) -> float:
    """The length of a step in the metric of the weighted problem."""
    return math.inf if since is None else float(np.linalg.norm(problem.A @ (problem.scale * (target - since))))


def _advance(
    point: _Point | None,
    target: Float,
    step: float,
    rounding: float,
    penalty: Float | None,
    request: Request,
    damping: int,
) -> Steps:
    """The first point on the way back from ``target`` whose objective has fallen enough (Armijo's rule); halvings.

    Along the whole step the objective falls at first at a rate of twice the square of its length. Linear predictors
    are known to ``rounding`` in the metric of the step, and the objective to what that makes of it. ``damping`` of the
    halvings are made before the first point.
    """
    for halved in range(damping, damping + _MOST_HALVINGS + 1):
        beta = target if point is None else point.beta + (target - point.beta) / 2.0**halved
        more = 0.0 if penalty is None else _squares(penalty, beta)
        bar = math.inf
        if point is not None:
            bar = point.objective - _LEAST_FALL * 2.0 * step**2 / 2.0**halved + _SLACK * (abs(point.objective) + EPS)
            bar += rounding * (rounding + 2.0 * math.sqrt(abs(point.objective)))
        answer = yield from asked(replace(request, beta=beta, most=bar - more))
        deviance = answer.totals["deviance"]
        if math.isfinite(deviance) and deviance <= bar - more:
            return _Point(beta, answer, deviance + more), halved - damping
        if point is None:
            raise DataError("the first coefficients have no finite deviance", "standardise the features")
    raise NotConverged(
        f"the deviance does not fall after {_MOST_HALVINGS} halvings of a step",
        "standardise the features, or add a ridge penalty (alpha)",
    )


def _unseen(point: _Point, step: float) -> bool:
    """Whether a step is so short that the objective does not show whether it went too far."""
    return _LEAST_FALL * 2.0 * step**2 <= _SLACK * abs(point.objective)


def _squares(penalty: Float, beta: Float) -> float:
    """``||penalty @ beta||^2``, rounded the same way on every machine."""
    return math.fsum(math.fsum((row * beta).tolist()) ** 2 for row in penalty)


def not_converged(iterations: int) -> NotConverged:
    """The same text whatever the data is."""
    return NotConverged(
        f"the coefficients still move after {iterations} iterations",
        "allow more iterations (max_iterations), standardise the features, or add a ridge penalty (alpha)",
    )


def _unit(limits: Limits, problem: Triangle, totals: Mapping[str, float]) -> float:
    """One standard error in the metric of the weighted problem: the root of the scale, where one is estimated."""
    if not limits.dispersion:
        return 1.0
    return math.sqrt(max(totals["pearson"], 0.0) / max(1, limits.n - problem.rank))  # noise may take it below zero


def _factor(answer: Answer) -> Float:
    if answer.factor is None:
        raise ShapeError("an answer to a step has no factor of the joint Gram matrix")
    return answer.factor


def separated() -> Separated:
    return Separated(
        "a combination of features predicts the outcome without error, so the coefficients grow for ever",
        "add a ridge penalty (alpha), or leave out the feature that does (drop)",
    )
