"""CuPy, where it and a GPU are installed: an SVD and a regression between parties on ``device="cupy"`` are NumPy's."""

import numpy as np
import pytest
from tests.tolerances import VALUES_BAR, assert_close, digits_lost

from fedsvd import FederatedLinearRegression, FederatedSVD, Simulation

cupy = pytest.importorskip("cupy")
pytestmark = [
    pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning"),
    pytest.mark.filterwarnings("ignore::fedsvd.errors.DataWarning"),
]


@pytest.fixture(autouse=True)
def _gpu():
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        pytest.skip("CuPy is here, and no GPU")


@pytest.mark.parametrize("split", ["horizontal", "vertical"])
def test_singular_values_on_cupy_are_numpys(split):
    X = np.random.default_rng(5).standard_normal((240, 30))
    parties = [X[:100], X[100:]] if split == "horizontal" else [X[:, :12], X[:, 12:]]
    found = FederatedSVD(split=split, federation=Simulation(device="cupy")).fit(parties).singular_values_
    expected = np.linalg.svd(X, compute_uv=False)
    assert_close(found, expected, VALUES_BAR)


def test_coefficients_on_cupy_are_numpys():
    rng = np.random.default_rng(6)
    X = rng.standard_normal((300, 8))
    y = X @ rng.standard_normal(8) + 2.0
    model = FederatedLinearRegression(federation=Simulation(device="cupy")).fit([X[:120], X[120:]], [y[:120], y[120:]])
    A = np.column_stack([np.ones(300), X])
    expected = np.linalg.lstsq(A, y, rcond=None)[0]
    assert_close(np.ravel(model.coef_), expected[1:], digits_lost(4))
