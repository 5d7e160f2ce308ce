"""Tables and labels in extreme units: what NumPy has of the same numbers in usual ones, times a power of ten."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from tests.tolerances import (
    DESCRIBED_BAR,
    GLM_BAR,
    PRINTED_BAR,
    RESULT_BAR,
    VALUES_BAR,
    assert_close,
    assert_each_close,
    blind,
    solution,
)

from fedsvd import (
    FederatedGLM,
    FederatedLinearRegression,
    FederatedPCA,
    FederatedPCR,
    FederatedSVD,
    FederatedTable,
    Masks,
)
from fedsvd.errors import ConfigError, NumericalError

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
UNITS = [-150, -80, 80, 150]


def drawn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4))
    return X, X @ [1.0, 2.0, 3.0, 4.0] + 0.1 * rng.normal(size=30)


@pytest.mark.parametrize("split", ["horizontal", "vertical"])
@pytest.mark.parametrize("power", UNITS)
@pytest.mark.parametrize("what", ["labels", "features", "one feature"])
def test_coefficients_of_any_unit_are_those_of_the_usual_one(what, power, split):
    X, y = drawn()
    expected = np.linalg.lstsq(X - X.mean(axis=0), y - y.mean(), rcond=None)[0]
    scale, unit = np.ones(4), 10.0**power
    if what == "labels":
        y = y * unit
        expected = expected * unit
    else:
        scale[slice(None) if what == "features" else slice(1)] = unit
    found = FederatedLinearRegression(split=split, ids="trust").fit(X * scale, y)
    assert_each_close(found.coef_ * scale, expected, RESULT_BAR)


@pytest.mark.parametrize("power", UNITS)
def test_unit_variance_has_every_column_whatever_its_unit(power):
    X, y = drawn()
    other = X * np.array([10.0**power, 1.0, 1.0, 1.0])
    expected = np.linalg.svd((X - X.mean(axis=0)) / X.std(axis=0), compute_uv=False)
    found = FederatedPCA(n_components=4, unit_variance=True).fit(other)
    assert_close(found.singular_values_, expected, VALUES_BAR)
    least = np.linalg.lstsq(X - X.mean(axis=0), y - y.mean(), rcond=None)[0]
    regression = FederatedPCR(n_components=4, unit_variance=True).fit(other, y)
    assert_each_close(regression.coef_ * np.array([10.0**power, 1.0, 1.0, 1.0]), least, RESULT_BAR)


FITS = {  # of every kind: which units are right, of features and of labels; all others are refused
    "regression": (FederatedLinearRegression, {}, -250, -250),
    "regression on split columns": (FederatedLinearRegression, {"split": "vertical", "ids": "trust"}, -150, -307),
    "model": (FederatedGLM, {}, -150, -150),
    "unit variance": (FederatedPCR, {"n_components": 4, "unit_variance": True}, -250, -250),
}


@pytest.mark.parametrize("what", ["one feature", "features", "labels"])
@pytest.mark.parametrize("power", [-145, -155, -160, -180, -250, -300, -307])
@pytest.mark.parametrize("name", FITS)
def test_no_column_is_taken_for_constant_because_its_squares_are_below_the_range(name, power, what):
    """Below 1e-160, and on split rows below 1e-300, coefficients were 0 and nothing was said."""
    X, y = drawn()
    expected = np.linalg.lstsq(X - X.mean(axis=0), y - y.mean(), rcond=None)[0]
    scale, label = np.ones(4), 1.0
    if what == "labels":
        label = 10.0**power
    else:
        scale[slice(None) if what == "features" else slice(1)] = 10.0**power
    estimator, options, *least = FITS[name]
    if power < least[what == "labels"]:
        with np.errstate(over="ignore"), pytest.raises(NumericalError, match="varies by too little"):
            estimator(**options).fit(X * scale, y * label)
        return
    found = estimator(**options).fit(X * scale, y * label)
    assert_each_close(found.coef_ * scale / label, expected, RESULT_BAR)


@pytest.mark.parametrize("kind", ["nonrobust", "HC3"])
@pytest.mark.parametrize("what", ["feature", "labels"])
@pytest.mark.parametrize("power", [-130, -150, -160, -200, -250])
def test_a_table_of_any_unit_is_right_or_refused(power, what, kind):
    """At 1e-160 p values were off by 0.02, and those of HC3 were all 0 or 1."""
    X, y = drawn()
    scale, label = np.ones(5), 1.0
    if what == "labels":
        label = 10.0**power
    else:
        scale[1] = 10.0**power
    expected = sm.OLS(y, sm.add_constant(X)).fit(cov_type=kind)
    asked = FederatedLinearRegression(inference=True, cov_type=kind)
    if power < -155:
        with pytest.raises(NumericalError, match="varies by too little"):
            asked.fit(X * scale[1:], y * label)
        return
    model = asked.fit(X * scale[1:], y * label).inference_[0]
    assert_each_close(model.standard_errors * scale / label, expected.bse, PRINTED_BAR)
    assert_close(model.p, expected.pvalues, PRINTED_BAR, scale=1.0)


@pytest.mark.parametrize("split", ["horizontal", "vertical"])
@pytest.mark.parametrize("power", [-300, -150, 150])
def test_singular_vectors_are_finite_and_orthonormal_in_any_unit(power, split):
    X, _ = drawn()
    found = FederatedSVD(split=split, ids="trust").fit(X * 10.0**power)
    assert_close(found.U_.T @ found.U_, np.eye(4), RESULT_BAR)
    assert_close(found.components_ @ found.components_.T, np.eye(4), RESULT_BAR)


@pytest.mark.parametrize("split", ["horizontal", "vertical"])
def test_singular_values_below_the_range_of_float64_are_refused_and_no_vector_is_nan(split):
    X, _ = drawn()
    for table in (X, X.T.copy()):
        with np.errstate(under="ignore"), pytest.raises(NumericalError, match="below the range"):
            FederatedSVD(split=split, ids="trust").fit(table * 10.0**-310)


def power_above(size):
    """The power of two that a study scales by, above a norm (split rows) or a deviation (split columns)."""
    return np.ldexp(1.0, np.frexp(size)[1])


@pytest.mark.parametrize(
    "asked",
    [
        {"masks": Masks(mode="A")},
        {"masks": Masks(mode="B")},
        {"split": "vertical", "ids": "trust"},
    ],
)
@pytest.mark.parametrize(("n", "p"), [(6, 10), (20, 50), (50, 200)])
@pytest.mark.parametrize("alpha", [1e-12, 1e-8, 1e-4])
def test_a_small_ridge_on_more_features_than_records_has_the_digits_of_its_condition(alpha, n, p, asked):
    """At 1e-12 coefficients of six records were 3e-6 off. Masks and blinds are fresh: the bar holds for any."""
    blinds = 0.0 if asked.get("masks") == Masks(mode="A") else blind(p)
    for seed in range(3):
        rng = np.random.default_rng([24, seed])
        X, y = rng.normal(size=(n, p)), rng.normal(size=n)
        centred, labels = X - X.mean(axis=0), y - y.mean()
        dual = np.linalg.solve(centred @ centred.T + alpha * np.eye(n) + np.ones((n, n)), labels)
        expected = centred.T @ dual
        A = np.concatenate((centred, np.sqrt(alpha) * np.eye(p)))
        residual = np.concatenate((labels, np.zeros(p))) - A @ expected
        rows = float(n) if "split" in asked else 1.0
        columns = power_above(np.linalg.norm(A, axis=0) / np.sqrt(rows))
        unit = power_above(np.linalg.norm(labels) / np.sqrt(rows))
        length = np.linalg.norm(expected * columns / unit) + blinds
        found = FederatedLinearRegression(alpha, **asked).fit(X, y)
        off = np.linalg.norm((found.coef_ - expected) * columns / unit)
        assert off <= solution(A / columns, length, np.linalg.norm(residual) / unit)


@pytest.mark.parametrize(
    ("family", "apart", "seed"),
    [
        ("binomial", 1e-7, 3),
        ("binomial", 1e-8, 11),
        ("binomial", 1e-9, 3),
        ("gamma", 1e-7, 5),
        ("gamma", 1e-9, 11),
        ("poisson", 1e-9, 4),
    ],
)
def test_a_model_of_nearly_dependent_features_ends_where_its_steps_are_rounding(family, apart, seed):
    """Steps of 1e-8 standard errors never grew shorter, and the fit ended in FSVD-304."""
    rng = np.random.default_rng(seed)
    X, other = rng.normal(size=(80, 2)), rng.normal(size=80)
    eta = 0.3 * X[:, 0]
    laws = {
        "poisson": (lambda: rng.poisson(np.exp(eta)), sm.families.Poisson()),
        "binomial": (lambda: rng.random(80) < 1.0 / (1.0 + np.exp(-eta)), sm.families.Binomial()),
        "gamma": (lambda: rng.gamma(2.0, np.exp(eta)), sm.families.Gamma(sm.families.links.Log())),
    }
    law, theirs = laws[family]
    y = law().astype(float)
    table = np.column_stack((X, X[:, 0] + apart * other))
    model = FederatedGLM(family).fit(np.array_split(table, 2), np.array_split(y, 2)).inference_[0]
    # The same model in other coordinates, where nothing is nearly dependent.
    expected = sm.GLM(y, np.column_stack((np.ones(80), X, other)), family=theirs).fit(tol=1e-13, maxiter=200)
    assert_each_close(model.deviance, expected.deviance, GLM_BAR)
    assert abs(model.coefficients[3] * apart - expected.params[3]) <= 10.0 * PRINTED_BAR * expected.bse[3]
    assert_each_close(model.standard_errors[3] * apart, expected.bse[3], PRINTED_BAR)


def described(power):
    joint = pd.DataFrame(drawn()[0] * 10.0**power, columns=list("abcd"))
    return FederatedTable(digits="more").fit([joint[:14], joint[14:]]).description_.variables, joint


@pytest.mark.parametrize("power", [-150, 140])
def test_table_1_of_any_unit_is_that_of_the_usual_one(power):
    found, joint = described(power)
    usual = joint.to_numpy() / 10.0**power
    deviations = [each.sd[-1] / 10.0**power for each in found]
    assert_close(
        [each.mean[-1] / 10.0**power for each in found], usual.mean(axis=0), DESCRIBED_BAR, np.abs(usual).max()
    )
    assert_each_close(deviations, usual.std(axis=0, ddof=1), DESCRIBED_BAR)


@pytest.mark.parametrize("power", [152, 300])
def test_table_1_of_numbers_whose_squares_are_none_is_refused_in_words(power):
    with pytest.raises(ConfigError, match=r"squares of numbers in the range of column 'a' are no float64.*larger unit"):
        described(power)
