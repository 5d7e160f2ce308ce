"""The regression table of a party's own columns, from its own block of the inverse Gram matrix.

A party of split columns holds ``C_i``, its block of ``(X^T X)^-1`` of all centred columns, and of the others' nothing.
Standard errors, tests, intervals, covariances and variance inflation of its own coefficients follow, and what is said
of the model as one. The covariances of the intercept with its coefficients would need the others' blocks: they are NaN.
The condition is that of the joint columns, centred and scaled, because no party knows all their units.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from fedsvd.statistics.distributions import wald
from fedsvd.statistics.inference import LinearInference, Totals, table_from
from fedsvd.statistics.undefined import NO_FREEDOM, OWN_BLOCK, RANK_LOST, Numbers, Undefined, is_array, is_number
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class OwnBlock:
    """What a party holds of the joint columns, ``features`` of them at all parties."""

    block: Float  # (n_i, n_i): its part of the inverse Gram matrix
    norms: Float  # (n_i,): squares of its own centred columns
    intercept: float  # the intercept's variance over sigma^2
    features: int
    rank: int
    condition: float
    exact: bool = True  # whether float64 under masks holds digits of the block at this condition


def infer_own(own: OwnBlock, w: Float, intercept: float | None, sums: Totals, level: float = 0.95) -> LinearInference:
    """The table of own coefficients w, (n_i,), below the intercept where there is one."""
    first = int(intercept is not None)
    coefficients = w if intercept is None else np.concatenate(([intercept], w))
    full, why = own.rank == own.features, RANK_LOST
    if full and not own.exact:
        why = Undefined(
            f"the columns of all parties nearly depend on each other (condition about {own.condition:.0e}), and their "
            "standard errors have fewer than six digits under masks: leave one of them out"
        )
    block = np.full((len(coefficients), len(coefficients)), np.nan)
    block[first:, first:] = own.block
    if first:
        block[0, 0] = own.intercept
    variances = np.diag(block)
    known = full and own.exact
    inverse: Numbers = np.diag(np.sqrt(np.maximum(variances, 0.0))) if known else why
    vif: Numbers = own.norms * np.diag(own.block) if known else why
    about = {"rank": own.rank + first, "vif": vif, "condition": own.condition if full else math.inf, "level": level}
    model = table_from(coefficients, inverse, sums, intercept=bool(first), penalised=False, **about)  # type: ignore[arg-type]
    model = replace(model, root=OWN_BLOCK if known else why)
    if is_array(model.covariance) and is_number(model.sigma):
        model = replace(model, covariance=model.sigma**2 * block)
    if model.df_residual <= 0:
        model = replace(model, log_likelihood=NO_FREEDOM, aic=NO_FREEDOM, bic=NO_FREEDOM)
    tests = wald(model.coefficients, model.standard_errors, level, model.df_residual)
    return replace(model, t=tests.statistic, p=tests.p, intervals=tests.intervals)


def joined(models: tuple[LinearInference, ...]) -> LinearInference:
    """The tables of all parties one below the other, as they hold them together; covariances across them are NaN."""
    head, first = models[0], int(models[0].intercept)
    own = [model.coefficients[first:] for model in models]
    coefficients = np.concatenate((head.coefficients[:first], *own))

    def rows(name: str) -> Numbers:
        parts: list[Numbers] = [getattr(model, name) for model in models]
        arrays = [part for part in parts if is_array(part)]
        if len(arrays) < len(parts):
            return parts[0]
        return np.concatenate((arrays[0][:first], *(part[first:] for part in arrays)))

    covariance: Numbers = head.covariance
    if is_array(covariance):
        covariance = np.full((len(coefficients),) * 2, np.nan)
        covariance[:first, :first] = np.asarray(head.covariance)[:first, :first]
        at = first
        for model in models:
            stop = at + len(model.coefficients) - first
            covariance[at:stop, at:stop] = np.asarray(model.covariance)[first:, first:]
            at = stop
    vif = [model.vif for model in models]
    inflation: Numbers = np.concatenate(vif) if is_array(vif[0]) else vif[0]  # type: ignore[arg-type]
    return replace(
        head,
        coefficients=coefficients,
        covariance=covariance,
        vif=inflation,
        standard_errors=rows("standard_errors"),
        t=rows("t"),
        p=rows("p"),
        intervals=rows("intervals"),
    )
