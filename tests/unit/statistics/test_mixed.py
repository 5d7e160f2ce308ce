"""A party's part of a linear mixed model is that of the multivariate normal distribution of each cluster."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from tests.tolerances import PRINTED_BAR, SEVEN_DIGITS, STATISTIC_BAR, assert_close

from fedsvd.statistics.mixed import Clusters
from fedsvd.statistics.mixed_covariance import Covariance

STEP = 2.0**-12  # of central differences; three of them, extrapolated, are right to about 1e-10


def problem(q, seed=3, n=60, clusters=9):
    """Rows in clusters of uneven size, one of them of a single row, and positive variances."""
    draw = np.random.default_rng(seed)
    codes = np.concatenate(([0.0], draw.integers(1, clusters, n - 1)))
    X = np.column_stack((np.ones(n), draw.normal(size=(n, 2))))
    y = draw.normal(size=n)
    B = draw.normal(size=(q, q)) / 2.0
    variances = np.concatenate(([0.7], (B @ B.T)[np.tril_indices(q)]))
    return X, X[:, :q], y, codes, draw.normal(size=3), variances


def dense(X, Z, y, codes, variances):
    """Rows, outcomes, V and its derivatives, cluster by cluster."""
    q = Z.shape[1]
    for code in np.unique(codes):
        i = codes == code
        z = Z[i]
        slopes = [np.eye(len(z))]
        for a, b in zip(*np.tril_indices(q), strict=True):
            one = np.outer(z[:, a], z[:, b])
            slopes.append(one if a == b else one + one.T)
        yield X[i], y[i], variances[0] * np.eye(len(z)) + z @ Covariance(q).matrix(variances[1:]) @ z.T, slopes


def slope(function, at):
    """Derivatives of a function by central differences, extrapolated twice."""
    found = []
    for unit in np.eye(len(at)):
        halves = [(function(at + h * unit) - function(at - h * unit)) / (2.0 * h) for h in (STEP, STEP / 2, STEP / 4)]
        first = [(4.0 * b - a) / 3.0 for a, b in pairwise(halves)]
        found.append((16.0 * first[1] - first[0]) / 15.0)
    return np.array(found)


@pytest.mark.parametrize("q", [0, 1, 2, 3])
def test_deviance_score_and_curvature_are_those_of_normal_distributions(q):
    X, Z, y, codes, effects, variances = problem(q)
    own, G, point = Clusters(X, Z, y, codes), Covariance(q), np.concatenate((effects, variances))

    def deviance(at):
        parts = dense(X, Z, y, codes, at[3:])
        return -2.0 * sum(multivariate_normal(x @ at[:3], V).logpdf(outcome) for x, outcome, V, _ in parts)

    found = own.evaluate(effects, G.at(variances), True, False)
    assert found.deviance == pytest.approx(deviance(point), rel=STATISTIC_BAR)
    steep = -0.5 * slope(deviance, point)
    assert_close(found.score, steep, SEVEN_DIGITS)
    curved = -slope(lambda at: own.evaluate(at[:3], G.at(at[3:]), False, False).score, point)
    assert_close(found.information, curved, SEVEN_DIGITS)


@pytest.mark.parametrize("q", [0, 1, 2, 3])
def test_expected_information_and_the_slopes_of_reml_are_traces_of_dense_matrices(q):
    X, Z, y, codes, effects, variances = problem(q, seed=4)
    own, G = Clusters(X, Z, y, codes), Covariance(q)
    v = G.parameters
    fisher, gram, slopes = np.zeros((v, v)), np.zeros((3, 3)), np.zeros((v, 3, 3))
    for x, _, V, D in dense(X, Z, y, codes, variances):
        W = np.linalg.inv(V)
        gram += x.T @ W @ x
        for u in range(v):
            slopes[u] += x.T @ W @ D[u] @ W @ x
            for w in range(v):
                fisher[u, w] += np.trace(W @ D[u] @ W @ D[w]) / 2.0
    information = own.evaluate(effects, G.at(variances), True, True).information
    np.testing.assert_allclose(information[3:, 3:], fisher, rtol=STATISTIC_BAR)
    np.testing.assert_allclose(information[:3, :3], gram, rtol=STATISTIC_BAR)
    assert not information[:3, 3:].any()
    np.testing.assert_allclose(own.slopes(G.at(variances)), np.concatenate((gram[None], slopes)), rtol=STATISTIC_BAR)


@pytest.mark.parametrize("q", [0, 1, 2, 3])
def test_a_restricted_likelihood_adds_to_scores_by_the_inverse_of_the_joint_information(q):
    """Two parties with the same C add up to the slope of -log |A| / 2 of both; its curvature less what is no sum."""
    X, Z, y, codes, effects, variances = problem(q, seed=8)
    half, G = codes < 4.0, Covariance(q)
    parties = [Clusters(X[i], Z[i], y[i], codes[i]) for i in (half, ~half)]

    def gram(at):
        return sum(own.slopes(G.at(at))[0] for own in parties)

    C = np.linalg.inv(gram(variances))

    def added(information):
        with_C, without = (
            [own.evaluate(effects, G.at(variances), information, False, given) for own in parties]
            for given in (C, None)
        )
        return [(a, b) for a, b in zip(with_C, without, strict=True)]

    score = sum(a.score - b.score for a, b in added(False))
    expected = slope(lambda at: -0.5 * np.linalg.slogdet(gram(at))[1], variances)
    assert_close(score, np.concatenate((np.zeros(3), expected)), SEVEN_DIGITS)
    slopes = sum(own.slopes(G.at(variances))[1:] for own in parties)
    no_sum = 0.5 * np.einsum("uij,jk,wkl,li->uw", slopes, C, slopes, C)
    curved = sum((a.information - b.information)[3:, 3:] for a, b in added(True)) - no_sum
    half_slopes = slope(lambda at: slope(lambda to: 0.5 * np.linalg.slogdet(gram(to))[1], at), variances)
    assert_close(curved, half_slopes, PRINTED_BAR)


@pytest.mark.parametrize(("correlated", "rank"), [(True, 1), (True, 2), (True, 3), (False, 3)])
def test_a_factor_of_the_covariance_has_its_own_score_and_curvature(correlated, rank):
    X, Z, y, codes, effects, _ = problem(3, seed=9)
    own, G = Clusters(X, Z, y, codes), Covariance(3, correlated, rank, True, (2, 0, 1))
    point = np.concatenate((effects, [0.7], np.random.default_rng(1).normal(size=G.parameters - 1)))

    def deviance(at):
        return own.evaluate(at[:3], G.at(at[3:]), False, False).deviance

    found = own.evaluate(effects, G.at(point[3:]), True, False)
    assert_close(found.score, -0.5 * slope(deviance, point), SEVEN_DIGITS)
    curved = -slope(lambda at: own.evaluate(at[:3], G.at(at[3:]), False, False).score, point)
    assert_close(found.information, curved, SEVEN_DIGITS)
    assert np.linalg.matrix_rank(G.matrix(point[4:])) == rank


def test_what_groups_leave_of_outcomes_is_what_a_line_of_each_group_leaves():
    X, Z, y, codes, _, _ = problem(2, seed=7)
    left, freedom = Clusters(X, Z, y, codes).residual()
    groups = [codes == code for code in np.unique(codes)]
    lines = [y[i] - Z[i] @ np.linalg.lstsq(Z[i], y[i], rcond=None)[0] for i in groups]
    assert left == pytest.approx(sum(float(each @ each) for each in lines), rel=STATISTIC_BAR)
    assert freedom == sum(i.sum() - np.linalg.matrix_rank(Z[i]) for i in groups)


def test_variances_that_make_no_distribution_have_no_value_and_slightly_negative_ones_have():
    X, Z, y, codes, effects, _ = problem(1)
    own, G = Clusters(X, Z, y, codes), Covariance(1)
    assert own.evaluate(effects, G.at(np.array([1.0, -1e-3])), True, False) is not None
    assert own.evaluate(effects, G.at(np.array([1.0, -1.0])), True, False) is None
    assert own.evaluate(effects, G.at(np.array([0.0, 1.0])), True, False) is None
    assert own.leverage(G.at(np.array([0.0, 1.0])), np.eye(3)) == np.inf


def test_predictions_are_the_means_of_random_effects_given_the_outcomes():
    X, Z, y, codes, effects, variances = problem(2, seed=5)
    own = Clusters(X, Z, y, codes)
    u, spread, fitted = own.predicted(effects, Covariance(2).at(variances))
    G = Covariance(2).matrix(variances[1:])
    for c, code in enumerate(np.unique(codes)):
        i = codes == code
        V = variances[0] * np.eye(i.sum()) + Z[i] @ G @ Z[i].T
        mean = G @ Z[i].T @ np.linalg.solve(V, y[i] - X[i] @ effects)
        np.testing.assert_allclose(u[c], mean, rtol=STATISTIC_BAR, atol=STATISTIC_BAR)
        left = G - G @ Z[i].T @ np.linalg.solve(V, Z[i] @ G)
        np.testing.assert_allclose(spread[c], left, rtol=STATISTIC_BAR, atol=STATISTIC_BAR)
        np.testing.assert_allclose(fitted[i], X[i] @ effects + Z[i] @ mean, rtol=STATISTIC_BAR)


def test_leverage_is_the_largest_eigenvalue_of_a_clusters_part_or_a_bound_of_it():
    X, Z, y, codes, _, variances = problem(1, seed=6, n=30, clusters=4)
    own = Clusters(X, Z, y, codes)
    parts = np.array([x.T @ np.linalg.solve(V, x) for x, _, V, _ in dense(X, Z, y, codes, variances)])
    values, vectors = np.linalg.eigh(parts.sum(axis=0))
    root = vectors / np.sqrt(values)
    largest = max(np.linalg.eigvalsh(root.T @ part @ root)[-1] for part in parts)
    point = Covariance(1).at(variances)
    found = own.leverage(point, root)
    assert largest <= found * (1.0 + STATISTIC_BAR)
    if found > 0.5:
        assert found == pytest.approx(largest, rel=STATISTIC_BAR)
    alone = Clusters(X[:12], Z[:12], y[:12], np.repeat([0.0, 1.0], [11, 1]))
    inverse = np.linalg.cholesky(np.linalg.inv(alone.slopes(point)[0]))
    assert alone.leverage(point, inverse) > 0.9
