"""Proportional hazards with one baseline of all sites, level on a public grid of times: own records, and the fit.

A record is at risk in each bin up to the one it leaves in. With a log hazard a_b of each bin, common to all parties:

    cloglog      P(event in bin b | at risk) = 1 - exp(-exp(a_b + x b)): effects are those of continuous time
    log          a Poisson count with mean exp(a_b + x b): R's coxph(Surv(bin, event), ties = "breslow")

Both are generalised linear models of rows that have one term for each bin; rows are never made. Effects come first
among the parameters, then the log hazards. A term says something of one bin: entries of the information between two
bins are zero, and are not opened. Follow-up ends at the last time of the grid.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fedsvd.errors import DataError
from fedsvd.statistics.families import family_named
from fedsvd.statistics.glm import Fact, GLMInference, inference
from fedsvd.statistics.glm_digits import fit_with_levels
from fedsvd.statistics.newton import Fitting, Traits, opened_moments
from fedsvd.statistics.newton_requests import Evaluation, Moments, Point, Shape
from fedsvd.statistics.records import RowRecords, largest_of, own_way
from fedsvd.statistics.robust import Scores
from fedsvd.types import Float

_LONG = 8.0  # standard errors
_FAR = 600.0  # exp of it is finite, and so is a sum of records of it


@dataclass(frozen=True, repr=False)
class _Bin:
    """The terms of one bin: rows at risk, in the order of the records, with what each adds."""

    rows: slice
    deviance: Float
    score: Float  # of the linear predictor
    weight: Float  # of the information


class BinRecords(RowRecords):
    """A party's own records, from the last that left to the first: those at risk in a bin are the first ones."""

    by_expected = True  # events of a small site have little of the curvature, and the others all of it

    def __init__(
        self, X: Float, time: Float, event: Float, edges: Float, link: str, weights: Float | None = None
    ) -> None:
        left = np.searchsorted(edges, time, side="left")  # a bin is closed at its end
        order = np.argsort(-left, kind="stable")
        super().__init__(X[order], event[order], None if weights is None else weights[order])
        self.order, self._left, self._D, self._link = order, left[order], len(edges), link
        self._seen = (self._y > 0.0) & (self._left < self._D)
        self._at_risk = np.searchsorted(-self._left, -np.arange(self._D), side="right")

    def moments(self) -> Float:
        events = np.bincount(self._left[self._seen], self._prior[self._seen], self._D)
        at_risk = np.concatenate(([0.0], np.cumsum(self._prior)))[self._at_risk]
        return np.concatenate(((self.weight, 0.0, events.sum()), events, at_risk))

    def end(self, of: str, at: Point, scale: float) -> Float:
        return np.array([self.part(replace(at, information=False)).deviance, 0.0])

    def part(self, at: Point) -> Evaluation:
        X, m, P = self._X - at.centre, self.features, self.features + self._D
        score, information, deviance = np.zeros(P), np.zeros((P, P)), 0.0
        along, weight = np.zeros(len(X)), np.zeros(len(X))
        for place, each in self._bins(X, at):
            along[each.rows] += each.score
            weight[each.rows] += each.weight
            score[m + place] = each.score.sum()
            information[m + place, m + place] = each.weight.sum()
            information[:m, m + place] = information[m + place, :m] = X[each.rows].T @ each.weight
            deviance += float(each.deviance.sum())
        score[:m] = X.T @ along
        information[:m, :m] = X.T @ (weight[:, None] * X)
        return Evaluation(deviance, 0.0, score, information if at.information else None, np.zeros((0, 1)))

    def on_the_way(self) -> Iterator[Float]:
        """From no effects and the own hazard of each bin to the fit of own records alone, held near it by a prior."""
        flat = Point(np.zeros(self.features + self._D), self._X.mean(axis=0), information=True, expected=False)
        spread = self.spread(flat)
        own = self.moments()[3:]
        start = np.concatenate((np.zeros(self.features), np.log((own[: self._D] + 0.5) / (own[self._D :] + 1.0))))
        scale = np.concatenate((np.where(spread > 0.0, spread, 1.0), np.ones(self._D)))

        def evaluate(beta: Float, information: bool) -> Evaluation:
            return self.part(replace(flat, beta=beta, information=information))

        return own_way(evaluate, start, scale)

    def scores(self, at: Point) -> Scores:
        X, m = self._X - at.centre, self.features
        found = np.zeros((len(X), m + self._D))
        for place, each in self._bins(X, at):
            found[each.rows, m + place] = each.score
        found[:, :m] = X * found[:, m:].sum(axis=1)[:, None]
        back = np.empty_like(found)
        back[self.order] = found
        return Scores(back)

    def largest_part(self, at: Point, root: Float) -> float:
        X, m = self._X - at.centre, self.features
        along, bins = X @ root[:m], list(self._bins(X, at))
        # A record's part is the sum over its bins of weight times v v^T, v = root_b[bin] + x root.
        traces = np.zeros(len(X))
        for place, each in bins:
            traces[each.rows] += each.weight * np.square(along[each.rows] + root[m + place]).sum(axis=1)

        def part(i: int) -> Float:
            rows = [np.sqrt(each.weight[i]) * (along[i] + root[m + b]) for b, each in bins if i < each.rows.stop]
            return np.asarray(np.array(rows).T @ np.array(rows))

        return largest_of(traces, part, None if self.of_person is None else self.of_person[self.order])

    def martingale(self, hazards: Float, eta: Float) -> Float:
        """Events less the hazard that each record lived through, in the order it came in."""
        lived = np.concatenate(([0.0], np.cumsum(hazards)))[np.minimum(self._left + 1, self._D)]
        found = np.empty(len(lived))
        found[self.order] = self._seen - lived * np.exp(eta[self.order])
        return found

    def _bins(self, X: Float, at: Point) -> Iterator[tuple[int, _Bin]]:
        m, eta = self.features, X @ at.beta[: self.features]
        for place, a in enumerate(at.beta[m:].tolist()):
            rows = slice(0, int(self._at_risk[place]))
            yield place, self._terms(rows, np.clip(a + eta[rows], -_FAR, _FAR), place, at.expected)

    def _terms(self, rows: slice, eta: Float, place: int, expected: bool) -> _Bin:
        w, mean = self._prior[rows], np.exp(eta)
        seen = self._seen[rows] & (self._left[rows] == place)
        if self._link == "log":
            return _Bin(rows, 2.0 * w * (mean - np.where(seen, eta, 0.0)), w * (seen - mean), w * mean)
        ratio = mean / np.expm1(np.minimum(mean, _FAR))
        deviance = 2.0 * w * np.where(seen, -np.log(-np.expm1(-mean)), mean)
        score = w * np.where(seen, ratio, -mean)
        weight = mean * ratio if expected else np.where(seen, ratio * (mean + ratio - 1.0), mean)
        return _Bin(rows, deviance, score, w * weight)


@dataclass(frozen=True, repr=False)
class BinsInference(GLMInference):
    """A fitted model; coefficients are the effects, then the log hazard of each bin for a record of zeros."""

    edges: tuple[float, ...] = ()
    events: int = 0
    bin_events: tuple[float, ...] = ()
    at_risk: tuple[float, ...] = ()

    title: ClassVar[str] = "Proportional hazards, one baseline of all sites in bins of time"
    ratio: ClassVar[str] = "hazard ratio"
    prints_ratios: ClassVar[bool] = True
    expects: ClassVar[str] = "a model of hazards has hazard ratios, and no expected outcome"

    @property
    def effects(self) -> Sequence[int]:
        return range(len(self.coefficients) - len(self.edges))

    @property
    def hazard(self) -> Float:
        """Time, events, records at risk and the cumulative hazard of a record of zeros, at the end of each bin."""
        each = np.exp(self.coefficients[len(self.effects) :])
        return np.column_stack((self.edges, self.bin_events, self.at_risk, np.cumsum(each)))

    def terms(self, features: Sequence[str]) -> list[str]:
        begin = (0.0, *self.edges[:-1])
        return [*features, *(f"({low:g}, {high:g}]" for low, high in zip(begin, self.edges, strict=True))]

    def linear_predictor(self, X: Float, offset: Float | float = 0.0) -> Float:
        eta: Float = X @ self.coefficients[: X.shape[1]] + offset
        return eta

    def said(self) -> dict[str, Fact]:
        return {
            "baseline": f"{len(self.edges)} bins of all sites",
            "link": self.family.link_name,
            "rows": self.n,
            "events": self.events,
            "iterations": self.iterations,
            "deviance": self.deviance,
            "null deviance": self.null_deviance,
        }

    def in_words(self, name: str) -> str:
        return (
            f"{name}: {self.events} events of {self.n} records in {len(self.edges)} bins of time, {self.iterations} "
            "iterations. Records of all sites are compared with each other; a hazard is level in a bin."
        )

    def glance(self) -> dict[str, float]:
        return {"n": self.n, "nevent": self.events}

    def glance_last(self) -> dict[str, float]:
        return {"nobs": self.events}

    def more(self) -> dict[str, Any]:
        bins = {"edges": list(self.edges), "bin_events": list(self.bin_events), "at_risk": list(self.at_risk)}
        return {"events": self.events, **bins}

    @classmethod
    def own_fields(cls, said: Mapping[str, Any]) -> dict[str, Any]:
        bins = {name: tuple(said[name]) for name in ("edges", "bin_events", "at_risk")}
        return {"events": said["events"], **bins}

    def __repr__(self) -> str:
        return f"BinsInference({self.family.link_name}, coefficients={len(self.coefficients)}, events={self.events})"


def fit_by_digits(link: str, edges: Float, shape: Shape, *, alpha: float, level: float = 0.95) -> Fitting:
    """The whole fit by sums of few digits (``newton.py``): a ``BinsInference``, and the length of its last step."""
    D = len(edges)
    moments: Moments = yield from opened_moments(shape)
    total, events, at_risk = moments.targets[0], moments.targets[1 : 1 + D], moments.targets[1 + D :]
    null = _null_model(link, edges, events, at_risk)
    ended, likelihood, decrement = yield from fit_with_levels(
        shape, moments, null, ~np.eye(D, dtype=bool), Traits(cut=_shorter), alpha=alpha, sign=-1.0
    )
    ended = replace(ended, errors=replace(shape.errors, few=False))
    at_null = _null_deviance(link, events, at_risk)
    table = inference(
        family_named("cox-bins", link), ended, shape.n, False, 1.0, at_null, likelihood, alpha, level, moments.weight
    )
    own = {"edges": tuple(edges.tolist()), "events": round(float(total))}
    own |= {"bin_events": tuple(events.tolist()), "at_risk": tuple(at_risk.tolist())}
    return BinsInference.of(table, **own), decrement


def _shorter(beta: Float, there: Float, length: float) -> Float:
    """Half of a long step: a whole one from no effects overshoots, because means grow as exp."""
    return there if length <= _LONG else 0.5 * (beta + there)


def _null_model(link: str, edges: Float, events: Float, at_risk: Float) -> Float:
    """The log hazard of each bin without effects; refused where one has none."""
    for place, (seen, left) in enumerate(zip(events.tolist(), at_risk.tolist(), strict=True)):
        begin = 0.0 if place == 0 else float(edges[place - 1])
        if seen <= 0.0:
            raise DataError(
                f"no event was seen by any party after {begin:g} and up to {edges[place]:g}",
                "leave one of these times out, so that the bin next to it has them",
            )
        if seen >= left and link == "cloglog":
            raise DataError(
                f"everyone who was left at {begin:g} had the event up to {edges[place]:g}, so that the hazard of this "
                "bin is infinite",
                'end the times before it, or link = "log"',
            )
    share = events / at_risk
    return np.asarray(np.log(share if link == "log" else -np.log1p(-share)))


def _null_deviance(link: str, events: Float, at_risk: Float) -> float:
    """-2 log-likelihood without effects."""
    share = events / at_risk
    if link == "log":
        return 2.0 * math.fsum((events - events * np.log(share)).tolist())
    return -2.0 * math.fsum((events * np.log(share) + (at_risk - events) * np.log1p(-share)).tolist())
