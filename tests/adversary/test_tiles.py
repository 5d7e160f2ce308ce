"""Adversary test 2: tiles, empty tiles and order (C4).

A block mask turns each tile of X on its own: its singular values stand in X' unchanged, an empty tile is empty, and
columns stay with their neighbours. Clustering the windows of a table whose records are sorted by label then finds the
labels. Under haar and mixing masks the same eyes see nothing.
"""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score
from tests import datasets
from tests.adversary.watch import columns, csp_view, in_data_units, watched
from tests.tolerances import digits_lost

from fedsvd.audit.attacks.unmix import Cuts
from fedsvd.audit.attacks.view import X_masked
from fedsvd.linalg.windows import Form, block_sizes
from fedsvd.protocol.tasks import Item
from fedsvd.studies import planning
from fedsvd_lab.attacks.block_masks import alike_windows, empty_tiles, tile_spectra
from fedsvd_lab.published.play import play


@pytest.fixture
def small_mixing(mixing_masks, monkeypatch):
    """Mixing masks of blocks of any width, at sizes that haar masks would have."""
    monkeypatch.setattr(planning, "LEAST_BLOCK", 1)


def seen(X, **study):
    """X' of two users who hold half the columns each, as the CSP has it."""
    half = X.shape[1] // 2
    outcome = watched(columns(X, (half, X.shape[1] - half)), **study)
    return outcome.plan, in_data_units(X_masked(outcome.plan, csp_view(outcome)), X)


def as_published(X, b):
    """The same in the paper's scheme."""
    half = X.shape[1] // 2
    return play(columns(X, (half, X.shape[1] - half)), b=b, own_part=False, record=True).seen.Y


def tiles(Y, b):
    """Y cut as Algorithm 2 cuts it, row blocks by column blocks."""
    rows = np.split(Y, np.cumsum(block_sizes(Y.shape[0], b))[:-1], axis=0)
    return [np.split(row, np.cumsum(block_sizes(Y.shape[1], b))[:-1], axis=1) for row in rows]


def spectra(Y, b):
    return tile_spectra(Y, Cuts.of_width(Y.shape, b))


def sparse_table(m, n, b):
    """Whole numbers in half of the tiles, nothing in the others."""
    rng = np.random.default_rng(11)
    full = rng.random((len(block_sizes(m, b)), len(block_sizes(n, b)))) < 0.5
    X = rng.integers(1, 6, (m, n)) * (rng.random((m, n)) < 0.4).astype(float)
    X *= np.repeat(np.repeat(full, block_sizes(m, b), axis=0), block_sizes(n, b), axis=1)
    return X, full


def test_the_papers_masks_show_every_tile_spectrum_exactly_and_all_empty_tiles():
    b = 10
    X, full = sparse_table(60, 123, b)
    Y = as_published(X, b)
    scale = np.linalg.norm(X, 2)
    assert np.abs(spectra(Y, b) - spectra(X, b)).max() < digits_lost(4) * scale
    assert np.array_equal(empty_tiles(Y, Cuts.of_width(Y.shape, b)), ~full)


def test_haar_masks_show_no_tile():
    b = 10
    X, _ = sparse_table(60, 123, b)
    plan, Y = seen(X, scheme="mask")
    assert (plan.left, plan.right) == (Form.HAAR, Form.HAAR)
    no_tile_stands_out(Y, X, b)


@pytest.mark.usefixtures("small_mixing")
def test_mixing_masks_show_no_tile():
    b = 10
    X, _ = sparse_table(60, 123, b)
    plan, Y = seen(X, scheme="mask", block_size=b)
    assert (plan.left, plan.right) == (Form.MIXING, Form.MIXING)
    no_tile_stands_out(Y, X, b)


def no_tile_stands_out(Y, X, b):
    """No tile is empty, all have about the same energy; where Y is as wide as X, it has nothing to do with X's."""
    energy, true = (np.array([[np.linalg.norm(tile) for tile in row] for row in tiles(Z, b)]) for Z in (Y, X))
    assert energy.max() < 3.0 * energy.min()
    assert true.min() == 0.0
    if energy.shape == true.shape:
        assert abs(np.corrcoef(energy.ravel(), true.ravel())[0, 1]) < 4.0 / np.sqrt(true.size)


def sorted_digits():
    X, labels = load_digits(return_X_y=True)
    order = np.argsort(labels, kind="stable")
    return X[order].T, labels[order]


def sorted_mnist():
    X, labels = datasets.mnist()
    order = np.argsort(labels[:3000], kind="stable")
    return X[:3000][order].T, labels[:3000][order]


def clusters_agree(Y, labels, b):
    """The adjusted Rand index of windows clustered by their tile spectra against the labels of their records."""
    sizes = block_sizes(Y.shape[1], b)
    found = alike_windows(Y, Cuts.of_width(Y.shape, b), 10)
    truth = [np.bincount(part).argmax() for part in np.split(labels, np.cumsum(sizes)[:-1])]
    return adjusted_rand_score(truth, found)


def test_the_order_of_sorted_digits_shows_through_block_masks_and_not_through_haar():
    X, labels = sorted_digits()
    Y = as_published(X, 8)
    assert clusters_agree(Y, labels, 8) > 0.55
    plan, Y = seen(X, scheme="mask")
    assert plan.right is Form.HAAR
    assert abs(clusters_agree(Y, labels, 8)) < 0.1


@pytest.mark.usefixtures("small_mixing")
def test_the_order_of_sorted_digits_does_not_show_through_a_mixing_mask():
    X, labels = sorted_digits()
    plan, Y = seen(X, scheme="mask", block_size=8)
    assert plan.right is Form.MIXING
    assert abs(clusters_agree(Y, labels, 8)) < 0.1


@pytest.mark.slow
def test_the_order_of_sorted_mnist_shows_through_block_masks_and_not_through_haar():
    X, labels = sorted_mnist()
    Y = as_published(X, 28)
    assert clusters_agree(Y, labels, 28) > 0.85
    _, Y = seen(X, scheme="mask", components=5, release=(Item.COMPONENTS, Item.SPECTRUM))
    assert abs(clusters_agree(Y, labels, 28)) < 0.1
