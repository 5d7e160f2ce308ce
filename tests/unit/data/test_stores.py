"""AnnData, DuckDB, ``numpy.savez`` and data frames with an index: parts, labels, annotations and refusals."""

import sys
from pathlib import Path

import anndata
import duckdb
import h5py
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from fedsvd.data.open import located, open_source
from fedsvd.errors import ConfigError, DuplicateNames, EmptyData, MissingExtra, NotFinite, UnknownFormat

CELLS, GENES = 40, 12


@pytest.fixture
def counts():
    rng = np.random.default_rng(4)
    return rng.poisson(0.7, size=(CELLS, GENES)).astype(np.float32)


@pytest.fixture
def cells(counts):
    rng = np.random.default_rng(5)
    batch = pd.Categorical([*rng.choice(["lab a", "lab b"], CELLS - 1), None])
    obs = pd.DataFrame({"batch": batch, "age": rng.integers(20, 80, CELLS)}, index=[f"cell{i}" for i in range(CELLS)])
    var = pd.DataFrame(index=[f"gene{j}" for j in range(GENES)])
    return anndata.AnnData(sp.csr_array(counts), obs, var, layers={"log": np.log1p(counts)})


class TestAnnData:
    @pytest.fixture(params=["object", "file", "backed object"])
    def given(self, request, cells, tmp_path):
        cells.write_h5ad(tmp_path / "t.h5ad")
        if request.param == "object":
            return cells
        return tmp_path / "t.h5ad" if request.param == "file" else anndata.read_h5ad(tmp_path / "t.h5ad", backed="r")

    def test_names_labels_and_annotations_are_read(self, given, cells):
        source = open_source(given)
        assert source.names == tuple(cells.var_names)
        assert source.row_labels().tolist() == cells.obs_names.tolist()
        assert source.column("obs_names").tolist() == cells.obs_names.tolist()
        assert_array_equal(source.column("age"), cells.obs["age"].to_numpy())
        text, missing = source.text("batch")
        assert_array_equal(missing, cells.obs["batch"].isna())
        assert_array_equal(text[~missing], cells.obs["batch"].dropna().astype(str))
        with pytest.raises(NotFinite, match="column 'batch'"):
            source.column("batch")

    def test_annotations_are_no_part_of_the_matrix_and_can_be_left_out(self, given, counts):
        source = open_source(given).without(["obs_names", "age", "gene3"]).reordered([5, 2])
        assert_array_equal(source.rows(0, 2), np.delete(counts, 3, axis=1)[[5, 2]].astype(np.float64))
        assert source.without(["age"]).shape == source.shape
        assert source.column("obs_names").tolist() == ["cell5", "cell2"]

    def test_a_layer_is_chosen_by_name(self, given, counts):
        assert_array_equal(open_source(given, part="log").rows(0, CELLS), np.log1p(counts).astype(np.float64))
        with pytest.raises(UnknownFormat, match=r"no layer 'raw'.*one of log"):
            open_source(given, part="raw")

    def test_a_layer_of_a_file_is_named_after_its_path(self, cells, tmp_path):
        cells.write_h5ad(tmp_path / "t.h5ad")
        assert open_source(f"{tmp_path}/t.h5ad#log").shape == (CELLS, GENES)

    @pytest.mark.parametrize("form", [sp.csr_array, sp.csc_array])
    def test_a_sparse_file_gives_sparse_panels_both_ways_however_it_is_stored(
        self, form, counts, tmp_path, monkeypatch
    ):
        monkeypatch.setattr("fedsvd.data.h5ad.BLOCK_ENTRIES", 17)
        anndata.AnnData(form(counts)).write_h5ad(tmp_path / "t.h5ad")
        source = open_source(tmp_path / "t.h5ad")
        for start, stop in ((0, CELLS), (3, 9), (7, 7)):
            assert_array_equal(source.sparse_rows(start, stop).toarray(), counts[start:stop])
        for start, stop in ((0, GENES), (3, 9), (7, 7)):
            assert_array_equal(source.sparse_columns(start, stop).toarray(), counts[:, start:stop])
        assert_array_equal(source.T.sparse_rows(2, 5).toarray(), counts.T[2:5])
        source.inspect()

    def test_an_entry_that_is_not_finite_is_named(self, counts, tmp_path):
        counts[5, 7] = np.nan
        anndata.AnnData(sp.csc_array(counts)).write_h5ad(tmp_path / "t.h5ad")
        with pytest.raises(NotFinite, match="row 5, column '7'"):
            open_source(tmp_path / "t.h5ad").inspect()

    def test_damaged_and_foreign_files_are_refused(self, cells, tmp_path):
        (tmp_path / "a.h5ad").write_bytes(b"no HDF5")
        with h5py.File(tmp_path / "b.h5ad", "w") as file:
            file["X"] = np.ones((2, 2))
        for name in ("a.h5ad", "b.h5ad"):
            with pytest.raises(UnknownFormat, match=r"not an \.h5ad"):
                open_source(tmp_path / name)
        cells.write_h5ad(tmp_path / "c.h5ad")
        with h5py.File(tmp_path / "c.h5ad", "r+") as file:
            file["X/indices"][0] = GENES
        with pytest.raises(UnknownFormat, match="an index leaves the matrix"):
            open_source(tmp_path / "c.h5ad").inspect()

    def test_genes_of_one_name_are_refused(self, counts):
        with pytest.warns(UserWarning, match="not unique"):
            cells = anndata.AnnData(counts, var=pd.DataFrame(index=["g"] * GENES))
        with pytest.raises(DuplicateNames):
            open_source(cells)

    def test_without_h5py_the_extra_is_named(self, cells, tmp_path, monkeypatch):
        cells.write_h5ad(tmp_path / "t.h5ad")
        monkeypatch.setitem(sys.modules, "h5py", None)
        with pytest.raises(MissingExtra, match="h5py"):
            open_source(tmp_path / "t.h5ad")


class TestDuckDB:
    @pytest.fixture
    def database(self, tmp_path):
        with duckdb.connect(str(tmp_path / "clinic.duckdb")) as connection:
            connection.execute("CREATE TABLE visits (id TEXT, age INTEGER, dose DECIMAL(6, 2), seen DATE)")
            connection.execute(
                "INSERT INTO visits VALUES ('p1', 61, 1.25, '2024-01-01'), ('p0', NULL, 2.5, '2024-01-02'), "
                "('p2', 40, 0.5, NULL)"
            )
        return tmp_path / "clinic.duckdb"

    def test_a_query_is_a_table_with_text_numbers_and_gaps(self, database):
        source = open_source(f"duckdb://{database}?query=SELECT * FROM visits ORDER BY id", drop=["id", "seen"])
        assert source.names == ("age", "dose")
        assert_array_equal(source.raw(slice(0, 3), slice(0, 2)), [[np.nan, 2.5], [61, 1.25], [40, 0.5]])
        assert_array_equal(source.column("id"), ["p0", "p1", "p2"])
        assert source.text("seen")[0].tolist() == ["2024-01-02", "2024-01-01", ""]

    def test_an_encoded_address_is_decoded(self, database):
        source = open_source(f"duckdb://{database}?query=SELECT+age%2B1+AS+next+FROM+visits+WHERE+age%3E50")
        assert_array_equal(source.rows(0, 1), [[62]])

    def test_anything_but_one_select_is_refused_and_nothing_is_changed(self, database, tmp_path):
        before = database.read_bytes()
        queries = ("DROP TABLE visits", "SELECT 1; SELECT 2", f"COPY visits TO '{tmp_path}/out.csv'", "INSTALL httpfs")
        for query in queries:
            with pytest.raises(ConfigError, match="not one SELECT"):
                open_source(f"duckdb://{database}?query={query}")
        assert database.read_bytes() == before
        assert not (tmp_path / "out.csv").exists()

    def test_faults_name_what_to_check_and_quote_no_cell(self, database, tmp_path):
        for query, advice in (
            ("SELEC age FROM visits", "correct the SQL"),
            ("SELECT * FROM nowhere", "names of tables"),
            ("SELECT weight FROM visits", "names of columns"),
        ):
            with pytest.raises(UnknownFormat, match=advice):
                open_source(f"duckdb://{database}?query={query}")
        with pytest.raises(UnknownFormat) as caught:
            open_source(f"duckdb://{database}?query=SELECT id::INTEGER FROM visits")
        assert "p1" not in str(caught.value)
        with pytest.raises(EmptyData, match="no rows"):
            open_source(f"duckdb://{database}?query=SELECT * FROM visits WHERE age > 100")
        with pytest.raises(UnknownFormat, match="no database"):
            open_source(f"duckdb://{tmp_path}/none.duckdb?query=SELECT 1")
        with pytest.raises(ConfigError, match="asks for nothing"):
            open_source(f"duckdb://{database}")
        (tmp_path / "text.duckdb").write_text("no database")
        with pytest.raises(UnknownFormat, match="not a database"):
            open_source(f"duckdb://{tmp_path}/text.duckdb?query=SELECT 1")

    def test_files_that_fit_a_path_are_one_table_by_the_names_of_their_columns(self, tmp_path):
        (tmp_path / "part-1.csv").write_text("x,y\n1,2\n3,4\n")
        (tmp_path / "part-2.csv").write_text("y,x\n6,5\n")
        (tmp_path / "other.csv").write_text("x,y\n7,8\n")
        source = open_source(tmp_path / "part-*.csv")
        assert source.names == ("x", "y")
        assert_array_equal(source.rows(0, 3), [[1, 2], [3, 4], [5, 6]])
        with pytest.raises(UnknownFormat, match="no file fits"):
            open_source(tmp_path / "none-*.parquet")
        with pytest.raises(UnknownFormat, match="no reader for"):
            open_source(tmp_path / "part-*.xlsx")

    def test_the_database_of_a_job_file_lies_relative_to_it(self, database, tmp_path):
        address = located("clinic.duckdb", tmp_path)
        assert address == tmp_path / "clinic.duckdb"
        address = located("duckdb://clinic.duckdb?query=SELECT age FROM visits WHERE age > 50", tmp_path)
        assert_array_equal(open_source(address).rows(0, 1), [[61]])
        assert located("synthetic://5x2", tmp_path) == "synthetic://5x2"

    def test_without_duckdb_the_extra_is_named(self, database, monkeypatch):
        monkeypatch.setitem(sys.modules, "duckdb", None)
        with pytest.raises(MissingExtra, match="DuckDB"):
            open_source(f"duckdb://{database}?query=SELECT 1")


class TestSavez:
    def test_the_array_is_the_only_table_or_is_named(self, tmp_path):
        X, Y = np.arange(6.0).reshape(2, 3), np.ones((2, 2), np.int16)
        np.savez(tmp_path / "t.npz", X=X, labels=np.ones(2))
        assert_array_equal(open_source(tmp_path / "t.npz").rows(0, 2), X)
        np.savez_compressed(tmp_path / "t.npz", X=X, Y=Y)
        with pytest.raises(UnknownFormat, match="2 two-dimensional arrays"):
            open_source(tmp_path / "t.npz")
        assert_array_equal(open_source(f"{tmp_path}/t.npz#Y", names=["a", "b"]).rows(0, 2), Y.astype(float))
        with pytest.raises(UnknownFormat, match="no array 'Z'"):
            open_source(tmp_path / "t.npz", part="Z")

    def test_objects_are_refused_unread(self, tmp_path):
        np.savez(tmp_path / "t.npz", X=np.array([[object()]], dtype=object), allow_pickle=True)
        with pytest.raises(Exception, match="FSVD-202"):
            open_source(tmp_path / "t.npz", part="X")

    def test_a_damaged_file_is_refused(self, tmp_path):
        np.savez(tmp_path / "t.npz", X=np.ones((50, 50)))
        whole = (tmp_path / "t.npz").read_bytes()
        (tmp_path / "t.npz").write_bytes(whole[: len(whole) // 2])
        with pytest.raises(UnknownFormat, match=r"no \.npz"):
            open_source(tmp_path / "t.npz")

    def test_a_stored_array_is_read_where_it_lies_and_never_mapped(self, tmp_path):
        X = np.random.default_rng(1).normal(size=(100, 7))
        np.savez(tmp_path / "t.npz", other=np.ones(3), X=X)
        source = open_source(tmp_path / "t.npz")
        if Path("/proc/self/maps").exists():  # on Linux a process can see what it has mapped
            assert str(tmp_path / "t.npz") not in Path("/proc/self/maps").read_text()
        assert_array_equal(source.rows(0, 100), X)


class TestFramesWithAnIndex:
    FRAME = pd.DataFrame({"x": [1.0, None]}, index=pd.Index(["p1", "p0"], name="patient"))

    def test_the_index_is_read_by_its_name_and_is_no_column(self):
        source = open_source(self.FRAME)
        assert source.names == ("x",)
        assert source.column("patient").tolist() == ["p1", "p0"]
        assert source.without(["patient"]).names == ("x",)
        assert source.reordered([1]).column("patient").tolist() == ["p0"]

    def test_gaps_are_nan_in_raw_cells_and_refused_in_panels(self):
        for frame in (self.FRAME, pl.DataFrame({"x": [1.0, None]})):
            source = open_source(frame)
            assert_array_equal(source.raw(slice(0, 2), slice(0, 1)), [[1.0], [np.nan]])
            with pytest.raises(NotFinite):
                source.rows(0, 2)

    def test_text_with_gaps_is_text_and_a_mask(self):
        for frame in (pd.DataFrame({"t": ["a ", None]}), pl.DataFrame({"t": ["a ", None]})):
            text, missing = open_source(frame).text("t")
            assert text.tolist() == ["a", ""]
            assert missing.tolist() == [False, True]

    def test_infinite_entries_are_no_gaps(self):
        with pytest.raises(NotFinite, match="1 entries are infinite, the first at row 1"):
            open_source(np.array([[1.0], [np.inf]])).raw(slice(0, 2), slice(0, 1))


class TestParquet:
    def test_the_schema_is_made_once_however_many_columns_are_read(self, tmp_path, monkeypatch):
        """PyArrow makes it of all columns whenever it is asked: once for each column took minutes at 600 columns."""
        import pyarrow.parquet as parquet

        cells = np.random.default_rng(6).standard_normal((30, 25))
        pd.DataFrame(cells, columns=[f"c{j}" for j in range(25)]).to_parquet(tmp_path / "t.parquet")
        made, schema = [], parquet.ParquetFile.schema_arrow
        monkeypatch.setattr(
            parquet.ParquetFile, "schema_arrow", property(lambda self: made.append(1) or schema.fget(self))
        )
        source = open_source(tmp_path / "t.parquet")
        opened = len(made)
        assert_array_equal(np.vstack([source.rows(start, start + 10) for start in (0, 10, 20)]), cells)
        assert len(made) == opened
