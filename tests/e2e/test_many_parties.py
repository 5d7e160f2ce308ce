"""More parties than share pads with each other: answers are NumPy's, in one process and in fifty."""

import tempfile

import numpy as np
import pytest
from tests.protocol.cases import CASES
from tests.tolerances import RESULT_BAR, assert_close

from fedsvd import FederatedPCA, Local, Policy, Simulation
from fedsvd.testing.federation import Federation

FEATURES = 8


def divided(k):
    """Records of k parties, 12 to 30 each."""
    rng = np.random.default_rng(k)
    sizes = rng.integers(12, 31, k)
    X = rng.standard_normal((sizes.sum(), FEATURES)) * np.linspace(3, 1, FEATURES) + 5.0
    return X, np.split(X, np.cumsum(sizes)[:-1])


def expect_numpys(found, X):
    s, Vt = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[1:]
    assert_close(found.singular_values_, s[:2], RESULT_BAR)
    assert_close(np.abs(found.components_), np.abs(Vt[:2]), RESULT_BAR)


@pytest.mark.parametrize("k", [18, pytest.param(50, marks=pytest.mark.slow), pytest.param(500, marks=pytest.mark.slow)])
def test_components_of_many_parties_in_one_process_are_numpys(k):
    X, parts = divided(k)
    expect_numpys(FederatedPCA(2, federation=Simulation(policy=Policy.permissive())).fit(parts), X)


@pytest.mark.slow
def test_components_of_fifty_processes_are_numpys(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    X, parts = divided(50)
    expect_numpys(FederatedPCA(2, federation=Local(policy=Policy.permissive())).fit(parts), X)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_case_of_the_protocol_ends_well_with_18_users(name):
    """Of all kinds of sums, words and messages: what pads leave behind would fail a tag or a check."""
    federation: Federation = CASES[name](18)
    federation.run()
    assert len(federation.released) == 18
