"""Counts that vary more than their family says: noticed, with the tests of quasi-likelihood that statsmodels has."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from tests.robust_data import TERMS, by_site
from tests.tolerances import DIGITS_ERRORS_BAR, DIGITS_MORE_BAR, GLM_BAR, RESULT_BAR, assert_close

from fedsvd import FederatedGLM, Policy, Simulation
from fedsvd.errors import ConfigError
from fedsvd.statistics.model_table import model_from, values
from fedsvd.statistics.undefined import QUASI

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


# --- quasi families ---------------------------------------------------------------------------------------------------

SAID = json.loads((Path(__file__).parents[2] / "vectors" / "robust-r.json").read_text(encoding="utf-8"))
BARS = {"all": GLM_BAR, "more": DIGITS_MORE_BAR, "table": DIGITS_ERRORS_BAR}


@pytest.mark.parametrize("digits", BARS)
@pytest.mark.parametrize("name", ["quasipoisson", "quasibinomial"])
def test_a_quasi_family_is_what_rs_glm_prints(name, digits):
    tables, y = by_site(*TERMS), [own[:, 0] for own in by_site(name.removeprefix("quasi"))]
    found, said = FederatedGLM(name, digits=digits, federation=OWN).fit(tables, y), SAID[name]
    (model,), bar = found.inference_, BARS[digits]
    assert_close(model.coefficients, np.array(said["coef"]), max(GLM_BAR, bar / 1e3))
    for ours, theirs in ((model.standard_errors, said["se"]), (model.z, said["t"])):
        assert np.abs(ours / np.array(theirs) - 1.0).max() < bar
    assert np.abs(np.log(model.p / np.array(said["p"]))).max() < 100.0 * bar, "of tails of Student's t"
    numbers = [model.scale, model.deviance, model.null_deviance]
    assert np.abs(np.array(numbers) / [said["dispersion"], said["deviance"], said["null"]] - 1.0).max() < bar
    assert model.log_likelihood == model.aic == model.bic == QUASI
    assert model.freedom == model.df_residual
    assert list(found.summary_frame()) == ["coef", "se", "t", "p", "low", "high"]
    assert "quasi-likelihood has no likelihood" in str(found.summary())
    again = model_from(json.loads(json.dumps(values(model))), model.coefficients, True, model.covariance)
    assert_close(again.p, model.p, RESULT_BAR)
    assert again.aic == QUASI


def test_shares_have_the_scale_of_their_trials_and_two_models_are_compared_by_f():
    rng = np.random.default_rng(12)
    X, trials = rng.normal(size=(240, 2)), rng.integers(10, 30, 240).astype(float)
    y = rng.binomial(trials.astype(int), 1 / (1 + np.exp(-(0.4 * X[:, 0] + rng.normal(size=240))))) / trials
    expected = sm.GLM(y, sm.add_constant(X), sm.families.Binomial(), var_weights=trials).fit(scale="X2", use_t=True)
    large = fitted("quasibinomial", y, X, trials)
    assert_close(large.inference_[0].standard_errors, expected.bse, RESULT_BAR)
    assert large.inference_[0].dispersion is None, "it is the scale of this family"
    cut = np.array_split(np.arange(240), 3)
    frame = pd.DataFrame(X[:, :1], columns=["a"])
    small = FederatedGLM("quasibinomial", federation=OWN)
    small.fit([frame.iloc[own] for own in cut], [y[own] for own in cut], [trials[own] for own in cut])
    plain = sm.GLM(y, sm.add_constant(X[:, :1]), sm.families.Binomial(), var_weights=trials).fit()
    test = small.anova(large)
    assert_close(
        test["statistic"].to_numpy(), np.array([(plain.deviance - expected.deviance) / expected.scale]), GLM_BAR
    )
    assert test["df.residual"][0] == 237


def test_average_marginal_effects_do_not_depend_on_the_scale():
    tables, y = by_site(*TERMS), [own[:, 0] for own in by_site("poisson")]
    plain, quasi = (FederatedGLM(name, federation=OWN).fit(tables, y) for name in ("poisson", "quasipoisson"))
    one, two = plain.marginal_effects(), quasi.marginal_effects()
    assert_close(two["estimate"].to_numpy(), one["estimate"].to_numpy(), GLM_BAR)
    times = np.sqrt(SAID["quasipoisson"]["dispersion"])
    assert_close(two["std.error"].to_numpy(), times * one["std.error"].to_numpy(), GLM_BAR)


def test_a_class_has_no_quasi_likelihood_of_several_classes():
    with pytest.raises(ConfigError, match="family is 'quasimultinomial'"):
        FederatedGLM("quasimultinomial", federation=OWN).fit(by_site(*TERMS), by_site("grade"))
