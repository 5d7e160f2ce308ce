"""What a regression table says beyond its coefficients: no less than the joint Gram matrix of features and labels.

The attacker has what the plan releases: the table, and the joint means, which every party learns anyway.
"""

import numpy as np
import pytest
from tests.tolerances import assert_close, digits_lost

from fedsvd import FederatedLinearRegression, Masks, Simulation
from fedsvd.errors import ReleaseRefused
from fedsvd.policy.rules import Policy
from fedsvd.protocol.parties import CSP

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")


def tables(rows=(200, 150, 120), p=5, seed=1):
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(n, p)) + [1.0, 2.0, 0.0, -1.0, 3.0][:p] for n in rows]
    return parts, [X @ np.arange(1.0, p + 1.0) + rng.normal(size=len(X)) for X in parts]


def gram_from_table(regression, y_mean):
    """``[1 X y]^T [1 X y]`` from coefficients, their covariance, sigma, n and the mean of the labels."""
    (model,) = regression.inference_
    G = np.linalg.inv(model.covariance / model.sigma**2)
    g = G @ model.coefficients
    squares = model.sums.total + model.n * y_mean**2
    return np.block([[G, g[:, None]], [g[None, :], np.array([[squares]])]])


def joint(parts, labels):
    A = np.column_stack((np.ones(sum(map(len, parts))), np.concatenate(parts), np.concatenate(labels)))
    return A.T @ A


def enforced(parts, labels):
    with pytest.raises(ReleaseRefused) as refusal:
        FederatedLinearRegression(inference=True, federation=Simulation(policy=Policy(enforce=True))).fit(parts, labels)
    return {rule for rule in ("parties", "records", "freedom", "mode") if f" {rule}: " in refusal.value.fault}


def test_a_table_of_standard_errors_gives_the_joint_gram_matrix_and_this_is_stated():
    parts, labels = tables()
    regression = FederatedLinearRegression(inference=True).fit(parts, labels)
    found = gram_from_table(regression, np.concatenate(labels).mean())
    assert_close(found, joint(parts, labels), digits_lost(5))


def test_with_two_parties_a_table_gives_the_partners_gram_matrix_and_this_is_stated():
    parts, labels = tables((200, 150))
    regression = FederatedLinearRegression(inference=True).fit(parts, labels)
    others = gram_from_table(regression, np.concatenate(labels).mean()) - joint(parts[:1], labels[:1])
    assert_close(others, joint(parts[1:], labels[1:]), digits_lost(5))
    assert enforced(parts, labels) == {"parties"}


def test_with_one_degree_of_freedom_who_knows_the_features_reads_all_labels_and_this_is_stated():
    parts, labels = tables((3, 2, 2))
    regression = FederatedLinearRegression(inference=True).fit(parts, labels)
    (model,) = regression.inference_
    assert model.df_residual == 1
    design = np.column_stack((np.ones(7), np.concatenate(parts)))
    left = np.linalg.svd(design)[0][:, -1]  # the one direction that no coefficient reaches
    guesses = [design @ model.coefficients + sign * model.sigma * left for sign in (1.0, -1.0)]
    truth = np.concatenate(labels)
    errors = [np.abs(guess - truth).max() / np.abs(truth).max() for guess in guesses]
    assert min(errors) < digits_lost(6)
    assert "freedom" in enforced(parts, labels)


def test_beyond_coefficients_and_a_sum_of_squares_a_table_says_nothing_of_single_labels():
    parts, labels = tables((120, 120, 120), p=5)
    where = Simulation(policy=Policy(enforce=True))
    regression = FederatedLinearRegression(inference=True, digits="all", federation=where).fit(parts, labels)
    design = np.column_stack((np.ones(360), np.concatenate(parts)))
    truth, (model,) = np.concatenate(labels), regression.inference_
    left = truth - design @ model.coefficients
    other = np.linalg.svd(design)[0][:, 6:] @ np.random.default_rng(2).normal(size=354)
    other *= np.linalg.norm(left) / np.linalg.norm(other)
    # Quite other labels with the same table: it says no more of them than coefficients and the sum of squares.
    again = FederatedLinearRegression(inference=True).fit(
        parts, np.split(design @ model.coefficients + other, [120, 240])
    )
    assert_close(again.inference_[0].covariance, model.covariance, digits_lost(6))
    assert np.abs(other - left).max() > model.sigma


def seen_by_csp(parts, labels, **options):
    certificate = FederatedLinearRegression(**options).fit(parts, labels).certificate_
    return [
        {link: n for link, n in account.items() if CSP in link}
        for account in (certificate.messages_by_link, certificate.bytes_by_link)
    ]


def test_inference_adds_two_sums_of_a_public_length_and_shows_the_csp_nothing():
    parts, labels = tables()
    counts, table = (
        seen_by_csp(parts, labels, masks=Masks(mode="A"), inference=inference)[0] for inference in (False, True)
    )
    # A share of each sum from every party, and the totals back.
    assert {link: table[link] - n for link, n in counts.items()} == dict.fromkeys(counts, 2)
    assert counts


def test_the_csp_does_not_see_whether_a_table_was_refined():
    parts, labels = tables()
    nearly = [X + 0.0 for X in parts]
    for X in nearly:
        X[:, 4] = X[:, 3] + 1e-6 * X[:, 4]
    usual, refined = (seen_by_csp(each, labels, inference=True) for each in (parts, nearly))
    assert usual == refined
    truth = np.linalg.cond(np.column_stack((np.ones(470), np.concatenate(nearly))))
    assert truth > 1e5, "such a table is refined"
