"""Records of long runs that the repository keeps (``benchmarks/results``), for tables that cannot repeat them."""

import json
from collections.abc import Iterator
from pathlib import Path

from fedsvd.lab.experiments.ours import DEFAULT
from fedsvd.lab.experiments.rows import Measurement

FOLDER = Path(__file__).parents[4] / "benchmarks" / "results"
_RECORDS = {"SVD": ("scale-50m.json", "seconds")}


def recorded(application: str, folder: Path = FOLDER) -> Iterator[Measurement]:
    """The record of an application at the paper's size, where there is one."""
    if application not in _RECORDS:
        return
    name, key = _RECORDS[application]
    try:
        record = json.loads((folder / name).read_text(encoding="utf-8"))
        seconds = float(record[key])
    except (OSError, ValueError, KeyError, TypeError):
        return
    note = f"benchmarks/results/{name}, machine {record.get('machine', 'as recorded there')}"
    yield Measurement(f"{DEFAULT}, record", "time", seconds, "s", scheme="compressed", note=note)
