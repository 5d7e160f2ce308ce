"""The arithmetic of layouts: where an entry lies, by hand-computed places."""

import numpy as np
import pytest

from fedsvd.errors import ConfigError
from fedsvd.storage.block_store import Access, Layout, full_slice, spans

NUMBERS = np.arange(6.0).reshape(2, 3)


def stored(layout: Layout, A: np.ndarray) -> list[float]:
    """The numbers of ``A`` in the order they lie in memory or on the disk; -1 where nothing was written."""
    flat = np.full(layout.size, -1.0)
    m, n = layout.shape
    layout.write(layout.arrange(flat), slice(0, m), slice(0, n), A)
    return flat.tolist()


def test_a_matrix_read_by_rows_lies_row_after_row():
    assert stored(Layout((2, 3), Access.BY_ROWS), NUMBERS) == [0, 1, 2, 3, 4, 5]


def test_a_matrix_read_by_columns_lies_column_after_column():
    assert stored(Layout((2, 3), Access.BY_COLUMNS), NUMBERS) == [0, 3, 1, 4, 2, 5]


def test_a_whole_slice_has_both_its_ends():
    assert full_slice("rows", slice(None), 7) == slice(0, 7)
    assert full_slice("rows", slice(3, None), 7) == slice(3, 7)
    assert full_slice("rows", slice(None, 0), 7) == slice(0, 0)
    assert full_slice("rows", slice(2, 5, 1), 7) == slice(2, 5)


def test_a_slice_that_python_would_cut_short_is_refused_by_name():
    with pytest.raises(ConfigError, match="rows 5:9"):
        full_slice("rows", slice(5, 9), 7)


def test_spans_cover_the_length_once():
    assert list(spans(7, 3)) == [slice(0, 3), slice(3, 6), slice(6, 7)]
    assert list(spans(6, 3)) == [slice(0, 3), slice(3, 6)]
