"""Billion scale on a small machine: the bars of large data, measured with data that is made on the fly.

    python -m benchmarks.macro.scale [svd] [growth] [lr]

Each study runs with one process per role (the ``local`` rung), the centralised streaming route on the same numbers
in the same run. The bars are for two cores (``taskset -c 0,1``). Time on the clock is the bar; CPU time stands next to
it, because on a machine that others use the clock measures them. Making the numbers is part of both routes and is
reported apart. The whole record, step by step, goes to ``benchmarks/results/scale.json``.
"""

import json
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.measure import Row, at_most, fingerprint, unknown_groups
from fedsvd.protocol.tasks import Task
from fedsvd_lab.scale import Case, Step, exponent, measured

RESULTS = Path(__file__).parents[1] / "results"
MOST_MEMORY = 1.5  # GiB, of a role's own process
GROWTH = (0.95, 1.05)
SIZES = (100_000, 200_000, 500_000, 1_000_000, 2_000_000)
_steps: dict[str, list[dict[str, Any]]] = {}


def svd(rows: int = 1000, columns: int = 1_000_000) -> Iterator[Row]:
    """U, S and all Vt_i of 1e9 numbers, every panel of Vt_i verified."""
    yield from _bars(f"SVD {rows:,} x {columns:,}", _run("svd", Case(Task.SVD, rows, columns, 0.01), alone=True), 0.85)


def lr(columns: int = 1000, rows: int = 1_000_000) -> Iterator[Row]:
    """Least squares with an intercept, columns split, rows streaming."""
    yield from _bars(f"LR {rows:,} x {columns:,}", _run("lr", Case(Task.LR, columns, rows), alone=True), 3.5)


def growth(rows: int = 1000, sizes: tuple[int, ...] = SIZES) -> Iterator[Row]:
    """How time grows with the columns of an SVD; keys, masks, the factorisation and the files cost the same for any."""
    least = 2 * rows
    fixed = _run("growth, smallest", Case(Task.SVD, rows, least, 0.01)).seconds
    steps = [_run("growth", Case(Task.SVD, rows, columns, 0.01)) for columns in sizes]
    for what, times in (
        ("time", [step.seconds for step in steps]),
        (f"time beyond that of {least:,} columns", [step.seconds - fixed for step in steps]),
        ("CPU time", [step.cpu for step in steps]),
        ("time of the passes over the data", [step.growing for step in steps]),
    ):
        slope = exponent(sizes, times)
        met = GROWTH[0] <= slope <= GROWTH[1]
        bar = f"{GROWTH[0]} .. {GROWTH[1]}"
        name = f"SVD {rows:,} x {sizes[0]:,} .. {sizes[-1]:,}, growth of {what}"
        yield Row(name, slope, 1.0, "linear", bar, slope, met, "")


GROUPS: dict[str, Callable[[], Iterator[Row]]] = {"svd": svd, "growth": growth, "lr": lr}


def _run(group: str, case: Case, alone: bool = False) -> Step:
    step = measured(case, float("nan"), alone=alone)
    _steps.setdefault(group, []).append({key: value for key, value in step.record().items() if key != "predicted"})
    return step


def _bars(name: str, step: Step, most: float) -> Iterator[Row]:
    assert step.alone is not None
    rival = "one who holds everything, streaming"
    yield at_most(name, step.seconds, step.alone["seconds"], rival, most)
    cpu = step.cpu / step.alone["cpu"]
    yield Row(f"{name}, CPU time", step.cpu, step.alone["cpu"], rival, "for orientation", cpu, True)
    memory = max(step.peak_memory.values()) / 2**30
    yield at_most(f"{name}, peak memory of a role", memory, MOST_MEMORY, "the bar", 1.0, "GiB")
    yield Row(f"{name}, of it making data", step.generation, step.seconds, "", "for orientation", 0.0, True)


def main(names: list[str]) -> int:
    """Measure, print, write; the exit status says whether all bars were met."""
    console = Console()
    if fault := unknown_groups(names, GROUPS):
        console.print(fault)
        return 2
    rows: list[Row] = []
    for group in names or GROUPS:
        for row in GROUPS[group]():
            rows.append(row)
            console.print(f"{row.name}: {row.ours:.4g} {row.unit} against {row.rival:.4g}, ratio {row.ratio:.2f}")
    record = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": fingerprint(),
        "rows": [row.record() for row in rows],
        "steps": _steps,
    }
    target = RESULTS / "scale.json"
    before = json.loads(target.read_text()) if target.exists() else {}
    kept = [row for row in before.get("rows", []) if row["name"] not in {row.name for row in rows}]
    record["rows"] = kept + record["rows"]
    record["steps"] = {**before.get("steps", {}), **_steps}
    target.write_text(json.dumps(record, indent=1) + "\n")
    console.print(f"written: benchmarks/results/{target.name}")
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
