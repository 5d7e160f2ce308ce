"""Adversary test 7: the CSP together with one user. Outside the model, and stated: what the local rotation T_i is for.

The colluders know P, Q and c, so they can take all masks off X' and are left with A_i T_i for every other user: its
Gram matrix, and nothing more of its columns. Without T_i they would read the columns themselves.
"""

import numpy as np
import pytest
from tests.adversary.watch import Truth, columns, seen_by_csp, watched
from tests.tolerances import digits_lost

from fedsvd.lab.attacks.collusion import csp_and_user
from fedsvd.lab.attacks.score import beyond_rotation, correlations, gap
from fedsvd.protocol.tasks import Split, Task
from fedsvd.roles.user.masking import Masks
from fedsvd.runtime import planning

M, WIDTHS = 60, (20, 30, 1)


@pytest.fixture
def colluder(monkeypatch):
    """What user 1 knows by itself: its own masks, in which P, Q and c are everybody's. Nobody else's are touched."""
    truth = Truth(monkeypatch)
    return lambda: truth.masks[1]


@pytest.fixture
def without_rotations(monkeypatch):
    monkeypatch.setattr(Masks, "rotation", lambda self, w: None)
    monkeypatch.setattr(Masks, "whole", None)


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(1).gamma(1.0, size=(M, sum(WIDTHS)))


def test_csp_and_a_user_learn_the_gram_matrix_of_every_other_and_this_is_stated(X, colluder):
    outcome = watched(columns(X, WIDTHS), scheme="mask")
    for i in (1, 2):
        A_i, X_i = csp_and_user(seen_by_csp(outcome), colluder(), i), columns(X, WIDTHS)[i]
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
    A_i, X_i = csp_and_user(seen_by_csp(outcome), colluder(), 1), columns(X, WIDTHS)[1]
    assert gap(A_i, X_i) < digits_lost(4)
    score, p = beyond_rotation(A_i.T, X_i.T)
    assert score > 0.999
    assert p == 0.01  # the smallest there is with 99 rotations


def test_a_user_of_one_column_is_read_up_to_its_sign_and_this_is_stated(X, colluder):
    outcome = watched(columns(X, WIDTHS), scheme="mask")
    A_i, x = csp_and_user(seen_by_csp(outcome), colluder(), 2)[:, 0], X[:, -1]
    assert min(gap(A_i, x), gap(-A_i, x)) < digits_lost(4)


def test_a_short_user_is_rotated_across_all_windows_not_inside_each(colluder, monkeypatch):
    """Three columns in three windows: rotated window by window each would be its own rotation, a sign."""
    monkeypatch.setattr(planning, "HAAR_RIGHT_LIMIT", 1)
    X = np.random.default_rng(2).standard_normal((M, 1200))
    parts = columns(X, (1197, 3))
    outcome = watched(parts, scheme="mask", window=512)
    assert [window.columns[1].stop - window.columns[1].start for window in outcome.plan.right_windows] == [1, 1, 1]
    A_i = csp_and_user(seen_by_csp(outcome), colluder(), 1)
    assert gap(A_i @ A_i.T, parts[1] @ parts[1].T) < digits_lost(4)
    assert correlations(A_i.T, parts[1].T).max() < 0.97


def test_a_short_users_coefficients_come_back_through_its_one_rotation(monkeypatch):
    monkeypatch.setattr(planning, "HAAR_RIGHT_LIMIT", 1)
    rng = np.random.default_rng(4)
    X = rng.standard_normal((900, 600))
    y = X @ rng.standard_normal((600, 1))
    study = {"targets": 1, "label_user": 1, "labels": [y, None], "centre": False}
    outcome = watched(columns(X, (597, 3)), Task.LR, scheme="mask", window=520, **study)
    assert len(outcome.plan.right_windows) == 2
    found = np.concatenate([party.coefficients[0] for party in outcome.parties])
    np.testing.assert_allclose(found, np.linalg.lstsq(X, y[:, 0])[0], rtol=digits_lost(7))


def test_compressed_users_show_their_gram_matrix_and_not_one_record(colluder):
    rng = np.random.default_rng(3)
    parts = [rng.gamma(1.0, size=(n_i, 12)) for n_i in (40, 50)]
    outcome = watched(parts, split=Split.HORIZONTAL, scheme="sum")
    A_i = csp_and_user(seen_by_csp(outcome), colluder(), 1)
    assert gap(A_i @ A_i.T, parts[1].T @ parts[1]) < digits_lost(4)
    assert A_i.shape == (12, 12)
    assert correlations(A_i.T, parts[1]).max() < 0.99
