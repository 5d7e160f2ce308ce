"""What a run was expected to take against what it needed: ``python -m benchmarks.estimates [--scale 0.33] [NAME ...]``.

Each shape is estimated as the command line estimates it, at this machine's stored rates, and then run once in this
process. ``factor`` is expected over needed, on the clock, and is worth reading on an idle machine only. ``of work`` is
the same of processor time: the rates of one core against what all threads used, which other programs hardly change.
The BLAS spins while its threads wait for each other, so give it one thread where other programs run. ``--scale``
shrinks both sides of every shape. The table goes to standard output; ``--json FILE`` writes it with the machine, its
load and the rates.
"""

import argparse
import json
import os
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.measure import fingerprint
from fedsvd.cost.calibration import rated
from fedsvd.cost.estimate import predict
from fedsvd.data.open import open_source
from fedsvd.errors import PrivacyWarning
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Split, Task
from fedsvd.studies.parties import PartyData
from fedsvd.studies.planning import plan_study
from fedsvd.studies.run import run_study
from fedsvd.studies.study import Study
from fedsvd.types import SessionId

LEAST, MOST = 0.5, 2.0


@dataclass(frozen=True)
class Shape:
    """A study of normal numbers, split over parties."""

    name: str
    study: Study
    samples: int
    features: int
    parties: int = 3

    def scaled(self, by: float) -> "Shape":
        study, samples, features = self.study, round(self.samples * by), round(self.features * by)
        return Shape(self.name, study, samples, features, self.parties)

    def data(self) -> list[PartyData]:
        rng = np.random.default_rng(0)
        D = rng.standard_normal((self.samples, self.features))
        horizontal = self.study.split is Split.HORIZONTAL
        tables = np.array_split(D, self.parties, axis=0 if horizontal else 1)
        y = D[:, :1] + rng.standard_normal((self.samples, 1))
        labels: list[Any] = [None] * self.parties
        if self.study.task is Task.LR:
            labels = np.array_split(y, self.parties) if horizontal else [y, *labels[1:]]
        both = zip(tables, labels, strict=True)
        return [PartyData(open_source(np.ascontiguousarray(X)), label) for X, label in both]


SHAPES = (
    Shape("svd", Study(Task.SVD), 3000, 3000),
    Shape("lsa", Study(Task.LSA, components=100), 3000, 10_000),
    Shape("pca", Study(Task.PCA, components=20), 1500, 20_000),
    Shape("svd, long", Study(Task.SVD), 100_000, 500),
    Shape("svd, top 20", Study(Task.SVD, components=20), 4000, 2000),
    Shape("svd, columns split", Study(Task.SVD, Split.VERTICAL), 2000, 2000),
    Shape("pca, long", Study(Task.PCA, components=20), 200_000, 200),
    Shape("lr, rows split", Study(Task.LR, targets=1), 200_000, 200),
    Shape("lr, columns split", Study(Task.LR, Split.VERTICAL, targets=1, label_user=1), 20_000, 600),
)


@dataclass(frozen=True)
class Compared:
    """One shape: seconds on the clock and seconds of processor time, expected and needed."""

    name: str
    samples: int
    features: int
    expected: float
    needed: float
    work_expected: float
    work_needed: float

    @property
    def factor(self) -> float:
        return self.expected / self.needed

    @property
    def of_work(self) -> float:
        return self.work_expected / self.work_needed


def compared(shape: Shape) -> Compared:
    """Estimated first, then run."""
    parties = shape.data()
    cost = predict(plan_for(shape, parties), rated().machine)
    clock, work = perf_counter(), process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        run_study(shape.study, parties)
    clock, work = perf_counter() - clock, process_time() - work
    expected = sum(role.core_seconds for role in cost.roles.values())
    return Compared(shape.name, shape.samples, shape.features, cost.seconds_on_one_machine, clock, expected, work)


def plan_for(shape: Shape, parties: list[PartyData]) -> SessionPlan:
    """As the run will make it: samples stand in columns where they are split."""
    sizes = [party.table.shape for party in parties]
    horizontal = shape.study.split is Split.HORIZONTAL
    m = shape.features if horizontal else shape.samples
    counts = tuple(rows if horizontal else columns for rows, columns in sizes)
    return plan_study(shape.study, m, counts, SessionId("estimate")).plan


def run(names: list[str], scale: float) -> Iterator[Compared]:
    for shape in SHAPES:
        if not names or shape.name in names:
            yield compared(shape.scaled(scale))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.estimates", description="expected against needed")
    parser.add_argument("names", nargs="*", choices=[[], *(shape.name for shape in SHAPES)], metavar="NAME")
    parser.add_argument("--scale", type=float, default=1.0, help="of both sides of every shape")
    parser.add_argument("--json", type=Path, help="where the table is written as well")
    asked = parser.parse_args()
    found = rated()
    before = os.getloadavg()[0]
    shown = Table("shape", "samples x features", "expected", "needed", "factor", "of work")
    rows = []
    for row in run(asked.names, asked.scale):
        rows.append(row)
        seconds = (f"{row.expected:.2f} s", f"{row.needed:.2f} s", f"{row.factor:.2f}", f"{row.of_work:.2f}")
        shown.add_row(row.name, f"{row.samples:,} x {row.features:,}", *seconds)
    load = f"{before:.1f} at the beginning, {os.getloadavg()[0]:.1f} at the end"
    machine = found.machine
    Console().print(shown, f"{found.source}; {machine.cores} cores, {machine.threads} BLAS threads; load {load}")
    if asked.json:
        table = [{**asdict(row), "factor": row.factor, "of_work": row.of_work} for row in rows]
        record = {"machine": fingerprint(), "load": load, "rates": asdict(machine), "scale": asked.scale, "rows": table}
        asked.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0 if all(LEAST <= row.factor <= MOST for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
