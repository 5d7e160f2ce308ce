"""Regression tables by sums of few digits: statsmodels' coefficients and errors, the opened bits, ends of a fit."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn.datasets import load_diabetes
from tests.tolerances import DIGITS_ERRORS_BAR, DIGITS_MORE_BAR, DIGITS_STEP_BAR, assert_close
from tests.unit.roles.test_digits import apart, drawn, last_digits

from fedsvd.errors import DataError
from fedsvd.protocol.messages import SumShare
from fedsvd.protocol.openings import expected_bits, granted_bits, openings
from fedsvd.protocol.parties import CSP
from fedsvd.protocol.steps import SIZE_CLASSES, listed
from fedsvd.protocol.tasks import Item, Split, Task
from fedsvd.roles.user import digits as played_digits
from fedsvd.statistics.undefined import LEVERAGE
from fedsvd.testing.federation import Federation

pytestmark = pytest.mark.filterwarnings("ignore")
TABLE = (Item.COEFFICIENTS, Item.INTERCEPT, Item.INFERENCE)


def fitted(X, y, digits="table", robust=None, cuts=None, **rows):
    """A session of three parties, what a party ends with."""
    cuts = [int(0.4 * len(X)), int(0.7 * len(X))] if cuts is None else cuts
    of_parties = {name: np.split(values, cuts) for name, values in rows.items() if isinstance(values, np.ndarray)}
    asked = {name: value for name, value in rows.items() if name not in of_parties}
    session = Federation(
        np.split(X, cuts),
        Task.LR,
        Split.HORIZONTAL,
        labels=np.split(y, cuts),
        release=(*TABLE, Item.ROBUST) if robust else TABLE,
        robust=robust,
        digits=digits,
        weighted="row_weights" in of_parties,
        **of_parties,
        **asked,
    )
    return session, session.run()[0]


def three(n):
    return np.split(np.arange(n), [int(0.4 * n), int(0.7 * n)])


def diabetes():
    X, y = load_diabetes(return_X_y=True, scaled=False)
    return X[:, [0, 1, 2, 3, 8]], y


def assert_table(model, expected, bar=DIGITS_ERRORS_BAR):
    step, errors = apart(model, expected)
    assert step < DIGITS_STEP_BAR
    assert errors < bar
    for found, wanted in (
        (model.r2, expected.rsquared),
        (model.adjusted_r2, expected.rsquared_adj),
        (model.f, expected.fvalue),
        (model.log_likelihood, expected.llf),
        (model.sigma, math.sqrt(expected.scale)),
    ):
        assert math.isclose(found, wanted, rel_tol=bar)


@pytest.mark.parametrize("digits", ["table", "more"])
def test_a_table_by_few_digits_is_statsmodels(digits):
    X, y = diabetes()
    session, result = fitted(X, y, digits)
    bar = DIGITS_MORE_BAR if digits == "more" else DIGITS_ERRORS_BAR
    assert_table(result.inference[0], sm.OLS(y, sm.add_constant(X)).fit(), bar)
    assert np.array_equal(result.coefficients[0], result.inference[0].coefficients[1:])
    assert result.bits <= expected_bits(session.plan)


@pytest.mark.parametrize("kind", ["HC0", "HC2", "HC3", "cluster"])
def test_robust_errors_by_few_digits_are_statsmodels(kind):
    X, y = diabetes()
    ward = np.arange(len(y)) // 9
    own = np.concatenate([100 * i + ward[part] for i, part in enumerate(three(len(y)))])  # each party's own names
    more = {"cov_kwds": {"groups": np.unique(own, return_inverse=True)[1]}} if kind == "cluster" else {}
    session, result = fitted(X, y, robust=kind, **({"clusters": ward} if kind == "cluster" else {}))
    expected = sm.OLS(y, sm.add_constant(X)).fit(cov_type=kind, **more)
    step, errors = apart(result.inference[0], expected)
    assert step < DIGITS_STEP_BAR
    assert errors < DIGITS_ERRORS_BAR
    assert result.bits <= expected_bits(session.plan)


def test_weights_two_targets_and_no_intercept_are_statsmodels():
    X, y = diabetes()
    weights = np.random.default_rng(0).uniform(0.5, 3.0, len(y))
    Y = np.column_stack((y, 1e9 * X[:, 2]))
    _, result = fitted(X[:, :2], Y, row_weights=weights, centre=False)
    for model, target in zip(result.inference, Y.T, strict=True):
        step, errors = apart(model, sm.WLS(target, X[:, :2], weights=weights).fit())
        assert step < DIGITS_STEP_BAR
        assert errors < DIGITS_ERRORS_BAR


def test_a_ridge_is_the_ridge_of_all_digits():
    X, y = diabetes()
    (_, few), (_, exact) = fitted(X, y, alpha=5.0), fitted(X, y, "all", alpha=5.0)
    assert_close(few.coefficients, exact.coefficients, DIGITS_STEP_BAR)
    assert math.isclose(few.inference[0].r2, exact.inference[0].r2, rel_tol=DIGITS_ERRORS_BAR)
    assert few.inference[0].standard_errors == exact.inference[0].standard_errors  # not defined, for the same reason


KINDS = ("plain", "binary", "scaled", "uncentred", "collinear")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 14))
@pytest.mark.parametrize("kind", KINDS)
def test_64_random_tables_are_statsmodels(kind, seed):
    X, y = drawn("gaussian", kind, seed)
    robust = (None, "HC1", "HC3")[seed % 3]
    session, result = fitted(X, y, robust=robust)
    scale = np.sqrt(np.square(sm.add_constant(X)).mean(axis=0))  # statsmodels solves in columns as they are
    expected = sm.OLS(y, sm.add_constant(X) / scale).fit(cov_type=robust or "nonrobust")
    solved = SimpleNamespace(params=expected.params / scale, bse=expected.bse / scale)
    exact = last_digits("gaussian", X, y, solved)  # in columns as they are it is 3e-7 off with some BLAS kernels
    model = result.inference[0]
    assert np.abs((model.coefficients - exact) * scale / expected.bse).max() < DIGITS_STEP_BAR
    assert np.abs(model.standard_errors / (expected.bse / scale) - 1.0).max() < DIGITS_ERRORS_BAR
    assert result.bits < 2 * expected_bits(session.plan)


# --- ends -------------------------------------------------------------------------------------------------------------


def test_longley_whose_columns_are_nearly_dependent_has_all_digits_of_its_coefficients():
    data = sm.datasets.longley.load_pandas()
    X, y = data.exog.to_numpy(), data.endog.to_numpy()
    session, result = fitted(X, y)
    _, exact = fitted(X, y, "all")
    model, other = result.inference[0], exact.inference[0]
    assert np.abs((model.coefficients - other.coefficients) / other.standard_errors).max() < DIGITS_STEP_BAR
    assert np.abs(model.standard_errors / other.standard_errors - 1.0).max() < DIGITS_ERRORS_BAR
    assert expected_bits(session.plan) < result.bits < granted_bits(session.plan)


@pytest.mark.parametrize("kind", ["constant", "dependent"])
def test_a_column_without_a_coefficient_is_named(kind):
    X, y = diabetes()
    more = np.full(len(y), 0.1) if kind == "constant" else X[:, 0] - 2.0 * X[:, 2]
    with pytest.raises(DataError, match="column 6 is a combination"):
        fitted(np.column_stack((X, more)), y)


def test_a_target_that_does_not_vary_has_no_r2_and_an_exact_fit_no_errors():
    X, _ = diabetes()
    _, result = fitted(X, np.full(len(X), 0.1))
    _, exact = fitted(X, np.full(len(X), 0.1), "all")
    assert result.inference[0].r2 == exact.inference[0].r2
    assert not result.coefficients.any()
    _, result = fitted(X, X @ [1.0, 2.0, 3.0, 4.0, 5.0])
    assert_close(result.coefficients, np.array([[1.0, 2.0, 3.0, 4.0, 5.0]]), DIGITS_STEP_BAR)


def test_a_record_of_leverage_1_leaves_hc3_undefined_as_in_all_digits():
    X, y = diabetes()
    X[:, 1] = 0.0
    X[3, 1] = 1.0
    for digits in ("table", "all"):
        _, result = fitted(X, y, digits, robust="HC3")
        assert result.inference[0].standard_errors == LEVERAGE


def test_fewer_clusters_than_coefficients_have_errors_and_no_test_of_all():
    X, y = diabetes()
    half = (np.arange(len(y)) % 2).astype(float)
    _, few = fitted(X[:, :5], y, robust="cluster", clusters=half, cuts=[200])
    _, exact = fitted(X[:, :5], y, "all", robust="cluster", clusters=half, cuts=[200])
    errors = few.inference[0].standard_errors / exact.inference[0].standard_errors - 1.0
    assert np.abs(errors).max() < DIGITS_ERRORS_BAR
    assert few.inference[0].f == exact.inference[0].f


# --- what was opened --------------------------------------------------------------------------------------------------


def test_bits_are_those_of_a_recount_of_opened_words_and_stay_below_what_is_declared(monkeypatch):
    words, original = [], played_digits.words128.to_numbers

    def recorded(total, step):
        found = original(total, step)
        words.append(np.array(found))
        return found

    monkeypatch.setattr(played_digits.words128, "to_numbers", recorded)
    session, result = fitted(*diabetes(), robust="HC3")
    names = [message.name for sender, message in session.views.of(CSP, SumShare) if sender == session.plan.users[0]]
    planned = {step.name: step for step in listed(session.plan.steps)}
    summed = [planned[name] for name in dict.fromkeys(names)]
    sizes = sum(7 * step.size // len(SIZE_CLASSES) for step in summed if step.what == "sizes")
    opened = [step for step in summed if step.kind == "digits"]
    assert len(words) == 3 * len(opened)  # every user opens every total
    recount = sizes + sum(float(np.log2(2.0 * np.abs(total) + 2.0).sum()) for total in words) / 3.0
    assert math.isclose(recount, result.bits)
    # Each piece in the bits that its step declares, but for two of noise and of a largest entry above a power of two.
    declared = sum(each.numbers * (each.bits + 3) for each in openings(session.plan, opened))
    assert recount <= sizes + declared
    assert result.bits <= expected_bits(session.plan) <= granted_bits(session.plan)


def test_the_csp_adds_up_no_gram_matrix_and_opens_nothing():
    session, _ = fitted(*diabetes(), robust="HC3")
    names = {message.name for _, message in session.views.of(CSP, SumShare)}
    assert {"columns", "moments", "start", "table 1", "table 2", "score 1", "end sizes", "end", "squares 1"} <= names
    assert not names & {"gram", "mean", "energy", "norm"}
