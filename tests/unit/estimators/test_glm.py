"""FederatedGLM and FederatedLogisticRegression equal statsmodels and scikit-learn, and work where scikit-learn's do."""

import pickle

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.tolerances import GLM_BAR, assert_close, assert_each_close, digits_lost

from fedsvd import FederatedGLM, FederatedLogisticRegression, Simulation
from fedsvd.errors import ConfigError, DataError, NotFittedError, PrivacyWarning, ReleaseRefused, Separated
from fedsvd.policy.rules import Policy

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")


def parts(n, cuts=(0.2, 0.55)):
    return np.split(np.arange(n), [int(n * cut) for cut in cuts])


def cancer(columns=5):
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :columns]
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def frames(seed=3):
    rng = np.random.default_rng(seed)
    found = []
    for n in (150, 220, 130):
        age, dose = rng.normal(size=n), rng.normal(size=n)
        time = rng.uniform(0.5, 3.0, size=n)
        count = rng.poisson(time * np.exp(0.2 + 0.4 * age - 0.3 * dose))
        weight = rng.integers(0, 4, size=n).astype(float)
        columns = {"age": age, "dose": dose, "log_time": np.log(time), "w": weight, "count": count}
        found.append(pd.DataFrame(columns))
    return found


def test_logistic_regression_without_penalty_is_the_optimum_of_scikit_learn():
    X, y = cancer()
    rows = parts(len(y))
    found = FederatedLogisticRegression().fit([X[own] for own in rows], [y[own] for own in rows])
    theirs = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12, max_iter=200).fit(X, y)
    assert_close(found.coef_, theirs.coef_, GLM_BAR)
    assert_close(found.intercept_, theirs.intercept_, GLM_BAR)
    assert_close(found.predict_proba(X), theirs.predict_proba(X), GLM_BAR)
    assert_close(found.decision_function(X), theirs.decision_function(X), GLM_BAR)
    assert np.array_equal(found.predict(X), theirs.predict(X))
    assert found.score(X, y) == theirs.score(X, y)


@pytest.mark.parametrize("several", ["multinomial", "ovr"])
def test_three_classes_of_text_are_scikit_learns(several):
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], np.array(["setosa", "versicolor", "virginica"])[y[order]]
    rows = parts(len(y))
    found = FederatedLogisticRegression(1.0, multi_class=several).fit(
        [X[own] for own in rows], [y[own] for own in rows]
    )
    if several == "multinomial":
        theirs = LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-13, max_iter=500).fit(X, y)
        coef, shares = theirs.coef_, theirs.predict_proba(X)
    else:
        each = [
            LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-13).fit(X, y == name) for name in found.classes_
        ]
        coef = np.concatenate([one.coef_ for one in each])
        shares = np.column_stack([one.predict_proba(X)[:, 1] for one in each])
        shares /= shares.sum(axis=1, keepdims=True)
    assert found.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert_close(found.coef_, coef, GLM_BAR)
    assert_close(found.predict_proba(X), shares, GLM_BAR)
    assert np.array_equal(found.predict(X), found.classes_[np.argmax(shares, axis=1)])


def test_offset_and_weights_are_columns_by_name_and_rows_of_weight_zero_are_left_out():
    tables = frames()
    joint = pd.concat(tables)
    labels = [table.pop("count") for table in tables]
    found = FederatedGLM("poisson").fit(tables, labels, sample_weight="w", offset="log_time")
    used = joint[joint["w"] > 0.0]
    theirs = sm.GLM(
        used["count"].to_numpy(),
        sm.add_constant(used[["age", "dose"]].to_numpy()),
        family=sm.families.Poisson(),
        offset=used["log_time"].to_numpy(),
        var_weights=used["w"].to_numpy(),
    ).fit(tol=1e-13, maxiter=100, tol_criterion="params")
    frame = found.summary_frame()
    assert frame.index.tolist() == ["(intercept)", "age", "dose"]
    assert_each_close(frame["coef"], theirs.params, GLM_BAR)
    assert_each_close(frame["se"], theirs.bse, GLM_BAR)
    assert_each_close(found.inference_[0].null_deviance, theirs.null_deviance, GLM_BAR)
    new = joint.drop(columns=["count", "w"])
    expected = np.exp(joint["log_time"] + sm.add_constant(joint[["age", "dose"]].to_numpy()) @ theirs.params)
    assert_each_close(found.predict(new), expected, GLM_BAR)
    arrays = FederatedGLM("poisson").fit(
        [table[["age", "dose"]] for table in tables],
        labels,
        sample_weight=[table["w"] for table in tables],
        offset=[table["log_time"] for table in tables],
    )
    assert_each_close(arrays.coef_, found.coef_, digits_lost(6))


def test_a_ridge_on_counts_is_scikit_learns_and_has_no_standard_errors():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 3))
    y = rng.poisson(np.exp(X @ [0.4, -0.2, 0.1]))
    found = FederatedGLM("poisson", alpha=3.0, federation=Simulation(parties=3)).fit(X, y)
    theirs = PoissonRegressor(alpha=3.0 / 300, solver="newton-cholesky", tol=1e-12).fit(X, y)
    assert_close(found.coef_, theirs.coef_, GLM_BAR)
    assert_close(found.score(X, y), theirs.score(X, y), GLM_BAR)
    assert found.summary_frame()["se"].isna().all()
    assert "a penalty shrinks the coefficients" in str(found.summary())


def test_the_optimum_of_a_gamma_model_is_that_of_its_likelihood():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(200, 2))
    y = rng.gamma(2.0, np.exp(0.3 + X @ [0.5, -0.4]) / 2.0)

    def minus(beta):
        eta = beta[0] + X @ beta[1:]
        return float(np.sum(eta + y * np.exp(-eta)))

    best = minimize(minus, np.zeros(3), method="BFGS", options={"gtol": 1e-10})
    found = FederatedGLM("gamma", federation=Simulation(parties=4)).fit(X, y)
    assert_close([found.intercept_, *found.coef_], best.x, digits_lost(11))


def test_they_work_in_pipelines_searches_and_copies():
    X, y = load_breast_cancer(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), FederatedLogisticRegression(alpha=1.0))
    grid = {"federatedlogisticregression__alpha": [0.1, 10.0]}
    search = GridSearchCV(pipeline, grid, cv=2, scoring="roc_auc").fit(X[:, :4], y)
    theirs = GridSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression(solver="newton-cholesky", tol=1e-12)),
        {"logisticregression__C": [10.0, 0.1]},
        cv=2,
        scoring="roc_auc",
    ).fit(X[:, :4], y)
    assert_close(search.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], GLM_BAR)
    copied = clone(search.best_estimator_)
    assert (
        copied.get_params()["federatedlogisticregression"].alpha
        == search.best_params_["federatedlogisticregression__alpha"]
    )
    again = pickle.loads(pickle.dumps(search.best_estimator_))  # noqa: S301, our own bytes
    assert np.array_equal(again.predict_proba(X[:, :4]), search.best_estimator_.predict_proba(X[:, :4]))


def test_summary_has_odds_against_the_reference_and_names_of_series():
    X, y = load_iris(return_X_y=True)
    frame = pd.DataFrame(X[50:, :2], columns=["length", "width"])
    outcome = pd.Series(np.where(y[50:] == 2, "virginica", "versicolor"), name="kind")
    found = FederatedLogisticRegression(federation=Simulation(parties=3)).fit(frame, outcome)
    assert found.feature_names_in_.tolist() == ["length", "width"]
    text = str(found.summary(level=0.9))
    assert "kind" in text
    assert "5%" in text
    wide, narrow = (found.summary_frame(level=level) for level in (0.99, 0.9))
    assert (wide["high"] > narrow["high"]).all()


@pytest.mark.filterwarnings("ignore:the mean of column:fedsvd.errors.DataWarning")  # parties are unlike
def test_separated_classes_are_an_error_and_a_ridge_is_the_way_out():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(Separated, match="add a ridge penalty"):
        FederatedLogisticRegression().fit(X[:100], y[:100])
    assert FederatedLogisticRegression(alpha=0.1).fit(X[:100], y[:100]).score(X[:100], y[:100]) == 1.0


def test_few_events_warn_by_default_and_are_refused_by_an_enforced_policy():
    X, y = cancer()
    rows = parts(len(y))
    rare = np.zeros(len(y))
    rare[::60] = 1.0
    given = [X[own] for own in rows], [rare[own] for own in rows]
    with pytest.warns(PrivacyWarning, match="rows of the smallest class"):
        FederatedLogisticRegression(alpha=1.0).fit(*given)
    with pytest.raises(ReleaseRefused):
        FederatedLogisticRegression(alpha=1.0, federation=Simulation(policy=Policy(enforce=True))).fit(*given)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda X, y: FederatedGLM("multinomial").fit(X, y), "family"),
        (lambda X, y: FederatedGLM("poisson", link="logit").fit(X, y), "link"),
        (lambda X, y: FederatedGLM(alpha=-1.0).fit(X, y), "alpha"),
        (lambda X, y: FederatedGLM(tolerance=0).fit(X, y), "tolerance"),
        (lambda X, y: FederatedLogisticRegression(multi_class="all").fit(X, y), "multi_class"),
        (lambda X, y: FederatedLogisticRegression(link="probit").fit(X, np.arange(40) % 3), "logit"),
        (lambda X, y: FederatedGLM().fit(X, y, offset="time"), "offset"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(make, words):
    rng = np.random.default_rng(0)
    with pytest.raises(ConfigError, match=words):
        make(rng.normal(size=(40, 2)), rng.integers(0, 2, 40))


def test_targets_outside_their_family_are_refused_and_nothing_is_fitted():
    X = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(DataError, match="above 0"):
        FederatedGLM("gamma").fit(X, np.zeros(40))
    with pytest.raises(DataError, match="one class"):
        FederatedLogisticRegression().fit(X, np.ones(40))
    with pytest.raises(NotFittedError):
        FederatedGLM().summary()


def test_a_score_has_the_offset_that_the_model_was_fitted_with():
    tables = frames()
    joint, labels = pd.concat(tables), [table.pop("count") for table in tables]
    arrays = [table.pop("log_time").to_numpy() for table in tables]
    tables = [table[["age", "dose"]] for table in tables]
    found = FederatedGLM("poisson").fit(tables, labels, offset=arrays)
    theirs = sm.GLM(
        joint["count"].to_numpy(),
        sm.add_constant(joint[["age", "dose"]].to_numpy()),
        family=sm.families.Poisson(),
        offset=joint["log_time"].to_numpy(),
    ).fit(tol=1e-13, maxiter=100, tol_criterion="params")
    expected = 1.0 - theirs.deviance / theirs.null_deviance
    assert_close(found.score(tables, labels, offset=arrays), expected, GLM_BAR)
    assert_close(
        found.score(pd.concat(tables), np.concatenate(labels), offset=np.concatenate(arrays)), expected, GLM_BAR
    )
    with pytest.raises(ConfigError, match="offset"):
        found.score(tables, labels)


def test_an_offset_that_is_a_column_is_in_the_score_by_its_name():
    tables = frames()
    labels = [table.pop("count") for table in tables]
    tables = [table[["age", "dose", "log_time"]] for table in tables]
    arrays = [table["log_time"].to_numpy() for table in tables]
    found = FederatedGLM("poisson").fit(tables, labels, offset="log_time")
    plain = [table[["age", "dose"]] for table in tables]
    other = FederatedGLM("poisson").fit(plain, labels, offset=arrays)
    assert_close(found.score(tables, labels), other.score(plain, labels, offset=arrays), GLM_BAR)


def test_the_accuracy_of_a_classifier_has_its_offset():
    rng = np.random.default_rng(5)
    X, shift = rng.normal(size=(300, 2)), 3.0 * rng.normal(size=300)
    y = (rng.random(300) < 1.0 / (1.0 + np.exp(-X[:, 0] - shift))).astype(int)
    found = FederatedLogisticRegression().fit(X, y, offset=shift)
    eta = X @ found.coef_[0] + found.intercept_[0] + shift
    assert found.score(X, y, offset=shift) == np.mean((eta > 0.0) == (y == 1))
    with pytest.raises(ConfigError, match="offset"):
        found.score(X, y)
