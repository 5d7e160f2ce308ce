"""``fit(X, y="outcome")``: the column is the label, and no feature; the numbers are those of other software.

The same call on processes of this machine is in tests/e2e/test_fit_on_a_federation.py.
"""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from sklearn.linear_model import Ridge, RidgeCV
from tests.tolerances import MIXED_LIKELIHOOD_BAR, RESULT_BAR, STATISTIC_BAR, assert_close

from fedsvd import (
    FederatedGLM,
    FederatedLinearRegression,
    FederatedLogisticRegression,
    FederatedMixedLM,
    FederatedPCR,
    FederatedRidgeCV,
    Policy,
    Simulation,
)
from fedsvd.errors import ConfigError, DataError, NotNumeric

RNG = np.random.default_rng(26)
# Blinds are fresh in every fit, and what they cost grows with the square of the condition: 1.6 here, so
# that RESULT_BAR holds for any of them.
X = RNG.normal(size=(240, 3)) @ [[1.0, 0.4, 0.1], [0.0, 1.0, 0.3], [0.0, 0.0, 1.0]]
COST = X @ [1.0, -2.0, 0.5] + RNG.normal(size=240) + 4.0
VISITS = RNG.poisson(np.exp(0.3 + 0.2 * X[:, 0]))
DIED = (RNG.random(240) < 1 / (1 + np.exp(-0.5 * X[:, 1]))).astype(int)
TABLE = pd.DataFrame({"age": X[:, 0], "cost": COST, "dose": X[:, 1], "marker": X[:, 2]})
DESIGN = np.column_stack((np.ones(240), X))
HERE = Simulation(3, policy=Policy.permissive())


def by_rows(**columns):
    """The table with these columns in place of the cost, at three parties."""
    table = TABLE.drop(columns="cost").assign(**columns)
    return [table.iloc[:70], table.iloc[70:150], table.iloc[150:]]


def by_columns(ids):
    first, second = TABLE[["age"]].set_axis(ids), TABLE[["cost", "dose", "marker"]].set_axis(ids)
    return [second[["cost", "dose"]], first, second[["marker"]]]


def ols(y):
    return np.linalg.lstsq(DESIGN, y, rcond=None)[0]


def principal():
    """Least squares on two principal components, in terms of the features."""
    centred = X - X.mean(axis=0)
    V = np.linalg.svd(centred, full_matrices=False)[2][:2].T
    coefficients = V @ np.linalg.lstsq(centred @ V, COST - COST.mean(), rcond=None)[0]
    return np.r_[COST.mean() - X.mean(axis=0) @ coefficients, coefficients]


def ridge(alpha):
    twin = Ridge(alpha, solver="cholesky").fit(X, COST)
    return np.r_[twin.intercept_, twin.coef_]


ROWS = {
    "lr": (FederatedLinearRegression(), {"cost": COST}, lambda: ols(COST)),
    "pcr": (FederatedPCR(2), {"cost": COST}, principal),
    "ridge": (FederatedRidgeCV((0.1, 50.0)), {"cost": COST}, lambda: ridge(RidgeCV((0.1, 50.0)).fit(X, COST).alpha_)),
    "glm": (
        FederatedGLM("poisson"),
        {"visits": VISITS},
        lambda: sm.GLM(VISITS, DESIGN, sm.families.Poisson()).fit(tol=1e-14).params,
    ),
    "logistic": (
        FederatedLogisticRegression(),
        {"died": DIED},
        lambda: sm.GLM(DIED, DESIGN, sm.families.Binomial()).fit(tol=1e-14).params,
    ),
    "logistic of texts": (
        FederatedLogisticRegression(),
        {"died": np.where(DIED == 1, "yes", "no")},
        lambda: sm.GLM(DIED, DESIGN, sm.families.Binomial()).fit(tol=1e-14).params,
    ),
}


def called(model):
    """What an estimator says its target is called."""
    return model.target_names_ if hasattr(model, "target_names_") else (model.target_name_,)


@pytest.mark.parametrize("how", ["frames", "files", "one frame"])
@pytest.mark.parametrize("case", ROWS)
def test_a_column_of_every_table_is_the_label_of_split_rows(case, how, tmp_path):
    estimator, column, expected = ROWS[case]
    (name,) = column
    tables = by_rows(**column)
    if how == "files":
        for i, table in enumerate(tables):
            table.to_csv(tmp_path / f"{i}.csv", index=False)
        tables = [tmp_path / f"{i}.csv" for i in range(3)]
    elif how == "one frame":
        tables = pd.concat(tables)
    model = type(estimator)(**{**estimator.get_params(deep=False), "federation": HERE}).fit(tables, y=name)
    assert list(model.feature_names_in_) == ["age", "dose", "marker"]
    assert called(model) == (name,)
    found = np.r_[np.ravel(model.intercept_), np.ravel(model.coef_)]
    assert_close(found, expected(), STATISTIC_BAR)
    if "logistic" in case:
        assert model.classes_.tolist() == np.unique(column[name]).tolist()


@pytest.mark.parametrize("estimator", [FederatedLinearRegression(0.5), FederatedRidgeCV((0.5,), choose_by="gcv")])
def test_the_party_whose_table_has_the_column_holds_the_label_of_split_columns(estimator):
    tables = by_columns([f"p{i}" for i in range(240)])
    model = estimator.set_params(split="vertical", federation=HERE).fit(tables, y="cost")
    twin = Ridge(0.5, solver="cholesky").fit(X[:, [1, 0, 2]], COST)
    assert_close(model.coef_, twin.coef_, STATISTIC_BAR)
    assert_close(model.intercept_, twin.intercept_, STATISTIC_BAR)
    assert list(model.feature_names_in_) == ["dose", "age", "marker"]
    assert (model.plan_.label_user, called(model)) == (1, ("cost",))


def test_one_table_of_split_columns_gives_its_label_to_the_last_party():
    model = FederatedLinearRegression(split="vertical", federation=HERE).fit(TABLE, y="cost")
    assert_close(np.r_[model.intercept_, model.coef_], ols(COST), RESULT_BAR)
    assert model.plan_.label_user == 3


def test_a_list_of_names_is_of_several_targets():
    tables = by_rows(cost=COST, visits=VISITS.astype(float))
    model = FederatedLinearRegression(federation=HERE).fit(tables, y=["cost", "visits"])
    expected = ols(np.column_stack((COST, VISITS)))
    assert_close(np.column_stack((model.intercept_, model.coef_)), expected.T, RESULT_BAR)
    assert called(model) == ("cost", "visits")
    alone = FederatedLinearRegression(federation=HERE).fit(by_rows(cost=COST), y=["cost"])
    assert alone.coef_.shape == (3,)


def test_weights_and_offset_are_named_next_to_it():
    weight, shift = RNG.uniform(0.5, 2.0, 240), RNG.normal(size=240)
    tables = by_rows(cost=COST, weight=weight, shift=shift)
    model = FederatedLinearRegression(federation=HERE).fit(tables, "cost", "weight", "shift")
    expected = sm.WLS(COST - shift, DESIGN, weights=weight).fit().params
    assert_close(np.r_[model.intercept_, model.coef_], expected, RESULT_BAR)


ON_COLUMNS = FederatedLinearRegression(split="vertical", ids="trust", federation=HERE)
IDS = range(240)


@pytest.mark.parametrize(
    ("asked", "tables", "y", "match"),
    [
        (FederatedLinearRegression(), by_rows(cost=COST), "csot", r"y = 'csot': no such .* did you mean 'cost'\?"),
        (FederatedGLM(), [TABLE, TABLE.drop(columns="cost")], "cost", "no such column at party 2"),
        (FederatedPCR(), TABLE, "costs", r"did you mean 'cost'\?"),
        (FederatedLogisticRegression(), [X, X], "y", "no such column at party 1, 2: the table has no names"),
        (ON_COLUMNS, by_columns(IDS), "coast", r"no party has such a column.*did you mean 'cost'\?"),
        (ON_COLUMNS, [TABLE[["age", "cost"]], TABLE[["cost"]]], "cost", "columns of the parties 1, 2"),
    ],
)
def test_a_name_that_no_table_has_is_refused_with_the_nearest(asked, tables, y, match):
    with pytest.raises(ConfigError, match=match):
        asked.fit(tables, y=y)


def test_label_party_and_the_column_agree():
    asked = FederatedLinearRegression(split="vertical", ids="trust", label_party=2, federation=HERE)
    with pytest.raises(ConfigError, match=r"a column of party 1, and not .* label_party=0, or leave it out"):
        asked.fit(by_columns(IDS), y="cost")
    with pytest.raises(ConfigError, match="label_party is 3"):
        asked.set_params(label_party=3).fit(by_columns(IDS), y="cost")
    model = asked.set_params(label_party=0).fit(by_columns(IDS), y="cost")
    assert model.plan_.label_user == 1


def test_a_regression_on_a_column_of_text_is_refused():
    tables = by_rows(kind=np.where(DIED == 1, "yes", "no"))
    with pytest.raises(NotNumeric, match="the label column 'kind' holds text"):
        FederatedLinearRegression(federation=HERE).fit(tables, y="kind")


@pytest.mark.parametrize("how", ["parties", "one frame"])
@pytest.mark.parametrize("case", ROWS)
def test_a_fit_is_scored_by_the_name_of_its_label(case, how):
    """``score(X, "cost")`` is what scikit-learn and the formula of deviance give for the values of that column."""
    estimator, column, expected = ROWS[case]
    ((name, y),) = column.items()
    tables = by_rows(**column)
    model = type(estimator)(**{**estimator.get_params(deep=False), "federation": HERE}).fit(tables, y=name)
    eta = DESIGN @ expected()
    if case == "glm":
        null, ours = 2 * (y * np.log(np.maximum(y, 1) / y.mean())).sum(), np.exp(eta)
        score = 1 - 2 * (y * np.log(np.maximum(y, 1) / ours) - (y - ours)).sum() / null
    elif "logistic" in case:
        score = np.mean((eta > 0) == DIED)
    else:
        score = 1 - ((y - eta) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    assert_close(model.score(tables if how == "parties" else pd.concat(tables), name), score, STATISTIC_BAR)


def test_split_columns_are_scored_by_the_name_of_the_label_that_one_party_has():
    tables = by_columns([f"p{i}" for i in range(240)])
    model = FederatedLinearRegression(split="vertical", federation=HERE).fit(tables, y="cost")
    eta = DESIGN @ ols(COST)
    expected = 1 - ((COST - eta) ** 2).sum() / ((COST - COST.mean()) ** 2).sum()
    assert_close(model.score(tables, "cost"), expected, STATISTIC_BAR)
    with pytest.raises(ConfigError, match=r"no party has such a column.*cost"):
        model.score(tables, "costs")


def test_groups_may_be_texts_by_name_or_by_values():
    rng = np.random.default_rng(11)
    sites = [
        pd.DataFrame(
            {"x": rng.normal(size=60), "y": rng.normal(size=60), "who": [f"{site}{row // 4}" for row in range(60)]}
        )
        for site in "ab"
    ]
    X, y = [site[["x"]] for site in sites], [site["y"] for site in sites]
    own = Simulation(policy=Policy.permissive())
    expected = FederatedMixedLM(federation=own).fit(X, y, subject=[np.arange(60) // 4] * 2).coef_
    for who in ([site["who"] for site in sites], np.concatenate([site["who"] for site in sites])):
        found = FederatedMixedLM(federation=own).fit(X, y, subject=who).coef_
        assert_close(found, expected, MIXED_LIKELIHOOD_BAR)
    lost = [sites[0]["who"].where(np.arange(60) > 3), sites[1]["who"]]
    with pytest.raises(DataError, match="the group of some rows is missing"):
        FederatedMixedLM(federation=own).fit(X, y, subject=lost)
