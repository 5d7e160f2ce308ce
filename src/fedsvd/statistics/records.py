"""A party's own records of a model by Newton steps, in memory: what is asked of them at a point (``newton.py``).

A model whose own part is one sum over rows in panels is ``glm_digits.py``'s. Every other one (risk sets, thresholds,
clusters) is a class of this kind: it knows its own rows and labels, and no party. ``part`` is the mathematics;
``largest_part`` is what the owner tests before anything of that part is sent.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import ConfigError
from fedsvd.statistics.newton_requests import Evaluation, Point
from fedsvd.statistics.robust import Scores
from fedsvd.types import Float

MOST_DEVIANCE, GROWN = 16.0, 8.0
"""Of an own record, in units of the dispersion; and beyond outcomes of classes, of what it was at the null model."""

FEW = 1e-10
"""Of the largest eigenvalue: directions that own rows do not have."""

BY_TRACE = 0.5
"""A record whose trace is above is measured by its largest eigenvalue."""

_OWN_STEPS, _SHORT = 15, 1e-3  # of a fit of own records, in deviations of a column


class OwnRecords(ABC):
    """Own records of one model."""

    weight: float  # of own records, by which an own deviance is judged
    tested: slice = slice(None)  # parameters whose information is tested for single records
    by_expected: bool = False  # whether the expected one is, whichever is sent
    concave: bool = False  # the curvature is positive wherever it is, so that a limit may be of it too
    of_person: NDArray[np.intp] | None = None  # of each row as it came, where persons have several

    @abstractmethod
    def part(self, at: Point) -> Evaluation:
        """Own deviance, score and, where it is asked for, information; ``Evaluation.weights`` may be empty."""

    @abstractmethod
    def largest_part(self, at: Point, root: Float) -> float:
        """The largest part of one record (or person, or cluster) in the own information at a point.

        Of a record's part M it is the largest eigenvalue of ``root^T M root``; ``root root^T`` is the inverse of the
        own information on the directions that it has.
        """

    @abstractmethod
    def spread(self, at: Point) -> Float:
        """The own root mean square of each column about its centre, (features,)."""

    @abstractmethod
    def moments(self) -> Float:
        """Own sums: of weights, of the offset's share, of the outcome (one, or one for each class)."""

    @abstractmethod
    def end(self, of: str, at: Point, scale: float) -> Float:
        """Own parts of the sums of this name that the fit asks for besides: of "end" and "null" two numbers."""

    def on_the_way(self) -> Iterator[Float]:
        """Parameters that a fit of these records alone would come by; none of a model that does not search for them."""
        return iter(())

    def scores(self, at: Point) -> Scores:
        """The score of each own record, for robust errors; of a model that has none, an error."""
        raise ConfigError(
            "this model has no scores of single records, of which robust errors are made", "leave cov_type out"
        )

    def columns(self) -> tuple[Float, Float]:
        """Own sums of the columns, and their root mean squares; of a model that opens no means, zeros."""
        none = np.zeros(self.features)
        return none, none

    def most_deviance(self, start: float) -> float:
        """The own deviance beyond which a point is none of an honest iteration; ``start``: at the null model."""
        return MOST_DEVIANCE * self.weight + GROWN * start

    @property
    @abstractmethod
    def features(self) -> int:
        """Columns of the table."""


class RowRecords(OwnRecords):
    """Records of which each has a term of its own: rows X, an outcome, weights, an offset."""

    def __init__(self, X: Float, y: Float, weights: Float | None = None, offset: Float | None = None) -> None:
        self._X, self._y = X, y
        self._prior = np.ones(len(y)) if weights is None else weights
        self._offset = 0.0 if offset is None else offset
        self.weight = float(self._prior.sum())

    @property
    def features(self) -> int:
        return int(self._X.shape[1])

    def columns(self) -> tuple[Float, Float]:
        return self._X.sum(axis=0), np.sqrt(np.einsum("ij,ij->j", self._X, self._X) / max(len(self._X), 1))

    def spread(self, at: Point) -> Float:
        found: Float = np.sqrt(np.square(self._X - at.centre).sum(axis=0) / max(len(self._X), 1))
        return found


def largest_share(records: OwnRecords, at: Point, information: Float, scale: Float) -> float:
    """The largest part of a record in the own information, on the directions that it has; ``scale``: of parameters."""
    scaled = information / np.multiply.outer(scale, scale)
    if not np.isfinite(scaled).all():
        return math.inf
    values, vectors = np.linalg.eigh(scaled)
    kept = values > FEW * max(values[-1], 0.0)
    root = vectors[:, kept] / np.sqrt(values[kept]) / scale[:, None]
    with np.errstate(all="ignore"):
        return records.largest_part(at, root)


def own_way(evaluate: Callable[[Float, bool], Evaluation], start: Float, scale: Float) -> Iterator[Float]:
    """Parameters on the way from a start to the fit of own records, held near it by a prior of deviation 1 / scale."""
    beta, prior = start, np.diag(np.square(scale))

    def objective(deviance: float, at: Float) -> float:
        return deviance + float((at - start) @ prior @ (at - start))

    for _ in range(_OWN_STEPS):
        yield beta
        own = evaluate(beta, True)
        step: Float = np.linalg.solve(own.information + prior, own.score - prior @ (beta - start))
        here = objective(own.deviance, beta)
        while objective(evaluate(beta + step, False).deviance, beta + step) > here and np.abs(step).max() > 0.0:
            step = step / 2.0
        beta = beta + step
        if np.abs(step * scale).max() < _SHORT:
            break
    yield beta


def largest_of(traces: Float, part: Callable[[int], Float], of_person: NDArray[np.intp] | None = None) -> float:
    """The largest part of a record, or person, from upper bounds of all rows; where a bound is above a half it is the
    largest eigenvalue of the sum of its rows' parts."""
    if not np.isfinite(traces).all():
        return math.inf
    bounds = _of_persons(traces, of_person)
    found = float(bounds[bounds <= BY_TRACE].max(initial=0.0))
    for each in np.flatnonzero(bounds > BY_TRACE).tolist():
        rows = [each] if of_person is None else np.flatnonzero(of_person == each).tolist()
        found = max(found, float(np.linalg.eigvalsh(np.sum([part(row) for row in rows], axis=0))[-1]))
    return found


def largest_bound(bounds: Float, of_person: NDArray[np.intp] | None) -> float:
    """The largest of these bounds of rows, added up over a person; infinite where one is not a number."""
    return float(_of_persons(bounds, of_person).max(initial=0.0)) if np.isfinite(bounds).all() else math.inf


def _of_persons(bounds: Float, of_person: NDArray[np.intp] | None) -> Float:
    if of_person is None:
        return bounds
    return np.asarray(np.bincount(of_person, weights=np.maximum(bounds, 0.0)), np.float64)
