"""A table of 200,000 rows and 200 features has statsmodels' statistics, every one of them, on either split."""

import numpy as np
import pytest
from tests.tolerances import STATISTIC_BAR, assert_each_close
from tests.unit.statistics.tables import assert_table_of, fitted

from fedsvd import FederatedLinearRegression

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")]


@pytest.fixture(scope="module")
def long_table():
    rng = np.random.default_rng(11)
    # Effects whose p-values are ordinary numbers: their digits are compared, too.
    X = rng.normal(size=(200_000, 200)) * np.geomspace(0.5, 2.0, 200) + 0.5
    y = X @ (rng.normal(size=200) * 0.003) + rng.normal(size=200_000)
    return X, y, fitted(X, y)


@pytest.mark.parametrize("split", ["horizontal", "vertical"])
def test_every_statistic_is_that_of_statsmodels(long_table, split):
    X, y, expected = long_table
    axis = 0 if split == "horizontal" else 1
    parts = np.split(X, [X.shape[axis] // 5, X.shape[axis] // 2], axis=axis)
    labels = np.split(y, [40_000, 100_000]) if axis == 0 else y
    (model,) = FederatedLinearRegression(inference=True, split=split, ids="trust").fit(parts, labels).inference_
    assert_table_of(model, expected, columns_split=split == "vertical")
    inflation = np.diag(np.linalg.inv(np.corrcoef(X, rowvar=False)))
    assert_each_close(model.vif, inflation, STATISTIC_BAR)
