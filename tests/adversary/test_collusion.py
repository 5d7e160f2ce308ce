"""Adversary test 7: the CSP together with one user. Outside the model, and stated: what the local rotation T_i is for.

The colluders know P, Q and c, so they can take all masks off X' and are left with A_i T_i for every other user: its
Gram matrix, and nothing more of its columns. Without T_i they would read the columns themselves.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from tests.adversary.scores import uniform_bytes
from tests.adversary.watch import Truth, columns, csp_view, gram_of, in_data_units, integers, seen_by_csp, watched
from tests.tolerances import ACCEPTED, digits_lost

from fedsvd.audit.attacks.collusion import csp_and_user
from fedsvd.audit.attacks.score import correlations, gap
from fedsvd.linalg.windows import Form
from fedsvd.masks.orthogonal import orthogonal
from fedsvd.protocol.messages import PaddedBatch
from fedsvd.protocol.parties import CSP
from fedsvd.protocol.tasks import Mode, Split, Task
from fedsvd.randomness.keystream import Keystream
from fedsvd.roles.user.masking import Masks
from fedsvd.studies import planning
from fedsvd_lab.attacks.referee import beyond_rotation

M, WIDTHS = 60, (20, 30, 1)


@pytest.fixture
def colluder(monkeypatch):
    """What user 1 knows by itself: its own masks, in which P, Q and c are all users'. No other's are touched."""
    truth = Truth(monkeypatch)
    return lambda: truth.masks[1]


@dataclass(frozen=True)
class Unturned:
    """The identity in place of a rotation."""

    n: int

    def left(self, A):
        return A

    left_t = right = right_t = left

    def explicit(self):
        return np.eye(self.n)


@pytest.fixture
def without_rotations(monkeypatch):
    monkeypatch.setattr(Masks, "T_i", property(lambda masks: Unturned(masks.plan.widths[masks.i])))


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(1).gamma(1.0, size=(M, sum(WIDTHS)))


def test_csp_and_a_user_learn_the_gram_matrix_of_every_other_and_this_is_stated(X, colluder):
    outcome = watched(columns(X, WIDTHS), scheme="mask")
    for i in (1, 2):
        X_i = columns(X, WIDTHS)[i]
        A_i = in_data_units(csp_and_user(seen_by_csp(outcome), colluder(), i), X_i)
        assert gap(A_i @ A_i.T, X_i @ X_i.T) < digits_lost(4)


def test_but_its_columns_only_as_well_as_any_rotation_of_them_would_show(X, colluder):
    outcome = watched(columns(X, WIDTHS), scheme="mask")
    score, p = beyond_rotation(csp_and_user(seen_by_csp(outcome), colluder(), 1).T, columns(X, WIDTHS)[1].T)
    assert score < 0.6
    assert p > 0.01


@pytest.mark.usefixtures("without_rotations")
def test_without_the_local_rotation_they_would_read_the_columns_themselves(X, colluder):
    """The correction undone: the same attack, the same data."""
    outcome = watched(columns(X, WIDTHS), scheme="mask")
    X_i = columns(X, WIDTHS)[1]
    A_i = in_data_units(csp_and_user(seen_by_csp(outcome), colluder(), 1), X_i)
    assert gap(A_i, X_i) < digits_lost(4)
    score, p = beyond_rotation(A_i.T, X_i.T)
    assert score > 0.999
    assert p == 0.01  # the smallest there is with 99 rotations


def test_a_user_of_one_column_is_read_up_to_its_sign_and_this_is_stated(X, colluder):
    outcome = watched(columns(X, WIDTHS), scheme="mask")
    x = X[:, -1]
    A_i = in_data_units(csp_and_user(seen_by_csp(outcome), colluder(), 2)[:, 0], x)
    assert min(gap(A_i, x), gap(-A_i, x)) < digits_lost(4)


def test_the_columns_of_a_short_user_are_rotated_together(colluder, monkeypatch):
    """Three columns among 1,200 under a mixing Q: each by itself would be rotated by a sign."""
    monkeypatch.setattr(planning, "HAAR_RIGHT_LIMIT", 1)
    X = np.random.default_rng(2).standard_normal((M, 1200))
    parts = columns(X, (1197, 3))
    outcome = watched(parts, scheme="mask")
    assert outcome.plan.right is Form.MIXING
    A_i = in_data_units(csp_and_user(seen_by_csp(outcome), colluder(), 1), parts[1])
    assert gap(A_i @ A_i.T, parts[1] @ parts[1].T) < digits_lost(4)
    assert correlations(A_i.T, parts[1].T).max() < 0.97


def test_a_short_users_coefficients_come_back_through_its_one_rotation(monkeypatch):
    monkeypatch.setattr(planning, "HAAR_RIGHT_LIMIT", 1)
    rng = np.random.default_rng(4)
    X = rng.standard_normal((900, 600))
    y = X @ rng.standard_normal((600, 1))
    study = {"targets": 1, "label_user": 1, "labels": [y, None], "centre": False}
    outcome = watched(columns(X, (597, 3)), Task.LR, scheme="mask", **study)
    assert outcome.plan.right is Form.MIXING
    found = np.concatenate([party.coefficients[0] for party in outcome.parties])
    np.testing.assert_allclose(found, np.linalg.lstsq(X, y[:, 0])[0], rtol=digits_lost(7))


def test_in_a_sum_of_gram_matrices_csp_and_a_user_learn_the_sum_over_the_others_and_this_is_stated(monkeypatch):
    """Theorem 2: P and c are every user's. What is opened is one sum; of three users two remain in it."""
    rng, truth = np.random.default_rng(3), Truth(monkeypatch)
    parts = [rng.gamma(1.0, size=(n_i, 12)) for n_i in (40, 50, 30)]
    outcome = watched(parts, split=Split.HORIZONTAL, mode=Mode.B)
    own = [int(low) + (int(high) << 64) for low, high in truth.bare[1, "gram", 0]]
    left = [
        (a - b + 2**127) % 2**128 - 2**127 for a, b in zip(integers(csp_view(outcome), outcome.plan), own, strict=True)
    ]
    P = orthogonal(12, Keystream(truth.masks[1].seed.derive("P", "gram")), None).explicit()
    shown, others = P.T @ gram_of(12, left) @ P, sum(part.T @ part for part in parts[1:])
    assert gap(shown / np.trace(shown), others / np.trace(others)) < digits_lost(4)
    for part in parts[1:]:  # and not one of them
        assert gap(shown / np.trace(shown), part.T @ part / np.trace(part.T @ part)) > 1e-3
    # The shares themselves are under pads that the honest two have between them.
    for i in (2, 3):
        (padded,) = [m.payload for who, m in csp_view(outcome).of(CSP, PaddedBatch) if who.index == i]
        assert uniform_bytes(padded) > ACCEPTED
        assert uniform_bytes(padded - truth.bare[1, "gram", 0]) > ACCEPTED
