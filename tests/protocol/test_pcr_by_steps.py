"""Regression on components of many features by steps: the answer of scikit-learn and statsmodels, and what it opens."""

import numpy as np
import pytest
import scipy.sparse
import statsmodels.api as sm
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from tests.tolerances import RESULT_BAR, SEVEN_DIGITS, TEN_DIGITS, assert_close

from fedsvd import FederatedPCR, Masks, Simulation
from fedsvd.policy.sentences import of_openings
from fedsvd.protocol.parties import user
from fedsvd.protocol.steps import What, listed
from fedsvd.protocol.tasks import Split, Task
from fedsvd.testing.federation import Federation

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")


def study(seed=1, n=200, m=70, shift=10.0):
    rng = np.random.default_rng(seed)
    X = 3.0 * rng.normal(size=(n, 6)) @ rng.normal(size=(6, m)) + rng.normal(size=(n, m)) + shift * rng.normal(size=m)
    return X, np.column_stack((X[:, :5].sum(axis=1) + rng.normal(size=n) + 7.0, X[:, 3] - 1e3))


def expected(X, Y, r, scaled):
    """Components, their tables and coefficients of the features, on the joint table."""
    scale = X.std(axis=0) if scaled else np.ones(X.shape[1])
    Z = (X - X.mean(axis=0)) / scale
    pca = PCA(r, svd_solver="full").fit(Z)
    model = LinearRegression().fit(pca.transform(Z), Y)
    coefficients = model.coef_ @ pca.components_ / scale
    tables = [sm.OLS(y, sm.add_constant(pca.transform(Z))).fit() for y in Y.T]
    return coefficients, Y.mean(axis=0) - coefficients @ X.mean(axis=0), tables, pca


@pytest.mark.parametrize("source", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("scaled", [False, True])
def test_coefficients_and_tables_are_those_of_scikit_learn_and_statsmodels(scaled, source):
    X, Y = study(shift=0.0 if source is scipy.sparse.csr_array else 10.0)
    parts = [source(part) for part in np.array_split(X, 3)]
    how = {"masks": Masks("steps"), "federation": Simulation(verbose=0), "unit_variance": scaled}
    found = FederatedPCR(4, **how).fit(parts, np.array_split(Y, 3))
    coefficients, intercept, tables, pca = expected(X, Y, 4, scaled)
    assert_close(found.coef_, coefficients, TEN_DIGITS, np.abs(coefficients).max())
    assert_close(found.intercept_, intercept, TEN_DIGITS, np.abs(Y).max())
    assert_close(found.singular_values_, pca.singular_values_, RESULT_BAR)
    for own, table in zip(found.inference_, tables, strict=True):
        assert_close(np.abs(own.coefficients), np.abs(table.params), TEN_DIGITS, np.abs(table.params).max())
        assert_close(own.standard_errors, table.bse, TEN_DIGITS)
        assert_close(own.r2, table.rsquared, TEN_DIGITS)


def test_a_fit_that_explains_nearly_all_keeps_the_digits_of_what_it_leaves():
    X, _ = study()
    U, s, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    left = 1e-7 * U[:, 5]
    y = U[:, :4] @ [3.0, 2.0, 1.0, 1.0] + left + 5.0
    how = {"masks": Masks("steps"), "federation": Simulation(verbose=0)}
    found = FederatedPCR(4, **how).fit(np.array_split(X, 3), np.array_split(y, 3))
    error = np.sqrt(left @ left / (len(y) - 5)) / s[:4]
    assert_close(found.inference_[0].standard_errors[1:], error, SEVEN_DIGITS)


def test_a_target_that_does_not_vary_has_zero_coefficients():
    X, _ = study()
    how = {"masks": Masks("steps"), "federation": Simulation(verbose=0)}
    found = FederatedPCR(2, **how).fit(np.array_split(X, 2), np.array_split(np.full(200, 0.1), 2))
    assert not found.coef_.any()
    assert_close(found.intercept_, 0.1, RESULT_BAR)


def federation(X, y):
    parts = np.array_split(X, 2)
    return Federation(
        parts, Task.PCR, Split.HORIZONTAL, labels=np.array_split(y, 2), scheme="steps", components=3, unit_variance=True
    )


def test_labels_are_opened_on_the_components_alone():
    """Labels of other products with single features, and of the same ones with components, open the same numbers."""
    X, _ = study(m=40)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    U = np.linalg.svd(Z, full_matrices=False)[0]
    opened = []
    for other in (7, 9):
        y = U[:, :3] @ [3.0, 2.0, 1.0] + 2.0 * U[:, other] + 4.0
        results = federation(X, y).run()
        (table,) = results[0].inference
        opened.append(np.concatenate((table.coefficients, table.standard_errors, results[0].coefficients[0])))
    assert_close(opened[0], opened[1], TEN_DIGITS, np.abs(opened[0]).max())
    products = [Z.T @ U[:, other] for other in (7, 9)]
    assert np.abs(products[0] - products[1]).max() > 1.0


def test_the_plan_opens_no_product_of_labels_with_features():
    X, Y = study(m=40)
    session = federation(X, Y[:, 0])
    found = session.run()[0]
    assert session.machines[user(1)].agreement.order == found.checked.order.text
    plan = session.plan
    of_labels = {step.name: step.size for step in listed(plan.steps) if step.what in (What.LABELS, What.COMPONENTS)}
    assert of_labels == {"label mean": 1, "projected": 3, "left": 1}
    assert What.GRAM not in {step.what for step in listed(plan.steps)}
    assert any("products with single features" in text for text in of_openings(plan))
