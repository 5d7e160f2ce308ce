"""What an iteration by few digits asks for and knows (``newton.py``): points, requests, what is opened, how it ends."""

from dataclasses import dataclass

import numpy as np

from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class Point:
    """Coefficients of centred columns, and what is computed there."""

    beta: Float  # equation after equation, an intercept first
    centre: Float  # (features,)
    information: bool
    expected: bool = True  # else the curvature itself
    constant_only: bool = False


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


@dataclass(frozen=True, repr=False)
class Sizes:
    """The exponent of a power of two above every party's own number, for each number of a kind."""

    of: str  # "columns", "start", "end", "null" or "likelihood"
    at: Point | None = None
    scale: float = 1.0


@dataclass(frozen=True, repr=False)
class Asked:
    """Totals of a kind in these units; a unit of 0 asks for nothing."""

    of: str  # "moments", "score", "information", "table", "end", "null" or "likelihood"
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

    @property
    def first(self) -> int:
        return int(self.intercept or self.constant_only)

    @property
    def width(self) -> int:
        """Coefficients of one equation."""
        return self.first + (0 if self.constant_only else self.features)

    @property
    def coefficients(self) -> int:
        return self.equations * self.width


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
