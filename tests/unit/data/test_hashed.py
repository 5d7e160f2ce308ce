"""A source that is hashed as it is read: one digest however it is read, another for every change, no second pass."""

import hashlib
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from fedsvd.data import hashed as hashed_sources
from fedsvd.data.hashed import HashedSource, hashed
from fedsvd.data.open import open_source
from fedsvd.engine.read_ahead import read_ahead

X = np.random.default_rng(2).normal(size=(7, 23))
EXPECTED = hashlib.sha256(np.array((7, 23, 1), "<u8").tobytes() + X.T.copy().tobytes()).digest()


class Counting:
    """How many columns were read."""

    def __init__(self, monkeypatch, source):
        self.columns = 0
        read = type(source).columns

        def counted(this, start, stop):
            self.columns += stop - start
            return read(this, start, stop)

        monkeypatch.setattr(type(source), "columns", counted)


@pytest.mark.parametrize("width", [1, 5, 23])
@pytest.mark.parametrize("ahead", [False, True])
def test_the_digest_is_that_of_the_columns_in_order_and_costs_no_second_pass(monkeypatch, width, ahead):
    base = open_source(X)
    counting = Counting(monkeypatch, base)
    source = hashed(base, 1)
    source = read_ahead(source) if ahead else source
    source.columns(0, 3)  # a shift is taken from the first panel, before the pass
    for _ in source.panels(1, width):
        pass
    read = counting.columns
    assert source.content_digest() == EXPECTED
    assert source.content_digest() == EXPECTED
    assert counting.columns == read


@pytest.mark.parametrize("done", [0, 1, 11])
def test_what_a_checkpoint_spared_is_read_for_the_digest(done):
    source = hashed(open_source(X), 1)
    source.rows(0, 7)
    source.columns(done, 23)
    assert source.content_digest() == EXPECTED


def test_what_is_known_is_not_hashed_again(monkeypatch):
    updates = []
    monkeypatch.setattr(hashed_sources, "begun_digest", lambda shape, axis: SimpleNamespace(update=updates.append))
    source = hashed(open_source(X), 1, lambda: b"known")
    for panel in source.panels(1, 5):
        assert panel.shape[0] == 7
    assert (source.content_digest(), updates) == (b"known", [])


def test_a_digest_that_no_longer_holds_is_made_of_all_entries():
    known = [b"known"]
    source = hashed(open_source(X), 1, lambda: known[0])
    for _ in source.panels(1, 5):
        pass
    known[0] = None
    assert source.content_digest() == EXPECTED
    known[0] = b"known"
    assert source.content_digest() == EXPECTED


def test_rows_are_hashed_where_the_plan_reads_rows():
    source = hashed(open_source(X), 0)
    for _ in source.panels(0, 2):
        pass
    assert source.content_digest() == hashlib.sha256(np.array((7, 23, 0), "<u8").tobytes() + X.tobytes()).digest()


def test_one_last_digit_changes_the_digest():
    other = X.copy()
    other[6, 22] = np.nextafter(other[6, 22], np.inf)
    assert hashed(open_source(other), 1).content_digest() != EXPECTED


def test_a_sparse_source_is_hashed_by_its_entries_and_still_gives_sparse_panels():
    S = sparse.random_array((40, 30), density=0.1, rng=np.random.default_rng(1), format="csr")
    source = hashed(open_source(S), 1)
    assert (source.sparse_columns(3, 9) != sparse.csc_array(S)[:, 3:9]).nnz == 0
    again = hashed(open_source(sparse.coo_array(S)), 1)
    assert source.content_digest() == again.content_digest()
    S.data[5] *= 2
    assert hashed(open_source(S), 1).content_digest() != again.content_digest()


def test_generated_matrices_commit_to_their_address_and_are_not_read():
    one, other = (open_source(f"synthetic://900000x1000?seed={seed}") for seed in (1, 2))
    assert not isinstance(hashed(one.T, 1), HashedSource)
    assert one.T.content_digest() != other.T.content_digest()
    assert len(one.T.content_digest()) == 32


def test_a_source_that_is_not_hashed_commits_to_nothing_but_its_shape():
    assert open_source(X).content_digest() == b""
