"""A federation's regression is that of the joint table: least squares, ridge, minimum norm, prediction and score."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import r2_score
from tests.tolerances import FITTED_BAR, RESULT_BAR, VALUES_BAR, assert_close, digits_lost

from fedsvd.protocol.tasks import Item, Mode, Split, Task, Trust
from fedsvd.protocol.upload import batches
from fedsvd.testing.federation import Federation

from .joint import rotation

H, V = Split.HORIZONTAL, Split.VERTICAL
EVERY = [(Split.HORIZONTAL, "sum"), (Split.VERTICAL, "mask")]
EPS = np.finfo(float).eps
SCORED = (Item.COEFFICIENTS, Item.INTERCEPT, Item.SCORE)
# What the rounding of a backward stable solver, times the condition number, does to coefficients.
SOLVER = 500 * EPS


def table(rows=60, features=8, targets=1, decades=0, seed=0):
    """D, (rows, features), with means and a condition number of 10^decades, and labels with noise."""
    rng = np.random.default_rng(seed)
    D = rng.normal(size=(rows, features)) @ (np.logspace(0, -decades, features)[:, None] * rotation(features, rng))
    y = D @ rng.normal(size=(features, targets)) + 0.1 * rng.normal(size=(rows, targets)) + 5
    return D + rng.normal(size=features), y


def fit(D, y, split, cuts=(3,), holder=-1, **asked):
    """The federation's fit, coefficients put together: (coefficients (targets, features), intercept, results)."""
    if split is V:
        tables = np.split(D, cuts, axis=1)
        labels = [None] * len(tables)
        labels[holder] = y
    else:
        tables, labels = np.split(D, cuts), np.split(y, cuts)
    results = Federation(tables, Task.LR, split, labels=labels, **asked).run()
    for result in results[1:]:
        assert_close(result.intercept, results[0].intercept, RESULT_BAR, np.abs(y).max())
    w = np.hstack([result.coefficients for result in results]) if split is V else results[0].coefficients
    return w, results[0].intercept, results


def least_squares(D, y, intercept=True):
    """NumPy's least squares of least norm on the joint table, centred when there is an intercept."""
    means = (D.mean(axis=0), y.mean(axis=0)) if intercept else (np.zeros(D.shape[1]), np.zeros(y.shape[1]))
    w = np.linalg.lstsq(D - means[0], y - means[1], rcond=max(D.shape) * EPS)[0]
    return w.T, means[1] - means[0] @ w


def expect_fit(D, y, w, intercept, exact_w, exact_intercept):
    """Coefficients and fitted values as far as the condition number allows, the squared error regardless of it."""
    sigma = np.linalg.svd(D - D.mean(axis=0), compute_uv=False)
    kept = sigma[sigma > max(D.shape) * EPS * sigma[0]]
    loss = SOLVER * kept[0] / kept[-1]
    bar = loss * max(np.abs(exact_w).max(), np.linalg.norm(y) / kept[0])
    np.testing.assert_allclose(w, exact_w, rtol=0, atol=bar)
    np.testing.assert_allclose(intercept, exact_intercept, rtol=0, atol=bar * max(1.0, np.abs(D).sum(axis=1).max()))
    fitted, expected = D @ w.T + intercept, D @ exact_w.T + exact_intercept
    size = max(np.linalg.norm(y), np.linalg.norm(D) * np.abs(exact_w).max())
    assert np.linalg.norm(fitted - expected) <= loss * np.linalg.norm(y) + FITTED_BAR * size
    error, least = np.linalg.norm(y - fitted), np.linalg.norm(y - expected)
    assert error - least <= FITTED_BAR * size


@pytest.mark.parametrize("trust", Trust)
@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("cuts", [(3,), (1,), (7,), (1, 2, 5)])
def test_least_squares_on_split_columns_is_scikit_learns(cuts, targets, trust):
    D, y = table(targets=targets)
    exact = LinearRegression(tol=1e-14).fit(D, y)
    w, intercept, results = fit(D, y, V, cuts, trust=trust)
    expect_fit(D, y, w, intercept, exact.coef_, exact.intercept_)
    assert {result.rank for result in results} == {D.shape[1]}


@pytest.mark.parametrize("trust", Trust)
@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("cuts", [(20,), (1,), (59,), (1, 2, 40)])
def test_least_squares_on_split_rows_is_scikit_learns(cuts, targets, trust):
    D, y = table(targets=targets)
    exact = LinearRegression(tol=1e-14).fit(D, y)
    w, intercept, results = fit(D, y, H, cuts, trust=trust)
    expect_fit(D, y, w, intercept, exact.coef_, exact.intercept_)
    assert {result.rank for result in results} == {D.shape[1]}
    for result in results[1:]:
        assert_close(result.coefficients, w, RESULT_BAR)


@pytest.mark.parametrize(("split", "scheme"), EVERY)
@pytest.mark.parametrize("decades", [4, 8, 11])
def test_ill_conditioned_columns_cost_no_more_than_their_condition(decades, split, scheme):
    D, y = table(decades=decades, seed=decades)
    w, intercept, _ = fit(D, y, split, scheme=scheme)
    expect_fit(D, y, w, intercept, *least_squares(D, y))


@pytest.mark.parametrize(("split", "scheme"), EVERY)
def test_columns_of_very_different_size_are_each_fitted_as_well(split, scheme):
    """Scaled by powers of two, a column of 1e-9 is worth as many digits as one of 1e9."""
    D, y = table(seed=3)
    sizes = 10.0 ** np.array([-9, 9, 0, 4, -4, 7, -6, 1])
    w, intercept, _ = fit(D * sizes, y, split, scheme=scheme)
    exact = LinearRegression(tol=1e-14).fit(D, y)
    assert_close(w * sizes, exact.coef_, RESULT_BAR)
    assert_close(intercept, exact.intercept_, RESULT_BAR, np.abs(y).max())


@pytest.mark.parametrize(("split", "scheme"), EVERY)
def test_without_an_intercept_it_is_least_squares_through_the_origin(split, scheme):
    D, y = table(targets=2, seed=4)
    w, intercept, _ = fit(D, y, split, scheme=scheme, centre=False)
    exact = np.linalg.lstsq(D, y, rcond=None)[0].T
    assert_close(w, exact, RESULT_BAR)
    assert not intercept.any()


@pytest.mark.parametrize("alpha", [0.0, 1.5])
@pytest.mark.parametrize("decades", [0, 8])
def test_both_modes_of_the_sum_family_fit_alike(decades, alpha):
    D, y = table(targets=2, decades=decades, seed=15)
    fits = [fit(D, y, H, (1, 20), scheme="sum", mode=mode, alpha=alpha)[:2] for mode in Mode]
    exact = Ridge(alpha, solver="svd").fit(D, y) if alpha else None
    for w, intercept in fits:
        if exact is None:
            expect_fit(D, y, w, intercept, *least_squares(D, y))
        else:
            assert_close(w, exact.coef_, RESULT_BAR)
            assert_close(intercept, exact.intercept_, RESULT_BAR, np.abs(y).max())


@pytest.mark.parametrize("alpha", [1e-6, 1.5, 1e4])
@pytest.mark.parametrize(("split", "scheme"), EVERY)
@pytest.mark.parametrize("intercept", [True, False])
def test_ridge_is_scikit_learns_and_does_not_penalise_the_intercept(intercept, split, scheme, alpha):
    D, y = table(targets=2, seed=5)
    exact = Ridge(alpha, solver="svd", fit_intercept=intercept).fit(D, y)
    w, found, _ = fit(D, y, split, (2, 5), scheme=scheme, alpha=alpha, centre=intercept)
    assert_close(w, exact.coef_, RESULT_BAR)
    assert_close(found, exact.intercept_, RESULT_BAR, np.abs(y).max())


@pytest.mark.parametrize("split", Split)
def test_a_ridge_decides_where_least_squares_cannot(split):
    """Fewer rows than columns, two of them equal: the ridge solution is unique."""
    rng = np.random.default_rng(6)
    D = rng.normal(size=(6, 9))
    D[:, 7] = D[:, 0]
    y = rng.normal(size=(6, 1))
    exact = Ridge(0.3, solver="svd").fit(D, y)
    w, intercept, _ = fit(D, y, split, alpha=0.3)
    assert_close(w, np.atleast_2d(exact.coef_), RESULT_BAR)
    assert_close(intercept, exact.intercept_, RESULT_BAR, np.abs(y).max())


def deficient(kind):
    """Tables whose columns do not decide the coefficients."""
    rng = np.random.default_rng(7)
    D = rng.normal(size=(40, 8))
    if kind == "repeated column":
        D[:, 6] = D[:, 1]
    elif kind == "column of the others":
        D[:, 7] = D[:, 0] - 2 * D[:, 4]
    elif kind == "constant column":
        D[:, 2] = 3.0
    elif kind == "zero column":
        D[:, 5] = 0.0
    elif kind == "fewer rows than columns":
        D = D[:5]
    elif kind == "two dimensions in eight":
        D = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 8))
    return D, rng.normal(size=(len(D), 2))


@pytest.mark.parametrize(("split", "scheme"), EVERY)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(
    "kind",
    [
        "repeated column",
        "column of the others",
        "constant column",
        "zero column",
        "fewer rows than columns",
        "two dimensions in eight",
    ],
)
def test_where_rank_is_lost_the_solution_is_the_one_of_least_norm(kind, intercept, split, scheme):
    D, y = deficient(kind)
    exact_w, exact_intercept = least_squares(D, y, intercept)
    w, found, results = fit(D, y, split, (2, 4), scheme=scheme, centre=intercept)
    centred = D - D.mean(axis=0) if intercept else D
    assert_close(w, exact_w, RESULT_BAR)
    assert_close(found, exact_intercept, RESULT_BAR, np.abs(y).max())
    assert results[0].rank == np.linalg.matrix_rank(centred, rtol=digits_lost(6))
    assert results[0].rank < D.shape[1] or (kind == "constant column" and not intercept)


@pytest.mark.parametrize("split", Split)
def test_constant_columns_are_reported_by_who_holds_them_and_get_no_weight(split):
    D, y = deficient("constant column")
    D[:, 6] = -0.1
    w, _, results = fit(D, y, split, (4,))
    assert not w[:, [2, 6]].any()
    expected = [(2,), (2,)] if split is V else [(2, 6), (2, 6)]
    assert [result.constant for result in results] == expected


def test_constant_labels_are_met_by_the_intercept_alone():
    D, _ = table(seed=8)
    for split in Split:
        w, intercept, _ = fit(D, np.full((60, 1), 0.7), split)
        assert_close(intercept, 0.7, VALUES_BAR)
        assert_close(w, 0.0, digits_lost(2), 0.7)


@pytest.mark.parametrize("scheme", ["mask"])
@pytest.mark.parametrize("holder", [0, 1, 2])
def test_the_label_holder_gets_fitted_values_and_nobody_else_does(holder, scheme):
    D, y = table(targets=2, seed=9)
    exact = LinearRegression(tol=1e-14).fit(D, y)
    _, _, results = fit(D, y, V, (2, 5), holder, scheme=scheme, release=SCORED)
    assert [result.fitted is not None for result in results] == [place == holder for place in range(3)]
    fitted = results[holder].fitted
    assert_close(fitted, exact.predict(D), RESULT_BAR, np.abs(y).max())
    assert abs(r2_score(y, fitted) - exact.score(D, y)) <= VALUES_BAR


@pytest.mark.parametrize("trust", Trust)
@pytest.mark.parametrize("k", [2, 3, 8])
def test_predictions_on_new_rows_are_those_of_the_joint_model(k, trust):
    D, y = table(features=8, seed=10)
    exact = LinearRegression(tol=1e-14).fit(D, y)
    cuts = range(1, k)
    _, _, results = fit(D, y, V, cuts, trust=trust)
    new = np.random.default_rng(11).normal(size=(25, 8))
    weights = [(result.coefficients.T, result.intercept) for result in results]
    asked = {"weights": weights, "label_user": k, "targets": 1, "trust": trust}
    run = Federation(np.split(new, cuts, axis=1), Task.PREDICT, V, **asked)
    predicted = run.run()
    assert [result.predictions is None for result in predicted] == [True] * (k - 1) + [False]
    assert_close(predicted[-1].predictions, exact.predict(new), RESULT_BAR)


@pytest.mark.parametrize("alpha", [0.0, 2.0])
def test_rows_in_many_panels_and_batches_fit_as_well(alpha):
    """More rows than the budget holds at once, each panel with its share of the ridge."""
    D, y = table(rows=5000, features=6, seed=12)
    tables, labels = np.split(D, (2,), axis=1), [None, y]
    run = Federation(tables, Task.LR, V, labels=labels, alpha=alpha, memory=48 * 7 * 1000)
    results = run.run()
    assert len(batches(run.plan)) >= 5
    exact = Ridge(alpha, solver="svd").fit(D, y) if alpha else LinearRegression(tol=1e-14).fit(D, y)
    w = np.hstack([result.coefficients for result in results])
    assert_close(w, np.atleast_2d(exact.coef_), RESULT_BAR)
    assert_close(results[0].intercept, exact.intercept_, RESULT_BAR, np.abs(y).max())


def test_long_tables_split_by_rows_fit_as_well():
    D, y = table(rows=6000, features=6, targets=2, seed=13)
    w, intercept, _ = fit(D, y, H, (1, 3000), memory=48 * 8 * 1500)
    expect_fit(D, y, w, intercept, *least_squares(D, y))


def test_fifty_users_fit_as_well():
    rng = np.random.default_rng(14)
    D, y = rng.normal(size=(120, 50)), rng.normal(size=(120, 1))
    w, intercept, _ = fit(D, y, V, range(1, 50))
    expect_fit(D, y, w, intercept, *least_squares(D, y))
    w, intercept, _ = fit(D, y, H, range(2, 100, 2))
    expect_fit(D, y, w, intercept, *least_squares(D, y))
