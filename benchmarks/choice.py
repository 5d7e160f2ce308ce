"""Whether ``auto`` takes the faster of steps and sums of Gram matrices, over a grid of shapes.

    python -m benchmarks.choice [--within 90] [--json FILE]
    taskset -c 0,1 python -m benchmarks.choice

Each shape is a PCA of three parties in one process, once by each family, on the same data: factors above noise, whose
spectrum falls, and noise alone, where a search goes far into the bulk. What ``auto`` would take follows from the law of
ADR 0090, which reads public shapes; its demand for many records outside, which is of privacy and not of speed, is
reported apart. A shape is right where the family taken is within 1.2 of the faster one. Small shapes come first, and no
shape is begun after ``--within`` seconds. The exit status says whether four of five tables of factors were right: a
law of shapes cannot know that a table is noise.
"""

import argparse
import json
import warnings
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.macro.shapes import factors, normal
from benchmarks.measure import fingerprint
from fedsvd.data.open import open_source
from fedsvd.errors import NotConverged, PrivacyWarning
from fedsvd.policy.rules import Policy
from fedsvd.protocol.directions import quicker
from fedsvd.protocol.tasks import Item, Scheme, Task
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import run_study
from fedsvd.studies.study import Study

SLOWER, RIGHT = 1.2, 0.8
_PARTIES = 3
_RELEASE = (Item.COMPONENTS, Item.SPECTRUM, Item.MEAN, Item.OWN_PART)
_GRID = [
    (records, features, components)
    for records, features in (
        (3_000, 400),
        (3_000, 600),
        (12_000, 600),
        (3_000, 1_000),
        (12_000, 1_000),
        (40_000, 600),
        (3_000, 1_600),
        (12_000, 1_600),
        (6_000, 2_400),
        (20_000, 2_400),
    )
    for components in (2, 10, 40)
]


@dataclass(frozen=True)
class Row:
    """One shape: seconds of both families; None of a search that ended without a result."""

    records: int
    features: int
    components: int
    table: str
    steps: float | None
    sums: float
    taken: str

    @property
    def off(self) -> float:
        """The family that is taken over the faster one."""
        steps = float("inf") if self.steps is None else self.steps
        return (steps if self.taken == Scheme.STEPS else self.sums) / min(steps, self.sums)


def compared(records: int, features: int, components: int, table: str) -> Row:
    """One study by each family, in turn."""
    draw = {"factors": factors, "noise": normal}[table]
    X = draw(np.random.default_rng(records + features), records, features)
    ends = np.linspace(0, records, _PARTIES + 1).astype(int).tolist()
    parties = [PartyData(open_source(np.ascontiguousarray(X[start:stop]))) for start, stop in pairwise(ends)]
    study = Study(Task.PCA, components=components, release=_RELEASE)
    found: dict[str, float | None] = {}
    for scheme in (Scheme.STEPS, Scheme.SUM):
        began = perf_counter()
        try:
            run_study(replace(study, scheme=scheme), parties, policy=Policy.permissive())
        except NotConverged:
            found[scheme] = None
        else:
            found[scheme] = perf_counter() - began
    longest = max(stop - start for start, stop in pairwise(ends))
    taken = Scheme.STEPS if quicker(components, features, longest) else Scheme.SUM
    sums = found[Scheme.SUM]
    assert sums is not None
    return Row(records, features, components, table, found[Scheme.STEPS], sums, taken)


def in_a_line(row: Row) -> str:
    """For a person."""
    steps = "no result" if row.steps is None else f"{row.steps:.2f} s"
    said = f"top {row.components} of {row.records:,} x {row.features:,}, {row.table}"
    return f"{said}: steps {steps}, sums {row.sums:.2f} s; {row.taken}, {row.off:.2f} of the faster"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.choice", description="how often auto is right")
    parser.add_argument("--within", type=float, default=90.0, help="seconds after which no shape is begun")
    parser.add_argument("--json", type=Path, help="where the table is written as well")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)
    compared(300, 64, 2, "factors")  # loads what a session loads
    began, rows = perf_counter(), list[Row]()
    for shape in _GRID:
        for table in ("factors", "noise"):
            if perf_counter() - began < asked.within:
                rows.append(compared(*shape, table))
                print(in_a_line(rows[-1]), flush=True)
    for table in ("factors", "noise"):
        of = [row for row in rows if row.table == table]
        right = sum(row.off <= SLOWER for row in of)
        print(f"{table}: auto within {SLOWER:g} of the faster in {right} of {len(of)}, at most {_most(of):.2f}")
    if asked.json:
        table_of: list[dict[str, Any]] = [{**vars(row), "off": row.off} for row in rows]
        asked.json.write_text(json.dumps({"machine": fingerprint(), "rows": table_of}, indent=1) + "\n", "utf-8")
    asked_for = [row.off <= SLOWER for row in rows if row.table == "factors"]
    return 0 if sum(asked_for) >= RIGHT * len(asked_for) else 1


def _most(rows: list[Row]) -> float:
    return max((row.off for row in rows), default=1.0)


if __name__ == "__main__":
    raise SystemExit(main())
