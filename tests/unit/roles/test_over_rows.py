"""Passes over rows: slabs in several threads where the data lies in memory, panels one by one where it does not."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests import explicit
from tests.tolerances import assert_close, product
from tests.unit.roles.test_panels_of_y import plan

from fedsvd.data.open import open_source
from fedsvd.protocol.tasks import Task
from fedsvd.roles.user.columns import Columns
from fedsvd.roles.user.masking import Masks
from fedsvd.roles.user.work import Work

ROWS = 60_000  # several slabs
X = np.random.default_rng(0).normal(1.0, 2.0, size=(ROWS, 6)) * 10.0 ** np.arange(6)


def in_threads(work, pieces):
    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(work, pieces))


def columns_of(source, each=None, weights=None, alpha=0.0):
    agreed = plan(ROWS, task=Task.LR, targets=1, centre=True, alpha=alpha)
    own, masks = explicit.seed(2), Masks(agreed, 0, explicit.seed(1), explicit.seed(2), each=each)
    return Columns.of(Work(agreed, 0, source, masks, own, own, row_weights=weights))


def unusual(kind):
    """Columns whose first rows say nothing of the others, or whose means are far from zero."""
    Y = X.copy()
    if kind == "sorted":
        Y.sort(axis=0)
    elif kind == "far":
        Y += 1e4 * 10.0 ** np.arange(6)
    else:
        Y[:, 2] = 0.1
        Y[64:, 4] = 3.7e4
    return Y


@pytest.mark.parametrize("kind", ["sorted", "far", "constant"])
@pytest.mark.parametrize("weighted", [False, True])
def test_columns_of_unusual_data_are_those_of_numpy(kind, weighted):
    Y, w = unusual(kind), np.random.default_rng(1).normal(size=(6, 2))
    weights = np.random.default_rng(3).uniform(0.5, 2.0, ROWS) if weighted else None
    columns = columns_of(open_source(Y), in_threads, weights)
    mean = np.average(Y, axis=0, weights=weights)
    root = np.ones((ROWS, 1)) if weights is None else np.sqrt(weights)[:, None]
    scaled = (Y - mean) * columns.inverse * root
    # A mean far from zero costs digits of NumPy's own differences.
    bar = product(ROWS, 8) * (1.0 + np.max(np.abs(mean) / Y.std(axis=0), where=columns.inverse > 0, initial=0.0))
    assert_close(columns.mean + columns.rest, mean, product(ROWS, 8), np.abs(Y).mean())
    assert_close(columns.squared, (scaled**2).sum(axis=0), bar, np.linalg.norm(scaled) ** 2)
    assert_close(columns.times(w), scaled @ w, bar, np.linalg.norm(scaled))
    assert columns.constant == ((2,) if kind == "constant" else ())


def test_rows_of_a_ridge_are_multiplied_too():
    w, alpha = np.random.default_rng(1).normal(size=(6, 2)), 9.0
    columns = columns_of(open_source(X), alpha=alpha)
    expected = np.sqrt(alpha) * columns.inverse[:, None] * w
    found = columns.times(w)[ROWS : ROWS + 6]
    assert_close(found, expected, product(6, 8), np.linalg.norm(expected))
    by_rows = columns.rows(0, ROWS + 6) @ w
    assert_close(columns.times(w)[: ROWS + 6], by_rows, product(ROWS, 8), np.linalg.norm(by_rows))


@pytest.mark.parametrize("each", [None, in_threads])
def test_columns_are_those_of_numpy_whatever_reads_them(each, tmp_path):
    np.save(tmp_path / "X.npy", X)
    w = np.random.default_rng(1).normal(size=(6, 2))
    centred = X - X.mean(axis=0)
    for source in (open_source(X), open_source(tmp_path / "X.npy")):
        columns = columns_of(source, each)
        scaled = centred * columns.inverse
        bar = product(ROWS, 8)
        assert_close(columns.mean + columns.rest, X.mean(axis=0), bar, np.abs(X).mean())
        assert_close(columns.squared, (scaled**2).sum(axis=0), bar, np.linalg.norm(scaled) ** 2)
        assert_close(columns.times(w), scaled @ w, bar, np.linalg.norm(scaled))


def test_every_row_is_read_once_and_in_order():
    agreed, own = plan(ROWS), explicit.seed(2)
    for source in (open_source(X), open_source(X[:, :3]).T.T):
        work = Work(agreed, 0, source, Masks(agreed, 0, own, own, each=in_threads), own, own)
        places = work.over_rows("columns", ROWS, 6, lambda place: place)
        assert len(places) > 1
        assert [row for place in places for row in range(place.start, place.stop)] == list(range(ROWS))
