"""One matrix in every format that can be read, for tests that ask the same of all of them."""

import gzip
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import anndata
import duckdb
import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from fedsvd.data.open import open_source
from fedsvd.data.source import MatrixSource
from fedsvd.types import Float

NAMES = ("age", "height", "weight", "dose", "score")


class Tensor:
    """Another library's array: it can only show itself to NumPy."""

    def __init__(self, X: Float) -> None:
        self._X = X

    def __array__(self, dtype: object = None, copy: object = None) -> Float:
        return self._X


def text_table(X: Float, delimiter: str = ",", header: bool = True, ids: bool = False) -> str:
    """The matrix as text; ``repr`` of a float reads back as the same float."""
    names = ["id", *NAMES[: X.shape[1]]] if ids else NAMES[: X.shape[1]]
    lines = [delimiter.join(names)] if header else []
    for i, row in enumerate(X.tolist()):
        lines.append(delimiter.join([f"p{i}"] * ids + [repr(entry) for entry in row]))
    return "\n".join(lines) + "\n"


def _frame(X: Float) -> pd.DataFrame:
    return pd.DataFrame(X, columns=list(NAMES[: X.shape[1]]))


def _file(folder: Path, name: str, write: Callable[[Path], object]) -> MatrixSource:
    path = folder / name
    write(path)
    path.chmod(0o400)
    return open_source(path)


def _npy(array: Float) -> Callable[[Path], object]:
    return lambda path: np.save(path, array)


def _csv(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text)


def _parquet(X: Float) -> Callable[[Path], object]:
    return lambda path: pq.write_table(pa.Table.from_pandas(_frame(X)), path, row_group_size=3)


def _inside_parquet(X: Float) -> Callable[[Path], object]:
    frame = _frame(X)
    frame.insert(1, "id", [f"p{i}" for i in range(len(X))])
    return lambda path: frame.to_parquet(path, row_group_size=4)


def _strided(X: Float) -> Float:
    wide = np.full((2 * X.shape[0], 3 * X.shape[1]), np.nan)
    wide[::2, ::3] = X
    return wide[::2, ::3]


def _memmap(folder: Path, X: Float) -> MatrixSource:
    (folder / "raw").write_bytes(X.tobytes())
    return open_source(np.memmap(folder / "raw", dtype=np.float64, mode="r", shape=X.shape))


def _plain_csv(folder: Path, X: Float) -> MatrixSource:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        return _file(folder, "plain.csv", _csv(text_table(X)))


def _reordered(source: MatrixSource, X: Float) -> MatrixSource:
    """The rows were stored backwards and are put right again."""
    return source.reordered(np.arange(len(X))[::-1])


def _sheet(X: Float) -> Callable[[Path], object]:
    workbook = openpyxl.Workbook()
    workbook.active.append(list(NAMES[: X.shape[1]]))
    for row in X.tolist():
        workbook.active.append([entry if np.isfinite(entry) else str(entry) for entry in row])

    def write(path: Path) -> None:
        # openpyxl writes 16 digits; Excel itself writes 17, as many as a float has.
        workbook.save(path)
        numbers = iter(X[np.isfinite(X)].tolist())
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        sheet = members["xl/worksheets/sheet1.xml"].decode()
        sheet = re.sub(r't="n"><v>[^<]*</v>', lambda _: f't="n"><v>{next(numbers)!r}</v>', sheet)
        members["xl/worksheets/sheet1.xml"] = sheet.encode()
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)

    return write


def _anndata(X: object) -> anndata.AnnData:
    rows, columns = X.shape  # type: ignore[attr-defined]
    obs = pd.DataFrame(index=[f"c{i}" for i in range(rows)])
    return anndata.AnnData(X, obs, pd.DataFrame(index=list(NAMES[:columns])))


def _h5ad(X: object) -> Callable[[Path], object]:
    return lambda path: _anndata(X).write_h5ad(path)


def _database(folder: Path, X: Float) -> MatrixSource:
    table = pa.Table.from_pandas(_frame(X).assign(place=np.arange(len(X))))
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.register("given", table)
        connection.execute("CREATE OR REPLACE TABLE visits AS SELECT * FROM given ORDER BY place DESC")
    query = "SELECT * EXCLUDE (place) FROM visits ORDER BY place"
    return open_source(f"duckdb://{folder / 't.duckdb'}?query={query}")


def _parts(folder: Path, X: Float) -> MatrixSource:
    for place, start in enumerate(range(0, len(X), 4)):
        pq.write_table(pa.Table.from_pandas(_frame(X[start : start + 4])), folder / f"part-{place}.parquet")
    return open_source(folder / "part-*.parquet")


FORMATS: dict[str, Callable[[Path, Float], MatrixSource]] = {
    "array in C order": lambda _, X: open_source(np.ascontiguousarray(X)),
    "array in Fortran order": lambda _, X: open_source(np.asfortranarray(X)),
    "array of every third column": lambda _, X: open_source(_strided(X)),
    "array, big-endian": lambda _, X: open_source(X.astype(">f8")),
    "masked array": lambda _, X: open_source(np.ma.masked_array(X)),
    "mapped array": _memmap,
    "nested list": lambda _, X: open_source(X.tolist()),
    "tensor-like": lambda _, X: open_source(Tensor(X)),
    "npy in C order": lambda folder, X: _file(folder, "c.npy", _npy(np.ascontiguousarray(X))),
    "npy in Fortran order": lambda folder, X: _file(folder, "f.npy", _npy(np.asfortranarray(X))),
    "csv": lambda folder, X: _file(folder, "a.csv", _csv(text_table(X))),
    "csv without pyarrow": _plain_csv,
    "csv without header": lambda folder, X: _file(folder, "b.csv", _csv(text_table(X, header=False))),
    "csv with semicolons": lambda folder, X: _file(folder, "c.csv", _csv(text_table(X, ";"))),
    "csv with bars": lambda folder, X: _file(folder, "d.csv", _csv(text_table(X, "|"))),
    "csv with tabs": lambda folder, X: _file(folder, "e.csv", _csv(text_table(X, "\t"))),
    "tsv": lambda folder, X: _file(folder, "f.tsv", _csv(text_table(X, "\t"))),
    "csv, gzipped": lambda folder, X: _file(
        folder, "g.csv.gz", lambda path: path.write_bytes(gzip.compress(text_table(X).encode()))
    ),
    "csv with decimal commas": lambda folder, X: _file(folder, "j.csv", _csv(text_table(X, ";").replace(".", ","))),
    "csv of decimal commas without header": lambda folder, X: _file(
        folder, "k.csv", _csv(text_table(X, ";", header=False).replace(".", ","))
    ),
    "csv in UTF-16": lambda folder, X: _file(
        folder, "l.csv", lambda path: path.write_bytes(text_table(X, "\t").encode("utf-16"))
    ),
    "xlsx": lambda folder, X: _file(folder, "a.xlsx", _sheet(X)),
    "npz, stored": lambda folder, X: _file(folder, "b.npz", lambda path: np.savez(path, X=X, y=X[:, 0])),
    "npz, compressed": lambda folder, X: _file(folder, "c.npz", lambda path: np.savez_compressed(path, X=X)),
    "npz, Fortran order": lambda folder, X: _file(folder, "d.npz", lambda path: np.savez(path, np.asfortranarray(X))),
    "npz, Fortran order, compressed": lambda folder, X: _file(
        folder, "e.npz", lambda path: np.savez_compressed(path, np.asfortranarray(X))
    ),
    "h5ad": lambda folder, X: _file(folder, "a.h5ad", _h5ad(X)),
    "h5ad, sparse rows": lambda folder, X: _file(folder, "b.h5ad", _h5ad(sp.csr_array(X))),
    "h5ad, sparse columns": lambda folder, X: _file(folder, "c.h5ad", _h5ad(sp.csc_array(X))),
    "h5ad reordered": lambda folder, X: _reordered(_file(folder, "d.h5ad", _h5ad(X[::-1])), X),
    "AnnData": lambda _, X: open_source(_anndata(X)),
    "AnnData, sparse": lambda _, X: open_source(_anndata(sp.csr_array(X))),
    "duckdb": _database,
    "Parquet parts by a glob": _parts,
    "csv without its ids": lambda folder, X: _file(folder, "h.csv", _csv(text_table(X, ids=True))).without(["id"]),
    "csv reordered": lambda folder, X: _reordered(_file(folder, "i.csv", _csv(text_table(X[::-1]))), X),
    "parquet": lambda folder, X: _file(folder, "a.parquet", _parquet(X)),
    "parquet without its ids": lambda folder, X: _file(folder, "b.parquet", _inside_parquet(X)).without(["id"]),
    "parquet reordered": lambda folder, X: _reordered(_file(folder, "c.parquet", _parquet(X[::-1])), X),
    "parquet reordered without its ids": lambda folder, X: _reordered(
        _file(folder, "d.parquet", _inside_parquet(X[::-1])), X
    ).without(["id"]),
    "sparse rows": lambda _, X: open_source(sp.csr_array(X)),
    "sparse columns": lambda _, X: open_source(sp.csc_array(X)),
    "sparse matrix": lambda _, X: open_source(sp.coo_matrix(X)),
    "sparse npz": lambda folder, X: _file(folder, "a.npz", lambda path: sp.save_npz(path, sp.csr_array(X))),
    "sparse reordered": lambda _, X: _reordered(open_source(sp.lil_array(X[::-1])), X),
    "pandas": lambda _, X: open_source(_frame(X)),
    "pandas with numbered columns": lambda _, X: open_source(pd.DataFrame(X)),
    "pandas reordered": lambda _, X: _reordered(open_source(_frame(X[::-1])), X),
    "polars": lambda _, X: open_source(pl.DataFrame(X, schema=list(NAMES[: X.shape[1]]))),
    "arrow table": lambda _, X: open_source(pa.Table.from_pandas(_frame(X))),
    "transposed array": lambda _, X: open_source(np.ascontiguousarray(X.T)).T,
    "transposed sparse": lambda _, X: open_source(sp.csr_array(X.T)).T,
    "transposed parquet": lambda folder, X: _file(folder, "e.parquet", _parquet(X)).T.T,
    "array without a column": lambda _, X: open_source(
        np.insert(X, 1, np.nan, axis=1), names=[NAMES[0], "hole", *NAMES[1 : X.shape[1]]], drop=["hole"]
    ),
    "reordered without a column": lambda _, X: _reordered(
        open_source(np.insert(X[::-1], 1, np.nan, axis=1), names=["a", "hole", *"bcde"[: X.shape[1] - 1]]), X
    ).without("hole"),
}


@pytest.fixture(params=FORMATS)
def build(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Float], MatrixSource]:
    """Puts a matrix (at most five columns) into one of the formats."""
    return lambda X: FORMATS[request.param](tmp_path, X)


@pytest.fixture
def without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if PyArrow were not installed."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
