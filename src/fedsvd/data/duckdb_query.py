"""Tables that DuckDB answers: a query to a database file, or all files that fit a path with ``*``.

    duckdb://FILE?query=SELECT ...     the answer of one SELECT to a database, opened for reading only
    duckdb://?query=SELECT ...         the same without a database, over files the query names
    folder/part-*.parquet              every Parquet, CSV or JSON file that fits, in the order of their names

A query is answered once, batch by batch, into a private temporary Parquet file, and read from there: an answer without
``ORDER BY`` may come in another order the next time. Anything but one SELECT is refused, and no extension of DuckDB is
loaded from the network.
"""

import os
import tempfile
import weakref
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus

from fedsvd.data.parquet import ParquetSource
from fedsvd.errors import ConfigError, EmptyData, FedSVDError, MissingExtra, StorageError, UnknownFormat
from fedsvd.storage.faults import what_helps

SCHEME = "duckdb://"
BATCH_ROWS = 1 << 14
_CONFIG = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "true"}


class QuerySource(ParquetSource):
    """The answer of a query, in a private temporary file."""

    def __init__(self, database: Path | None, query: str, name: str, scratch: Path | None) -> None:
        with _connected(database) as connection:
            file = _answered(connection, query, name, scratch)
        weakref.finalize(self, file.close)
        super().__init__(Path(name), scratch=scratch, file=file)


def from_address(text: str, scratch: Path | None) -> QuerySource:
    """The source of ``duckdb://FILE?query=SELECT ...``."""
    database, query = _parts(text)
    path = Path(database) if database else None
    if path is not None and not path.is_file():
        raise UnknownFormat(f"there is no database {path}", "check the path")
    return QuerySource(path, query, f"{SCHEME}{database}", scratch)


def from_glob(path: Path, scratch: Path | None) -> QuerySource:
    """The source of all files that fit, read as one table; their columns are matched by name."""
    if not any(path.name.lower().endswith(end) for end in (".parquet", ".csv", ".csv.gz", ".tsv", ".json", ".jsonl")):
        raise UnknownFormat(f"no reader for {path.name}", "name .parquet, .csv, .tsv, .json or .jsonl files")
    reader = "read_parquet" if path.name.lower().endswith(".parquet") else "read_csv"
    if ".json" in path.name.lower():
        reader = "read_json"
    quoted = str(path).replace("'", "''")
    return QuerySource(None, f"SELECT * FROM {reader}('{quoted}', union_by_name = true)", path.name, scratch)


def database_of(text: str) -> Path | None:
    """The database that an address names, if any."""
    database = text.removeprefix(SCHEME).partition("?")[0]
    return Path(database) if database else None


def within_folder(text: str, folder: Path) -> str:
    """The same address with its database relative to ``folder``."""
    database, query = text.removeprefix(SCHEME).partition("?")[::2]
    return f"{SCHEME}{folder / database}?{query}" if database else text


def _parts(text: str) -> tuple[str, str]:
    database, _, setting = text.removeprefix(SCHEME).partition("?")
    key, _, query = setting.partition("=")
    if key != "query" or not query.strip():
        how = f"write {SCHEME}{database or 'FILE'}?query=SELECT ..."
        raise ConfigError(f"{SCHEME}{database} asks for nothing", how)
    # A query with blanks is taken as it was typed; without, it was encoded as addresses are.
    return database, query if " " in query.strip() else unquote_plus(query)


def _connected(database: Path | None) -> Any:
    try:
        import duckdb
    except ImportError:
        raise MissingExtra("queries need DuckDB", "pip install 'fedsvd[sql]'") from None
    try:
        return duckdb.connect(str(database or ":memory:"), read_only=database is not None, config=dict(_CONFIG))
    except duckdb.Error:
        raise UnknownFormat(f"{database} is not a database of DuckDB", "write it again with DuckDB") from None


def _answered(connection: Any, query: str, name: str, scratch: Path | None) -> Any:
    """The answer as a Parquet file without a name."""
    import duckdb
    import pyarrow

    file = tempfile.TemporaryFile(prefix="fedsvd-", dir=scratch)  # noqa: SIM115  it lives as long as the source
    try:
        rows = _write(connection, query, name, file)
        if not rows:
            raise EmptyData(f"the query of {name} has no rows", "check its conditions")
        file.seek(0, os.SEEK_SET)
        return file
    except BaseException as fault:
        file.close()
        if isinstance(fault, duckdb.Error | pyarrow.ArrowException):
            # Its own text may quote cells; the kind of fault is enough.
            kind = type(fault).__name__
            raise UnknownFormat(f"DuckDB cannot answer the query of {name} ({kind})", _advice(kind)) from None
        if isinstance(fault, OSError) and not isinstance(fault, FedSVDError):
            raise StorageError(
                f"cannot write the answer of {name} to a temporary file: {fault.strerror or type(fault).__name__}",
                what_helps(fault, "give another folder: --scratch FOLDER"),
            ) from fault
        raise


def _write(connection: Any, query: str, name: str, file: Any) -> int:
    """The answer of a query into a Parquet file, batch by batch; how many rows it has."""
    import duckdb
    from pyarrow import parquet

    statements = connection.extract_statements(query)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise ConfigError(f"the query of {name} is not one SELECT", "write a single SELECT statement")
    relation = connection.sql(query)
    reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    rows = 0
    with reader(BATCH_ROWS) as batches, parquet.ParquetWriter(file, batches.schema) as writer:
        for batch in batches:
            rows += batch.num_rows
            writer.write_batch(batch)
    return rows


def _advice(kind: str) -> str:
    return {
        "ParserException": "correct the SQL",
        "CatalogException": "check the names of tables and functions",
        "BinderException": "check the names of columns",
        "IOException": "check the paths: no file fits, or one cannot be read",
    }.get(kind, "try the query in the duckdb command first")
