"""Counts that vary more than their family says: noticed, with the tests of quasi-likelihood that statsmodels has."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from tests.tolerances import RESULT_BAR, assert_close

from fedsvd import FederatedGLM, Policy, Simulation

OWN = Simulation(policy=Policy.permissive())


def fitted(family, y, X, trials=None):
    cut = np.array_split(np.arange(len(y)), 3)
    weights = None if trials is None else [trials[own] for own in cut]
    frame = pd.DataFrame(X, columns=["a", "b"])
    return FederatedGLM(family, federation=OWN).fit([frame.iloc[own] for own in cut], [y[own] for own in cut], weights)


@pytest.mark.parametrize("family", ["poisson", "binomial"])
def test_counts_that_vary_more_have_the_tests_of_the_quasi_family(family):
    rng = np.random.default_rng(12)
    X = rng.normal(size=(240, 2))
    level = rng.gamma(2.0, 0.5, 240)
    if family == "poisson":
        y, trials = rng.poisson(np.exp(1 + 0.3 * X[:, 0]) * level).astype(float), None
        expected = sm.GLM(y, sm.add_constant(X), sm.families.Poisson()).fit(scale="X2", use_t=True)
    else:
        trials = rng.integers(10, 30, 240).astype(float)
        share = 1 / (1 + np.exp(-(0.4 * X[:, 0] + rng.normal(size=240))))
        y = rng.binomial(trials.astype(int), share) / trials
        model = sm.GLM(y, sm.add_constant(X), sm.families.Binomial(), var_weights=trials)
        expected = model.fit(scale="X2", use_t=True)
    found = fitted(family, y, X, trials)
    (model,) = found.inference_
    assert model.overdispersed
    assert_close(np.array([model.dispersion]), np.array([expected.scale]), RESULT_BAR)
    table = found.summary_frame()
    assert_close(table["quasi_se"].to_numpy(), expected.bse, RESULT_BAR)
    assert_close(table["quasi_p"].to_numpy(), expected.pvalues, RESULT_BAR)
    text = str(found.summary())
    assert "P>|t| quasi" in text
    assert f"counts vary more than the {family} family says: Pearson chi2 / df is {expected.scale:.3g}" in text


def test_counts_of_their_family_and_single_outcomes_are_not_pointed_out():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(240, 2))
    counts = fitted("poisson", rng.poisson(np.exp(1 + 0.3 * X[:, 0])).astype(float), X)
    assert not counts.inference_[0].overdispersed
    assert list(counts.summary_frame()) == ["coef", "se", "z", "p", "low", "high"]
    outcomes = fitted("binomial", (rng.random(240) < 0.4).astype(float), X)
    assert outcomes.inference_[0].dispersion is None
