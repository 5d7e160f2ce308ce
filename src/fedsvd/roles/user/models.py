"""The models of a plan, as ``statistics`` fits them: what is asked for, and what a user's own rows contribute.

A user's labels have one column for the target, then one for an offset and one for weights where the plan has them. A
target of classes is the number of its class, from 0.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsvd.compress.reduce import PANELS, column_panels, panel_width
from fedsvd.errors import LocalProtocolError, ReleaseRefused
from fedsvd.protocol.families import Outcome
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.plan import SessionPlan
from fedsvd.roles.user.work import Work
from fedsvd.statistics import glm, glm_digits, multinomial
from fedsvd.statistics.families import Family as Distribution
from fedsvd.statistics.families import family_named
from fedsvd.statistics.irls import Contribution, Request, Steps
from fedsvd.statistics.newton import MORE, TABLE, Fitting
from fedsvd.statistics.newton_requests import Evaluation, Point, Shape
from fedsvd.statistics.robust import USUAL, Errors, Scores
from fedsvd.types import Float

_LANES, _PANELS_A_LANE = 8, 4
_CACHED = 5 << 19  # bytes of a panel, which is read two or three times
_OF_TOLERANCE = 1e-2  # a score has few digits: the iteration ends where rounding cannot make up the tolerance


@dataclass(frozen=True, repr=False)
class Model:
    """One model: its fit, and a user's part of an evaluation, from rows and labels of a panel.

    The last six are those of a fit by sums of few digits; robust errors in all digits are of the same scores.
    """

    fit: Callable[[], Steps]
    contribution: Callable[[Request, Float, Float], Contribution]
    by_digits: Callable[[], Fitting]
    evaluate: Callable[[Point, Float, Float], Evaluation]
    scores: Callable[[Point, Float, Float], Scores]
    likelihood: Callable[[Point, Float, Float, float], float]
    moments: Callable[[Float], Float]  # of labels: sums of weights, of the offset's share, of the outcome
    outcomes: bool  # whether the target is a class


def models(plan: SessionPlan, errors: Errors) -> Iterator[Model]:
    """One model; of a binomial target with several classes one for each class, against the rest."""
    about = plan.glm
    if about is None:
        raise LocalProtocolError("this plan has no model")
    if about.facts.each_class:
        yield _multinomial(plan, about, errors)
        return
    distribution = family_named(str(about.family), about.link)
    for k in range(about.fits):
        yield _binomial_or_other(plan, about, errors, distribution, k if about.fits > 1 else None)


def split_labels(about: ModelPlan, labels: Float) -> tuple[Float, Float | None, Float | None]:
    """The target, the offset and the weights of some rows."""
    offset = labels[:, about.offset_at] if about.offset else None
    return labels[:, 0], offset, labels[:, -1] if about.weighted else None


def expect_counts(plan: SessionPlan, totals: dict[str, float]) -> None:
    """Refuse to open a Gram matrix where a class, or the number of events, is below what the plan asks for.

    All users learn the counts, and all end here. The text is the same whatever the counts are.
    """
    about = plan.glm
    if about is None or "weight" not in totals:
        return
    counts = _counts(about, totals)
    coefficients = plan.m + int(plan.centre)
    least = max(about.least_class, about.least_events * coefficients)
    if counts and least > 0 and min(counts) < least:  # of none noise is left, of either sign
        raise ReleaseRefused(
            "a class of the target, or its events for each coefficient, are fewer than this study asks for",
            "choose fewer features, join classes, or agree on lower limits (least_class, least_events)",
        )


def _counts(about: ModelPlan, totals: dict[str, float]) -> list[float]:
    """Of each class, or the events of a count; empty where the target is measured."""
    if about.facts.class_counts:
        return [value for name, value in totals.items() if name.startswith("class ")]
    if about.facts.outcome is Outcome.CLASSES:
        return [totals["target"], totals["weight"] - totals["target"]]
    return [totals["target"]] if about.counts_outcomes else []


def _binomial_or_other(
    plan: SessionPlan, about: ModelPlan, errors: Errors, distribution: Distribution, k: int | None
) -> Model:
    def contribution(request: Request, X: Float, labels: Float) -> Contribution:
        y, offset, weights = split_labels(about, labels)
        if k is not None:
            y = (y == k).astype(np.float64)
        return glm.contribution(request, distribution, X, y, intercept=plan.centre, offset=offset, weights=weights)

    def known(labels: Float) -> tuple[Float, dict[str, Any]]:
        y, offset, weights = split_labels(about, labels)
        y = y if k is None else (y == k).astype(np.float64)
        return y, {"intercept": plan.centre, "offset": offset, "weights": weights}

    def evaluate(at: Point, X: Float, labels: Float) -> Evaluation:
        y, settings = known(labels)
        return glm_digits.evaluate(at, distribution, X, y, **settings)

    def scores(at: Point, X: Float, labels: Float) -> Scores:
        y, settings = known(labels)
        return glm_digits.scores(at, distribution, X, y, **settings)

    def likelihood(at: Point, X: Float, labels: Float, scale: float) -> float:
        y, settings = known(labels)
        return glm_digits.log_likelihood(at, distribution, X, y, scale, **settings)

    def moments(labels: Float) -> Float:
        y, settings = known(labels)
        prior, offset = _prior(labels, settings["weights"]), settings["offset"]
        shift = 0.0 if offset is None else float(prior @ glm_digits.moment_of_offset(distribution, offset))
        return np.array([prior.sum(), shift, prior @ y])

    return Model(
        lambda: glm.fit(
            distribution,
            intercept=plan.centre,
            offset=about.offset,
            alpha=plan.alpha,
            tolerance=about.tolerance,
            max_iterations=about.max_iterations,
            errors=errors,
        ),
        contribution,
        lambda: glm_digits.fit_by_digits(
            distribution, shape_of(plan, about, errors), offset=about.offset, alpha=plan.alpha
        ),
        evaluate,
        scores,
        likelihood,
        moments,
        about.facts.outcome is Outcome.CLASSES,
    )


def shape_of(plan: SessionPlan, about: ModelPlan, errors: Errors = USUAL) -> Shape:
    """What an iteration by few digits knows of the model of a plan."""
    return Shape(
        users=plan.k,
        n=plan.n,
        features=plan.m,
        equations=about.equations,
        intercept=plan.centre,
        targets=about.targets,
        weighted=about.sums_weights,
        counted=about.counted,
        dispersion=about.facts.dispersion,
        tolerance=about.tolerance * _OF_TOLERANCE,
        max_iterations=about.max_iterations,
        extra=about.facts.extra(about),
        centred=about.facts.centred,
        table=MORE if about.digits is Digits.MORE else TABLE,
        errors=errors,
        apart=about.facts.known,
    )


def _prior(labels: Float, weights: Float | None) -> Float:
    return np.ones(len(labels)) if weights is None else weights


def _multinomial(plan: SessionPlan, about: ModelPlan, errors: Errors) -> Model:
    def contribution(request: Request, X: Float, labels: Float) -> Contribution:
        codes, _, weights = split_labels(about, labels)
        return multinomial.contribution(request, X, codes, about.classes, intercept=plan.centre, weights=weights)

    def evaluate(at: Point, X: Float, labels: Float) -> Evaluation:
        codes, _, weights = split_labels(about, labels)
        return multinomial.evaluate(at, X, codes, about.classes, intercept=plan.centre, weights=weights)

    def scores(at: Point, X: Float, labels: Float) -> Scores:
        codes, _, weights = split_labels(about, labels)
        return multinomial.scores(at, X, codes, about.classes, intercept=plan.centre, weights=weights)

    def likelihood(at: Point, X: Float, labels: Float, scale: float) -> float:
        return -evaluate(at, X, labels).deviance / 2.0

    def moments(labels: Float) -> Float:
        codes, _, weights = split_labels(about, labels)
        prior = _prior(labels, weights)
        counts = np.bincount(codes.astype(np.int64), prior, about.classes)
        return np.concatenate(((prior.sum(), 0.0), counts))

    return Model(
        lambda: multinomial.fit(
            about.classes,
            plan.m,
            intercept=plan.centre,
            alpha=plan.alpha,
            tolerance=about.tolerance,
            max_iterations=about.max_iterations,
            errors=errors,
        ),
        contribution,
        lambda: multinomial.fit_by_digits(about.classes, shape_of(plan, about, errors), alpha=plan.alpha),
        evaluate,
        scores,
        likelihood,
        moments,
        True,
    )


def lanes_of(work: Work, most: int = _LANES, panels: int = _PANELS_A_LANE) -> int:
    """As many as have so many panels each, whose panels fit the memory together."""
    features, n_i = work.source.shape
    wanted = min(most, n_i // (panels * panel_width(features)))
    return max(1, min(wanted, work.plan.memory // (PANELS * 8 * features * panel_width(features))))


def panels_of(work: Work, constant_only: bool, lanes: int) -> Iterator[tuple[slice, Float]]:
    """Rows of X_i, samples first, for this number of lanes; without features where the model has none."""
    rows, n_i = work.source.shape
    step = panel_width(rows, work.plan.memory // lanes)
    if lanes > 1 and step == panel_width(rows):
        # As many for each lane, all of one length: no lane waits for a last panel, and calls are few and long.
        wanted = max(step, min(2 * step, _CACHED // (8 * rows)))
        step = -(-n_i // (lanes * -(-n_i // (lanes * wanted))))
    if constant_only:
        for start in range(0, n_i, step):
            place = slice(start, min(start + step, n_i))
            yield place, np.empty((place.stop - place.start, 0))
        return
    for place, X in column_panels(work.source, step, None):  # weights are special functions, which the host has
        yield place, X.T
