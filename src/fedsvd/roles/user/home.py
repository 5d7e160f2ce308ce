"""What a user computes at home for a model by few digits: its own part of each sum, and the tests before it is sent.

One pass over the rows gives deviance, score and, where it is asked for, information at a point. Before a share of any
of them is made the user tests the point itself (specification, section 3): no row of its own may carry most of what it
would send (leverage), and its own deviance must be one that an iteration of its own rows could come to. A point that
another party steered to would show one record; an honest iteration does not come there.

Leverage needs a factor of the own information and a second pass. Mostly a bound is enough: a row's part is at most its
weighted squared length over the least eigenvalue; and where weights alone have changed since, that bound times by how
much they have.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from fedsvd.errors import LocalProtocolError
from fedsvd.roles.user.models import Model, lanes_of, panels_of
from fedsvd.roles.user.squared_scores import own_clusters
from fedsvd.roles.user.streamed import NEAR_ZERO
from fedsvd.roles.user.work import Work
from fedsvd.statistics.newton_requests import Asked, Evaluation, Point, Sizes, design
from fedsvd.statistics.records import FEW, GROWN, MOST_DEVIANCE
from fedsvd.statistics.robust import CLUSTER, Scores, squared_scores
from fedsvd.statistics.whole_model import own_part
from fedsvd.types import Float

MOST_LEVERAGE = 0.8
"""Of a user's own row in what it sends, at any coefficients but those of the null model."""

MOST_OF_CLUSTERS = 0.95
"""Of one cluster in the squared scores: of five clusters and one coefficient, one in 200 has so much by chance."""

_LANES = 16  # panels that are worked on at once: nothing is kept of one but a few sums
SLACK = 1.0 + 2.0**-10  # leverage at the null model, which the owner has approved, but for rounding


class OwnParts(ABC):
    """One user's own parts of the sums of a model, whatever it makes them of."""

    def __init__(self, work: Work) -> None:
        if work.labels is None:
            raise LocalProtocolError(
                "a generalised linear model needs this party's labels", "name the label column (label)"
            )
        self._work, self._labels = work, work.labels
        self._at: Point | None = None
        self._own: Evaluation | None = None
        self._sent = np.zeros(0)  # of an information matrix
        self._least_leverage = MOST_LEVERAGE
        self._start_deviance: float | None = None
        self._meat: Float | None = None  # the upper triangle of the own sum of squared scores

    # --- numbers --------------------------------------------------------------------------------------------------

    def sizes(self, asked: Sizes) -> Float:
        """Own numbers whose magnitudes bound the joint ones."""
        match asked.of:
            case "columns":
                return self._column_sizes()
            case "start":
                assert asked.at is not None
                return self._start(asked.at)
            case "squares":
                return np.array([np.abs(self._squared_scores(asked)).max()])
            case "all effects":
                assert asked.at is not None
                own = np.abs(own_part(asked.at, self._evaluated(asked.at)))
                return np.array([own[0], own[1:].max()])
            case _:
                return self._end(asked)

    def values(self, asked: Asked) -> Float:
        """Own parts of totals, in natural units."""
        match asked.of:
            case "moments":
                return self._columns()
            case "score":
                assert asked.at is not None
                own = self._evaluated(asked.at)
                return np.concatenate(((own.deviance, own.pearson), own.score))
            case "information" | "table":
                assert asked.at is not None
                own = self._evaluated(asked.at)
                assert own.information is not None
                return self._left(asked, own.information[np.triu_indices(len(own.score))])
            case "squares":
                return self._left(asked, self._squared_scores(asked))
            case "all effects":
                assert asked.at is not None
                return own_part(asked.at, self._evaluated(asked.at))
            case _:
                return self._end(asked)

    def _left(self, asked: Asked, triangle: Float) -> Float:
        """What the pieces before have left of a matrix."""
        if asked.piece == 0:
            self._sent = np.zeros(len(triangle))
        return triangle - self._sent

    def sent(self, asked: Asked, values: Float) -> None:
        """What went into a sum, noise included: the next piece is what is left."""
        if asked.of in ("information", "table", "squares"):
            self._sent = self._sent + values

    def _squared_scores(self, asked: Sizes | Asked) -> Float:
        """Squared scores in the coordinates of a point; beyond all others where one record makes up most of them."""
        assert asked.at is not None
        if isinstance(asked, Sizes):
            found, largest = self.squared_scores(asked.at)
            self._meat = found if largest <= self._most_squared() else np.full_like(found, np.inf)
        assert self._meat is not None
        return self._meat

    def _most_squared(self) -> float:
        """The largest part of one record, or person, in what is sent; of a cluster more, and as much as it has of the
        rows where these are few: of that the owner was asked."""
        if self._work.plan.robust != CLUSTER:
            persons = self._work.persons
            return max(MOST_LEVERAGE, 1.0 / (self._work.n_i if persons is None else 1 + int(persons.max(initial=0))))
        rows = np.unique(own_clusters(self._work), return_counts=True)[1]
        return max(MOST_OF_CLUSTERS, float(rows.max()) / self._work.n_i)

    def squared_scores(self, at: Point) -> tuple[Float, float]:
        """The upper triangle of the own ``M^T M`` (``robust.py``), and the largest part of one record, person or
        cluster."""
        plan, turn = self._work.plan, at.turn
        assert turn is not None
        groups = own_clusters(self._work) if plan.robust == CLUSTER else None
        with np.errstate(all="ignore"):  # what is not finite is refused
            found, largest = squared_scores(self.scores(at), turn, plan.robust, groups, self._work.persons)
        return found[np.triu_indices(len(found))], largest

    @abstractmethod
    def scores(self, at: Point) -> Iterable[tuple[slice, Scores]]:
        """The scores of own records at a point, with their places in the own table."""

    @abstractmethod
    def stands_out(self, at: Point) -> bool:
        """Whether a row of this user would carry most of what it sends at these coefficients."""

    @abstractmethod
    def beyond(self, at: Point, dispersion: float) -> bool:
        """Whether the own deviance is one that no iteration on its own rows would stay at."""

    @abstractmethod
    def _columns(self) -> Float:
        """Own sums: of weights, of the offset's share, of the outcome, of each column."""

    @abstractmethod
    def _column_sizes(self) -> Float:
        """Their magnitudes, and those of the columns."""

    @abstractmethod
    def _start(self, at: Point) -> Float:
        """At the null model: a bound of the scaled information, deviance, Pearson's sum, the spread of each column."""

    @abstractmethod
    def _end(self, asked: Sizes | Asked) -> Float:
        """Deviance and Pearson's sum, or the likelihood."""

    @abstractmethod
    def _evaluated(self, at: Point) -> Evaluation:
        """The own part at a point; one pass, whatever is asked for there."""


class Home(OwnParts):
    """Of a generalised linear model, whose parts are sums over own rows."""

    def __init__(self, work: Work, model: Model) -> None:
        super().__init__(work)
        self._model = model
        self._moments: Float | None = None
        self._raw = np.zeros(0)  # own root mean square of each column
        self._spread = np.ones(work.plan.m)  # own root mean square of each centred column
        self._likely: tuple[Point, float, float] | None = None  # where the likelihood was computed, its scale, itself
        self._tested: tuple[float, Float] | None = None  # a bound of the leverage, and the weights it was found at

    # --- tests ----------------------------------------------------------------------------------------------------

    def stands_out(self, at: Point) -> bool:
        own = self._evaluated(at)
        if not (np.isfinite(own.score).all() and math.isfinite(own.deviance)):
            return True
        if self._tested is not None:
            bound, before = self._tested
            if before.shape == own.weights.shape:
                with np.errstate(all="ignore"):
                    quotient = own.weights / before
                    grown = bound * (quotient.max() / quotient.min())
                if grown <= MOST_LEVERAGE:
                    return False
        bound = self._leverage(at)
        self._tested = bound, own.weights
        return not bound <= self._least_leverage

    def beyond(self, at: Point, dispersion: float) -> bool:
        own, weight = self._evaluated(at), float(self._columns()[0])
        limit = MOST_DEVIANCE * weight * dispersion
        if not self._model.outcomes:
            limit += GROWN * (self._start_deviance or 0.0)
        return not own.deviance <= limit

    def _leverage(self, at: Point) -> float:
        """The largest own leverage at a point, or a bound of it that is small enough."""
        at = Point(at.beta, at.centre, True, at.expected, at.constant_only)
        own = self._evaluated(at)
        assert own.information is not None
        first = int(self._work.plan.centre or at.constant_only)
        spread = np.concatenate((np.ones(first), self._spread[:0] if at.constant_only else self._spread))
        width, largest = len(spread), 0.0
        for equation in range(own.weights.shape[1]):
            block = slice(equation * width, (equation + 1) * width)
            scaled = own.information[block, block] / np.multiply.outer(spread, spread)
            if not np.isfinite(scaled).all():
                return math.inf
            values, vectors = np.linalg.eigh(scaled)
            kept = values > FEW * max(values[-1], 0.0)
            found = math.inf
            if kept.all():
                found = self._longest(at, own.weights[:, equation], first, spread) / float(values[0])
            if not found <= MOST_LEVERAGE:
                root = vectors[:, kept] / np.sqrt(values[kept]) / spread[:, None]
                found = self._exact(at, own.weights[:, equation], first, root)
            largest = max(largest, found)
        return largest

    def _longest(self, at: Point, weights: Float, first: int, spread: Float) -> float:
        """The largest weighted squared length of an own row, or sum over a person's, columns in units of their
        spread."""
        squared = np.square(1.0 / spread[first:])

        def of(place: slice, X: Float) -> Float:
            Z = design(at, X, 0)
            np.square(Z, out=Z)
            return np.asarray(weights[place] * (Z @ squared + first))

        return float(self._of_persons(self._panels(at.constant_only, of)).max())

    def _exact(self, at: Point, weights: Float, first: int, root: Float) -> float:
        def of(place: slice, X: Float) -> Float:
            turned = design(at, X, first) @ root
            return np.asarray(weights[place] * np.einsum("ij,ij->i", turned, turned))

        found, persons = self._of_persons(self._panels(at.constant_only, of)), self._work.persons
        above = ~(found <= MOST_LEVERAGE)
        if persons is None or not above.any():
            return float(found.max())
        # Of a person the sum over its rows is a bound: its block is formed where that is too much.
        looked = above[persons]
        rows = np.concatenate(
            self._panels(at.constant_only, lambda place, X: design(at, X[looked[place]], first) @ root)
        )
        of_row, w = persons[looked], weights[looked]
        if not np.isfinite(rows).all():
            return math.inf
        for person in np.unique(of_row).tolist():
            own = of_row == person
            found[person] = np.linalg.eigvalsh(rows[own].T @ (w[own, None] * rows[own]))[-1]
        return float(found.max())

    def _of_persons(self, parts: list[Float]) -> Float:
        """Numbers of own rows, or their sums over persons where these have several."""
        found, persons = np.concatenate(parts), self._work.persons
        return found if persons is None else np.asarray(np.bincount(persons, weights=found), np.float64)

    # --- passes ---------------------------------------------------------------------------------------------------

    def _panels(self, constant_only: bool, make: Callable[[slice, Float], Any]) -> list[Any]:
        """What ``make`` gives for every panel of rows, in order, several at once."""
        work, found = self._work, []
        lanes = lanes_of(work, _LANES, 1)
        panels = panels_of(work, constant_only, lanes)
        while group := list(islice(panels, lanes)):
            made: list[Any] = [None] * len(group)

            def one(number: int, group: list[Any] = group, made: list[Any] = made) -> None:
                with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # what is not finite is refused
                    made[number] = make(*group[number])

            for _ in (work.masks.each or map)(one, range(len(group))):
                pass
            found += made
        return found

    def scores(self, at: Point) -> Iterable[tuple[slice, Scores]]:
        return self._panels(False, lambda place, X: (place, self._model.scores(at, X, self._labels[place])))

    def _evaluated(self, at: Point) -> Evaluation:
        held = self._at
        if self._own is not None and held is not None and _serves(held, at):
            return self._own
        here = self._nearly(at)
        parts = self._panels(at.constant_only, lambda place, X: self._model.evaluate(here, X, self._labels[place]))
        information = None
        if at.information:
            information = np.sum([part.information for part in parts], axis=0)
        self._at = at
        self._own = Evaluation(
            math.fsum(part.deviance for part in parts),
            math.fsum(part.pearson for part in parts),
            np.array([math.fsum(column) for column in zip(*(part.score for part in parts), strict=True)]),
            information,
            np.concatenate([part.weights for part in parts]),
        )
        return self._own

    def _nearly(self, at: Point) -> Point:
        """The same point; where all columns are near to zero in units of their own spread, it says so."""
        return replace(at, near=bool(np.all(np.abs(at.centre) <= NEAR_ZERO * self._spread)))

    def _columns(self) -> Float:
        if self._moments is None:
            sums = np.sum(self._panels(False, lambda place, X: (X.sum(axis=0), np.einsum("ij,ij->j", X, X))), axis=0)
            self._raw = np.sqrt(sums[1] / self._work.n_i)
            self._moments = np.concatenate((self._model.moments(self._labels), sums[0]))
        return self._moments

    def _column_sizes(self) -> Float:
        moments = self._columns()
        return np.concatenate((moments[: len(moments) - self._work.plan.m], self._raw))

    def _start(self, at: Point) -> Float:
        n_i = self._work.n_i
        if not at.constant_only:
            squares = self._squares(at.centre)
            self._spread = np.where(squares > 0.0, np.sqrt(squares / n_i), 1.0)
        own = self._evaluated(at)
        assert own.information is not None
        first = int(self._work.plan.centre or at.constant_only)
        spread = np.concatenate((np.ones(first), self._spread[:0] if at.constant_only else self._spread))
        diagonal = own.information.diagonal() / np.tile(np.square(spread), own.weights.shape[1])
        bound = float(diagonal.max())
        self._start_deviance = own.deviance
        leverage = self._leverage(at)
        self._tested = leverage, own.weights
        self._least_leverage = max(MOST_LEVERAGE, leverage * SLACK)
        columns = np.zeros(self._work.plan.m) if at.constant_only else np.where(squares > 0.0, self._spread, 0.0)
        return np.concatenate(((bound, own.deviance, own.pearson), columns))

    def _squares(self, centre: Float) -> Float:
        """Own sums of squares about these centres: from sums about zero, where that takes six bits off at most."""
        totals = self._columns()[len(self._columns()) - self._work.plan.m :]
        n_i = self._work.n_i
        about = np.maximum(n_i * np.square(self._raw) - centre * (2.0 * totals - n_i * centre), 0.0)
        if np.all(n_i * np.square(centre) <= NEAR_ZERO**2 * about):
            return np.asarray(about)

        def of(place: slice, X: Float) -> Float:
            off = X - centre
            return np.asarray(np.einsum("ij,ij->j", off, off))

        return np.asarray(np.sum(self._panels(False, of), axis=0))

    def _end(self, asked: Sizes | Asked) -> Float:
        assert asked.at is not None
        at = asked.at
        if asked.of == "likelihood":
            return np.array([self._likelihood(at, asked.scale)])
        own = self._evaluated(at)
        return np.array([own.deviance, own.pearson])

    def _likelihood(self, at: Point, scale: float) -> float:
        """The own log-likelihood; its size is asked for first, and then it itself."""
        if self._likely is None or self._likely[0] is not at or self._likely[1] != scale:
            here = self._nearly(at)
            parts = self._panels(
                at.constant_only, lambda place, X: self._model.likelihood(here, X, self._labels[place], scale)
            )
            self._likely = at, scale, math.fsum(parts)
        return self._likely[2]


def _serves(held: Point, at: Point) -> bool:
    """Whether what was computed at a point has all that is asked for at another one."""
    same = held.constant_only == at.constant_only and held.expected == at.expected
    return same and (held.information or not at.information) and np.array_equal(held.beta, at.beta)
