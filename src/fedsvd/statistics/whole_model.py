"""Tests of all effects of a model together: likelihood ratio and Wald's from what it released, the score test by a sum.

The score test is ``U^T I^-1 U`` at the null model. Scores and information are opened there in a few digits, U' and A,
for the first step ``b = A^-1 U'``. What these digits leave out is ``r = U - I b``, and

    U^T I^-1 U = b^T (2 U - I b) + r^T I^-1 r

so that one number in 24 bits and r in 12, in coordinates in which A is the identity, give it to a few parts of 1e4.
"""

import math
from dataclasses import replace

import numpy as np

from fedsvd.statistics.distributions import chi2_tail, f_tail
from fedsvd.statistics.glm import Fact, GLMInference
from fedsvd.statistics.newton import TWELVE, Fitting, opened, powers
from fedsvd.statistics.newton_requests import Asked, Evaluation, Found, Point, Shape, Sizes
from fedsvd.statistics.undefined import Undefined, is_array
from fedsvd.types import Float

_BITS = 24


def score_test(found: Found, shape: Shape) -> Fitting:
    """``U^T I^-1 U`` at the point where the iteration started."""
    at = replace(found.start, along=found.first_step, turn=found.first_root)
    sizes = yield Sizes("all effects", at)
    assert isinstance(sizes, np.ndarray)
    bits = np.concatenate(([_BITS], np.full(shape.coefficients, TWELVE)))
    units = np.repeat(powers(sizes), (1, shape.coefficients)) * shape.users * 2.0**-bits
    values = yield from opened(Asked("all effects", units, at))
    return float(values[0] + values[1:] @ values[1:])


def own_part(at: Point, own: Evaluation) -> Float:
    """A party's part of it: ``b^T (2 U - I b)``, and r in the coordinates of the first root."""
    b, turn = at.along, at.turn
    assert b is not None
    assert turn is not None
    assert own.information is not None
    left = own.score - own.information @ b
    return np.concatenate(([b @ (own.score + left)], left @ turn))


def likelihood_ratio(model: GLMInference) -> tuple[float, int, float] | None:
    """What the features add to the likelihood, their number and p; F of deviances where a scale is estimated.

    None where the null model is not one of these, or a penalty or robust errors leave no likelihood to compare.
    """
    df = len(model.effects)
    if df < 1 or model.alpha > 0.0 or model.errors.robust or math.isnan(model.null_deviance):
        return None
    gain = max(model.null_deviance - model.deviance, 0.0)
    if not model.family.dispersion:
        return gain, df, chi2_tail(gain, df)
    if isinstance(model.scale, Undefined) or not model.scale > 0.0:
        return None
    f = gain / model.scale / df
    return f, df, f_tail(f, df, model.df_residual)


def wald(model: GLMInference) -> tuple[float, int, float] | None:
    """The test of all features by their covariance, likewise; None where there is none."""
    tested = list(model.effects)
    if not is_array(model.covariance) or not tested:
        return None
    w, V = model.coefficients[tested], model.covariance[np.ix_(tested, tested)]
    df, spread = len(tested), np.sqrt(np.diag(V))
    if not (spread > 0.0).all() or np.linalg.matrix_rank(V / np.outer(spread, spread), hermitian=True) < df:
        return None
    chi2 = float((w / spread) @ np.linalg.solve(V / np.outer(spread, spread), w / spread))
    if isinstance(model.freedom, int):
        return chi2 / df, df, f_tail(chi2 / df, df, model.freedom)
    return chi2, df, chi2_tail(chi2, df)


def shown(model: GLMInference) -> dict[str, Fact]:
    """Both as a summary prints them."""
    tests = {"likelihood ratio": likelihood_ratio(model), "Wald": wald(model)}
    law = "F" if isinstance(model.freedom, int) else "chi2"
    found = {name: test for name, test in tests.items() if test is not None}
    return {
        f"{name} ({law}, df {df})": f"{value:.6g}, p {f'{p:.3g}' if p > 0.0 else '<1e-300'}"
        for name, (value, df, p) in found.items()
    }
