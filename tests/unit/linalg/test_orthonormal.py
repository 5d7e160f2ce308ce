"""The correction of singular vectors made by one product, at condition numbers up to that of float64."""

import numpy as np
import pytest
from tests import tolerances

from fedsvd.errors import NumericalError
from fedsvd.linalg import backend
from fedsvd.linalg.dense_svd import corrected, correction, needs_correction


@pytest.mark.parametrize("condition", [1e3, 1e8, 1e12])
def test_vectors_made_by_a_product_are_orthonormal_after_the_correction(condition):
    rng = np.random.default_rng(1)
    U, _ = np.linalg.qr(rng.standard_normal((20, 20)))
    V, _ = np.linalg.qr(rng.standard_normal((300, 20)))
    sigma = np.geomspace(1.0, 1.0 / condition, 20)
    X = (U * sigma) @ V.T
    Vt = (U / sigma).T @ X
    assert needs_correction(sigma)
    before = np.linalg.norm(Vt @ Vt.T - np.eye(20))
    corrected(correction(backend.add_gram(None, Vt)), Vt, out=Vt)
    after = np.linalg.norm(Vt @ Vt.T - np.eye(20))
    assert after < tolerances.ORTHOGONAL_BAR < before


def test_well_conditioned_vectors_need_none():
    assert not needs_correction(np.array([16.0, 1.0]))
    assert needs_correction(np.array([17.0, 1.0]))
    assert not needs_correction(np.zeros(0))


def test_vectors_that_are_not_independent_are_refused():
    with pytest.raises(NumericalError, match="independence"):
        correction(np.ones((3, 3)))
