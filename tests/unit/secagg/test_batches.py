"""Mini-batches fit the budget, and a budget too small says which one would do."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsvd.errors import ConfigError, ShapeError
from fedsvd.secagg.batches import CHUNK, batch_rows, chunks, working_set


@settings(deadline=None)
@given(
    rows=st.integers(1, 5000),
    width=st.integers(1, 100_000),
    budget=st.integers(1, 10**9),
    held=st.integers(1, 51),
)
def test_batches_cover_all_rows_once_fit_the_budget_and_are_as_few_as_can_be(rows, width, budget, held):
    try:
        batches = batch_rows(rows, width, budget, held=held)
    except ConfigError as error:
        smallest = int(re.search(r"at least (\d+) bytes", error.fix)[1])
        assert budget < smallest == working_set(width, held)
        assert len(batch_rows(1, width, smallest, held=held)) == 1
        with pytest.raises(ConfigError):
            batch_rows(1, width, smallest - 1, held=held)
        return
    assert np.concatenate([np.arange(rows)[batch] for batch in batches]).tolist() == list(range(rows))
    lengths = [batch.stop - batch.start for batch in batches]
    assert max(lengths) - min(lengths) <= 1
    assert max(lengths) >= 1
    assert working_set(max(lengths) * width, held) <= budget
    if len(batches) > 1:
        fewer = -(-rows // (len(batches) - 1))
        assert working_set(fewer * width, held) > budget


def test_a_user_holds_floats_payload_and_scratch():
    assert working_set(10) == 10 * 8 * (2 + 3)
    assert working_set(10**6) == 8 * (2 * 10**6 + 3 * CHUNK)


def test_no_batch_has_2_to_the_31_entries():
    batches = batch_rows(1 << 20, 1 << 20, 1 << 60)
    assert max(batch.stop - batch.start for batch in batches) << 20 < 1 << 31


def test_a_row_beyond_2_to_the_31_entries_is_refused_whatever_the_budget():
    with pytest.raises(ConfigError, match="cut the columns first"):
        batch_rows(1, 1 << 31, 1 << 60)


@pytest.mark.parametrize("arguments", [(0, 1, 100), (1, 0, 100), (-1, 1, 100)])
def test_an_empty_payload_is_refused(arguments):
    with pytest.raises(ConfigError):
        batch_rows(*arguments)


def test_a_negative_budget_holds_nothing():
    with pytest.raises(ConfigError, match="at least 40 bytes"):
        batch_rows(1, 1, -5)


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (2, CHUNK + 1), (4, 7, 9), (0, 3), (3, 0), (2 * CHUNK + 5,)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_chunks_visit_every_entry_once_in_c_order(shape, order):
    array = np.asarray(np.arange(np.prod(shape, dtype=int)).reshape(shape), order=order)
    parts = [part for (part,) in chunks(array)]
    assert all(0 < part.size <= CHUNK and np.shares_memory(part, array) for part in parts)
    seen = np.concatenate([part.reshape(-1) for part in parts]) if parts else np.empty(0)
    np.testing.assert_array_equal(seen, array.reshape(-1))


def test_chunks_of_arrays_of_different_shape_are_refused():
    with pytest.raises(ShapeError):
        list(chunks(np.zeros(3), np.zeros(4)))
