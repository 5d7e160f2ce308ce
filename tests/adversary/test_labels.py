"""What the CSP learns of labels and coefficients in a regression (the ledger's LR lines), from its view alone.

Labels go up blinded: y plus X_i a_i of every user, each a_i known to one user. The CSP then sees a regression whose
coefficients are w + a, and residuals, which no a can hide.
"""

import numpy as np
import pytest
from tests.adversary.watch import G_masked, Truth, columns, csp_view, view_of, watched
from tests.tolerances import digits_lost

from fedsvd.audit.attacks.view import X_masked
from fedsvd.protocol.messages import Solution
from fedsvd.protocol.parties import user
from fedsvd.protocol.tasks import Mode, Split, Task

M, WIDTHS = 200, (6, 9)
VERTICAL = {"targets": 1, "label_user": 1, "centre": False}


@pytest.fixture(scope="module")
def data():
    """Columns and labels whose scales are powers of two already, so that the CSP's w has our own units."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((M, sum(WIDTHS)))
    X *= 0.75 / np.sqrt(np.mean(X**2, axis=0))
    w = rng.standard_normal((sum(WIDTHS), 1))
    y = X @ w + rng.standard_normal((M, 1))
    scale = 0.75 / np.sqrt(np.mean(y**2))
    return X, y * scale


def fit(X, y):
    w = np.linalg.lstsq(X, y)[0]
    return w, float(np.linalg.norm(y - X @ w))


def test_the_csp_learns_residual_norms_and_this_is_stated(data):
    X, y = data
    outcome = watched(columns(X, WIDTHS), Task.LR, scheme="mask", labels=[y, None], **VERTICAL)
    power = np.log2(label_unit(X_masked(outcome.plan, csp_view(outcome)), X, y))
    assert power == pytest.approx(np.rint(power), abs=digits_lost(7))


def label_unit(joint, X, y):
    """The unit of the labels in that of the features: a power of two that the CSP is not told, by their residuals."""
    _, shown = fit(joint[:, :-1], joint[:, -1:])
    c = np.linalg.svd(joint[:, :-1], compute_uv=False)[0] / np.linalg.svd(X, compute_uv=False)[0]
    return shown / c / fit(X, y)[1]


def test_the_csp_does_not_learn_the_norm_of_the_coefficients(data):
    """w' is w + a under a rotation: its norm is that of the sum, and a is larger than w."""
    X, y = data
    outcome = watched(columns(X, WIDTHS), Task.LR, scheme="mask", labels=[y, None], **VERTICAL)
    joint = X_masked(outcome.plan, csp_view(outcome))
    w_masked, true = fit(joint[:, :-1], joint[:, -1:])[0], fit(X, y)[0]
    assert np.linalg.norm(w_masked) / label_unit(joint, X, y) > 2.0 * np.linalg.norm(true)


def test_a_user_sees_the_others_coefficients_only_plus_a_secret(data, monkeypatch):
    """w' goes to all users, who all know Q: of user 2's part user 1 gets T_2^T (w_2 + a_2), a norm and no more."""
    X, y = data
    truth = Truth(monkeypatch)
    outcome = watched(columns(X, WIDTHS), Task.LR, scheme="mask", labels=[y, None], **VERTICAL)
    ((_, solution),) = view_of(outcome, user(1)).of(user(1), Solution)
    unit = label_unit(X_masked(outcome.plan, csp_view(outcome)), X, y)
    seen = truth.masks[1].Q.right_t(1, solution.w_masked.T) / unit
    partner = outcome.parties[1].coefficients
    assert np.linalg.norm(seen) > 2.0 * np.linalg.norm(partner)
    # The scaled coefficients are |w_2 + a_2| long, with a_2 about 2 in every place.
    assert np.linalg.norm(seen) == pytest.approx(2.0 * np.sqrt(WIDTHS[1]), rel=0.5)


def test_regressions_on_split_rows_hide_the_fit_from_the_csp(data):
    """The label row goes up as y + a^T X, a from the group seed: what the CSP solves for is w + a."""
    X, y = data
    study = {"targets": 1, "split": Split.HORIZONTAL, "centre": False}
    outcome = watched(np.split(X, [90]), Task.LR, scheme="sum", labels=np.split(y, [90]), mode=Mode.B, **study)
    G = G_masked(outcome)
    w_masked = np.linalg.solve(G[:-1, :-1], G[:-1, -1])
    true, own = fit(X, y)
    assert np.linalg.norm(w_masked) > 2.0 * np.linalg.norm(true)
    residual = G[-1, -1] - w_masked @ G[:-1, -1]
    ratio = residual / np.linalg.eigvalsh(G[:-1, :-1])[-1]
    assert ratio == pytest.approx((own / np.linalg.svd(X, compute_uv=False)[0]) ** 2, rel=digits_lost(10))  # stated
