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

ROWS = 30_000  # several slabs
X = np.random.default_rng(0).normal(1.0, 2.0, size=(ROWS, 6)) * 10.0 ** np.arange(6)


def in_threads(work, pieces):
    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(work, pieces))


def columns_of(source, each=None):
    agreed = plan(ROWS, task=Task.LR, targets=1, centre=True)
    own = explicit.seed(2)
    return Columns.of(Work(agreed, 0, source, Masks(agreed, 0, explicit.seed(1), own, each=each), own, own))


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
