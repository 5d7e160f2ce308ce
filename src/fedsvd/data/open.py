"""The one way in: whatever holds a matrix becomes a ``MatrixSource``.

Files are known by their suffix (``files.py``), objects by their type. A library is imported only when the data
needs it: an array needs NumPy and nothing else.
"""

import os
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from fedsvd.data.arrays import ArraySource, from_array_like, from_rows
from fedsvd.data.csv_layout import Given
from fedsvd.data.files import TextSettings, files_of, named_already, open_file
from fedsvd.data.npy import from_map
from fedsvd.data.source import MatrixSource
from fedsvd.data.sparse import SparseSource
from fedsvd.errors import UnknownFormat

DUCKDB = "duckdb://"


def open_source(
    data: object,
    *,
    names: Iterable[object] | None = None,
    drop: Collection[str] = (),
    delimiter: str | None = None,
    decimal: str | None = None,
    header: bool | None = None,
    encoding: str | None = None,
    thousands: str | None = None,
    missing: Collection[str] = (),
    part: str | None = None,
    scratch: str | os.PathLike[str] | None = None,
) -> MatrixSource:
    """A table as the estimators take it, with settings that a path or an array alone cannot carry.

    Parameters
    ----------
    data : path, array, nested list, sparse matrix, data frame, AnnData, Dask array or source
        A folder is read as one table: the Parquet files in it, one below the other, or a Zarr store (``.zarr``). A
        path with ``*`` is every file that fits, read by DuckDB as one table. A text ``duckdb://FILE?query=SELECT ...``
        is the answer of a DuckDB database; ``synthetic://...`` and ``synthetic-ratings://...`` are the addresses of
        matrices that are made as they are read.
    names : iterable, optional
        Column names for data that has none.
    drop : collection of str
        Columns to leave out of the matrix (ids, labels, text): they need not be numbers, and ``source.column(name)``
        still reads them.
    delimiter, decimal, header : optional
        What is otherwise found from the first lines of a text table; ``decimal`` is ``"."`` or ``","``. ``header``
        also says whether the first row of an Excel sheet names the columns.
    encoding : str, optional
        Of a text table that is not UTF-8: ``"latin-1"``, ``"cp1252"``.
    thousands : str, optional
        The mark between thousands of a text table: with ``"."``, ``1.564`` is 1564 and the decimal mark a comma.
    missing : collection of str
        What stands for a missing entry of a text table or a sheet, besides the usual spellings: ``"."``, ``"unknown"``.
    part : str, optional
        Which table of a file that holds several: the sheet of an ``.xlsx``, the array of an ``.npz``, the layer of an
        ``.h5ad`` or an AnnData. ``FILE#PART`` says the same where only a text is given.
    scratch : path, optional
        Folder for the private temporary file that text tables, and reordered Parquet files, need (8 bytes for each
        entry); the system's own, which may be in memory, where left out.

    Returns
    -------
    source : MatrixSource
        With ``shape``, ``names``, ``column(name)`` and ``without(names)``; its ``repr`` shows no data.

    Examples
    --------
    A table whose column of text stays out of the study:

    >>> import fedsvd
    >>> import pandas as pd
    >>> table = pd.DataFrame({"ward": ["a", "b", "b"], "age": [61, 54, 70], "dose": [1.5, 2.0, 0.5]})
    >>> source = fedsvd.open_source(table, drop=["ward"])
    >>> source.shape, source.names
    ((3, 2), ('age', 'dose'))

    Lists of sources are given to an estimator as lists of tables are: ``FederatedPCA().fit([source, other])``.
    """
    names = None if names is None else tuple(names)
    spelt = (missing,) if isinstance(missing, str) else tuple(missing)
    text = TextSettings(delimiter, decimal, header, Given(encoding, thousands, spelt))
    return opened(data, text, names, part, scratch).without(drop)


def opened(
    data: object,
    text: TextSettings,
    names: Sequence[object] | None = None,
    part: str | None = None,
    scratch: str | os.PathLike[str] | None = None,
) -> MatrixSource:
    """A table with the settings of a text table as one value."""
    if is_address(data):
        text.expect_none(str(data).partition("://")[0] + "://", part)
        source = named_already(_open_address(str(data), scratch), names)
        source._reopen = partial(open_source, str(data), scratch=scratch)
    elif isinstance(data, str | os.PathLike):
        source = open_file(Path(data), names, text, part, None if scratch is None else Path(scratch))
        source._reopen = partial(opened, Path(data).absolute(), text, names, part, scratch)
    else:
        is_anndata = type(data).__module__.startswith("anndata")
        text.expect_none("data in memory", None if is_anndata else part)
        source = _open_object(data, names, part)
    return source


def is_address(data: object) -> bool:
    """Whether this names a matrix that is made, not a file."""
    return isinstance(data, str) and "://" in data


def located(data: str, folder: Path) -> Path | str:
    """Data as a file in ``folder`` names it: a path is relative to that folder, also inside of a DuckDB address."""
    if not is_address(data):
        return folder / data
    if data.startswith(DUCKDB):
        from fedsvd.data.duckdb_query import within_folder

        return within_folder(data, folder)
    return data


def files_behind(data: Path | str) -> tuple[Path, ...]:
    """The files that a path, ``FILE#PART``, a path with ``*`` or a DuckDB address reads; none for what is generated.

    Files that a query names itself are not seen here.
    """
    if is_address(data):
        if not str(data).startswith(DUCKDB):
            return ()
        from fedsvd.data.duckdb_query import database_of

        found = database_of(str(data))
        return () if found is None else (found,)
    return files_of(Path(data))


def _open_address(text: str, scratch: str | os.PathLike[str] | None) -> MatrixSource:
    from fedsvd.data.ratings import SCHEME as RATINGS
    from fedsvd.data.ratings import RatingsSource
    from fedsvd.data.synthetic import SCHEME as NORMALS
    from fedsvd.data.synthetic import SyntheticSource

    if text.startswith(RATINGS):
        return RatingsSource(text)
    if text.startswith(NORMALS):
        return SyntheticSource(text)
    if text.startswith(DUCKDB):
        from fedsvd.data.duckdb_query import from_address

        return from_address(text, None if scratch is None else Path(scratch))
    known = f"{DUCKDB}FILE?query=..., {NORMALS}... or {RATINGS}..., or a file"
    raise UnknownFormat(f"no reader for {text.partition('://')[0]}://", known)


def _open_object(data: Any, names: Sequence[object] | None, part: str | None) -> MatrixSource:
    if isinstance(data, MatrixSource):
        return named_already(data, names)
    if isinstance(data, np.ndarray):
        return from_map(data, names) if isinstance(data, np.memmap) else ArraySource(data, names)
    if scipy.sparse.issparse(data):
        return SparseSource(data, names)
    if isinstance(data, list | tuple):
        return from_rows(data, names)
    if type(data).__module__.startswith("anndata"):
        from fedsvd.data.annotated import from_anndata

        return named_already(from_anndata(data, part), names)
    if type(data).__module__.startswith("dask.array"):
        from fedsvd.data.arrays import DaskSource

        return DaskSource(data, names)
    if _is_frame(data):
        from fedsvd.data.frames import FrameSource

        return named_already(FrameSource(data), names)
    if hasattr(data, "__array__"):
        return from_array_like(data, names)
    raise UnknownFormat(
        f"no reader for a {type(data).__module__}.{type(data).__name__}",
        "give a path, a NumPy array, a sparse matrix or a data frame",
    )


def _is_frame(data: Any) -> bool:
    # Asked of the type, not the object: the columns of a lazy frame would be computed.
    return any(hasattr(type(data), mark) for mark in ("columns", "__narwhals_dataframe__", "__dataframe__"))
