"""Files of every format after seeded damage: read as a table, or refused by an error of ours with a code and a fix."""

import random

import anndata
import numpy as np
import openpyxl
import pandas as pd
import pytest
import scipy.sparse as sp
from tests.mutations import damaged, damaged_inside

from fedsvd.data.open import open_source
from fedsvd.errors import FedSVDError

duckdb = pytest.importorskip("duckdb")
rng = np.random.default_rng(12)
X = rng.normal(size=(40, 4))
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(ward=[f"ward {i % 3}" for i in range(40)])
QUICK, ALL = 40, 500


def _xlsx(path):
    book = openpyxl.Workbook()
    for row in [list(FRAME), *FRAME.to_numpy().tolist()]:
        book.active.append(row)
    book.save(path)


def _h5ad(path, table=X):
    anndata.AnnData(table, obs=FRAME[["ward"]].astype("category").set_index(FRAME.index.astype(str))).write_h5ad(path)


def _duckdb(path):
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT range AS a, range * 1.5 AS b FROM range(40)")


WRITERS = {
    "t.npy": lambda path: np.save(path, X),
    "f.npy": lambda path: np.save(path, np.asfortranarray(X.astype(np.float32))),
    "t.npz": lambda path: np.savez(path, X),
    "c.npz": lambda path: np.savez_compressed(path, X),
    "s.npz": lambda path: sp.save_npz(path, sp.random_array((40, 6), density=0.3, rng=rng, format="csr")),
    "t.parquet": lambda path: FRAME.to_parquet(path, row_group_size=10),
    "t.csv": lambda path: FRAME.to_csv(path, index=False),
    "t.csv.gz": lambda path: FRAME.to_csv(path, index=False),
    "t.xlsx": _xlsx,
    "t.h5ad": _h5ad,
    "s.h5ad": lambda path: _h5ad(path, sp.csr_array(np.where(np.abs(X) > 0.5, X, 0.0))),
    "t.duckdb": _duckdb,
}
ZIPPED = ("t.npz", "c.npz", "s.npz", "t.xlsx")


def _read(path):
    """All that a study may ask of a table."""
    source = open_source(f"duckdb://{path}?query=SELECT * FROM t" if path.suffix == ".duckdb" else path)
    source.faults()
    for name in source.names or ():
        if name in source.text_names:
            source.text(name)
            source.column(name)
    numbers = source.without(source.text_names)
    for read in (numbers.rows, numbers.columns, numbers.T.rows):
        read(0, 1)
    numbers.raw(slice(0, numbers.shape[0]), slice(0, numbers.shape[1]))
    numbers.reordered(np.arange(numbers.shape[0])[::-1]).rows(0, numbers.shape[0])
    if source.label_name is not None:
        source.row_labels()
        source.text("ward")


def _tried(tmp_path, kind, count, seed):
    """How many of the damaged files were read, and how many refused."""
    path = tmp_path / kind
    WRITERS[kind](path)
    content, draw = path.read_bytes(), random.Random(f"{kind} {seed}")
    read, refusals = 0, []
    for number in range(count):
        inside = kind in ZIPPED and number % 2
        path.write_bytes((damaged_inside if inside else damaged)(content, draw))
        try:
            _read(path)
            read += 1
        except FedSVDError as error:
            refusals.append(error)
    assert all(error.code != "FSVD-000" and error.fault and error.fix for error in refusals)
    return read, len(refusals)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", WRITERS)
def test_a_damaged_file_is_read_or_refused_by_an_error_of_ours(tmp_path, kind):
    read, refused = _tried(tmp_path, kind, QUICK, "quick")
    assert refused > 0
    assert read + refused == QUICK


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", WRITERS)
def test_five_hundred_damaged_files_of_a_format_are_read_or_refused_by_an_error_of_ours(tmp_path, kind):
    read, refused = _tried(tmp_path, kind, ALL, "all")
    assert refused > 0
    assert read + refused == ALL


@pytest.mark.parametrize("kind", [kind for kind in WRITERS if kind != "t.duckdb"])
def test_a_file_that_is_whole_is_read(tmp_path, kind):
    WRITERS[kind](tmp_path / kind)
    _read(tmp_path / kind)
