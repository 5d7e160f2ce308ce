"""Regressions on split columns of labels near both ends of float64: right, or refused where squares are needed."""

import numpy as np
import pytest
from tests.tolerances import RESULT_BAR, assert_close

from fedsvd import FederatedLinearRegression, FederatedRidgeCV
from fedsvd.errors import NumericalError

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
COLUMNS = {"split": "vertical", "ids": "trust"}


def drawn():
    rng = np.random.default_rng(24)
    X = rng.normal(size=(40, 4))
    return X, X @ [1.0, -2.0, 3.0, 0.5] + rng.normal(size=40)


@pytest.mark.parametrize("unit", [1e-307, 1e-300, 1e-200, 1e-160, 1e160, 1e300])
def test_coefficients_of_labels_of_any_size_are_those_of_the_joint_data(unit):
    X, y = drawn()
    expected = np.linalg.lstsq(np.column_stack((np.ones(40), X)), y)[0]
    found = FederatedLinearRegression(**COLUMNS).fit([X[:, :1], X[:, 1:]], y * unit)
    assert_close(found.coef_ / unit, expected[1:], RESULT_BAR)
    assert_close(found.intercept_ / unit, expected[0], RESULT_BAR, scale=1.0)


@pytest.mark.parametrize("unit", [1e-300, 1e-160, 1e160])
@pytest.mark.parametrize("kind", ["table", "chosen ridge"])
def test_what_is_made_of_squares_of_labels_is_refused_where_they_are_not_in_range(kind, unit):
    X, y = drawn()
    model = FederatedLinearRegression(inference=True, **COLUMNS)
    if kind == "chosen ridge":
        model = FederatedRidgeCV(choose_by="gcv", **COLUMNS)
    with pytest.raises(NumericalError, match="squares of the labels leave the range"):
        model.fit([X[:, :1], X[:, 1:]], y * unit)
