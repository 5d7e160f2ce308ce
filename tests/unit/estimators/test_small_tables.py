"""Tables of a few rows, one-row and one-column parties, zero and repeated columns: what SciPy's twins make of them."""

import numpy as np
import pytest
import scipy.sparse as sp
import statsmodels.api as sm
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, Ridge, RidgeCV
from tests.tolerances import GLM_BAR, RESULT_BAR, STATISTIC_BAR, VALUES_BAR, assert_close, assert_each_close

import fedsvd
from fedsvd.errors import DataError

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
COLUMNS = {"split": "vertical", "ids": "trust"}


def rng(*seed):
    return np.random.default_rng([61, *seed])


def tables_of(X, split, cut):
    return [X[:cut], X[cut:]] if split == "horizontal" else [X[:, :cut], X[:, cut:]]


ZERO_COLUMN = rng(2).normal(size=(6, 3)) * [1.0, 0.0, 1.0]
ZERO_PARTY = rng(3).normal(size=(6, 4)) * (np.arange(6) > 1)[:, None]
REPEATED = np.tile(rng(5).normal(size=(9, 1)), (1, 4))
JOINT = {
    "one column": np.array([[3.0], [4.0]]),
    "ones": np.ones((2, 2)),
    "zero column": ZERO_COLUMN,
    "zero party": ZERO_PARTY,
    "nothing": np.zeros((4, 3)),
    "one column many times": REPEATED,
    "signs": (rng(6).random((9, 3)) < 0.5).astype(float),
    "one row": rng(1).normal(size=(1, 4)),
}


@pytest.mark.parametrize("name", JOINT)
@pytest.mark.parametrize("split", ["horizontal", "vertical"])
def test_singular_values_and_the_product_are_those_of_numpy(name, split):
    X = JOINT[name]
    if X.shape[split == "vertical"] < 2:
        pytest.skip("there is no second party")
    found = fedsvd.FederatedSVD(split=split, ids="trust").fit(tables_of(X, split, 1))
    expected = np.linalg.svd(X, compute_uv=False)
    size = float(expected[0]) or 1.0
    assert_close(found.singular_values_, expected[: len(found.singular_values_)], VALUES_BAR, scale=size)
    assert_close((found.U_ * found.singular_values_) @ found.components_, X, RESULT_BAR, scale=size)


@pytest.mark.parametrize("split", ["horizontal", "vertical"])
@pytest.mark.parametrize(("n", "p"), [(2, 1), (2, 4), (3, 2), (4, 9), (5, 5)])
def test_regressions_of_a_few_rows_are_those_of_scikit_learn(n, p, split):
    if p < 2 and split == "vertical":
        pytest.skip("there is no second party")
    X, y = rng(13, n, p).normal(size=(n, p)), rng(14, n, p).normal(size=n)
    for alpha in (0.0, 0.5):
        twin = Ridge(alpha, solver="svd") if alpha else LinearRegression()
        found = fedsvd.FederatedLinearRegression(alpha, split=split, ids="trust").fit(tables_of(X, split, 1), y)
        assert_close(found.coef_, twin.fit(X, y).coef_, STATISTIC_BAR)


@pytest.mark.filterwarnings("ignore::fedsvd.errors.DigitsLost")  # coefficients are 0 but for rounding
@pytest.mark.parametrize("split", ["horizontal", "vertical"])
def test_a_target_that_does_not_vary_is_the_intercept(split):
    X = rng(11).normal(size=(12, 2))
    for model in (
        fedsvd.FederatedLinearRegression(split=split, ids="trust"),
        fedsvd.FederatedRidgeCV([0.1, 1.0], choose_by="gcv", split=split, ids="trust"),
    ):
        found = model.fit(tables_of(X, split, 1), np.full(12, 7.0))
        assert_close(found.coef_, np.zeros(2), RESULT_BAR, scale=7.0)
        assert_close(found.intercept_, 7.0, RESULT_BAR)


@pytest.mark.parametrize("split", ["horizontal", "vertical"])
def test_weights_from_1e_minus_8_to_1e8_and_rows_without_weight(split):
    X, y = rng(17).normal(size=(20, 3)), rng(18).normal(size=20)
    weights = 10.0 ** rng(20).uniform(-8, 8, 20)
    weights[::6] = 0.0
    there = weights > 0.0
    regression = fedsvd.FederatedLinearRegression(inference=True, split=split, ids="trust")
    model = regression.fit(tables_of(X, split, 2), y, sample_weight=weights).inference_[0]
    expected = sm.WLS(y[there], sm.add_constant(X[there]), weights=weights[there]).fit()
    assert_each_close(model.coefficients, expected.params, STATISTIC_BAR)
    assert_each_close(model.standard_errors, expected.bse, STATISTIC_BAR)


@pytest.mark.parametrize("kind", ["HC0", "HC1", "HC2", "HC3", "cluster"])
def test_robust_errors_beside_a_constant_and_a_dependent_column(kind):
    X, y = rng(25).normal(size=(24, 2)), rng(26).normal(size=24)
    table = np.column_stack((X[:, 0], np.ones(24), X[:, 1], X[:, 0] + X[:, 1]))
    groups = np.repeat(np.arange(8), 3) if kind == "cluster" else None
    asked = {} if groups is not None else {"cov_type": kind}
    model = fedsvd.FederatedLinearRegression(inference=True, **asked).fit([table[:12], table[12:]], y, groups=groups)
    words = {"cov_kwds": {"groups": groups}} if groups is not None else {}
    expected = sm.OLS(y, sm.add_constant(X)).fit(cov_type=kind, **words)
    assert model.inference_[0].aliased == (2, 4)
    assert_each_close(model.inference_[0].standard_errors[[0, 1, 3]], expected.bse, STATISTIC_BAR)


def test_a_penalty_is_chosen_of_three_rows_and_where_columns_are_zero_or_repeated():
    X, y = rng(37).normal(size=(3, 2)), rng(38).normal(size=3)
    found, twin = fedsvd.FederatedRidgeCV([0.1, 1.0]).fit([X[:1], X[1:]], y), RidgeCV([0.1, 1.0]).fit(X, y)
    assert found.alpha_ == twin.alpha_
    assert_close(found.coef_, twin.coef_, STATISTIC_BAR)
    first, y = rng(39).normal(size=(12, 2)), rng(40).normal(size=12)
    table = np.column_stack((first, np.zeros(12), first[:, 0]))
    split = fedsvd.FederatedRidgeCV([0.1, 1.0], choose_by="gcv", **COLUMNS).fit([table[:, :2], table[:, 2:]], y)
    assert_close(split.coef_, Ridge(split.alpha_, solver="svd").fit(table, y).coef_, STATISTIC_BAR)


@pytest.mark.parametrize("family", ["gaussian", "poisson", "gamma"])
def test_models_of_as_many_rows_as_coefficients_have_the_targets_themselves(family):
    X, y = np.eye(4)[:, 1:], np.array([0.5, 2.0, 8.0, 1.0])
    model = fedsvd.FederatedGLM(family).fit([X[:1], X[1:]], [y[:1], y[1:]]).inference_[0]
    eta = y if family == "gaussian" else np.log(y)
    assert_each_close(model.coefficients, np.append(eta[0], eta[1:] - eta[0]), STATISTIC_BAR)
    assert_close(model.deviance, 0.0, STATISTIC_BAR, scale=1.0)


def test_a_model_whose_features_are_all_constant_is_that_of_the_mean():
    y = rng(69).poisson(3.0, 12).astype(float)
    model = fedsvd.FederatedGLM("poisson").fit([np.ones((4, 2)), np.ones((8, 2))], [y[:4], y[4:]]).inference_[0]
    assert model.aliased == (1, 2)
    assert_each_close(model.coefficients[0], np.log(y.mean()), STATISTIC_BAR)
    assert_each_close(model.standard_errors[0], 1.0 / np.sqrt(y.sum()), STATISTIC_BAR)


def test_offsets_of_every_family_are_those_of_statsmodels():
    X, offset = rng(50).normal(size=(30, 2)), rng(51).uniform(-1, 1, 30)
    eta = 0.3 * X[:, 0] + offset
    families = {
        "poisson": (rng(52).poisson(np.exp(eta)), sm.families.Poisson()),
        "gamma": (rng(53).gamma(2.0, np.exp(eta)), sm.families.Gamma(sm.families.links.Log())),
        "gaussian": (eta + rng(54).normal(size=30), sm.families.Gaussian()),
        "binomial": (rng(55).random(30) < 0.5, sm.families.Binomial()),
    }
    for family, (drawn, theirs) in families.items():
        y = drawn.astype(float)
        regression = fedsvd.FederatedGLM(family).fit([X[:1], X[1:]], [y[:1], y[1:]], offset=[offset[:1], offset[1:]])
        expected = sm.GLM(y, sm.add_constant(X), family=theirs, offset=offset).fit(tol=1e-14, maxiter=200)
        model = regression.inference_[0]
        assert_each_close(model.coefficients, expected.params, GLM_BAR)
        assert_each_close(model.null_deviance, expected.null_deviance, GLM_BAR)
        explained = 1.0 - expected.deviance / expected.null_deviance
        assert_each_close(regression.score(X, y, offset=offset), explained, GLM_BAR)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_gamma_targets_whose_squares_are_out_of_range_are_refused_and_others_are_not(unit):
    X, y = rng(63).normal(size=(30, 2)), rng(64).gamma(2.0, 1.0, 30)
    with pytest.raises(DataError, match="from 1e-150 to 1e150"):
        fedsvd.FederatedGLM("gamma").fit(X, y * unit)
    usual = fedsvd.FederatedGLM("gamma").fit(X, y)
    assert_close(fedsvd.FederatedGLM("gamma").fit(X, y * 1e-140).coef_, usual.coef_, GLM_BAR)


def correlations(A, B):
    def basis(M):
        U, s, _ = np.linalg.svd(M - M.mean(axis=0), full_matrices=False)
        return U[:, s > STATISTIC_BAR * s[0]]

    return np.linalg.svd(basis(A).T @ basis(B), compute_uv=False)


def test_canonical_correlations_of_dependent_constant_and_far_columns():
    A, B = rng(80).normal(size=(30, 3)), rng(81).normal(size=(30, 2))
    B = B + A[:, :1]
    pairs = [
        (np.column_stack((A, A[:, 0] + A[:, 1])), B),
        (np.column_stack((A[:, :2], np.full(30, 5.0))), B),
        (np.column_stack((A[:, :2], np.full(30, 0.1))), np.column_stack((B, np.full(30, 0.1)))),
        (A[:, :2] * [1e150, 1e-150], B * 1e-120),
        (A[:5, :1], B[:5, :1]),
    ]
    for own, other in pairs:
        found = fedsvd.FederatedCCA(ids="trust").fit([own, other]).correlations_
        usual = own / np.where(np.abs(own).max(axis=0) > 0, np.abs(own).max(axis=0), 1.0)
        expected = correlations(usual, other / np.abs(other).max(axis=0))
        assert_close(found[: len(expected)], expected[: len(found)], STATISTIC_BAR, scale=1.0)
    same = fedsvd.FederatedCCA(ids="trust").fit([A[:, :2], A[:, :2] @ [[1.0, 2.0], [3.0, 4.0]]])
    assert_close(same.correlations_, np.ones(2), STATISTIC_BAR)


@pytest.mark.parametrize("split", ["horizontal", "vertical"])
def test_latent_semantics_of_sparse_tables_with_empty_rows_and_columns(split):
    X = sp.random(50, 20, 0.05, random_state=3, format="csr" if split == "horizontal" else "csc")
    found = fedsvd.FederatedLSA(n_components=3, split=split, **({} if split == "horizontal" else {"ids": "trust"}))
    expected = np.linalg.svd(X.toarray(), compute_uv=False)
    assert_close(found.fit(tables_of(X, split, 7)).singular_values_, expected[:3], VALUES_BAR, scale=expected[0])


def test_regression_on_components_with_a_constant_column_and_of_all_components():
    X, y = rng(90).normal(size=(30, 4)), rng(91).normal(size=30)
    X[:, 2] = 1.0
    Z = (X[:, [0, 1, 3]] - X[:, [0, 1, 3]].mean(axis=0)) / X[:, [0, 1, 3]].std(axis=0)
    scores = PCA(2, svd_solver="full").fit_transform(Z)
    found = fedsvd.FederatedPCR(n_components=2, unit_variance=True).fit([X[:9], X[9:]], [y[:9], y[9:]])
    expected = LinearRegression().fit(scores, y).predict(scores)
    assert_close(found.predict(X), expected, STATISTIC_BAR, scale=float(np.abs(y).max()))
    few, target = X[:5, [0, 1, 3]], y[:5]
    every = fedsvd.FederatedPCR(n_components=None).fit([few[:1], few[1:]], [target[:1], target[1:]])
    expected = LinearRegression().fit(few, target).predict(few)
    assert_close(every.predict(few), expected, STATISTIC_BAR, scale=float(np.abs(target).max()))
