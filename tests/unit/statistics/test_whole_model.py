"""Tests of all effects of a model together: statsmodels' likelihood ratio, Wald and F; what a score test is made of."""

import numpy as np
import pytest
import statsmodels.api as sm
from tests.robust_data import TERMS, by_site, table
from tests.tolerances import GLM_BAR, STATISTIC_BAR, assert_close

from fedsvd import FederatedCox, FederatedGLM, FederatedOrdinalRegression
from fedsvd.statistics.newton_requests import Evaluation, Point
from fedsvd.statistics.whole_model import likelihood_ratio, own_part, wald

pytestmark = pytest.mark.filterwarnings("ignore")
X = sm.add_constant(table()[TERMS])
LAWS = {"binomial": sm.families.Binomial(), "poisson": sm.families.Poisson()}


def fitted(made, outcome, **more):
    return made.fit(by_site(*TERMS), [own[:, 0] for own in by_site(outcome)], **more)


@pytest.mark.parametrize("name", LAWS)
def test_the_likelihood_ratio_and_walds_test_are_statsmodels(name):
    (model,) = fitted(FederatedGLM(name), name).inference_
    expected = sm.GLM(table()[name], X, LAWS[name]).fit(tol=1e-14)
    ratio = 2.0 * (expected.llf - expected.llnull)
    found, by_covariance = likelihood_ratio(model), expected.wald_test(np.eye(4)[1:], scalar=True)
    assert_close(found[0], ratio, GLM_BAR)
    assert found[1] == 3
    chi2, df, p = wald(model)
    assert_close([chi2, p], [float(by_covariance.statistic), float(by_covariance.pvalue)], GLM_BAR)
    assert df == 3


def test_where_a_scale_is_estimated_both_are_f():
    (model,) = fitted(FederatedGLM("gaussian"), "gaussian").inference_
    expected = sm.OLS(table()["gaussian"], X).fit()
    assert_close(likelihood_ratio(model)[0], expected.fvalue, GLM_BAR)
    assert_close([*wald(model)[::2]], [expected.fvalue, expected.f_pvalue], GLM_BAR)


def test_robust_errors_leave_walds_test_alone():
    found = fitted(FederatedGLM("binomial", cov_type="HC0"), "binomial")
    (model,) = found.inference_
    expected = sm.GLM(table()["binomial"], X, LAWS["binomial"]).fit(tol=1e-14, cov_type="HC0")
    assert likelihood_ratio(model) is None
    assert_close(wald(model)[0], float(expected.wald_test(np.eye(4)[1:], scalar=True).statistic), GLM_BAR)
    assert "Wald (chi2, df 3)" in str(found.summary())
    assert "likelihood ratio" not in str(found.summary())


def test_thresholds_of_an_ordinal_model_are_no_effects():
    (model,) = fitted(FederatedOrdinalRegression(), "grade").inference_
    assert list(model.effects) == [0, 1, 2]
    assert likelihood_ratio(model)[:2] == (model.null_deviance - model.deviance, 3)


def test_a_model_without_an_intercept_has_no_null_model_to_compare_with():
    (model,) = fitted(FederatedGLM("binomial", fit_intercept=False), "binomial").inference_
    assert likelihood_ratio(model) is None


def test_three_tests_of_a_cox_model_are_said_as_broom_names_them():
    cox = fitted(FederatedCox(), "time", event=[own[:, 0] for own in by_site("status")])
    row = cox.glance().iloc[0]
    model = cox.inference_[0]
    for name, test in {"log": model.likelihood_ratio, "sc": model.score, "wald": model.wald}.items():
        assert (row[f"statistic.{name}"], row[f"p.value.{name}"]) == test
    assert "score, df 3" in str(cox.summary())


def test_parts_of_the_score_test_add_up_to_it_whatever_the_first_step_was():
    rng = np.random.default_rng(5)
    scores, roots = rng.normal(size=(3, 4)), rng.normal(size=(3, 9, 4))
    information = [root.T @ root for root in roots]
    U, total = scores.sum(axis=0), sum(information)
    root = np.linalg.cholesky(np.linalg.inv(total))
    at = Point(np.zeros(4), np.zeros(4), True, along=rng.normal(size=4), turn=root)
    parts = [
        own_part(at, Evaluation(0.0, 0.0, u, own, np.zeros((0, 1)))) for u, own in zip(scores, information, strict=True)
    ]
    found = np.sum(parts, axis=0)
    assert_close(found[0] + found[1:] @ found[1:], U @ np.linalg.solve(total, U), STATISTIC_BAR)


def test_a_p_value_below_all_numbers_is_said_as_one():
    x = np.linspace(0.0, 6.0, 240)
    tables = np.array_split(x[:, None], 3)
    counts = np.array_split(np.exp(x).round(), 3)
    model = FederatedGLM("poisson").fit(tables, counts)
    assert "p <1e-300" in str(model.summary())
    assert ", p 0" not in str(model.summary())


def test_a_penalised_cox_model_prints_a_dash_for_every_test_and_says_why():
    events = [own[:, 0] for own in by_site("status")]
    found = fitted(FederatedCox(alpha=2.0), "time", event=events)
    printed = str(found.summary()).splitlines()
    facts = [line for line in printed if any(f"{name}, df 3" in line for name in ("likelihood ratio", "Wald", "score"))]
    assert [line.split()[-1] for line in facts] == ["-", "-", "-"]
    assert any(line.startswith("Note: a penalty shrinks the coefficients") for line in printed)
    assert any(line.startswith("Note: with a penalty there is no likelihood, so tests") for line in printed)
    glance = found.glance().iloc[0]
    assert glance[[f"statistic.{name}" for name in ("log", "sc", "wald")]].isna().all()
    assert glance[[f"p.value.{name}" for name in ("log", "sc", "wald")]].isna().all()
    plain = fitted(FederatedCox(), "time", event=events)
    assert "no likelihood" not in str(plain.summary())
    assert list(plain.glance().columns) == list(found.glance().columns)
