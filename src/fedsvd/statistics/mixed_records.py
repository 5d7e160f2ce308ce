"""A party's own groups of a linear mixed model, in the units in which all parties add up (``mixed_fit.py``)."""

import math
from dataclasses import dataclass

import numpy as np

from fedsvd.statistics.mixed import Clusters
from fedsvd.statistics.mixed_covariance import Covariance, Variances
from fedsvd.statistics.newton_requests import Evaluation, Point
from fedsvd.statistics.records import OwnRecords
from fedsvd.types import Float

ENDS = 4
"""Sums at the end: deviance, the fixed part of outcomes and its squares, the variance of the random part."""

_MOST_OF_JOINT = 1.25  # of the joint information in any direction; it was rounded


@dataclass(frozen=True)
class Random:
    """Random effects of a group: an intercept, and slopes; and by which criterion they are found."""

    slopes: int = 0
    correlated: bool = True
    reml: bool = True

    @property
    def q(self) -> int:
        return 1 + self.slopes

    @property
    def covariance(self) -> Covariance:
        return Covariance(self.q, self.correlated)


@dataclass(frozen=True)
class Public:
    """What follows the means of the columns in a centre."""

    mean: float
    unit: float
    slopes: tuple[tuple[float, float], ...]  # of each its mean and unit
    covariance: Covariance

    @classmethod
    def of(cls, centre: Float, random: Random) -> "Public":
        s = random.slopes
        mean, unit, *rest = centre[-(4 + 2 * s + random.q) :].tolist()
        slopes = tuple(zip(rest[: 2 * s : 2], rest[1 : 2 * s : 2], strict=True))
        rank, factored, *order = (int(each) for each in rest[2 * s :])
        return cls(mean, unit, slopes, Covariance(random.q, random.correlated, rank, bool(factored), tuple(order)))

    def after(self, means: Float) -> Float:
        """The centre."""
        slopes = [value for pair in self.slopes for value in pair]
        return np.concatenate((means, (self.mean, self.unit), slopes, self.covariance.numbers))


class MixedRecords(OwnRecords):
    """Own rows in groups."""

    def __init__(self, X: Float, y: Float, codes: Float, slopes: Float, random: Random) -> None:
        self._X, self._y, self._codes, self._slopes, self.random = X, y, codes, slopes, random
        self.weight = float(len(y))
        self.tested, self.by_expected = slice(0, 1 + X.shape[1]), True
        self._made: tuple[Float, Clusters] | None = None

    @property
    def features(self) -> int:
        return int(self._X.shape[1])

    def at(self, at: Point) -> tuple[Clusters, Covariance]:
        """The rows as the model takes them, centred, with an intercept, in public units; and how G is parametrised."""
        m, public = self.features, Public.of(at.centre, self.random)
        tail = 2 + self.random.q
        if self._made is None or not np.array_equal(self._made[0], at.centre[:-tail]):
            X = np.column_stack((np.ones(len(self._y)), self._X - at.centre[:m]))
            Z = np.ones((len(self._y), self.random.q))
            for j, (mean, unit) in enumerate(public.slopes):
                Z[:, 1 + j] = (self._slopes[:, j] - mean) / unit
            y = (self._y - public.mean) / public.unit
            self._made = at.centre[:-tail], Clusters(X, Z, y, self._codes)
        return self._made[1], public.covariance

    def part(self, at: Point) -> Evaluation:
        (own, G), p = self.at(at), 1 + self.features
        found = own.evaluate(at.beta[:p], G.at(at.beta[p:]), at.information, at.expected, at.tilt)
        none = np.zeros((0, 1))
        if found is None:  # no distribution: the owner's test of its deviance fails
            P = len(at.beta)
            return Evaluation(math.inf, 0.0, np.zeros(P), np.eye(P) if at.information else None, none)
        return Evaluation(found.deviance, 0.0, found.score, found.information, none)

    def largest_part(self, at: Point, root: Float) -> float:
        """Of a cluster in the own information of the effects; variances are of clusters, of which rules count five."""
        (own, G), p = self.at(at), 1 + self.features
        return own.leverage(G.at(at.beta[p:]), root)

    def within(self, at: Point) -> bool:
        """Whether the own information of the effects is a part of the joint one, whose inverse is public."""
        (own, G), p = self.at(at), 1 + self.features
        slopes = own.slopes(G.at(at.beta[p:]))
        if slopes is None or at.tilt is None or not np.isfinite(at.tilt).all():
            return False
        values, vectors = np.linalg.eigh(at.tilt)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return bool(np.linalg.eigvalsh(root.T @ slopes[0] @ root)[-1] <= _MOST_OF_JOINT)

    def spread(self, at: Point) -> Float:
        found: Float = np.sqrt(np.square(self._X - at.centre[: self.features]).mean(axis=0))
        return found

    def moments(self) -> Float:
        """Of the outcome, and of each slope, the sum and the squares about the own mean; of the outcome what a line of
        each group leaves, with its degrees of freedom; the number of groups."""
        measured = [self._y, *self._slopes.T]
        sums = [(float(each.sum()), float(np.square(each - each.mean()).sum())) for each in measured]
        Z = np.column_stack((np.ones(len(self._y)), self._slopes - self._slopes.mean(axis=0)))
        own = Clusters(np.zeros((len(self._y), 0)), Z, self._y - self._y.mean(), self._codes)
        left, freedom = own.residual()
        return np.array([0.0, 0.0, *(value for pair in sums for value in pair), left, freedom, len(own)])

    def columns(self) -> tuple[Float, Float]:
        return self._X.sum(axis=0), np.sqrt(np.square(self._X).mean(axis=0))

    def end(self, of: str, at: Point, scale: float) -> Float:
        (own, G), p = self.at(at), 1 + self.features
        point = G.at(at.beta[p:])
        if of == "end":
            return _ends(own, at.beta[:p], point)
        # As many numbers as the plan has, on a face of fewer parameters too.
        v, triangle = self.random.covariance.parameters, np.triu_indices(p)
        length = {"tilt": 1, "degrees": 0}.get(of, v) * len(triangle[0]) or v * p
        found = np.zeros(length)
        matrices = own.slopes(point)
        if matrices is None:
            return np.full(len(found), math.inf)
        if of == "degrees":
            assert at.tilt is not None
            turned = shift_of(at.centre[: self.features]) @ at.tilt
            values = np.einsum("pi,uij,pj->up", turned, matrices[1:], turned, optimize=True).ravel()
        else:
            values = (matrices[:1] if of == "tilt" else matrices[1:])[:, *triangle].ravel()
        found[: len(values)] = values
        return found

    def most_deviance(self, start: float) -> float:
        return super().most_deviance(abs(start))


def _ends(own: Clusters, effects: Float, point: Variances) -> Float:
    parts = own.evaluate(effects, point, False, True)
    mean = own.X @ effects
    random = float(np.einsum("ij,jk,ik->", own.Z, point.G, own.Z, optimize=True))
    deviance = math.inf if parts is None else parts.deviance
    return np.array([deviance, float(mean.sum()), float(mean @ mean), random])


def shift_of(centre: Float) -> Float:
    """From effects of centred columns to those of the columns as they are."""
    shift = np.eye(1 + len(centre))
    shift[0, 1:] = -centre
    return shift
