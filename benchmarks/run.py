"""``make bench``: every bar as a ratio to its rival in the same run, as a table and as JSON.

``python -m benchmarks.run [micro] [macro] [transport] [cluster] [estimates]`` runs some groups only.
"""

import json
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import estimates
from benchmarks.macro import cluster, studies, transport
from benchmarks.measure import Row, fingerprint, unknown_groups
from benchmarks.micro import core

RESULTS = Path(__file__).parent / "results"
GROUPS: dict[str, Callable[[], Iterator[Row]]] = {
    "micro": core.rows,
    "macro": studies.rows,
    "transport": transport.rows,
    "cluster": cluster.rows,
    "estimates": estimates.rows,
}


def main(names: list[str]) -> int:
    """Measure, print, write; the exit status says whether all bars were met."""
    console = Console()
    if fault := unknown_groups(names, GROUPS):
        console.print(fault)
        return 2
    rows: list[Row] = []
    for group in [group for group in GROUPS if not names or group in names]:
        for row in GROUPS[group]():
            rows.append(row)
            console.print(f"{row.name}: {row.ratio:.2f}")
    console.print(_table(rows))
    now = datetime.now(UTC)
    target = RESULTS / f"local-{now:%Y%m%dT%H%M%S}.json"
    record = {"when": now.isoformat(), "machine": fingerprint(), "rows": [row.record() for row in rows]}
    target.write_text(json.dumps(record, indent=1) + "\n")
    console.print(f"written: benchmarks/results/{target.name}")
    return 0 if all(row.met for row in rows) else 1


def _table(rows: list[Row]) -> Table:
    table = Table("what", "ours", "rival", "against", "bar", "ratio", "met")
    for row in rows:
        met = "yes" if row.met else "NO"
        ours, rival = f"{row.ours:.3g} {row.unit}", f"{row.rival:.3g} {row.unit}"
        table.add_row(row.name, ours, rival, row.rival_name, row.bar, f"{row.ratio:.2f}", met)
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
