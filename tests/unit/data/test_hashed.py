"""A source that is hashed as it is read: one digest however it is read, another for every change, no second pass."""

import hashlib

import numpy as np
import pytest
from scipy import sparse

from fedsvd.data.hashed import HashedSource, hashed
from fedsvd.data.open import open_source
from fedsvd.engine.read_ahead import read_ahead
from fedsvd.errors import SourceChanged

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


def test_what_is_known_is_not_read_for_the_digest_and_is_compared_with_every_pass(monkeypatch):
    base = open_source(X)
    counting = Counting(monkeypatch, base)
    source = hashed(base, 1, lambda: EXPECTED)
    assert (source.content_digest(), counting.columns) == (EXPECTED, 0)
    for _ in source.panels(1, 5):
        pass
    other = hashed(open_source(X), 1, lambda: bytes(32))
    with pytest.raises(SourceChanged, match="FSVD-211"):
        for _ in other.panels(1, 5):
            pass


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("ahead", [False, True])
def test_a_second_pass_that_differs_in_one_digit_is_refused_when_it_ends(axis, ahead):
    table = X.copy()
    source = hashed(open_source(table), axis)
    source = read_ahead(source) if ahead else source
    for width in (5, 3):
        for _ in source.panels(axis, width):
            pass
    table[3, 11] = np.nextafter(table[3, 11], np.inf)
    with pytest.raises(SourceChanged, match="between two passes"):
        for _ in source.panels(axis, 4):
            pass


def test_the_first_panel_read_again_in_the_middle_of_a_pass_does_not_end_it(monkeypatch):
    """A checkpoint does that."""
    base = open_source(X)
    counting = Counting(monkeypatch, base)
    source = hashed(base, 1)
    for start in range(0, 23, 5):
        source.columns(start, min(start + 5, 23))
        source.columns(0, 5)
    read = counting.columns
    assert (source.content_digest(), counting.columns) == (EXPECTED, read)


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
