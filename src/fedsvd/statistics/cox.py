"""Cox's proportional hazards stratified by site: a party's own partial likelihood, and the fit by few digits.

A risk set holds records of one party (and of one stratum of its own) alone, so the joint log-likelihood is a sum of own
ones: R's ``coxph(... + strata(site))``. Times, risk sets and ties never leave a party. Each tied event is a term of its
own: with Efron's ties term l of d takes l / d of the tied events off its risk set, with Breslow's nothing.

    a0, a1       sum over a term's risk set of weight times exp(eta), and the mean of its rows under these weights
    score        sum of x over events less that of a1 over terms
    information  sum over records of weight exp(eta) H x x^T, less that of a1 a1^T over terms; H is the hazard that a
                 record lived through

Risk sets are cumulative sums from the last exit backwards, O(n p^2) and never n x p x p; with entry times they are sums
over a tree (``intervals.py``), because a difference of two such sums loses digits. Columns are centred at home
by the mean of each stratum, which changes no likelihood and spares digits.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import DataError
from fedsvd.statistics.concordance import concordant_pairs
from fedsvd.statistics.cox_table import of_inference
from fedsvd.statistics.ended import Ended
from fedsvd.statistics.families import COX
from fedsvd.statistics.glm import inference
from fedsvd.statistics.intervals import Intervals
from fedsvd.statistics.meats import meat
from fedsvd.statistics.newton import TABLE, Fitting, by_size, ending_bits, fitted, opened_moments
from fedsvd.statistics.newton_requests import Evaluation, Found, Moments, Point, Shape
from fedsvd.statistics.piecewise import time_in_bins
from fedsvd.statistics.records import BY_TRACE, OwnRecords, largest_bound, largest_of, own_way
from fedsvd.statistics.robust import Scores
from fedsvd.statistics.undefined import PENALISED, Number
from fedsvd.statistics.whole_model import score_test
from fedsvd.types import Float

_NO_PAIR = 2.0**-60  # of a total without pairs noise alone is left
_NOISE_BITS = 3  # of a table: what rounding and noise at home take of its last bits, so that errors are those of 1e-5
_FAR = 300.0  # exp of it is finite, and so is a sum of records of it


def expect_times(time: Float, event: Float, entry: Float | None) -> None:
    """Raise ``DataError`` unless these are times, events and entries of records."""
    if not np.isin(event, (0.0, 1.0)).all():
        raise DataError("an event is neither 0 nor 1", "code it: 1 where the event was seen, 0 where follow-up ended")
    late = 0 if entry is None else int(np.count_nonzero(entry >= time))
    if late:
        raise DataError(
            f"{late} records enter at or after the time they leave, so they are never at risk",
            "correct their times, or leave these rows out",
        )


@dataclass(frozen=True, repr=False)
class _Terms:
    """The terms of one stratum at some coefficients, and the hazard of its records."""

    stratum: "_Stratum"
    likelihood: float
    score: Float
    a0: Float  # (terms,)
    weight: Float  # (terms,): of the event
    lived: Float  # (records,): H
    relative: Float  # (records,): weight times exp(eta)

    @cached_property
    def a1(self) -> Float:
        """(terms, p), made where it is asked for: most of the time of an evaluation."""
        return self.stratum.means(self.relative, self.a0)


class _Stratum:
    """Records that are compared with each other, from the last exit to the first."""

    def __init__(self, X: Float, time: Float, event: Float, weights: Float, entry: Float | None, efron: bool) -> None:
        order = np.lexsort((-event, -time))
        self.rows, self.X, self.time = order, X[order], time[order]
        self.centre = self.X.mean(axis=0)
        self.X -= self.centre
        self.weights, self.entry = weights[order], None if entry is None else entry[order]
        dead = np.flatnonzero(event[order])
        self.dead = dead
        # Event times from the last to the first; a tie begins where the time changes.
        new = np.concatenate(([True], np.diff(self.time[dead]) != 0.0))[: len(dead)]
        self.first = np.flatnonzero(new)
        self.d = np.diff(np.concatenate((self.first, [len(dead)])))
        self.times = self.time[dead][self.first]
        self.tied = np.cumsum(new) - 1  # of each event: which event time
        self.last = np.searchsorted(-self.time, -self.times, side="right") - 1
        if efron:
            self.of = np.repeat(np.arange(len(self.d)), self.d)
            self.share = (np.arange(len(dead)) - self.first[self.of]) / self.d[self.of]
        else:
            self.of, self.share = np.arange(len(self.d)), np.zeros(len(self.d))
        summed = np.add.reduceat(self.weights[dead], self.first) if len(dead) else np.zeros(0)
        self.weight = (summed / self.d if efron else summed)[self.of]
        self.begin = np.searchsorted(self.of, np.arange(len(self.d)))  # of each event time: its first term
        self.parted = bool(self.share.any())  # else each event time is one term, of its whole risk set
        # How many event times, from the first on, a record lived to see, and how many had passed when it came.
        ascending = self.times[::-1]
        self.seen = np.searchsorted(ascending, self.time, side="right")
        self.under: Intervals | None = None
        if self.entry is not None:
            self.under = Intervals(np.searchsorted(ascending, self.entry, side="right"), self.seen, len(ascending))

    def at_risk(self, values: Float) -> Float:
        """For each event time the sum over its risk set of rows of these values."""
        if self.under is not None:
            return self.under.of_records(values)[::-1]
        found: Float = np.cumsum(values, axis=0)[self.last]
        return found

    def over_time(self, of_terms: Float) -> Float:
        """For each record the sum of these numbers over the terms in whose risk set it is."""
        if not len(self.dead):
            return np.zeros((len(self.time), *of_terms.shape[1:]))
        each = np.add.reduceat(of_terms, self.begin, axis=0) if self.parted else of_terms
        if self.under is not None:
            found = self.under.of_times(each[::-1])
        else:
            found = np.concatenate((np.zeros_like(each[:1]), np.cumsum(each[::-1], axis=0)))[self.seen]
        if self.parted:  # a tied event is in part gone from the later terms of its own time
            found[self.dead] -= np.add.reduceat((self.share * of_terms.T).T, self.begin, axis=0)[self.tied]
        return found

    def pairs(self, beta: Float, offset: Float) -> tuple[float, float]:
        event = np.zeros(len(self.time))
        event[self.dead] = 1.0
        eta = self.X @ beta + offset[self.rows]
        return concordant_pairs(eta, self.time, event, weights=self.weights, entry=self.entry)

    def terms(self, beta: Float, offset: Float) -> _Terms:
        X, dead = self.X, self.dead
        eta = np.clip(X @ beta + offset[self.rows], -_FAR, _FAR)
        relative = self.weights * np.exp(eta)
        if not len(dead):
            none = np.zeros(0)
            return _Terms(self, 0.0, np.zeros(X.shape[1]), none, none, np.zeros(len(X)), relative)
        E0 = np.add.reduceat(relative[dead], self.first)
        a0 = np.maximum(self.at_risk(relative), E0)[self.of] - self.share * E0[self.of]
        own = self.weights[dead]
        likelihood = float(own @ eta[dead] - self.weight @ np.log(a0))
        lived = self.over_time(self.weight / a0)
        # Over terms the means a1 add up to what records weigh in all their risk sets: no sum over risk sets.
        left = -relative * lived
        left[dead] += own
        return _Terms(self, likelihood, left @ X, a0, self.weight, lived, relative)

    def means(self, relative: Float, a0: Float) -> Float:
        """Of each term the mean of its rows under their weights, (terms, p)."""
        if not len(self.dead):
            return np.zeros((0, self.X.shape[1]))
        weighted = relative[:, None] * self.X
        found = self.at_risk(weighted)
        if self.parted:
            gone = np.add.reduceat(weighted[self.dead], self.first, axis=0)[self.of]
            gone *= self.share[:, None]
            found = found[self.of]
            found -= gone
        found /= a0[:, None]
        return found

    def residuals(self, found: _Terms) -> Float:
        """The score of each record, (records, p); of events at one time each has the mean over their terms."""
        each = found.weight / found.a0
        rows: Float = self.over_time(each[:, None] * found.a1) - found.lived[:, None] * self.X
        rows *= found.relative[:, None]
        if len(self.dead):
            terms = np.diff(np.concatenate((self.begin, [len(self.of)])))
            means = np.add.reduceat(found.a1, self.begin, axis=0) / terms[:, None] if self.parted else found.a1
            rows[self.dead] += self.weights[self.dead, None] * (self.X[self.dead] - means[self.tied])
        return rows


class Cohort(OwnRecords):
    """A party's own records, in strata; all that is asked of them at some coefficients."""

    def __init__(
        self,
        X: Float,
        time: Float,
        event: Float,
        *,
        entry: Float | None = None,
        strata: Float | None = None,
        offset: Float | None = None,
        weights: Float | None = None,
        efron: bool = True,
    ) -> None:
        expect_times(time, event, entry)
        n = len(time)
        prior = np.ones(n) if weights is None else weights
        self.n, self.p = n, X.shape[1]
        self._events, self.weight = float(event.sum()), float(prior @ event)
        self._offset = np.zeros(n) if offset is None else offset
        self._weighted = 0.0 if weights is None else float(prior @ event) * math.log(float(prior.min(initial=1.0)))
        self._held: tuple[Float, list[_Terms]] | None = None
        codes = np.zeros(n) if strata is None else strata
        self._rows: list[NDArray[np.intp]] = [np.flatnonzero(codes == code) for code in np.unique(codes)]
        self._strata = [
            _Stratum(X[rows], time[rows], event[rows], prior[rows], None if entry is None else entry[rows], efron)
            for rows in self._rows
        ]

    @property
    def features(self) -> int:
        return int(self.p)

    def part(self, at: Point) -> Evaluation:
        return self.evaluate(at.beta, at.information)

    def largest_part(self, at: Point, root: Float) -> float:
        return self.leverage(at.beta, root)

    def moments(self) -> Float:
        return np.array([0.0, 0.0, self._events])

    def end(self, of: str, at: Point, scale: float) -> Float:
        """-2 log partial likelihood, and pairs: ordered ones, of the null model all that can be compared."""
        concordant, pairs = self.pairs(at.beta)
        return np.array([self.deviance(at.beta), pairs if of == "null" else concordant])

    def on_the_way(self) -> Iterator[Float]:
        """From zero to the fit of own records alone, held near it by a prior: a deviation of 1 a column's spread."""
        beta = np.zeros(self.p)
        spread = self.spread(Point(beta, beta, information=False))
        return own_way(self.evaluate, beta, np.where(spread > 0.0, spread, 1.0))

    def spread(self, at: Point) -> Float:
        """The root mean square of each column about the mean of its stratum."""
        found: Float = np.sqrt(sum(np.einsum("ij,ij->j", s.X, s.X) for s in self._strata) / max(self.n, 1))
        return found

    def deviance(self, beta: Float) -> float:
        """-2 log partial likelihood, as R has it."""
        return -2.0 * math.fsum(found.likelihood for found in self._terms(beta))

    def evaluate(self, beta: Float, information: bool) -> Evaluation:
        """Deviance, score and information; the deviance is 0 or more whatever the unit of the weights is."""
        terms = self._terms(beta)
        matrix = np.zeros((self.p, self.p))
        if information:
            for stratum, found in zip(self._strata, terms, strict=True):
                root = np.sqrt(found.relative * found.lived)[:, None] * stratum.X
                means = np.sqrt(found.weight)[:, None] * found.a1
                matrix += root.T @ root - means.T @ means
        deviance = -2.0 * (math.fsum(found.likelihood for found in terms) + self._weighted)
        score = np.sum([found.score for found in terms], axis=0)
        return Evaluation(deviance, 0.0, score, matrix if information else None, np.zeros((0, 1)))

    def leverage(self, beta: Float, root: Float) -> float:
        """The largest part of a record, or person, in the own information, whose inverse is ``root root^T``.

        Of a record's part ``M = sum w (x - a1) (x - a1)^T`` it is the largest eigenvalue of ``root^T M root``; the
        trace bounds it, and where a bound is small for all records, it is what is returned.
        """
        parts = [_Parts(found, root) for found in self._terms(beta)]
        bound = largest_bound(self._by_row(part.bounds() for part in parts), self.of_person)
        if bound <= BY_TRACE:
            return bound
        traces = self._by_row(part.traces() for part in parts)
        # The rows of a person may be in several strata, of which some have no events.
        held: dict[int, tuple[_Parts, int]] = {}
        for rows, stratum, part in zip(self._rows, self._strata, parts, strict=True):
            held |= {row: (part, j) for j, row in enumerate(rows[stratum.rows].tolist())}
        return largest_of(traces, lambda row: held[row][0].of(held[row][1]), self.of_person)

    def _by_row(self, of_strata: Iterable[Float]) -> Float:
        """Numbers of the records of each stratum, in the order of the rows."""
        found = np.zeros(self.n)
        for rows, stratum, each in zip(self._rows, self._strata, of_strata, strict=True):
            found[rows[stratum.rows]] = each
        return found

    def scores(self, at: Point) -> Scores:
        """R's score residuals: what each record adds to the score by its event and by the time it was at risk."""
        found = np.zeros((self.n, self.p))
        for rows, stratum, terms in zip(self._rows, self._strata, self._terms(at.beta), strict=True):
            found[rows[stratum.rows]] = stratum.residuals(terms)
        return Scores(found)

    def exposure(self, beta: Float, edges: Float) -> Float:
        """The time that own records were at risk between each two edges, in units of a record of zeros."""
        found = np.zeros(len(edges))
        for rows, stratum in zip(self._rows, self._strata, strict=True):
            eta = (stratum.X + stratum.centre) @ beta + self._offset[rows][stratum.rows]
            lived = time_in_bins(stratum.entry, stratum.time, edges)
            found += (stratum.weights * np.exp(np.clip(eta, -_FAR, _FAR))) @ lived
        return found

    def by_clock(self, beta: Float, g: Callable[[Float], Float]) -> tuple[Float, Float, Float]:
        """Score and information with each term times g of its time, and information times its square."""
        score, matrices = np.zeros(self.p), np.zeros((2, self.p, self.p))
        for stratum, found in zip(self._strata, self._terms(beta), strict=True):
            if not len(stratum.dead):
                continue
            at, seen = g(stratum.times), stratum.dead
            each = at[stratum.of]
            score += (stratum.weights[seen] * at[stratum.tied]) @ stratum.X[seen] - (found.weight * each) @ found.a1
            for power, matrix in enumerate(matrices, start=1):
                timed = found.weight * each**power
                lived = stratum.over_time(timed / found.a0)
                matrix += stratum.X.T @ ((found.relative * lived)[:, None] * stratum.X)
                matrix -= found.a1.T @ (timed[:, None] * found.a1)
        return score, matrices[0], matrices[1]

    def pairs(self, beta: Float) -> tuple[float, float]:
        """Concordant pairs of own records, and comparable ones, within strata."""
        found = [
            stratum.pairs(beta, self._offset[rows]) for rows, stratum in zip(self._rows, self._strata, strict=True)
        ]
        return math.fsum(pair[0] for pair in found), math.fsum(pair[1] for pair in found)

    def baseline(self, beta: Float) -> Float:
        """Of each stratum and event time the cumulative hazard of a record of zeros, (times, 3): R's ``basehaz``
        without centring; with Efron's ties the mean over the terms of a time is taken off its risk set, as R has it."""
        found = []
        for number, (stratum, terms) in enumerate(zip(self._strata, self._terms(beta), strict=True)):
            each = terms.weight / terms.a0
            if stratum.parted:
                each = np.add.reduceat(each, stratum.begin)
            # Columns were centred by their mean in the stratum.
            hazard = np.cumsum(each[::-1]) * math.exp(-float(stratum.centre @ beta))
            found.append(np.column_stack((np.full(len(hazard), float(number)), stratum.times[::-1], hazard)))
        return np.concatenate(found)

    def martingale(self, beta: Float) -> Float:
        """Martingale residuals: events less the hazard that each record lived through, by the own baseline."""
        found = np.zeros(self.n)
        for rows, stratum, terms in zip(self._rows, self._strata, self._terms(beta), strict=True):
            own = np.zeros(len(rows))
            own[stratum.dead] = 1.0
            # R's: of tied events the whole hazard of their time, as Efron's terms share it.
            own -= terms.relative / stratum.weights * terms.lived
            found[rows[stratum.rows]] = own
        return found

    def _terms(self, beta: Float) -> list[_Terms]:
        """Of each stratum; those of the last point are kept, where several numbers are asked for in turn."""
        if self._held is None or not np.array_equal(self._held[0], beta):
            self._held = None  # one point is in memory at a time
            strata = zip(self._rows, self._strata, strict=True)
            self._held = beta.copy(), [stratum.terms(beta, self._offset[rows]) for rows, stratum in strata]
        return self._held[1]


def deviance_residuals(martingale: Float, event: Float) -> Float:
    """Martingale residuals made symmetric, as R's ``residuals(type = "deviance")``."""
    seen = event > 0.0
    log = np.log(np.where(seen, event - martingale, 1.0))
    found: Float = np.sign(martingale) * np.sqrt(-2.0 * (martingale + np.where(seen, log, 0.0)))
    return found


class _Parts:
    """What each record of a stratum has of the own information, in the coordinates of a root."""

    def __init__(self, found: _Terms, root: Float) -> None:
        self._found, self._y, self._b = found, found.stratum.X @ root, found.a1 @ root
        self._each = found.weight / found.a0
        self._own = found.lived * np.einsum("ij,ij->i", self._y, self._y)
        self._means = found.stratum.over_time(self._each * np.einsum("ij,ij->i", self._b, self._b))

    def bounds(self) -> Float:
        """No less than the traces: the root of a trace is no more than that of its x and that of its a1 together."""
        longest = np.sqrt(np.maximum(self._own, 0.0)) + np.sqrt(np.maximum(self._means, 0.0))
        return np.asarray(np.square(longest) * self._found.relative)

    def traces(self) -> Float:
        along = self._found.stratum.over_time(self._each[:, None] * self._b)
        own = self._own - 2.0 * np.einsum("ij,ij->i", self._y, along) + self._means
        return np.asarray(own * self._found.relative)

    def of(self, j: int) -> Float:
        """The part of one record."""
        found, stratum = self._found, self._found.stratum
        at = stratum.times[stratum.of] <= stratum.time[j]
        if stratum.entry is not None:
            at &= stratum.times[stratum.of] > stratum.entry[j]
        weight = np.where(at, found.relative[j] * found.weight / found.a0, 0.0)
        if j in stratum.dead:
            own = stratum.of == stratum.tied[np.searchsorted(stratum.dead, j)]
            weight[own] *= 1.0 - stratum.share[own]
        apart = np.sqrt(weight)[:, None] * (self._y[j] - self._b)
        return np.asarray(apart.T @ apart)


def fit_by_digits(ties: str, shape: Shape, *, alpha: float, level: float = 0.95) -> Fitting:
    """The whole fit by sums of few digits (``newton.py``): a ``CoxInference``, and the length of its last step."""
    bits = ending_bits(shape.table)
    moments: Moments = yield from opened_moments(shape)
    events = round(float(moments.targets[0]))
    if events < 1:
        raise DataError("no event was seen by any party", "there is nothing to model; check the column of events")
    begin = replace(shape, table=max(shape.table, TABLE + _NOISE_BITS))
    begin = begin if alpha == 0.0 else replace(begin, penalty=alpha * np.eye(shape.features))
    found: Found = yield from fitted(begin, moments, np.zeros(0))
    summed = yield from meat(found, begin)
    flat = Point(np.zeros(shape.features), found.centre, information=False)
    deviance, concordant = (yield from by_size("end", found.at, shape.users, bits)).tolist()
    null, pairs = (yield from by_size("null", flat, shape.users, bits)).tolist()
    score = math.nan if alpha > 0.0 else (yield from score_test(found, shape))
    likelihood: Number = PENALISED if alpha > 0.0 else -0.5 * deviance
    ended = Ended(
        found.beta,
        PENALISED if alpha > 0.0 else found.root,
        {"deviance": deviance, "pearson": 0.0},
        found.iterations,
        found.halvings,
        meat=summed,
        errors=replace(shape.errors, few=False),  # as R's
    )
    table = inference(COX, ended, shape.n, False, 1.0, null, likelihood, alpha, level, 0.0)
    concordance = concordant / pairs if pairs > _NO_PAIR else math.nan
    return of_inference(table, ties, events, concordance, score), found.decrement
