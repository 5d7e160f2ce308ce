"""Adversary test 5: a CSP that knows something of the data beforehand.

*Known columns.* Under block masks, who knows the b columns of one window reads P off it by Procrustes, and with P the
Gram matrix of all parties' data. *A constant column.* A column of ones has the same norm in every row block, which is
enough to find its image under P (C10). Under haar and mixing masks both attacks are at chance.
"""

import numpy as np
import pytest
from tests.adversary.watch import Truth, columns, csp_view, in_data_units, watched
from tests.tolerances import digits_lost

from fedsvd.audit.attacks.score import gap
from fedsvd.audit.attacks.unmix import Cuts
from fedsvd.audit.attacks.view import X_masked
from fedsvd.linalg.windows import Form
from fedsvd.protocol.tasks import Task
from fedsvd.studies import planning
from fedsvd_lab.attacks.block_masks import (
    KnownColumns,
    KnownTile,
    constant_direction,
    cosine,
    from_known_columns,
    from_known_rows,
    from_known_tile,
)
from fedsvd_lab.attacks.referee import up_to_signs
from fedsvd_lab.published.play import play

B = 10
MIXING = {"scheme": "mask", "block_size": B}


@pytest.fixture
def truth(monkeypatch):
    return Truth(monkeypatch)


@pytest.fixture
def small_mixing(mixing_masks, monkeypatch):
    """Mixing masks of many blocks at these sizes: with the least block a study may have, one block would be all."""
    monkeypatch.setattr(planning, "LEAST_BLOCK", B)


def seen(parts, task=Task.SVD, **study):
    outcome = watched(parts, task, **study)
    Y = X_masked(outcome.plan, csp_view(outcome))
    return outcome.plan, in_data_units(Y, np.hstack(parts)) if task is Task.SVD else Y


def as_published(parts, y=None):
    """The same study in the paper's scheme, as it was published."""
    return play(parts, y, label_user=None if y is None else 1, b=B, record=True)


# Known columns.


def blocks(Y):
    return Cuts.of_width(Y.shape, B).rows


def opened(Y, known):
    return from_known_columns(Y, Cuts.of_width(Y.shape, B), KnownColumns(known, slice(0, B)))


def gram(A):
    return A @ A.T


def off_diagonal_correlation(found, true):
    above = np.triu_indices(len(true), 1)
    return float(np.corrcoef(found[above], true[above])[0, 1])


@pytest.fixture(scope="module")
def table():
    """Sixty rows that are far from alike, so that there is something to recover."""
    rng = np.random.default_rng(3)
    return rng.standard_normal((60, 4)) @ rng.standard_normal((4, 80)) + rng.standard_normal((60, 80))


def test_b_known_columns_open_the_papers_masks_exactly(table):
    Y = as_published(columns(table, (30, 50))).seen.Y
    assert gap(gram(opened(Y, table[:, :B])), gram(table)) < digits_lost(8)


def test_so_do_b_known_rows(table):
    Y = as_published(columns(table, (30, 50))).seen.Y
    found = from_known_rows(Y, Cuts.of_width(Y.shape, B), KnownColumns(table[:B].T, slice(0, B)))
    assert gap(gram(found.T), gram(table.T)) < digits_lost(8)


def test_one_known_tile_gives_its_two_blocks_of_the_masks_but_for_signs(table):
    played = as_published(columns(table, (30, 50)))
    known, (P, Q) = KnownTile(table[B : 2 * B, :B], 1, 0), played.masks
    P_a_U, Vt_Q_b = from_known_tile(played.seen.Y, Cuts.of_width(table.shape, B), known)
    U, _, Vt = np.linalg.svd(known.X)
    assert up_to_signs(P_a_U, P.window(1).left(U)) < digits_lost(6)
    assert up_to_signs(Vt_Q_b.T, (Vt @ Q.rows(0, 0)).T) < digits_lost(6)


def test_fewer_known_columns_than_b_do_not(table):
    Y = as_published(columns(table, (30, 50))).seen.Y
    assert gap(gram(opened(Y, table[:, : B - 1])), gram(table)) > 0.1


def test_under_haar_masks_known_columns_say_nothing(table):
    plan, Y = seen(columns(table, (30, 50)), scheme="mask")
    assert (plan.left, plan.right) == (Form.HAAR, Form.HAAR)
    at_chance(gram(opened(Y, table[:, :B])), gram(table))


@pytest.mark.usefixtures("small_mixing")
def test_under_mixing_masks_known_columns_say_nothing(table):
    plan, Y = seen(columns(table, (30, 50)), **MIXING)
    assert (plan.left, plan.right) == (Form.MIXING, Form.MIXING)
    at_chance(gram(opened(Y, table[:, :B])), gram(table))


def at_chance(found, true):
    # Entries of a Gram matrix of sixty rows count for about sixty, not for sixty times thirty, independent ones.
    assert abs(off_diagonal_correlation(found, true)) < 4.0 / np.sqrt(len(true))


# A constant column.


N = 100


def regression(seed, m=600):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, N - 1)) * np.exp(rng.standard_normal((m, 1)) / 2)  # rows of different size, as in life
    y = X @ rng.standard_normal((N - 1, 1)) + rng.standard_normal((m, 1))
    return X, y


def best_cosine(Y, true):
    """The best the attack does over all windows of Y's columns; P 1 lies in their span, so chance is 1 / sqrt(N)."""
    return max(cosine(constant_direction(Y[:, first : first + B], blocks(Y)), true) for first in range(0, N - B, B))


CHANCE = 4.5 / np.sqrt(N)


def P_times_ones(truth, m):
    return truth.masks[1].P.left(np.ones((m, 1)))[:, 0]


def of_the_last_block(played):
    """P 1 as the CSP finds it from the last block of columns, and as it is."""
    Y, (P, _) = played.seen.Y, played.masks
    found = constant_direction(Y[:, played.setting.right[-1].outputs], blocks(Y))
    return cosine(found, P.left(np.ones((len(Y), 1)))[:, 0])


def test_the_papers_column_of_ones_gives_away_its_image_under_p():
    X, y = regression(4)
    played = as_published(columns(X, (50, 49)), y)
    assert played.setting.widths == (50, 50)
    assert of_the_last_block(played) > 1.0 - digits_lost(7)


def test_our_regression_masks_no_column_of_ones(truth):
    X, y = regression(4)
    lr = {"targets": 1, "label_user": 1, "labels": [y, None]}
    plan, Y = seen(columns(X, (50, 49)), Task.LR, scheme="mask", **lr)
    assert plan.widths == (50, 49)
    Y = Y[:, : plan.N]
    # Centred columns are orthogonal to the ones, so even their span is.
    assert best_cosine(Y, P_times_ones(truth, 600)) < digits_lost(7)


def test_a_constant_column_in_the_data_is_found_under_blocks_and_not_under_haar(truth):
    """Plain SVD keeps its data as it is; here the masks alone must hide it."""
    X, _ = regression(5)
    X = np.concatenate((X, np.ones((600, 1))), axis=1)
    assert of_the_last_block(as_published(columns(X, (50, 50)))) > 1.0 - digits_lost(7)
    plan, Y = seen(columns(X, (50, 50)), scheme="mask")
    assert plan.left is Form.HAAR
    assert best_cosine(Y, P_times_ones(truth, 600)) < CHANCE


@pytest.mark.usefixtures("small_mixing")
def test_a_constant_column_is_not_found_under_mixing_masks(truth):
    X, _ = regression(5)
    X = np.concatenate((X, np.ones((600, 1))), axis=1)
    plan, Y = seen(columns(X, (50, 50)), **MIXING)
    assert plan.left is Form.MIXING
    assert best_cosine(Y, P_times_ones(truth, 600)) < CHANCE
