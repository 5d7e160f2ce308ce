"""The one way in: whatever holds a matrix becomes a ``MatrixSource``.

Files are told apart by their suffix, objects by their type. A library is imported only when the data needs it:
an array needs NumPy and nothing else.
"""

import os
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from fedsvd.data.arrays import ArraySource, from_array_like, from_rows
from fedsvd.data.csv import CsvSource
from fedsvd.data.npy import NpySource
from fedsvd.data.source import MatrixSource
from fedsvd.data.sparse import SparseSource, from_npz
from fedsvd.errors import ConfigError, UnknownFormat

_SUFFIXES = (".npy", ".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".npz")


def open_source(
    data: object,
    *,
    names: Iterable[object] | None = None,
    drop: Collection[str] = (),
    delimiter: str | None = None,
    header: bool | None = None,
    scratch: str | os.PathLike[str] | None = None,
) -> MatrixSource:
    """A table as the estimators take it, with settings that a path or an array alone cannot carry.

    Parameters
    ----------
    data : path, array, nested list, sparse matrix, data frame, Dask array or source
        A folder is read as one table: the Parquet files in it, one below the other, or a Zarr store (``.zarr``). A
        text ``synthetic://...`` or ``synthetic-ratings://...`` is the address of a matrix that is made as it is read.
    names : iterable, optional
        Column names for data that has none.
    drop : collection of str
        Columns to leave out of the matrix (ids, labels, text): they need not be numbers, and ``source.column(name)``
        still reads them.
    delimiter, header : optional
        What is otherwise found from the first lines of a text table.
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
    if is_address(data):
        source = _named_already(_open_address(str(data)), names)
        source._reopen = partial(open_source, str(data))
        if delimiter is not None or header is not None:
            raise ConfigError("delimiter and header describe text tables only", "leave them out for other data")
    elif isinstance(data, str | os.PathLike):
        source = _open_file(Path(data), names, delimiter, header, None if scratch is None else Path(scratch))
        again = partial(open_source, Path(data).absolute(), names=names, delimiter=delimiter, header=header)
        source._reopen = partial(again, scratch=scratch)
    elif delimiter is not None or header is not None:
        raise ConfigError("delimiter and header describe text tables only", "leave them out for other data")
    else:
        source = _open_object(data, names)
    return source.without(drop)


def is_address(data: object) -> bool:
    """Whether this names a matrix that is made, not a file."""
    return isinstance(data, str) and "://" in data


def _open_address(text: str) -> MatrixSource:
    from fedsvd.data.ratings import SCHEME as RATINGS
    from fedsvd.data.ratings import RatingsSource
    from fedsvd.data.synthetic import SCHEME as NORMALS
    from fedsvd.data.synthetic import SyntheticSource

    if text.startswith(RATINGS):
        return RatingsSource(text)
    if text.startswith(NORMALS):
        return SyntheticSource(text)
    raise UnknownFormat(f"no reader for {text.partition('://')[0]}://", f"{NORMALS}... or {RATINGS}..., or a file")


def _open_file(
    path: Path, names: Sequence[object] | None, delimiter: str | None, header: bool | None, scratch: Path | None
) -> MatrixSource:
    if path.is_dir():
        return _open_folder(path, names, scratch)
    suffix = next((end for end in _SUFFIXES if path.name.lower().endswith(end)), None)
    if suffix is None:
        raise UnknownFormat(f"no reader for {path.name}", f"use one of {', '.join(_SUFFIXES)}")
    if not path.is_file():
        raise UnknownFormat(f"there is no file {path}", "check the path")
    if suffix.startswith((".csv", ".tsv")):
        delimiter = delimiter or ("\t" if suffix.startswith(".tsv") else None)
        return CsvSource(path, names, delimiter=delimiter, header=header, scratch=scratch)
    if delimiter is not None or header is not None:
        raise ConfigError(f"delimiter and header do not apply to {path.name}", "leave them out")
    if suffix == ".npy":
        return NpySource(path, names)
    if suffix == ".npz":
        return from_npz(path, names)
    from fedsvd.data.parquet import ParquetSource

    return _named_already(ParquetSource(path, scratch=scratch), names)


def _open_folder(path: Path, names: Sequence[object] | None, scratch: Path | None) -> MatrixSource:
    if path.name.lower().endswith(".zarr"):
        from fedsvd.data.zarr_array import ZarrSource

        return ZarrSource(path, names)
    from fedsvd.data.parquet import ParquetSource
    from fedsvd.data.parts import open_parts

    return _named_already(open_parts(path, ".parquet", lambda part: ParquetSource(part, scratch=scratch)), names)


def _open_object(data: Any, names: Sequence[object] | None) -> MatrixSource:
    if isinstance(data, MatrixSource):
        return _named_already(data, names)
    if isinstance(data, np.ndarray):
        return ArraySource(data, names)
    if scipy.sparse.issparse(data):
        return SparseSource(data, names)
    if isinstance(data, list | tuple):
        return from_rows(data, names)
    if type(data).__module__.startswith("dask.array"):
        from fedsvd.data.dask_array import DaskSource

        return DaskSource(data, names)
    if _is_frame(data):
        from fedsvd.data.frames import FrameSource

        return _named_already(FrameSource(data), names)
    if hasattr(data, "__array__"):
        return from_array_like(data, names)
    raise UnknownFormat(
        f"no reader for a {type(data).__module__}.{type(data).__name__}",
        "give a path, a NumPy array, a sparse matrix or a data frame",
    )


def _is_frame(data: Any) -> bool:
    # Asked of the type, not the object: the columns of a lazy frame would be computed.
    return any(hasattr(type(data), mark) for mark in ("columns", "__narwhals_dataframe__", "__dataframe__"))


def _named_already(source: MatrixSource, names: Sequence[object] | None) -> MatrixSource:
    if names is not None:
        raise ConfigError(
            "names were given for data that brings its own",
            "give names=[...] to arrays, .npy, sparse matrices and text tables without a header only",
        )
    return source
