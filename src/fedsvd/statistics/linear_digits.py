"""Linear regression by sums of few digits: the fit as a generator without data (specification, section 3).

The Gram matrix of a linear model does not depend on its coefficients: it is opened once, in as many digits as standard
errors need, and every score after it brings twelve bits more of the coefficients, to the last that float64 has.

    columns     powers of two above every party's root mean squares; with an intercept means in 16 bits, and powers of
                two about these
    table       the Gram matrix in twelve bits, then in twelves of what is left at home up to 16 + log2(condition)
    score       products of columns and residuals, 14 bits of what the last one leaves of each target
    end         residual squares of each target
    squares     the middle matrix of robust errors, in twelves while any variance is within rounding

Requests are those of ``newton_requests.py``. Columns are the features, then the targets; sums are of columns divided by
the powers of two that were found last, and so are coefficients. All arithmetic that decides what is asked for next is
elementwise (``positive.py``), so every party comes to the same request.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from fedsvd.errors import NotConverged
from fedsvd.statistics.centred import infer_centred
from fedsvd.statistics.inference import LinearInference
from fedsvd.statistics.meats import in_pieces, opened_squares
from fedsvd.statistics.newton import (
    DEVIATION,
    MEAN_BITS,
    MOST_BITS,
    NOISE,
    SCORE_BITS,
    TWELVE,
    Fitting,
    by_size,
    dependent,
    ending_bits,
    opened,
    power,
    powers,
)
from fedsvd.statistics.newton_requests import Asked, Point, Sizes
from fedsvd.statistics.positive import Factor, factor, squares
from fedsvd.types import Float

MOST_SCORES = 10
"""Scores of a fit at most; five or six are usual."""

_EPS = float(np.finfo(np.float64).eps)
_LAST = 2.0**-52  # of a target: rounding of a step below it adds no digit
_SETTLED = 2.0**-20, 2.0**-36  # the last step: of the residuals' deviation, or of the target where it is fitted exactly
_LEFT = 2.0**-13  # of a score after its step, by a matrix of 16 bits beyond those of its condition


@dataclass(frozen=True, repr=False)
class LinearShape:
    """What the fit knows of its model: all of it is public."""

    users: int
    n: int
    features: int
    targets: int
    intercept: bool
    weight: float  # of all records together: their number, or the sum of their weights
    log_weights: float
    alpha: float
    table: int  # bits beyond those of the condition
    robust: bool = False  # the inverse stands twice in robust errors, and has one bit more

    @property
    def first(self) -> int:
        return int(self.intercept)

    @property
    def width(self) -> int:
        """Coefficients of one target."""
        return self.first + self.features


@dataclass(frozen=True, repr=False)
class LinearFit:
    """Every target's table, with what its robust errors need; ``step`` is the last one, in standard errors."""

    models: tuple[LinearInference, ...]
    root: Float  # of the inverse Gram matrix of centred and scaled columns, equal at every party to the last bit
    targets: Float  # the powers of two that targets are divided by
    step: float


def fit_by_digits(shape: LinearShape) -> Fitting:
    """The whole fit: a ``LinearFit``."""
    f, t, first = shape.features, shape.targets, shape.first
    centre, sizes = yield from _columns(shape)
    x, y = np.concatenate((np.ones(first), sizes[:f])), sizes[f:]
    penalty = np.zeros(shape.width)
    penalty[first:] = shape.alpha / np.square(x[first:])
    flat = Point(np.zeros(shape.width * t), centre, information=True)
    A = yield from _gram(shape, flat, penalty)
    solved = _factored(A + np.diag(penalty))
    B, step = yield from _solution(shape, flat, solved, penalty)
    at = replace(flat, beta=B.ravel())
    residual = np.maximum((yield from by_size("end", at, shape.users, ending_bits(shape.table))), 0.0)
    spread = np.sqrt(residual / max(1, shape.n - shape.width))
    exact = _SETTLED[1] * math.sqrt(shape.weight)
    if not (np.isfinite(step).all() and (step <= np.maximum(_SETTLED[0] * spread, exact)).all()):
        raise NotConverged(
            "the scores of a linear regression do not fall", 'run again, or take another way: digits = "all"'
        )
    models = _tables(shape, A, penalty, B * y / x[:, None], residual * np.square(y), centre, x)
    root = solved.inverse_root()
    natural = root / x[:, None]
    if first:
        natural[0] -= centre[:f] @ natural[1:]
    if shape.alpha == 0.0:
        models = tuple(replace(model, root=natural) for model in models)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = float(np.max(np.where(spread > 0.0, step / spread, 0.0), initial=0.0))
    return LinearFit(models, root, y, relative)


def squares_by_digits(fit: LinearFit, shape: LinearShape) -> Fitting:
    """The sum of squared scores of every target, (targets, width, width); None where a party has it undefined."""
    total = yield from opened_squares(fit.root, shape.users, shape.table)
    return None if total is None else total * np.square(fit.targets)[:, None, None]


# --- sums -------------------------------------------------------------------------------------------------------------


def _columns(shape: LinearShape) -> Fitting:
    """Where columns are centred, and the powers of two that bring their root mean squares below 1."""
    found = yield Sizes("columns")
    assert isinstance(found, np.ndarray)
    centre = np.zeros(shape.features + shape.targets)
    if not shape.intercept:
        return centre, powers(found)
    units = np.full(len(centre), power(shape.weight) * 2.0**-MEAN_BITS)
    centre = (yield from opened(Asked("moments", units))) / shape.weight * powers(found)
    found = yield Sizes("start", Point(np.zeros(0), centre, information=False))
    assert isinstance(found, np.ndarray)
    return centre, powers(found)


def _gram(shape: LinearShape, at: Point, penalty: Float) -> Fitting:
    """The Gram matrix of scaled columns, in as many bits as its condition and the table ask for."""
    # Own root mean squares are below 1: so is every entry, in units of the joint weight.
    P, bound = shape.width, power(shape.weight)

    def wanted(found: Float, units: Float, bits: int) -> int:
        A = found[0] + np.diag(penalty)
        rounding = 2.0 * math.sqrt(P * shape.users) * (1 + NOISE) * float(units[0])
        settled = factor(A - rounding * np.eye(P))
        if isinstance(settled, int):
            if bits >= MOST_BITS:
                raise dependent(settled - shape.first + 1)
            return bits + TWELVE
        inverse = squares(_factored(A).inverse_root())
        return shape.table + int(shape.robust) + math.frexp(bound * inverse * math.sqrt(shape.users))[1]

    found: Float = yield from in_pieces("table", at, P, np.array([bound]), wanted)
    return found[0]


def _solution(shape: LinearShape, flat: Point, solved: Factor, penalty: Float) -> Fitting:
    """Coefficients, (width, targets), and the length of each target's last step."""
    B = np.zeros((shape.width, shape.targets))
    inverse = squares(solved.inverse_root())
    units = np.full(shape.targets, power(shape.weight) * 2.0**-SCORE_BITS)
    step = np.zeros(shape.targets)
    for _ in range(MOST_SCORES):
        asked = Asked("score", np.tile(units, shape.width), replace(flat, beta=B.ravel()))
        score = (yield from opened(asked)).reshape(B.shape) - penalty[:, None] * B
        B = B + np.column_stack([solved.solve(column) for column in score.T])
        step = np.array([math.sqrt(squares(solved.forward(column))) for column in score.T])
        noise = DEVIATION * units * math.sqrt(shape.users * inverse)
        if (noise <= _LAST * math.sqrt(shape.weight)).all():
            break
        # The next score is what rounding left of this one, or what the rounded matrix makes of it.
        left = math.sqrt(shape.width) * np.abs(score).max(axis=0) * _LEFT
        next_one = np.maximum(left, math.sqrt(shape.users * shape.width) * (1 + NOISE) * units)
        units = np.array([power(value) for value in next_one.tolist()]) * 2.0**-SCORE_BITS
    return B, step


# --- tables -----------------------------------------------------------------------------------------------------------


def _tables(
    shape: LinearShape, A: Float, penalty: Float, w: Float, residual: Float, centre: Float, x: Float
) -> tuple[LinearInference, ...]:
    """Tables of all targets, from a factor that has the opened Gram matrix, coefficients and residual squares."""
    f, first = shape.features, shape.first
    mean, slopes = None, w[first:]
    inner = A[first:, first:]
    if first:
        inner = inner - np.multiply.outer(A[0, 1:], A[0, 1:]) / A[0, 0]
        of_features = centre[:f] + A[0, 1:] / A[0, 0] * x[1:]
        mean = np.concatenate((of_features, w[0] + centre[f:] + (of_features - centre[:f]) @ slopes))
    R_x = _factored(inner + np.diag(penalty[first:])).L.T * x[first:]
    if mean is not None:
        # A target within rounding of its mean does not vary, as for all other tables (``compress/centre.py``).
        varies = np.square(R_x @ slopes).sum(axis=0) + residual
        constant = np.sqrt(varies / shape.weight) <= shape.n * _EPS * np.abs(mean[f:])
        slopes, residual = np.where(constant, 0.0, slopes), np.where(constant, 0.0, residual)
    left = residual + shape.alpha * np.square(slopes).sum(axis=0)
    R = np.block([[R_x, R_x @ slopes], [np.zeros((shape.targets, f)), np.diag(np.sqrt(left))]])
    return infer_centred(
        R,
        shape.n,
        slopes,
        mean=mean,
        rank=f,
        alpha=shape.alpha,
        weight=shape.weight,
        log_weights=shape.log_weights,
    )


def _factored(A: Float) -> Factor:
    found = factor(A)
    if isinstance(found, int):
        raise dependent(found)
    return found
