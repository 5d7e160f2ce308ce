"""The effect of a treatment by propensity weights, on split rows: two models by few digits, and sums between them.

The first model is of who was treated. From its coefficients, which all users have, each makes the scores and weights of
its own records, and tests them before anything with a weight is sent. Both models are the usual ones, each on a part of
this user's work: the first on all columns, the second on the treatment alone, weighted (``protocol/propensity.py``).
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.arrays import ArraySource
from fedsvd.errors import LocalProtocolError
from fedsvd.protocol.families import Outcome
from fedsvd.protocol.model import MOMENT_BITS, MORE_BITS, Digits, ModelPlan, moment_bits
from fedsvd.protocol.propensity import OUTCOME, TRIMS, PropensityPlan, outcome_plan, treatment_plan
from fedsvd.protocol.steps import CAPPED_AT
from fedsvd.roles.user.cox import CoxHome
from fedsvd.roles.user.digits import DigitsSession
from fedsvd.roles.user.glm import GLMResult
from fedsvd.roles.user.home import Home
from fedsvd.roles.user.models import models, shape_of
from fedsvd.roles.user.records import own_table
from fedsvd.roles.user.requests import Local, Script
from fedsvd.roles.user.squared_scores import errors_of
from fedsvd.roles.user.sums import any_of
from fedsvd.roles.user.work import Work
from fedsvd.statistics import cox
from fedsvd.statistics.glm import GLMInference
from fedsvd.statistics.propensity import PSEUDO, Balance, Weighting, own_moments, refused, stands_out
from fedsvd.statistics.robust import USUAL, Errors
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class PropensityResult(GLMResult):
    """What every user holds: the effect is the one model; own scores and weights are among ``own``."""

    treated: GLMInference | None = None
    balance: Balance | None = None
    own_weights: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class _Own:
    """This user's rows, who was treated, and their scores and weights."""

    X: Float
    treated: Float
    score: Float
    weights: Float
    persons: NDArray[np.intp] | None = None


def script(work: Work) -> Script:
    """Scores, weights, balance, effect."""
    about = work.plan.glm
    if work.labels is None or about is None:
        raise LocalProtocolError(
            "a propensity study needs this party's treatments and outcomes", "name their columns (treatment, label)"
        )
    place = about.column("treatment")
    assert place is not None
    treated = work.labels[:, place]
    session, model = yield from _treatment(work, treated)
    weighting = _weighting(work, session)
    own: _Own = yield Local("evaluate", lambda: _weighted(work, model, weighting, treated))
    sums = yield from _sums_of_weights(session, own)
    balance = yield from _balance(work, session, own, sums, weighting)
    effect, last = yield from _effect(work, about, own, session)
    first = int(effect.intercept)
    rows = {"rows": len(treated), "treated": int(treated.sum()), "left_out": int(np.sum(own.weights == 0.0))}
    return PropensityResult(
        (effect,),
        effect.coefficients[None, first:],
        effect.coefficients[:first] if first else np.zeros(1),
        1,
        last.residual,
        last.bits,
        means=session.means,
        own={"propensity": np.column_stack((own.score, own.weights))},
        treated=model,
        balance=balance,
        own_weights=rows,
    )


def _treatment(work: Work, treated: Float) -> Script:
    """The model of who was treated, and the session that found it."""
    stage = replace(work, plan=treatment_plan(work.plan), labels=treated[:, None])
    session = DigitsSession(stage)
    (model,) = models(stage.plan, USUAL)
    return session, (yield from session.play(model))


def _weighting(work: Work, session: DigitsSession) -> Weighting:
    how, share = PropensityPlan.of(work.plan), round(session.counted["target"]) / work.plan.n
    limits = tuple(limit for limit in TRIMS if limit <= how.trim)
    return Weighting(str(how.estimand), how.stabilised, limits, CAPPED_AT, share)


def _weighted(work: Work, model: GLMInference, weighting: Weighting, treated: Float) -> _Own:
    X = own_table(work)
    eta = model.linear_predictor(X)
    score = model.family.evaluate(eta, treated).mu
    return _Own(X, treated, score, weighting.weights(score, treated, work.persons), work.persons)


def _sums_of_weights(session: DigitsSession, own: _Own) -> Script:
    """Weights and their squares by group, (2, 2); where a record of any user stands out, the study ends."""
    values = np.array([(own.weights[own.treated == group] ** power).sum() for power in (1, 2) for group in (0, 1)])
    alone = stands_out(own.weights, own.treated, own.persons)
    bits = MORE_BITS if session.digits is Digits.MORE else MOMENT_BITS
    sent = np.full(4, np.inf) if alone else values
    total, _ = yield from session.sized("weights", sent, bits, session.users, fails=refused)
    return total.reshape(2, 2)


def _balance(work: Work, session: DigitsSession, own: _Own, sums: Float, weighting: Weighting) -> Script:
    """Means and variances of covariates by group, in as many digits as records, or their weights, are many."""
    plan, n = work.plan, float(work.plan.n)
    assert plan.glm is not None
    assert session.means is not None
    other = np.logical_not(np.isin(own.X, (0.0, 1.0))).any(axis=0)
    numbers = yield from any_of("numbers", np.asarray(other), work.own)
    centre, scale = session.means, session.scales
    moments = own_moments((own.X - centre) / scale, own.treated, own.weights)
    sizes = np.rint(np.array([1.0 - weighting.share, weighting.share]) * n)
    worth = np.stack((sizes, np.square(sums[0]) / sums[1]))  # records, and what their weights are worth
    bits = np.array([[moment_bits(each, plan.glm.digits) for each in line] for line in worth.tolist()])
    unit = np.where(bits > 0, np.stack((sizes, sums[0])) * 2.0**-bits, 0.0)
    units = np.broadcast_to(unit[:, :, None, None], moments.shape).ravel()
    total, _ = yield from session.total("balance", moments.ravel(), units)
    joint = np.where(units > 0.0, total, np.nan).reshape(moments.shape)
    joint[:, :, 0] *= scale
    joint[:, :, 1] *= np.square(scale)
    names = [f"x{j}" for j in range(plan.m)]
    return Balance.of(weighting.estimand, names, ~numbers, joint, sizes, sums, centre)


def _effect(work: Work, about: ModelPlan, own: _Own, before: DigitsSession) -> Script:
    """The weighted model of the outcome, on the treatment alone, and the session that found it."""
    assert work.labels is not None
    effect, kept = about.stages[1], own.weights > 0.0
    event = about.column("event")
    labels = [work.labels[:, 0], *([] if event is None else [work.labels[:, event]]), own.weights]
    stage = replace(
        work,
        plan=outcome_plan(work.plan),
        source=ArraySource(np.ascontiguousarray(own.treated[None, kept])),
        labels=np.column_stack(labels)[kept],
        clusters=None if work.clusters is None else work.clusters[kept],
        persons=None if work.persons is None else np.unique(work.persons[kept], return_inverse=True)[1],
    )
    errors: Errors = yield from errors_of(stage)
    session = DigitsSession(stage, OUTCOME, before)
    if effect.facts.outcome is Outcome.TIMES:
        home: Home | CoxHome = yield Local("evaluate", lambda: CoxHome(stage, effect))
        steps = cox.fit_by_digits(effect.ties, shape_of(stage.plan, effect, errors), alpha=0.0)
    else:
        (model,) = models(stage.plan, errors)
        home, steps = Home(stage, model), model.by_digits()
    found = yield from session.fit(home, steps)
    # What weights make of a likelihood is compared with nothing.
    return replace(found, log_likelihood=PSEUDO, aic=PSEUDO, bic=PSEUDO), session
