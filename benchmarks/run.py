"""``make bench``: every bar as a ratio to its rival in the same run, as a table and as JSON.

    python -m benchmarks.run                    all groups but the large ones
    python -m benchmarks.run macro local        some groups
    python -m benchmarks.run --list             their names, and what each measures

Rows are printed, and written to ``benchmarks/results``, as they are measured, so that a run that is stopped leaves what
it has. ``benchmarks/README.md`` says which command prints which bar, and how long it takes.
"""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from benchmarks import estimates
from benchmarks.macro import cluster, genotypes, glm, inference, matching, rungs, scale, studies, transport
from benchmarks.measure import RESULTS, Row, fingerprint, unknown_groups
from benchmarks.micro import core


@dataclass(frozen=True)
class Group:
    """What one name on the command line measures; a large one is measured where it is named, and not else."""

    rows: Callable[[], Iterator[Row]]
    about: str
    large: bool = False


GROUPS = {
    "micro": Group(core.rows, "the numerical core: keystream, reflectors, streaming factor, masks"),
    "macro": Group(studies.rows, "whole studies against one place, on 2 cores and on all, even and ill-conditioned"),
    "transport": Group(transport.rows, "messages over TLS against a bare socket, and the memory of a long upload"),
    "local": Group(rungs.rows, "SVD 100,000 x 1,000 with a process to each role against one, on 2 cores and on all"),
    "cluster": Group(cluster.rows, "compression by Dask workers against one process"),
    "glm": Group(glm.rows, "logistic regression 1,000,000 x 100 against scikit-learn"),
    "inference": Group(inference.rows, "regression with standard errors, 1,000,000 x 200, against QR"),
    "matching": Group(matching.rows, "record matching, by the server and by blinded points"),
    "estimates": Group(estimates.rows, "bytes, memory and time that were expected against those that were needed"),
    "genotypes": Group(genotypes.rows, "PCA of 3 x 500 x 200,000 genotypes within 1 GiB a role", large=True),
    "large-svd": Group(scale.svd, "SVD 1,000 x 1,000,000 against streaming in one place; two cores", large=True),
    "large-lr": Group(scale.lr, "regression 1,000,000 x 1,000, split columns, likewise; two cores", large=True),
}


def main(names: list[str]) -> int:
    """Measure, print, write; the exit status says whether all bars were met."""
    console = Console()
    if names == ["--list"]:
        for name, group in GROUPS.items():
            print(f"{name:10} {group.about}{' (where it is named)' if group.large else ''}")
        return 0
    names = [each for name in names for each in (("large-svd", "large-lr") if name == "large" else (name,))]
    if fault := unknown_groups(names, GROUPS):
        console.print(fault)
        return 2
    rows: list[Row] = []
    now = datetime.now(UTC)
    target, machine = RESULTS / f"local-{now:%Y%m%dT%H%M%S}.json", fingerprint()
    for name in names or [name for name, group in GROUPS.items() if not group.large]:
        for row in GROUPS[name].rows():
            rows.append(row)
            print(f"{row.name}: {row.ours:.3g} {row.unit} against {row.rival:.3g}, ratio {row.ratio:.2f}", flush=True)
            record = {"when": now.isoformat(), "machine": machine, "rows": [row.record() for row in rows]}
            target.write_text(json.dumps(record, indent=1) + "\n")
    console.print(_table(rows))
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
