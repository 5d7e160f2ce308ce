"""A party's own records of a model by Newton steps, in memory: what is asked of them at a point (``newton.py``).

A model whose own part is one sum over rows in panels is ``glm_digits.py``'s. Every other one (risk sets, thresholds,
clusters) is a class of this kind: it knows its own rows and labels, and no party. ``part`` is the mathematics;
``largest_part`` is what the owner tests before anything of that part is sent.
"""

from abc import ABC, abstractmethod

import numpy as np

from fedsvd.statistics.newton_requests import Evaluation, Point
from fedsvd.types import Float

MOST_DEVIANCE, GROWN = 16.0, 8.0
"""Of an own record, in units of the dispersion; and beyond outcomes of classes, of what it was at the null model."""


class OwnRecords(ABC):
    """Own records of one model."""

    weight: float  # of own records, by which an own deviance is judged

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
