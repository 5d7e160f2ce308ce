"""The iteration of reweighted least squares, for any model whose Newton step is a weighted regression.

It holds no data: each step asks for the joint sum at given coefficients and solves from what comes back. It ends when
the next step is below ``tolerance`` standard errors. A step that does not lower the penalised deviance is halved.
Where the likelihood stops to change while the coefficients still move, they have no finite value: ``Separated``.
"""

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedsvd.errors import DataError, NotConverged, Separated, ShapeError
from fedsvd.statistics.triangle import EPS, Triangle, triangle
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
_NO_DEVIANCE = 1e-7  # per unit of weight: all outcomes are predicted without error


@dataclass(frozen=True, repr=False)
class Request:
    """What the driver needs next, from all parties together."""

    purpose: str  # "step", "null" or "likelihood"
    iteration: int
    beta: Float | None  # None: the start, which each row has of its own
    totals: tuple[str, ...]
    gram: bool
    constant_only: bool = False  # the model with a constant and no features
    scale: float = 1.0


@dataclass(frozen=True, repr=False)
class Contribution:
    """A party's part of the joint sum: rows whose Gram matrix is added (or None), and totals in the order asked for."""

    rows: Float | None
    totals: tuple[float, ...]


@dataclass(frozen=True, repr=False)
class Answer:
    """The joint sum: R, (any, q + 1), with the summed Gram matrix ``R^T R``, and the totals by name."""

    factor: Float | None
    totals: Mapping[str, float]


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
    """Where the iteration ended: coefficients, the last weighted problem, and the totals of the last answer."""

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


def combined(request: Request, parts: Sequence[Contribution]) -> Answer:
    """The joint sum in one place: for tests, and where one party holds all rows."""
    rows = [part.rows for part in parts if part.rows is not None]
    factor = np.concatenate(rows) if request.gram else None
    sums = np.sum([part.totals for part in parts], axis=0)
    return Answer(factor, dict(zip(request.totals, map(float, sums), strict=True)))


def iterate(
    start: Answer,
    limits: Limits,
    penalty: Float | None,
    totals: tuple[str, ...],
    *,
    free: int = 0,
    constant_only: bool = False,
) -> Generator[Request, Answer, Fit]:
    """From the answer to the first request to the end; ``||penalty @ beta||^2`` is added to the deviance.

    ``totals`` are asked for at each step: the deviance, and ``pearson`` where a scale is estimated.

    Coefficients before ``free`` have no part in the norm that is least where the columns are dependent.
    """
    with np.errstate(divide="ignore"):
        errors = 1.0 / np.linalg.norm(_factor(start)[:, :-1], axis=0)
    before = np.zeros_like(errors)
    purpose = "null" if constant_only else "step"
    point: _Point | None = None
    halvings, step, moving = 0, math.inf, False
    for iteration in range(1, limits.max_iterations + 2):
        problem = triangle(_factor(point.answer if point else start), 1, limits.n, penalty)
        target = problem.solve(free)[:, 0]
        if point is not None:
            move = target - point.beta
            last, step = step, float(np.linalg.norm(problem.A @ (problem.scale * move)))
            usual = before * max(0.5, _APART * step / last)
            moving = bool(np.any(np.abs(move) > np.maximum(usual, _STILL_MOVING * (np.abs(point.beta) + errors))))
            before = np.abs(move)
            unit = _unit(limits, problem, point.answer.totals)
            if penalty is None and moving and step <= _STALLED * unit:
                raise _separated()
            if step <= max(limits.tolerance * unit, 64.0 * EPS * float(np.linalg.norm(problem.B))):
                return Fit(target, problem, point.answer.totals, iteration - 1, halvings)
            if penalty is None and limits.outcomes and point.objective <= _NO_DEVIANCE * limits.weight:
                raise _separated()
        if iteration > limits.max_iterations:
            break
        point, halved = yield from _advance(
            point,
            target,
            step,
            penalty,
            Request(purpose, iteration, target, totals, gram=True, constant_only=constant_only),
        )
        halvings += halved
    if moving and penalty is None:
        raise _separated()
    raise NotConverged(
        f"{limits.max_iterations} iterations ended {step:.1e} standard errors from the next coefficients",
        "allow more iterations, standardise the features, or add a ridge penalty",
    )


def _advance(
    point: _Point | None, target: Float, step: float, penalty: Float | None, request: Request
) -> Generator[Request, Answer, tuple[_Point, int]]:
    """The first point on the way back from ``target`` whose objective has fallen enough (Armijo's rule).

    Along the whole step the objective falls at first at a rate of twice the square of its length.
    """
    for halved in range(_MOST_HALVINGS + 1):
        beta = target if point is None else point.beta + (target - point.beta) / 2.0**halved
        answer = yield replace(request, beta=beta)
        objective = answer.totals["deviance"]
        if penalty is not None:
            objective += float(np.sum(np.square(penalty @ beta)))
        bar = math.inf
        if point is not None:
            bar = point.objective - _LEAST_FALL * 2.0 * step**2 / 2.0**halved + _SLACK * (abs(point.objective) + EPS)
        if math.isfinite(objective) and objective <= bar:
            return _Point(beta, answer, objective), halved
        if point is None:
            raise DataError("the first coefficients have no finite deviance", "standardise the features")
    raise NotConverged(
        f"the deviance does not fall after {_MOST_HALVINGS} halvings of a step",
        "standardise the features, or add a ridge penalty",
    )


def _unit(limits: Limits, problem: Triangle, totals: Mapping[str, float]) -> float:
    """One standard error in the metric of the weighted problem: the root of the scale, where one is estimated."""
    return math.sqrt(totals["pearson"] / max(1, limits.n - problem.rank)) if limits.dispersion else 1.0


def _factor(answer: Answer) -> Float:
    if answer.factor is None:
        raise ShapeError("an answer to a step has no factor of the joint Gram matrix")
    return answer.factor


def _separated() -> Separated:
    return Separated(
        "a combination of features predicts the outcome without error, so the coefficients grow for ever",
        "add a ridge penalty, or leave out the feature that does",
    )
