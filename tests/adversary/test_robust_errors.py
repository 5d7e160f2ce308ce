"""What robust errors say beyond the joint Gram matrix: sums of squared scores, and what these determine.

The attacker is a party: it has the table, the joint matrix and its own rows, and subtracts what is its own.
"""

import numpy as np
import pytest
from tests.tolerances import assert_close, digits_lost

from fedsvd import FederatedLinearRegression, FederatedRidgeCV, Simulation
from fedsvd.errors import DataWarning, ReleaseRefused
from fedsvd.policy.rules import Policy

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")


def drawn(rows, p=4, seed=2):
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(n, p)) + 1.0 for n in rows]
    return parts, [X @ np.arange(1.0, p + 1.0) + rng.normal(size=len(X)) for X in parts]


def design(X):
    return np.column_stack((np.ones(len(X)), X))


def squared_scores(model, correction=1.0):
    """``sum x x^T e^2``, or over clusters, from the covariance that is released."""
    B = np.linalg.inv(model.root @ model.root.T)
    return B @ model.covariance @ B / correction


def score(X, y, model):
    return design(X).T @ (y - design(X) @ model.coefficients)


def test_a_record_whose_residual_dwarfs_all_others_shows_its_features_and_this_is_stated():
    parts, labels = drawn((150, 150, 150))
    labels[2][17] += 1e7
    with pytest.warns(DataWarning, match="another unit"):
        (model,) = FederatedLinearRegression(inference=True, cov_type="HC0").fit(parts, labels).inference_
    own = design(parts[0]) * (labels[0] - design(parts[0]) @ model.coefficients)[:, None]
    others = squared_scores(model) - own.T @ own
    read = np.linalg.eigh(others)[1][:, -1]
    truth = design(parts[2])[17]
    # Up to a factor, which the intercept's 1 gives; usual records stay hidden in the sum.
    assert np.abs(read / read[0] - truth).max() < np.abs(truth).max() / 100.0
    labels[2][17] -= 1e7
    (model,) = FederatedLinearRegression(inference=True, cov_type="HC0").fit(parts, labels).inference_
    read = np.linalg.eigh(squared_scores(model) - own.T @ own)[1][:, -1]
    assert np.abs(read / read[0] - truth).max() > np.abs(truth).max() / 10.0, "no record stands out of the sum"


def clustered(parts, labels, **options):
    groups = [np.full(len(own), i) for i, own in enumerate(labels)]
    return FederatedLinearRegression(inference=True, **options).fit(parts, labels, groups=groups).inference_[0]


def test_three_parties_of_one_cluster_each_read_each_others_scores_and_this_is_stated():
    parts, labels = drawn((150, 150, 150))
    model = clustered(parts, labels)
    n, q = 450, 5
    S = squared_scores(model, 3 / 2 * (n - 1) / (n - q))
    a, b, c = (score(X, y, model) for X, y in zip(parts, labels, strict=True))
    # Scores of all parties add up to zero: b b^T + c c^T and b + c are known to the first, and so b and c.
    others, together = S - np.outer(a, a), -a
    half = others / 2.0 - np.outer(together, together) / 4.0  # ((b - c) / 2) ((b - c) / 2)^T
    values, vectors = np.linalg.eigh(half)
    apart = np.sqrt(values[-1]) * vectors[:, -1]
    found = sorted((together / 2.0 + apart, together / 2.0 - apart), key=lambda v: np.linalg.norm(v - b))
    assert_close(found[0], b, digits_lost(7))
    assert_close(found[1], c, digits_lost(7))
    with pytest.raises(ReleaseRefused, match="clusters: errors that are robust to clusters go to 3 parties"):
        clustered(parts, labels, federation=Simulation(policy=Policy(enforce=True)))


def test_four_parties_of_one_cluster_each_do_not_determine_each_others_scores():
    parts, labels = drawn((150, 150, 150, 150))
    model = clustered(parts, labels, federation=Simulation(policy=Policy(enforce=True)))
    a, *others = (score(X, y, model) for X, y in zip(parts, labels, strict=True))
    B = np.array(others)
    # Any rotation of the three about (1, 1, 1) has the same sum and the same sum of squares.
    axis, angle = np.ones(3) / np.sqrt(3.0), 1.0
    cross = np.cross(np.eye(3), axis)
    turned = (np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * cross @ cross) @ B
    assert_close(turned.sum(axis=0), -a, digits_lost(5), scale=np.abs(B).max())
    assert_close(turned.T @ turned, B.T @ B, digits_lost(4))
    assert np.abs(turned - B).max() > 0.1 * np.abs(B).max()


def test_joint_errors_of_rows_left_out_say_one_number_of_each_other_party_and_this_is_stated():
    parts, labels = drawn((200, 150))
    alphas = [0.1, 10.0]
    found = FederatedRidgeCV(alphas).fit(parts, labels)
    X, y = np.concatenate(parts), np.concatenate(labels)
    centred = X - X.mean(axis=0)
    for alpha, error in zip(alphas, found.cv_errors_, strict=True):
        # With two parties each subtracts its own sum of squared errors, and holds the partner's.
        hat = centred @ np.linalg.solve(centred.T @ centred + alpha * np.eye(4), centred.T)
        left_out = (y - y.mean() - hat @ (y - y.mean())) / (1.0 - np.diag(hat) - 1.0 / len(y))
        partner = len(y) * error - np.sum(left_out[:200] ** 2)
        assert_close(partner, np.sum(left_out[200:] ** 2), digits_lost(4))


def test_sums_of_weights_are_all_that_weights_show():
    parts, labels = drawn((120, 120, 120))
    rng = np.random.default_rng(3)
    weights = [rng.uniform(0.5, 2.0, 120) for _ in parts]
    (model,) = FederatedLinearRegression(inference=True).fit(parts, labels, weights).inference_
    joint = np.concatenate(weights)
    assert_close(model.sums.log_weights, np.sum(np.log(joint)), digits_lost(2), scale=360.0)
    G = np.linalg.inv(model.root @ model.root.T)
    assert_close(G[0, 0], joint.sum(), digits_lost(4))
