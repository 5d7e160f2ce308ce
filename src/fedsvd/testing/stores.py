"""What every block store and every spool must do, whatever it is made of: suites to subclass.

Subclass ``BlockStoreTests``, say how one is made, and pytest runs the laws of the
interface against it. The reference is always a plain NumPy array (or list) in memory.
"""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsvd.errors import ConfigError, ShapeError, StorageError
from fedsvd.storage.block_store import Access, BlockStore
from fedsvd.types import Array, Float

EVERYTHING = slice(None)


@st.composite
def shapes_and_blocks(draw: st.DrawFn) -> tuple[tuple[int, int], list[tuple[slice, slice]]]:
    """A shape and some (rows, cols) rectangles inside it."""
    m, n = draw(st.integers(1, 40)), draw(st.integers(1, 40))

    def span(length: int) -> slice:
        start = draw(st.integers(0, length))
        return slice(start, draw(st.integers(start, length)))

    return (m, n), [(span(m), span(n)) for _ in range(draw(st.integers(1, 6)))]


class BlockStoreTests(ABC):
    """The laws of ``BlockStore``."""

    @abstractmethod
    def make(self, shape: tuple[int, int], access: Access, scratch: Path) -> BlockStore:
        """A fresh store."""

    @pytest.fixture(params=list(Access), ids=lambda access: access.value)
    def access(self, request: pytest.FixtureRequest) -> Access:
        return Access(request.param)

    def filled(self, access: Access, scratch: Path, shape: tuple[int, int] = (13, 9)) -> tuple[BlockStore, Float]:
        A = np.random.default_rng(1).normal(size=shape)
        store = self.make(shape, access, scratch)
        store.write(EVERYTHING, EVERYTHING, A)
        return store, A

    def test_random_writes_and_reads_agree_with_a_plain_array(self, access: Access, tmp_path: Path) -> None:
        @settings(max_examples=30, deadline=None)
        @given(plan=shapes_and_blocks(), seed=st.integers(0, 99))
        def agree(plan: tuple[tuple[int, int], list[tuple[slice, slice]]], seed: int) -> None:
            shape, rectangles = plan
            rng = np.random.default_rng(seed)
            expected = np.zeros(shape)
            with self.make(shape, access, tmp_path) as store:
                for rows, cols in rectangles:
                    block = rng.normal(size=expected[rows, cols].shape)
                    expected[rows, cols] = block
                    store.write(rows, cols, block)
                    np.testing.assert_array_equal(store.read(rows, cols), block)
                for rows, cols in rectangles:
                    np.testing.assert_array_equal(store.read(rows, cols), expected[rows, cols])
                np.testing.assert_array_equal(store.read(EVERYTHING, EVERYTHING), expected)

        agree()

    def test_what_was_never_written_reads_as_zero(self, access: Access, tmp_path: Path) -> None:
        with self.make((7, 5), access, tmp_path) as store:
            store.write(slice(2, 3), slice(1, 4), np.ones((1, 3)))
            A = store.read(EVERYTHING, EVERYTHING)
            assert A.shape == (7, 5)
            assert A.sum() == 3.0

    @pytest.mark.parametrize("axis", [0, 1])
    @pytest.mark.parametrize("width", [1, 4, 9, 100])
    def test_panels_tile_the_matrix_in_order(self, axis: int, width: int, access: Access, tmp_path: Path) -> None:
        store, A = self.filled(access, tmp_path)
        with store:
            spans, panels = zip(*store.panels(axis, width), strict=True)
            np.testing.assert_array_equal(np.concatenate(panels, axis=axis), A)
            assert [span.start for span in spans] == list(range(0, A.shape[axis], width))
            assert spans[-1].stop == A.shape[axis]

    def test_a_float32_or_transposed_block_is_stored_by_value(self, access: Access, tmp_path: Path) -> None:
        block: Array = np.arange(12, dtype=np.float32).reshape(4, 3).T
        with self.make((3, 4), access, tmp_path) as store:
            store.write(EVERYTHING, EVERYTHING, block)
            block[:] = -1
            A = store.read(EVERYTHING, EVERYTHING)
            assert A.dtype == np.float64
            np.testing.assert_array_equal(A, np.arange(12.0).reshape(4, 3).T)

    def test_what_is_read_cannot_be_written_to(self, access: Access, tmp_path: Path) -> None:
        store, A = self.filled(access, tmp_path)
        with store:
            for rows in (EVERYTHING, slice(3, 5)):
                with pytest.raises(ValueError, match="read-only"):
                    store.read(rows, EVERYTHING)[0, 0] = 0.0
            store.write(EVERYTHING, EVERYTHING, -A)
            np.testing.assert_array_equal(store.read(EVERYTHING, EVERYTHING), -A)

    @pytest.mark.parametrize("rows", [slice(0, 14), slice(-2, 3), slice(5, 4), slice(0, 8, 2), slice(14, 14)])
    def test_a_block_outside_the_matrix_is_refused(self, rows: slice, access: Access, tmp_path: Path) -> None:
        store, A = self.filled(access, tmp_path)
        with store:
            with pytest.raises(ConfigError):
                store.read(rows, EVERYTHING)
            with pytest.raises(ConfigError):
                store.write(rows, EVERYTHING, A)

    def test_a_block_of_the_wrong_shape_is_refused_and_changes_nothing(self, access: Access, tmp_path: Path) -> None:
        store, A = self.filled(access, tmp_path)
        with store:
            for wrong in (np.ones((1, 9)), np.ones((9, 4)), np.ones(9), np.ones((4, 9, 1))):
                with pytest.raises(ShapeError):
                    store.write(slice(0, 4), EVERYTHING, wrong)
            np.testing.assert_array_equal(store.read(EVERYTHING, EVERYTHING), A)

    def test_a_shape_that_is_no_matrix_is_refused(self, access: Access, tmp_path: Path) -> None:
        wrong: Any = ((0, 3), (3, 0), (-1, 2), (3,), (1, 2, 3))
        for shape in wrong:
            with pytest.raises(ConfigError):
                self.make(shape, access, tmp_path)
        assert list(tmp_path.iterdir()) == []

    def test_panels_refuse_a_wrong_axis_or_width_at_once(self, access: Access, tmp_path: Path) -> None:
        store, _ = self.filled(access, tmp_path)
        with store:
            for axis, width in ((2, 1), (-1, 1), (0, 0), (1, -3)):
                with pytest.raises(ConfigError):
                    store.panels(axis, width)

    def test_a_closed_store_answers_nothing_and_leaves_nothing(self, access: Access, tmp_path: Path) -> None:
        store, A = self.filled(access, tmp_path)
        panels = store.panels(0, 2)
        next(panels)
        store.close()
        store.close()
        with pytest.raises(StorageError, match="closed"):
            store.read(EVERYTHING, EVERYTHING)
        with pytest.raises(StorageError, match="closed"):
            store.write(EVERYTHING, EVERYTHING, A)
        with pytest.raises(StorageError, match="closed"):
            next(panels)
        assert list(tmp_path.iterdir()) == []

    def test_a_view_held_past_close_still_reads_what_it_read(self, access: Access, tmp_path: Path) -> None:
        store, A = self.filled(access, tmp_path)
        view = store.read(EVERYTHING, EVERYTHING)
        store.close()
        np.testing.assert_array_equal(view, A)

    def test_repr_shows_the_shape_and_no_entry(self, access: Access, tmp_path: Path) -> None:
        with self.make((3, 4), access, tmp_path) as store:
            store.write(EVERYTHING, EVERYTHING, np.full((3, 4), 271.828))
            assert "3 x 4" in repr(store)
            assert "271" not in repr(store)
