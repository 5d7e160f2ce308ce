"""Tests of terms and of nested models of every family are those of MASS, survival, lme4 and lmerTest."""

import json
from pathlib import Path

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.stats import chi2
from tests.kit import kit
from tests.tolerances import PRINTED_BAR, SATTERTHWAITE_BAR, STATISTIC_BAR, assert_each_close

from fedsvd import (
    FederatedCox,
    FederatedGLM,
    FederatedLogisticRegression,
    FederatedMixedLM,
    FederatedOrdinalRegression,
)
from fedsvd.errors import ConfigError

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
R = json.loads((Path(__file__).parents[2] / "vectors" / "nested-r.json").read_text())


def sites(name):
    found = kit(name)
    if "w" in found:
        found = found.loc[found.index.repeat(found["w"])]
    return [found[found["site"] == site] for site in sorted(set(found["site"]))]


def fit(model, name, features, *columns):
    tables = sites(name)
    return model.fit(
        [table[features] for table in tables], *([table[column] for table in tables] for column in columns)
    )


def compared(model, name, few, more, *columns):
    row = fit(model(), name, few, *columns).anova(fit(model(), name, few + more, *columns)).iloc[0]
    return [row["statistic"], row["df"], row["p.value"]]


def test_negative_binomial_models_are_compared_by_likelihoods_and_not_by_deviances_of_two_thetas():
    found = compared(lambda: FederatedGLM("negative-binomial"), "quine", ["EthN"], ["SexM", "LrnSL"], "y")
    assert_each_close(found, R["negative_binomial"], PRINTED_BAR)


def test_cox_models_are_compared_as_survival_does():
    assert_each_close(
        compared(FederatedCox, "veteran", ["karno"], ["age", "trt"], "time", "status"), R["cox"], PRINTED_BAR
    )


def test_ordinal_models_are_compared_as_polr_does():
    found = compared(FederatedOrdinalRegression, "housing", ["InflMedium", "InflHigh"], ["ContHigh"], "y")
    assert_each_close(found, R["ordinal"], PRINTED_BAR)


def test_multinomial_models_are_compared_as_statsmodels_does():
    table = kit("housing")
    table = table.loc[table.index.repeat(table["w"])]
    known = [
        sm.MNLogit(table["y"] - 1, sm.add_constant(table[names])).fit(disp=0, tol=1e-12).llf
        for names in (["InflHigh"], ["InflHigh", "ContHigh"])
    ]
    statistic = 2.0 * (known[1] - known[0])
    found = compared(
        lambda: FederatedLogisticRegression(multi_class="multinomial"), "housing", ["InflHigh"], ["ContHigh"], "y"
    )
    assert_each_close(found, [statistic, 2, chi2.sf(statistic, 2)], PRINTED_BAR)


def test_mixed_models_are_compared_by_likelihoods_which_reml_has_not():
    few, more, columns = ["age"], ["female"], ("distance", "id")
    found = compared(lambda: FederatedMixedLM("ml"), "orthodont", few, more, *columns)
    assert_each_close(found, R["mixed"], PRINTED_BAR)
    with pytest.raises(ConfigError, match=r'restricted likelihoods .* criterion="ml"'):
        compared(FederatedMixedLM, "orthodont", few, more, *columns)


def test_terms_of_a_mixed_model_have_satterthwaites_degrees_of_freedom():
    model = fit(FederatedMixedLM(), "orthodont", ["age", "female"], "distance", "id")
    terms = model.anova()
    assert_each_close(terms["statistic"], R["mixed_terms"]["f"], PRINTED_BAR)
    assert_each_close(terms["df.residual"], R["mixed_terms"]["df"], SATTERTHWAITE_BAR)
    assert_each_close(np.log(terms["p.value"]), np.log(R["mixed_terms"]["p"]), SATTERTHWAITE_BAR)
    assert_each_close(terms["p.value"], model.tidy()["p.value"][1:3], STATISTIC_BAR)
    estimate, error, df, t, p, low, high = R["age"]
    found = model.contrast({"age": 1.0}).iloc[0]
    expected = {"estimate": estimate, "std.error": error, "statistic": t, "conf.low": low, "conf.high": high}
    assert_each_close(found[list(expected)].astype(float), list(expected.values()), SATTERTHWAITE_BAR)
    assert_each_close(np.log(found["p.value"]), np.log(p), SATTERTHWAITE_BAR)
    both = model.wald_test(["age", "female"])
    assert both.df == 2
    assert both.df_residual == terms["df.residual"].min() < df
