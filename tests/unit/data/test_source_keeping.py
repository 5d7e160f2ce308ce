"""How data is kept: views instead of copies, private files, inputs left as they were."""

import gc
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal

from fedsvd.data.open import open_source
from fedsvd.data.sparse import SparsePanels
from fedsvd.errors import NotFinite, StorageError

DTYPES = [np.bool_, np.int8, np.uint8, np.int32, np.int64, np.uint64, np.float16, np.float32, np.float64, ">f4"]


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_panels_of_any_shape_type_and_width_are_the_array_as_float64(data):
    shape = data.draw(hnp.array_shapes(min_dims=2, max_dims=2, max_side=12))
    dtype = np.dtype(data.draw(st.sampled_from(DTYPES)))
    elements = {"allow_nan": False, "allow_infinity": False} if dtype.kind == "f" else None
    array = data.draw(hnp.arrays(dtype, shape, elements=elements))
    array = np.asfortranarray(array) if data.draw(st.booleans()) else array
    axis, width = data.draw(st.sampled_from([0, 1])), data.draw(st.integers(1, 13))
    source, expected = open_source(array), array.astype(np.float64)
    assert source.dtype == dtype
    assert_array_equal(np.concatenate(list(source.panels(axis, width)), axis), expected, strict=True)
    assert_array_equal(np.concatenate(list(source.T.panels(axis, width)), axis), expected.T, strict=True)
    assert source.fingerprint() == open_source(expected.copy()).fingerprint()
    assert source.fingerprint() == open_source(sp.csc_array(expected)).fingerprint()


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_matrices_differing_in_one_entry_or_in_shape_differ_in_fingerprint(data):
    shape = data.draw(hnp.array_shapes(min_dims=2, max_dims=2, max_side=6))
    X = data.draw(hnp.arrays(np.float64, shape, elements=st.floats(-10, 10)))
    Z = X.copy()
    i, j = data.draw(st.integers(0, shape[0] - 1)), data.draw(st.integers(0, shape[1] - 1))
    Z[i, j] = np.nextafter(Z[i, j], 20.0)
    fingerprints = {open_source(A).fingerprint() for A in (X, Z, X.reshape(1, -1), X.reshape(-1, 1))}
    assert len(fingerprints) == 2 + len({shape, (1, X.size), (X.size, 1)}) - 1


def test_known_answer_of_a_fingerprint():
    # printf of the label, two uint64 and four float64, through sha256sum.
    expected = subprocess.run(
        ["sha256sum"],
        input=bytes.fromhex(
            "6665647376642f6d61747269782f3100"
            "0200000000000000"
            "0200000000000000"
            "000000000000f03f"
            "0000000000000040"
            "0000000000000000"
            "000000000000e0bf"
        ),
        capture_output=True,
        check=True,
    ).stdout.split()[0]
    assert open_source([[1.0, 2.0], [-0.0, -0.5]]).fingerprint() == expected.decode()


class TestViews:
    def test_panels_of_float64_arrays_share_their_memory(self):
        X = np.random.default_rng(0).normal(size=(6, 4))
        for array in (X, np.asfortranarray(X)):
            source = open_source(array, names=list("abcd"))
            for panel in (
                source.rows(1, 3),
                source.columns(1, 3),
                source.T.rows(0, 2),
                source.without(["a", "d"]).rows(0, 2),
                source.reordered([2, 3, 4]).rows(0, 2),
            ):
                assert np.shares_memory(panel, array)

    def test_an_array_stays_writeable_for_its_owner(self):
        X = np.ones((3, 3))
        panel = open_source(X).rows(0, 3)
        X[0, 0] = 5.0
        assert panel[0, 0] == 5.0

    def test_opening_a_source_again_gives_the_same_source(self):
        source = open_source(np.ones((2, 2)))
        assert open_source(source) is source


class TestSparse:
    def test_sparse_panels_are_the_blocks_of_the_matrix(self):
        rng = np.random.default_rng(5)
        X = rng.normal(size=(9, 7)) * (rng.random((9, 7)) < 0.3)
        for matrix in (sp.csr_array(X), sp.csc_matrix(X), sp.dok_array(X), sp.bsr_array(X), sp.dia_array(X)):
            source = open_source(matrix)
            for view, expected in ((source, X), (source.T, X.T)):
                assert isinstance(view, SparsePanels)
                rows, columns = view.sparse_rows(2, 6), view.sparse_columns(1, 4)
                assert rows.format == "csr"
                assert columns.format == "csc"
                assert_array_equal(rows.toarray(), expected[2:6])
                assert_array_equal(columns.toarray(), expected[:, 1:4])

    def test_whole_numbers_and_repeated_coordinates_add_up(self):
        matrix = sp.coo_array((np.array([1, 2, 3]), ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
        source = open_source(matrix)
        assert_array_equal(source.rows(0, 2), [[0, 3], [3, 0]])
        assert_array_equal(source.sparse_columns(0, 2).toarray(), [[0, 3], [3, 0]])

    def test_a_matrix_too_large_to_be_dense_is_read_in_panels(self):
        matrix = sp.coo_array(([1.5, 2.5], ([0, 10**6 - 1], [5, 10**6 - 1])), shape=(10**6, 10**6))
        source = open_source(matrix)
        assert source.rows(10**6 - 1, 10**6)[0, -1] == 2.5
        assert source.columns(5, 6)[0, 0] == 1.5


class TestInputsAreLeftAlone:
    def test_files_keep_every_byte(self, tmp_path):
        X = np.random.default_rng(0).normal(size=(20, 3))
        frame = pd.DataFrame(X, columns=list("abc"))
        np.save(tmp_path / "t.npy", X)
        sp.save_npz(tmp_path / "t.npz", sp.csr_array(X))
        frame.to_csv(tmp_path / "t.csv", index=False)
        frame.to_parquet(tmp_path / "t.parquet")
        before = {path: path.read_bytes() for path in tmp_path.iterdir()}
        for path in before:
            source = open_source(path)
            assert_array_equal(source.rows(0, 20), X)
            assert_array_equal(source.reordered(np.arange(20)[::-1]).columns(0, 3), X[::-1])
            source.fingerprint()
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before

    def test_objects_keep_every_entry(self):
        X = np.random.default_rng(0).normal(size=(8, 3)) * (np.arange(24).reshape(8, 3) % 3 > 0)
        unsorted = sp.csr_array(X)
        unsorted.data[:2], unsorted.indices[:2] = unsorted.data[1::-1].copy(), unsorted.indices[1::-1].copy()
        parts = [array.copy() for array in (unsorted.data, unsorted.indices, unsorted.indptr)]
        frame = pd.DataFrame(X, columns=list("abc"))
        copy = frame.copy()
        for data in (unsorted, frame):
            source = open_source(data)
            assert_array_equal(source.rows(0, 8), X)
            assert_array_equal(source.columns(0, 3), X)
            assert_array_equal(source.reordered([3, 1]).rows(0, 2), X[[3, 1]])
        for now, then in zip((unsorted.data, unsorted.indices, unsorted.indptr), parts, strict=True):
            assert_array_equal(now, then)
        pd.testing.assert_frame_equal(frame, copy)

    def test_an_order_is_copied(self):
        order = np.array([1, 0])
        source = open_source(np.array([[1.0], [2.0]])).reordered(order)
        order[:] = 0
        assert_array_equal(source.rows(0, 2), [[2.0], [1.0]])


OPEN = Path("/proc/self/fd")


def open_files() -> set[int]:
    """The numbers of the files that this process has open."""
    return {link.stat().st_ino for link in OPEN.iterdir() if link.exists()}


class TestTemporaryFiles:
    @pytest.fixture
    def states(self, monkeypatch):
        """The state of each temporary file at its making: permissions, and how many names it has."""
        states: list[os.stat_result] = []
        make = tempfile.TemporaryFile

        def watched(*arguments: object, **options: object) -> object:
            file = make(*arguments, **options)
            states.append(os.fstat(file.fileno()))
            return file

        monkeypatch.setattr(tempfile, "TemporaryFile", watched)
        return states

    @pytest.fixture
    def sources(self, tmp_path):
        """A text table and a reordered Parquet file, both read once so that they have been spooled."""
        (tmp_path / "scratch").mkdir()
        (tmp_path / "t.csv").write_text("a,b\n" + "1.5,2\n" * 1000)
        pq.write_table(pa.table({"a": np.arange(1000.0)}), tmp_path / "t.parquet")
        text = open_source(tmp_path / "t.csv", scratch=tmp_path / "scratch")
        columns = open_source(tmp_path / "t.parquet", scratch=tmp_path / "scratch")
        text.rows(0, 1000)
        columns.reordered(np.arange(1000)[::-1]).rows(0, 1000)
        return [text, columns]

    def test_have_no_name_and_are_readable_by_their_owner_only(self, states, sources, tmp_path):
        assert [stat.S_IMODE(state.st_mode) for state in states] == [0o600, 0o600]
        assert [state.st_nlink for state in states] == [0, 0]
        assert list((tmp_path / "scratch").iterdir()) == []

    @pytest.mark.skipif(not OPEN.exists(), reason="what a process has open is listed on Linux alone")
    def test_are_let_go_with_the_source_that_made_them(self, states, sources):
        made = {state.st_ino for state in states}
        assert made <= open_files()
        sources.clear()
        gc.collect()
        assert not made & open_files()

    def test_are_refused_where_the_scratch_folder_cannot_be_written(self, tmp_path):
        (tmp_path / "t.csv").write_text("1,2\n")
        with pytest.raises(StorageError, match="nowhere"):
            open_source(tmp_path / "t.csv", scratch=tmp_path / "nowhere")


def test_a_pass_in_order_enters_a_parquet_file_once(tmp_path, monkeypatch):
    pq.write_table(pa.table({"a": np.arange(100.0), "b": np.ones(100)}), tmp_path / "t.parquet", row_group_size=30)
    entries: list[object] = []
    enter = pq.ParquetFile.iter_batches

    def counted(self: pq.ParquetFile, *arguments: object, **options: object) -> object:
        entries.append(options["row_groups"])
        return enter(self, *arguments, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counted)
    source = open_source(tmp_path / "t.parquet")
    for panel, ones in zip(source.panels(0, 7), source.without(["a"]).panels(0, 7), strict=True):
        assert_array_equal(panel[:, 1:], ones)
    assert len(entries) == 2
    assert_array_equal(source.rows(65, 70)[:, 0], np.arange(65.0, 70.0))
    assert entries[2] == range(2, 4)


def test_an_array_imports_no_optional_library():
    code = (
        "import sys, numpy as np; from fedsvd.data.open import open_source;"
        "open_source(np.ones((2, 2))).fingerprint(); open_source([[1.0]]);"
        "print(sorted({'pandas', 'polars', 'pyarrow', 'narwhals', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("turned", [False, True])
def test_what_was_inspected_in_memory_is_not_checked_again_and_anew_with_every_inspection(turned):
    X = np.random.default_rng(0).standard_normal((20, 5))
    source = open_source(X)
    source = source.T if turned else source
    assert not source.known_finite
    source.inspect()
    assert source.known_finite
    assert_array_equal(source.rows(0, 3), X.T[:3] if turned else X[:3], strict=True)
    X[4, 2] = np.nan  # by its owner, before another session
    with pytest.raises(NotFinite, match="row 4, column 2"):
        source.inspect()
    assert not source.known_finite
    with pytest.raises(NotFinite):
        source.columns(0, source.shape[1])


def test_a_file_is_checked_whenever_it_is_read(tmp_path):
    np.save(tmp_path / "X.npy", np.ones((4, 3)))
    source = open_source(tmp_path / "X.npy")
    source.inspect()
    assert not source.known_finite
