"""Small files for tests of what is read, and of what is refused."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def csv_file(folder: Path, text: str, name: str = "t.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


def parquet_file(folder: Path, columns: dict[str, object]) -> Path:
    pq.write_table(pa.table(columns), folder / "t.parquet")
    return folder / "t.parquet"
