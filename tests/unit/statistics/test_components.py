"""The number of components by each rule, against scikit-learn and the published constants."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.decomposition import PCA

from fedsvd.errors import ConfigError, ShapeError
from fedsvd.statistics.components import by_likelihood, by_parallel, by_share, choose, threshold


def spectrum(X):
    return np.linalg.svd(X - X.mean(axis=0), compute_uv=False)


def planted(n=400, p=60, rank=5, seed=9):
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, p))
    return signal + rng.normal(size=(n, p))


SETS = {
    "wine": lambda: load_wine().data,
    "breast cancer": lambda: load_breast_cancer().data,
    "digits": lambda: load_digits().data,
    "planted": planted,
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("share", [0.3, 0.9, 0.95, 0.999])
def test_a_share_of_variance_takes_as_many_as_scikit_learn(name, share):
    X = SETS[name]()
    assert by_share(spectrum(X), share) == PCA(n_components=share, svd_solver="full").fit(X).n_components_


@pytest.mark.parametrize("name", ["wine", "breast cancer", "planted"])
def test_the_likelihood_chooses_as_scikit_learn(name):
    X = SETS[name]()
    expected = PCA(n_components="mle", svd_solver="full").fit(X).n_components_
    assert by_likelihood(spectrum(X), *X.shape) == expected


def test_a_share_of_a_truncated_spectrum_is_taken_of_the_whole():
    s = spectrum(planted())
    total = float(np.sum(s**2))
    assert by_share(s[:20], 0.7, total) == by_share(s, 0.7)
    with pytest.raises(ConfigError, match="ask for more"):
        by_share(s[:2], 0.99, total)


@pytest.mark.parametrize("name", ["planted"])
@pytest.mark.parametrize("shape", [(400, 60), (60, 400), (200, 200)])
def test_planted_components_are_found_by_every_rule(name, shape):
    X = planted(*shape)
    s = spectrum(X)[: min(shape)]
    rng = np.random.default_rng(10)
    permuted = np.stack([spectrum(rng.permuted(X, axis=0)) for _ in range(20)])
    assert choose("gavish-donoho", s, *shape).count == 5
    assert by_parallel(s, permuted) == 5
    if shape[0] > shape[1]:
        assert by_likelihood(s, *shape) == 5


@pytest.mark.parametrize("beta", [0.05, 0.1, 0.3, 0.5, 0.8, 1.0])
def test_the_threshold_is_the_published_one(beta):
    """Gavish and Donoho's cubic fits the exact constant to 0.02; for square tables it is 2.858."""
    columns = 1000
    values = np.ones(round(beta * columns))
    found = threshold(values, len(values), columns)
    cubic = 0.56 * beta**3 - 0.95 * beta**2 + 1.82 * beta + 1.43
    assert abs(found - cubic) < 0.021


def test_the_threshold_of_square_tables_is_the_published_one_to_three_places():
    assert round(threshold(np.ones(9), 9, 9), 3) == 2.858


def test_parallel_analysis_stops_at_the_first_value_that_chance_explains():
    permuted = np.array([[3.0, 2.0, 1.0], [3.2, 2.1, 1.1]])
    assert by_parallel(np.array([5.0, 2.0, 1.5]), permuted) == 1
    assert by_parallel(np.array([5.0, 4.0, 3.0]), permuted) == 3
    assert by_parallel(np.array([1.0, 0.9, 0.8]), permuted) == 0


def test_what_cannot_be_used_is_refused():
    s = spectrum(planted())
    with pytest.raises(ConfigError):
        by_share(s, 1.5)
    with pytest.raises(ConfigError, match="at least as many rows"):
        by_likelihood(s, 10, 60)
    with pytest.raises(ShapeError):
        by_likelihood(s[:10], 400, 60)
    with pytest.raises(ShapeError):
        threshold(s[:10], 400, 60)
    with pytest.raises(ConfigError):
        by_parallel(s, np.empty((0, 60)))
