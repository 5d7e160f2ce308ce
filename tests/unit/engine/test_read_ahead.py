"""One panel ahead: the same panels, one reader at a time, never more than one waiting."""

import threading

import numpy as np
import pytest

from fedsvd.compress.reduce import compress
from fedsvd.data.open import open_source
from fedsvd.data.source import MatrixSource
from fedsvd.engine.read_ahead import ReadAhead, read_ahead
from fedsvd.errors import NotFinite

X = np.random.default_rng(0).normal(size=(7, 50))


class Watched(MatrixSource):
    """Counts who reads, and what."""

    def __init__(self, X):
        super().__init__(X.shape, X.dtype)
        self.X, self.read, self.readers, self.within = X, [], set(), 0

    def _cells(self, rows, columns):
        self.within += 1
        assert self.within == 1, "two readers at once"
        self.readers.add(threading.current_thread().name)
        self.read.append((columns.start, columns.stop))
        panel = self.X[rows, columns]
        self.within -= 1
        return panel


def test_a_pass_forward_has_the_next_panel_waiting():
    base = Watched(X)
    source = ReadAhead(base)
    for start in range(0, 50, 8):
        np.testing.assert_array_equal(source.columns(start, min(start + 8, 50)), X[:, start : start + 8])
    assert base.read == [(start, min(start + 8, 50)) for start in range(0, 50, 8)], "each once, and nothing beyond"
    assert threading.current_thread().name not in base.readers


def test_one_panel_waits_and_no_more():
    base = Watched(X)
    source = ReadAhead(base)
    source.columns(0, 8)
    source.content_digest()  # asked for after what is being read
    assert base.read == [(0, 8), (8, 16)]


def test_who_jumps_about_gets_what_was_asked_for_and_nothing_is_read_in_vain():
    base = Watched(X)
    source = ReadAhead(base)
    for start in (40, 16, 24, 8):
        np.testing.assert_array_equal(source.columns(start, start + 8), X[:, start : start + 8])
    source.content_digest()  # asked for after what is being read
    assert base.read == [(40, 48), (16, 24), (24, 32), (32, 40), (8, 16)]
    np.testing.assert_array_equal(source.rows(2, 5), X[2:5])
    np.testing.assert_array_equal(source.T.rows(2, 5), X[:, 2:5].T)


def test_a_fault_in_the_next_panel_is_raised_where_that_panel_is_asked_for():
    bad = X.copy()
    bad[3, 20] = np.nan
    source = ReadAhead(open_source(bad))
    source.columns(0, 16)
    with pytest.raises(NotFinite, match="column 20"):
        source.columns(16, 32)


def test_a_factor_read_ahead_is_the_same_factor():
    panels = {"panel": 16}
    np.testing.assert_array_equal(
        compress(ReadAhead(open_source(X)), **panels).L_i, compress(open_source(X), **panels).L_i
    )


def test_sparse_sources_stay_as_they_are_and_made_ones_stay_made_up():
    ratings = open_source("synthetic-ratings://60x90?density=0.1")
    assert read_ahead(ratings) is ratings
    made = read_ahead(open_source("synthetic://5x60?seed=1"))
    assert made.made_up
    assert made.fingerprint() == open_source("synthetic://5x60?seed=1").fingerprint()
