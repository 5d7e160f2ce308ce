"""FederatedRidgeCV chooses and finds what scikit-learn's RidgeCV does on the joint data."""

from itertools import product

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.tolerances import GLM_BAR, STATISTIC_BAR, assert_close, assert_each_close, digits_lost

from fedsvd import FederatedRidgeCV, Masks, Policy, Simulation
from fedsvd.errors import ConfigError, ReleaseRefused, VerificationFailed
from fedsvd.protocol.tasks import Item, Mode
from fedsvd.roles.user.ridge_choice import Curve
from fedsvd.statistics.ridge_path import Choice

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
ALPHAS = np.logspace(-4, 4, 17)
SETS = {
    "wine": lambda: (load_wine().data[:, 1:], load_wine().data[:, 0]),
    "breast cancer": lambda: (load_breast_cancer().data[:, 1:20], load_breast_cancer().data[:, 0]),
    "diabetes": lambda: load_diabetes(return_X_y=True),
}


def three(*arrays):
    return [np.array_split(array, 3) for array in arrays]


@pytest.mark.filterwarnings("ignore:the mean of column:fedsvd.errors.DataWarning")  # parties are unlike
@pytest.mark.parametrize(("name", "intercept", "weighted"), [*product(SETS, [True, False], [True, False])])
def test_leaving_out_each_row_chooses_as_scikit_learn_does(name, intercept, weighted):
    X, y = SETS[name]()
    weights = np.random.default_rng(0).uniform(0.3, 2.0, len(y)) if weighted else None
    twin = RidgeCV(ALPHAS, fit_intercept=intercept, store_cv_results=True).fit(X, y, sample_weight=weights)
    found = FederatedRidgeCV(ALPHAS, fit_intercept=intercept).fit(*three(X, y), sample_weight=weights)
    assert found.alpha_ == twin.alpha_
    assert_close(found.coef_, twin.coef_, GLM_BAR)
    assert_close(found.intercept_, twin.intercept_, GLM_BAR, scale=1.0 + abs(float(twin.intercept_)))
    assert_each_close(found.best_score_, twin.best_score_, GLM_BAR)
    assert_each_close(found.cv_errors_, twin.cv_results_.mean(axis=0), GLM_BAR)
    assert (found.plan_.mode, found.plan_.releases(Item.RIDGE_PATH)) == (Mode.A, True)


@pytest.mark.parametrize("intercept", [True, False])
def test_generalised_cross_validation_follows_its_formula_on_the_joint_data(intercept):
    X, y = SETS["diabetes"]()
    X, n = X * 20.0, len(y)
    centred = X - X.mean(axis=0) if intercept else X
    errors = []
    for alpha in ALPHAS:
        fitted = Ridge(alpha, fit_intercept=intercept, solver="svd").fit(X, y).predict(X)
        hat = np.trace(centred @ np.linalg.solve(centred.T @ centred + alpha * np.eye(10), centred.T)) + intercept
        errors.append(n * np.sum((y - fitted) ** 2) / (n - hat) ** 2)
    found = FederatedRidgeCV(ALPHAS, fit_intercept=intercept, choose_by="gcv").fit(*three(X, y))
    assert_each_close(found.cv_errors_, errors, GLM_BAR)
    assert found.alpha_ == ALPHAS[np.argmin(errors)]
    assert_close(found.coef_, Ridge(found.alpha_, fit_intercept=intercept, solver="svd").fit(X, y).coef_, GLM_BAR)


def test_the_whole_path_comes_from_one_study_and_several_targets_share_a_penalty():
    X, y = SETS["diabetes"]()
    Y = np.column_stack((y, np.sqrt(y)))
    twin = RidgeCV(ALPHAS).fit(X, Y)
    found = FederatedRidgeCV(ALPHAS).fit(*three(X, Y))
    assert found.alpha_ == twin.alpha_
    assert_close(found.coef_, twin.coef_, GLM_BAR)
    for alpha, path in zip(ALPHAS, found.coef_path_, strict=True):
        assert_close(path, Ridge(alpha, solver="svd").fit(X, Y).coef_, GLM_BAR)


def test_columns_that_do_not_vary_have_no_coefficients():
    X, y = SETS["diabetes"]()
    with_constant = np.column_stack((X, np.full(len(y), 3.0), X[:, 0]))
    twin = RidgeCV(ALPHAS).fit(with_constant, y)
    found = FederatedRidgeCV(ALPHAS).fit(*three(with_constant, y))
    assert found.alpha_ == twin.alpha_
    assert_close(found.coef_, twin.coef_, GLM_BAR)
    nothing = FederatedRidgeCV(ALPHAS).fit(*three(np.ones((60, 2)), np.ones(60)))
    assert not nothing.coef_.any()
    assert nothing.intercept_ == 1.0


def test_all_parties_hold_the_gram_matrix_and_this_asks_for_consent():
    X, y = (array[:420] for array in SETS["diabetes"]())
    with pytest.raises(ReleaseRefused, match="a ridge is chosen among 17"):
        FederatedRidgeCV(ALPHAS, federation=Simulation(policy=Policy(enforce=True))).fit(*three(X, y))
    agreed = FederatedRidgeCV(ALPHAS, federation=Simulation(policy=Policy(enforce=True, consent_to_gram=True))).fit(
        *three(X, y)
    )
    assert agreed.alpha_ in ALPHAS


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"split": "vertical", "ids": "trust"}, "leverage of every row"),
        ({"masks": Masks(mode="B")}, "joint Gram matrix"),
        ({"alphas": [1.0, -1.0]}, "above 0"),
        ({"alphas": []}, "no numbers"),
        ({"alphas": "many"}, "no numbers"),
        ({"choose_by": "eye"}, "choose_by"),
    ],
)
def test_what_cannot_be_had_is_refused_with_the_reason(options, said):
    X, y = SETS["diabetes"]()
    with pytest.raises(ConfigError, match=said):
        FederatedRidgeCV(**options).fit(X, y)


def test_another_penalty_than_the_best_is_found_out():
    choice = Choice(np.array([0.1, 1.0, 10.0]), np.array([3.0, 2.0, 4.0]), 1, "loo")
    curve = Curve(choice, np.zeros((3, 2, 1)), 2, np.ones(3))
    assert curve.chosen(np.array([1.0])).alpha == 1.0
    with pytest.raises(VerificationFailed, match="not the best one"):
        curve.chosen(np.array([0.0]))


def test_it_is_an_estimator_like_any_other():
    X, y = SETS["diabetes"]()
    pipe = make_pipeline(StandardScaler(), clone(FederatedRidgeCV(ALPHAS))).fit(X, y)
    twin = make_pipeline(StandardScaler(), RidgeCV(ALPHAS)).fit(X, y)
    assert_close(pipe.predict(X), twin.predict(X), GLM_BAR)
    search = GridSearchCV(FederatedRidgeCV(), {"fit_intercept": [True, False]}, cv=2).fit(X, y)
    assert search.best_params_ == {"fit_intercept": True}


@pytest.mark.parametrize("choose_by", ["loo", "gcv"])
def test_units_from_1e_minus_3_to_1e3_take_no_digits_on_split_rows(choose_by):
    """In 0.2.0 this ended in FSVD-305: coefficients came from singular vectors of columns as they are."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(240, 8)) + 0.3 * rng.normal(size=(240, 1))
    y = X @ rng.normal(size=8) + rng.normal(size=240)
    units = np.geomspace(1e-3, 1e3, 8)
    found = FederatedRidgeCV(ALPHAS, choose_by=choose_by).fit(*three(X * units, y))
    if choose_by == "loo":
        assert found.alpha_ == RidgeCV(ALPHAS).fit(X * units, y).alpha_
    # With columns of one unit and the penalty as rows: least squares, without a loss.
    centred = X - X.mean(axis=0)
    rows = np.vstack((centred, np.diag(np.sqrt(found.alpha_) / units)))
    w, *_ = np.linalg.lstsq(rows, np.concatenate((y - y.mean(), np.zeros(8))), rcond=None)
    assert_each_close(found.coef_, w / units, digits_lost(6))


@pytest.mark.parametrize("power", [-4, -5, -8, -20, -80, -140, 8, 80])
def test_a_column_in_any_unit_has_its_own_digits_beside_its_penalty(power):
    """From 1e-5 on this ended in FSVD-305: the penalty outweighs all rows of such a column."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 4))
    y = X @ [1.0, -2.0, 3.0, 0.5] + rng.normal(size=60)
    unit = np.array([10.0**power, 1.0, 1.0, 1.0])
    found = FederatedRidgeCV((0.1, 1.0)).fit(*three(X * unit, y))
    # By Cramer's rule in columns of one unit: w_1 from the Schur complement, the others from what it leaves.
    C, t, alpha = X - X.mean(axis=0), y - y.mean(), found.alpha_
    G, g = C.T @ C, C.T @ t
    inner = np.linalg.inv(G[1:, 1:] + alpha * np.eye(3))
    first = (g[0] - G[0, 1:] @ inner @ g[1:]) / (G[0, 0] - G[0, 1:] @ inner @ G[1:, 0] + alpha / unit[0] ** 2)
    expected = np.concatenate(([first / unit[0]], inner @ (g[1:] - first * G[1:, 0])))
    assert_each_close(found.coef_, expected, STATISTIC_BAR)
