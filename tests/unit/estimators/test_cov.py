"""A covariance matrix over split rows is that of the joint table."""

import numpy as np

from fedsvd import FederatedCovariance, Simulation
from tests.tolerances import EPS


def test_the_covariance_matrix_is_that_of_the_joint_table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6)) @ rng.normal(size=(6, 6)) + 3.0
    found = FederatedCovariance(federation=Simulation(parties=3)).fit(X)
    expected = np.cov(X.T)
    assert np.abs(found.covariance_ - expected).max() <= 64 * EPS * np.abs(expected).max()
    assert np.abs(found.location_ - X.mean(axis=0)).max() <= 64 * EPS * np.abs(X).max()
