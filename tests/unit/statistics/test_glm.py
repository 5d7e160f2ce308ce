"""Generalised linear models from joint sums equal statsmodels, R and scikit-learn on the joint rows."""

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.optimize import linprog
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from tests.tolerances import GLM_BAR, PRINTED_BAR, STATISTIC_BAR, assert_close, assert_each_close
from tests.unit.statistics.driving import drive
from tests.unit.statistics.statsmodels_glm import assert_same

from fedsvd.errors import ConfigError, DataError, NotConverged, Separated, ShapeError
from fedsvd.statistics import glm
from fedsvd.statistics.families import COX, FAMILIES, GAMMA, GAUSSIAN, LOGIT, MIXED, POISSON, PROBIT, family_named
from fedsvd.statistics.irls import Answer, Request
from fedsvd.statistics.undefined import PENALISED

LINKS = {
    "gaussian identity": sm.families.Gaussian(),
    "binomial logit": sm.families.Binomial(),
    "binomial probit": sm.families.Binomial(sm.families.links.Probit()),
    "poisson log": sm.families.Poisson(),
    "gamma log": sm.families.Gamma(sm.families.links.Log()),
}


def drawn(n=500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    eta = 0.3 + X @ [0.5, -0.8, 0.2, 0.0]
    targets = {
        "gaussian": eta + rng.normal(size=n),
        "binomial": (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(float),
        "poisson": rng.poisson(np.exp(eta)).astype(float),
        "gamma": rng.gamma(2.0, np.exp(eta) / 2.0),
    }
    return X, targets, rng.normal(size=n) / 3.0, rng.uniform(0.5, 2.0, size=n)


def fitted(family, X, y, *, intercept=True, offset=None, weights=None, **settings):
    def contribute(request, rows):
        return glm.contribution(
            request,
            family,
            X[rows],
            y[rows],
            intercept=intercept,
            offset=None if offset is None else offset[rows],
            weights=None if weights is None else weights[rows],
        )

    generator = glm.fit(family, intercept=intercept, offset=offset is not None, **settings)
    return drive(generator, contribute, len(y))


def reference(name, X, y, **settings):
    """Tests by Student's t where a scale is estimated, as R has them: statsmodels does so where it is asked."""
    model = sm.GLM(y, np.column_stack((np.ones(len(y)), X)), family=LINKS[name], **settings)
    by_t = name in ("gaussian identity", "gamma log")
    return model.fit(tol=1e-13, maxiter=200, tol_criterion="params", use_t=by_t)


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_table_is_statsmodels(name, offset, weighted):
    X, targets, shift, weights = drawn()
    family = family_named(*name.split())
    y, shift, weights = targets[family.name], shift if offset else None, weights if weighted else None
    model, _ = fitted(family, X, y, offset=shift, weights=weights)
    assert_same(model, reference(name, X, y, offset=shift, var_weights=weights))


def test_breast_cancer_by_four_features():
    data = load_breast_cancer()
    X, y = data.data[:, [1, 4, 8, 9]], data.target.astype(float)
    model, _ = fitted(LOGIT, X, y)
    assert_same(model, reference("binomial logit", X, y))


def test_star98_has_the_values_of_r():
    """Shares of pupils with the number of pupils as weights; R's values as recorded in statsmodels' own tests."""
    data = sm.datasets.star98.load_pandas()
    passed, failed = data.endog.to_numpy().T
    X = data.exog.to_numpy()
    model, _ = fitted(LOGIT, X, passed / (passed + failed), weights=passed + failed)
    coefficients = [-0.0168150366, 0.0099254766, -0.0187242148, -0.0142385609, 0.2544871730, 0.2406936644, 0.0804086739]
    assert np.round(model.coefficients[1:8], 10).tolist() == coefficients
    assert np.round(model.coefficients[0], 10) == 2.9588779262
    assert (round(model.deviance, 8), round(model.null_deviance, 7)) == (4078.76541772, 34345.3688931)


def test_cpunish_has_the_values_of_r():
    data = sm.datasets.cpunish.load_pandas()
    X, y = data.exog.to_numpy(), data.endog.to_numpy()
    X = np.column_stack((X[:, 0], X[:, 1], X[:, 2], np.log(X[:, 3]), X[:, 4:]))
    model, _ = fitted(POISSON, X, y)
    coefficients = [-6.801480, 2.611017e-04, 7.781801e-02, -9.493111e-02, 2.969349e-01, 2.301183, -1.872207e01]
    assert_each_close(model.coefficients, coefficients, PRINTED_BAR)
    errors = [4.146850, 5.187132e-05, 7.940193e-02, 2.291926e-02, 4.375164e-01, 4.283826e-01, 4.283961]
    assert_each_close(model.standard_errors, errors, PRINTED_BAR)
    values = [136.57281747225, 18.591641759528944, 77.8546573896503, -31.92732869482515]
    assert_each_close([model.null_deviance, model.deviance, model.aic, model.log_likelihood], values, STATISTIC_BAR)


def test_logistic_regression_is_the_optimum_of_scikit_learn():
    X, targets, _, weights = drawn()
    y = targets["binomial"]
    for alpha, C in ((0.0, np.inf), (3.0, 1.0 / 3.0)):
        model, _ = fitted(LOGIT, X, y, alpha=alpha, weights=weights)
        solver = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12, max_iter=500)
        expected = solver.fit(X, y, sample_weight=weights)
        assert_each_close(model.coefficients[1:], expected.coef_[0], GLM_BAR)
        assert_each_close(model.coefficients[0], expected.intercept_[0], GLM_BAR)
        assert_close(model.predict(X), expected.predict_proba(X)[:, 1], GLM_BAR)


def test_a_penalty_on_counts_is_that_of_scikit_learn():
    X, targets, _, _ = drawn()
    y = targets["poisson"]
    model, _ = fitted(POISSON, X, y, alpha=50.0)
    expected = PoissonRegressor(alpha=50.0 / len(y), solver="newton-cholesky", tol=1e-12, max_iter=500).fit(X, y)
    assert_each_close(model.coefficients[1:], expected.coef_, GLM_BAR)
    for missing in (model.standard_errors, model.p, model.log_likelihood, model.aic, model.bic):
        assert missing == PENALISED


def test_a_sum_of_squares_that_noise_takes_below_zero_is_zero():
    X = np.random.default_rng(3).normal(size=(30, 2))
    y = 1.0 + X @ [2.0, -1.0]

    def contribute(request, rows):
        part = glm.contribution(request, GAUSSIAN, X[rows], y[rows], intercept=True)
        squares = [name in ("deviance", "pearson") for name in request.totals]
        return replace(
            part, totals=np.where(squares, -1e-300, part.totals) if not request.constant_only else part.totals
        )

    model, _ = drive(glm.fit(GAUSSIAN, intercept=True), contribute, 30)
    assert_close(model.coefficients, np.array([1.0, 2.0, -1.0]), GLM_BAR)
    assert model.scale == 0.0
    assert np.all(model.standard_errors == 0.0)


def test_without_intercept_no_coefficient_is_added():
    X, targets, _, _ = drawn()
    y = targets["poisson"]
    model, _ = fitted(POISSON, X, y, intercept=False)
    expected = sm.GLM(y, X, family=sm.families.Poisson()).fit(tol=1e-13, tol_criterion="params")
    assert_each_close(model.coefficients, expected.params, GLM_BAR)
    assert_each_close([model.deviance, model.null_deviance], [expected.deviance, expected.null_deviance], GLM_BAR)


def test_lost_rank_keeps_fitted_values_and_the_other_columns_errors():
    X, targets, _, _ = drawn()
    y = targets["binomial"]
    whole, _ = fitted(LOGIT, X, y)
    model, _ = fitted(LOGIT, np.column_stack((X, X[:, 0])), y)
    assert model.aliased == (5,)
    for found, wanted in ((model.coefficients, whole.coefficients), (model.standard_errors, whole.standard_errors)):
        assert_each_close(found[:5], wanted, GLM_BAR)
        assert np.isnan(found[5])
    assert np.isnan(model.covariance[5]).all()
    assert_close(model.predict(np.column_stack((X, X[:, 0]))), whole.predict(X), GLM_BAR)
    assert_each_close(model.solution[[1, 5]], [whole.coefficients[1] / 2.0] * 2, GLM_BAR)
    assert model.df_residual == whole.df_residual


def test_an_iteration_is_one_sum_and_no_request_asks_for_more_than_it_needs():
    X, targets, _, _ = drawn()
    model, requests = fitted(LOGIT, X, targets["binomial"])
    assert [request.purpose for request in requests] == ["step"] * (model.iterations + 1) + ["last", "null"]
    assert requests[0].totals == ("rows", "weight", "target")
    assert all(request.totals == ("deviance", "entropy") for request in requests[1:-2])
    assert requests[-2].totals == ("deviance", "pearson", "log_likelihood")
    assert (requests[-1].totals, requests[-1].gram) == (("deviance",), False)
    assert model.iterations <= 6


def test_steps_that_overshoot_are_halved_until_the_optimum_is_found():
    rng = np.random.default_rng(7)
    X = rng.standard_t(2, size=(37, 2)) * 5.0
    y = rng.gamma(0.2, 10.0, size=37) + np.finfo(float).tiny
    model, requests = fitted(GAMMA, X, y, max_iterations=150)
    assert model.halvings > 0
    assert len(requests) == 1 + model.iterations + model.halvings + 3
    score = np.column_stack((np.ones(37), X)).T @ (y / model.predict(X) - 1.0)
    assert_close(score, np.zeros(3), GLM_BAR, scale=float(np.abs(X).sum()))


@pytest.mark.parametrize("family", [LOGIT, PROBIT])
def test_perfect_separation_is_an_error_that_says_so(family):
    X, _, _, _ = drawn()
    with pytest.raises(Separated, match="predicts the outcome without error"):
        fitted(family, X, (X[:, 0] > 0.1).astype(float))


@pytest.mark.parametrize("family", [LOGIT, PROBIT])
@pytest.mark.parametrize("iterations", [25, 200])
def test_a_rare_category_with_one_outcome_only_is_separation(family, iterations):
    X, targets, _, _ = drawn()
    rare = (np.arange(len(X)) % 25 == 0).astype(float)
    y = np.where(rare > 0, 1.0, targets["binomial"])
    with pytest.raises(Separated):
        fitted(family, np.column_stack((X, rare)), y, max_iterations=iterations)
    model, _ = fitted(family, np.column_stack((X, rare)), y, alpha=1.0)
    assert np.all(np.isfinite(model.coefficients))


@pytest.mark.parametrize("iterations", [25, 200])
def test_three_rows_of_thousands_are_enough_for_separation(iterations):
    X, targets, _, _ = drawn(n=6000)
    rare = (np.arange(len(X)) % 2000 == 7).astype(float)
    y = np.where(rare > 0, 0.0, targets["binomial"])
    with pytest.raises(Separated):
        fitted(LOGIT, np.column_stack((X, rare)), y, max_iterations=iterations)


def separable(X, y):
    """Whether a linear program finds a direction that puts no outcome on the wrong side, and some on the right one."""
    signed = np.column_stack((np.ones(len(y)), X)) * (2.0 * y - 1.0)[:, None]
    found = linprog(-signed.sum(axis=0), A_ub=-signed, b_ub=np.zeros(len(y)), bounds=(-1.0, 1.0))
    return -found.fun > GLM_BAR


@pytest.mark.parametrize("family", [LOGIT, PROBIT])
def test_separation_is_found_exactly_where_a_linear_program_finds_it(family):
    verdicts = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = np.column_stack((rng.standard_t(3, size=(24, 2)), rng.random(24) < 0.15))
        y = (rng.random(24) < 1.0 / (1.0 + np.exp(-3.0 * X[:, 0]))).astype(float)
        X = X[:, :2] if np.ptp(X[:, 2]) == 0.0 else X
        try:
            fitted(family, X, y, max_iterations=100)
            verdicts.append((False, separable(X, y)))
        except Separated:
            verdicts.append((True, separable(X, y)))
    assert all(found == expected for found, expected in verdicts)
    assert {found for found, _ in verdicts} == {True, False}


def test_a_category_without_counts_is_separation():
    X, targets, _, _ = drawn()
    rare = (np.arange(len(X)) % 25 == 0).astype(float)
    with pytest.raises(Separated):
        fitted(POISSON, np.column_stack((X, rare)), np.where(rare > 0, 0.0, targets["poisson"]))


def test_a_strong_effect_is_not_taken_for_separation():
    X, _, _, _ = drawn()
    rng = np.random.default_rng(8)
    eta = 20.0 * (X[:, 0] - X[:, 1])
    y = (rng.random(len(X)) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
    model, _ = fitted(LOGIT, X, y)
    assert_same(model, reference("binomial logit", X, y))


@pytest.mark.parametrize("iterations", [1, 2, 3])
@pytest.mark.parametrize("family", [LOGIT, PROBIT, POISSON, GAMMA], ids=["logit", "probit", "poisson", "gamma"])
def test_too_few_iterations_are_not_taken_for_separation(family, iterations):
    X, targets, _, _ = drawn()
    with pytest.raises(NotConverged, match=f"{iterations} iterations"):
        fitted(family, X, targets[family.name], max_iterations=iterations)


@pytest.mark.parametrize("iterations", [2, 3, 5])
def test_a_strong_effect_that_needs_more_iterations_is_not_taken_for_separation(iterations):
    X, _, _, _ = drawn()
    y = (np.random.default_rng(8).random(len(X)) < 1.0 / (1.0 + np.exp(-20.0 * (X[:, 0] - X[:, 1])))).astype(float)
    with pytest.raises(NotConverged, match=f"{iterations} iterations"):
        fitted(LOGIT, X, y, max_iterations=iterations)


@pytest.mark.parametrize("kind", ["complete", "quasi"])
@pytest.mark.parametrize("iterations", [8, 12, 25])
def test_separation_is_named_however_many_iterations_there_are(kind, iterations):
    X, targets, _, _ = drawn()
    if kind == "complete":
        y = (X[:, 0] > 0.1).astype(float)
    else:
        rare = (np.arange(len(X)) % 25 == 0).astype(float)
        X, y = np.column_stack((X, rare)), np.where(rare > 0, 1.0, targets["binomial"])
    with pytest.raises(Separated):
        fitted(LOGIT, X, y, max_iterations=iterations)


@pytest.mark.parametrize(("family", "value"), [(LOGIT, 1.0), (PROBIT, 0.0), (POISSON, 0.0)])
def test_outcomes_that_are_all_equal_are_an_error(family, value):
    X, _, _, _ = drawn()
    with pytest.raises(DataError, match="equal"):
        fitted(family, X, np.full(len(X), value))


@pytest.mark.parametrize(("family", "value"), [(LOGIT, 2.0), (PROBIT, -1.0), (POISSON, -1.0), (GAMMA, 0.0)])
def test_a_target_outside_its_family_is_refused_without_naming_it(family, value):
    X, _, _, _ = drawn()
    with pytest.raises(DataError, match="target") as error:
        fitted(family, X, np.full(len(X), value))
    assert str(value) not in str(error.value)


def test_new_rows_have_their_expected_targets():
    X, targets, shift, _ = drawn()
    for name, link in LINKS.items():
        family = family_named(*name.split())
        y = targets[family.name]
        model, _ = fitted(family, X, y, offset=shift)
        design = np.column_stack((np.ones(len(y)), X))
        expected = sm.GLM(y, design, family=link, offset=shift).fit(tol=1e-13, tol_criterion="params", maxiter=200)
        assert_close(model.predict(X, shift), expected.fittedvalues, GLM_BAR)


def test_families_are_found_by_name():
    assert family_named("binomial") is LOGIT
    assert {family_named(*key) for key in FAMILIES} >= {GAUSSIAN, LOGIT, PROBIT, POISSON, GAMMA, COX, MIXED}
    with pytest.raises(ConfigError, match="cauchit"):
        family_named("binomial", "cauchit")


def test_far_from_the_data_nothing_overflows():
    eta = np.array([-800.0, -50.0, 50.0, 800.0])
    for family, y in ((LOGIT, 1.0), (LOGIT, 0.0), (PROBIT, 1.0), (PROBIT, 0.0), (POISSON, 3.0), (GAMMA, 3.0)):
        local = family.evaluate(eta, np.full(4, y))
        for part in (local.mu, local.slope, local.variance, local.deviance):
            assert np.all(np.isfinite(part))
        assert np.all(local.variance > 0.0)


def test_what_cannot_be_used_is_refused():
    X, targets, _, weights = drawn()
    y = targets["binomial"]
    start = Request("step", 0, None, ("rows",), gram=True)
    with pytest.raises(ShapeError):
        glm.contribution(start, LOGIT, X, y, weights=weights[:3])
    with pytest.raises(DataError, match="weight"):
        glm.contribution(start, LOGIT, X, y, weights=weights * 0.0)
    with pytest.raises(ShapeError):
        glm.contribution(Request("step", 1, np.zeros(2), (), gram=True), LOGIT, X, y)
    with pytest.raises(ConfigError):
        next(glm.fit(LOGIT, alpha=-1.0))
    generator = glm.fit(LOGIT)
    next(generator)
    with pytest.raises(ShapeError, match="no factor"):
        generator.send(Answer(None, {"rows": 3.0, "weight": 3.0, "target": 1.0}))
