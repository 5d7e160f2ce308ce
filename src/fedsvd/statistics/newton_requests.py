"""What an iteration by few digits asks for and knows (``newton.py``): points, requests, what is opened, how it ends."""

from dataclasses import dataclass

import numpy as np

from fedsvd.statistics.robust import USUAL, Errors
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class Point:
    """Coefficients of centred columns, and what is computed there."""

    beta: Float  # equation after equation, an intercept first
    centre: Float  # (features,)
    information: bool
    expected: bool = True  # else the curvature itself
    constant_only: bool = False
    near: bool = False  # whether columns are so near to zero that their centre may be taken off products with them
    final: bool = False  # whether the information is that of the table
    tilt: Float | None = None  # what is public of a term that is no sum; each party adds its own part of that
    turn: Float | None = None  # the coordinates in which squared scores are summed
    along: Float | None = None  # a step, of a test of all effects


@dataclass(frozen=True, repr=False)
class Evaluation:
    """A party's own part at a point, from some of its rows; parts of a party add up."""

    deviance: float
    pearson: float
    score: Float  # (P,), the gradient of the log-likelihood
    information: Float | None  # (P, P)
    weights: Float  # (rows, equations): what each row weighs in the information of each equation

    def __repr__(self) -> str:
        return f"Evaluation(coefficients={len(self.score)})"


def design(at: Point, X: Float, first: int) -> Float:
    """Columns as they are summed: a constant where the model has one, then the centred features; a copy."""
    rows = np.empty((X.shape[0], first + X.shape[1]))
    rows[:, :first] = 1.0
    np.subtract(X, at.centre[: X.shape[1]], out=rows[:, first:])
    return rows


class Columns:
    """The columns of ``design``, by products with them.

    Where they are near to zero they are not copied: what is taken off a product is at most eight times as large as the
    product, three bits of it.
    """

    def __init__(self, at: Point, X: Float, first: int) -> None:
        self._X = X if at.near else design(at, X, first)
        self._centre = at.centre[: X.shape[1]]
        self._first, self._near = first, at.near
        self.shape = X.shape[0], first + X.shape[1]

    def times(self, beta: Float) -> Float:
        """The linear predictor."""
        if not self._near:
            return np.asarray(self._X @ beta)
        slopes = beta[self._first :]
        return np.asarray(self._X @ slopes + (beta[: self._first].sum() - self._centre @ slopes))

    def turned(self, values: Float) -> Float:
        """Their inner products with values of the rows."""
        products: Float = self._X.T @ values
        if not self._near:
            return products
        total = values.sum()
        return np.concatenate((np.full(self._first, total), products - total * self._centre))

    def squared(self, weights: Float) -> Float:
        """Their weighted Gram matrix; what was copied is spent."""
        root = np.sqrt(weights)
        if not self._near:
            self._X *= root[:, None]
            return np.asarray(self._X.T @ self._X)
        scaled, first = self._X * root[:, None], self._first
        sums, total = scaled.T @ root, float(weights.sum())
        found = np.empty((self.shape[1], self.shape[1]))
        found[:first, :first] = total
        off = np.multiply.outer(self._centre, sums - 0.5 * total * self._centre)
        found[first:, first:] = scaled.T @ scaled - off - off.T
        found[:first, first:] = sums - total * self._centre
        found[first:, :first] = found[:first, first:].T
        return found


@dataclass(frozen=True, repr=False)
class Tilt:
    """What is public of a term that is no sum, at a point."""

    public: Float  # by it each party computes its own part of the term's slope and curvature
    deviance: float  # the term itself
    given: Float  # (P, P): entries of the information that it knows, and that are no longer opened
    lean: Float  # (P, P): what it adds to the curvature besides own parts


@dataclass(frozen=True, repr=False)
class Sizes:
    """The exponent of a power of two above every party's own number, for each number of a kind."""

    of: str  # "columns" and "start", else what is asked for next: "end", "null", "likelihood", ...
    at: Point | None = None
    scale: float = 1.0


@dataclass(frozen=True, repr=False)
class Asked:
    """Totals of a kind in these units; a unit of 0 asks for nothing."""

    of: str  # "moments", "tilt", "score", "information", "table", "end", "null", "likelihood", ...
    units: Float
    at: Point | None = None
    scale: float = 1.0
    piece: int = 0  # of an information matrix: what is left of it after this number


@dataclass(frozen=True, repr=False)
class Totals:
    """What was opened; None where a party's home test failed, ``beyond`` where its own deviance was too large."""

    values: Float | None
    beyond: bool = False


@dataclass(frozen=True, repr=False)
class Shape:
    """What the iteration knows of its model: all of it is public."""

    users: int
    n: int
    features: int
    equations: int
    intercept: bool
    targets: int  # numbers of the outcome among the moments: its sum, or one for each class
    weighted: bool
    counted: bool  # whether these are whole numbers
    dispersion: bool
    tolerance: float
    max_iterations: int
    table: int  # bits beyond those of the condition
    penalty: Float | None = None  # a matrix, as it is added to the information
    constant_only: bool = False
    extra: int = 0  # parameters that are of no column, after all others: thresholds, log theta, variances
    centred: bool = False  # columns are centred though there is no intercept, since the extra parameters take it up
    errors: Errors = USUAL
    apart: int = 0  # of the extra parameters those that robust errors take as known, the last ones

    @property
    def centres(self) -> bool:
        """Whether columns are centred by their joint means."""
        return self.intercept or self.centred

    @property
    def first(self) -> int:
        return int(self.intercept or self.constant_only)

    @property
    def width(self) -> int:
        """Coefficients of one equation."""
        return self.first + (0 if self.constant_only else self.features)

    @property
    def coefficients(self) -> int:
        return self.equations * self.width + self.extra

    @property
    def scored(self) -> int:
        """Coefficients whose scores are squared for robust errors."""
        return self.coefficients - self.apart


@dataclass(frozen=True, repr=False)
class Moments:
    """Opened at the beginning: the sum of weights, that of the offset's share, sums of the outcome, column means."""

    weight: float
    shift: float
    targets: Float
    means: Float


@dataclass(frozen=True, repr=False)
class Found:
    """Where the iteration ended; coefficients and the root of the inverse information are those of centred columns."""

    beta: Float
    centre: Float
    root: Float  # of the inverse of the expected information, penalty included
    moments: Moments
    at: Point
    deviance_at_start: float
    decrement: float  # in standard errors, of the last step
    settled: bool  # whether it ended at the tolerance, not where rounding alone is left
    iterations: int
    halvings: int
    start: Point
    first_step: Float  # from the start, and a root of the inverse information by which it was taken
    first_root: Float
