"""The models of a plan, as ``statistics`` fits them: what is asked for, and what a user's own rows contribute.

A user's labels have one column for the target, then one for an offset and one for weights where the plan has them. A
target of classes is the number of its class, from 0.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from fedsvd.errors import LocalProtocolError
from fedsvd.protocol.model import ModelPlan
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Family
from fedsvd.statistics import glm, multinomial
from fedsvd.statistics.families import Family as Distribution
from fedsvd.statistics.families import family_named
from fedsvd.statistics.irls import Contribution, Request, Steps
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class Model:
    """One model: its fit, and a user's part of an evaluation, from rows and labels of a panel."""

    fit: Callable[[], Steps]
    contribution: Callable[[Request, Float, Float], Contribution]


def models(plan: SessionPlan) -> Iterator[Model]:
    """One model; of a binomial target with several classes one for each class, against the rest."""
    about = plan.glm
    if about is None:
        raise LocalProtocolError("this plan has no model")
    if about.family is Family.MULTINOMIAL:
        yield _multinomial(plan, about)
        return
    distribution = family_named(str(about.family), about.link)
    for k in range(about.fits):
        yield _binomial_or_other(plan, about, distribution, k if about.fits > 1 else None)


def split_labels(about: ModelPlan, labels: Float) -> tuple[Float, Float | None, Float | None]:
    """The target, the offset and the weights of some rows."""
    offset = labels[:, 1] if about.offset else None
    return labels[:, 0], offset, labels[:, -1] if about.weighted else None


def _binomial_or_other(plan: SessionPlan, about: ModelPlan, distribution: Distribution, k: int | None) -> Model:
    def contribution(request: Request, X: Float, labels: Float) -> Contribution:
        y, offset, weights = split_labels(about, labels)
        if k is not None:
            y = (y == k).astype(np.float64)
        return glm.contribution(request, distribution, X, y, intercept=plan.centre, offset=offset, weights=weights)

    return Model(
        lambda: glm.fit(
            distribution,
            intercept=plan.centre,
            offset=about.offset,
            alpha=plan.alpha,
            tolerance=about.tolerance,
            max_iterations=about.max_iterations,
        ),
        contribution,
    )


def _multinomial(plan: SessionPlan, about: ModelPlan) -> Model:
    def contribution(request: Request, X: Float, labels: Float) -> Contribution:
        codes, _, weights = split_labels(about, labels)
        return multinomial.contribution(request, X, codes, about.classes, intercept=plan.centre, weights=weights)

    return Model(
        lambda: multinomial.fit(
            about.classes,
            plan.m,
            intercept=plan.centre,
            alpha=plan.alpha,
            tolerance=about.tolerance,
            max_iterations=about.max_iterations,
        ),
        contribution,
    )
