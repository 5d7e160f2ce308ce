"""Records of long runs that the repository has (``benchmarks/results``), for tables that cannot repeat them."""

import json
from collections.abc import Iterator
from pathlib import Path

from fedsvd.lab.experiments.ours import DEFAULT
from fedsvd.lab.experiments.rows import Measurement

FOLDER = Path(__file__).parents[4] / "benchmarks" / "results"
_RECORDS = {
    "SVD": (
        ("scale-50m.json", "record, local rung", "sum"),
        ("h200-svd-50m.json", "record, one H200", "sum"),
    ),
    "LSA": (("h200-lsa.json", "record, one H200", "mask"),),
    "LR": (("h200-lr-50m.json", "record, one H200", "mask"),),
}


def recorded(application: str, folder: Path = FOLDER) -> Iterator[Measurement]:
    """The records of an application at the paper's size, where there are any."""
    for name, what, scheme in _RECORDS.get(application, ()):
        try:
            record = json.loads((folder / name).read_text(encoding="utf-8"))
            seconds = float(record["seconds"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        machine = record.get("device") or record.get("machine", {}).get("processor", "as recorded there")
        note = f"benchmarks/results/{name}, {machine}"
        yield Measurement(f"{DEFAULT}, {what}", "time", seconds, "s", scheme=scheme, note=note)
