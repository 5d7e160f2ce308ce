"""Single cells: the top 50 of 1,000,000 x 2,000, 5 % of it stored, three parties, a process for each role.

    python -m benchmarks.macro.single_cells --rows 1000000

Counts of cells of 60 types are made as they are read (``synthetic-ratings://`` with groups), centred and scaled as is
usual before a PCA of genes, and never made dense. Printed is one line: seconds, peak memory of each role's process
against the bar of 4 GiB, bytes, steps; and how far S and the components are from those of the joint correlation matrix,
which SciPy adds up here from the same sparse rows.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from fedsvd.data.open import open_source
from fedsvd.policy.rules import Policy
from fedsvd.results.write import party_folders, read_result
from fedsvd.service.local import local_federation
from fedsvd.studies.job_file import Job, job_from
from fedsvd.types import Float

MOST_MEMORY = 4 << 30  # of a role's own process
_ROWS = 1 << 14


def address(rows: int, genes: int, part: tuple[int, int]) -> str:
    """One party's cells."""
    return f"synthetic-ratings://{rows}x{genes}?density=0.05&seed=1&groups=60&rows={part[0]}:{part[1]}"


def job(rows: int, genes: int, components: int, memory: int) -> Job:
    """The study of three parties with a third of the cells each."""
    cuts = [rows * i // 3 for i in range(4)]
    asked = {
        "name": "cells",
        "task": "pca",
        "split": "horizontal",
        "components": components,
        "unit_variance": True,
        "memory": memory,
        "release": ["components", "spectrum", "mean", "own part"],
    }
    parties = [
        {"name": name, "data": address(rows, genes, (cuts[i], cuts[i + 1]))} for i, name in enumerate(("a", "b", "c"))
    ]
    return job_from({"job": asked, "masks": {"scheme": "steps"}, "party": parties}, Path())


def expected(rows: int, genes: int, components: int) -> tuple[Float, Float]:
    """S and components of all cells, from sums of sparse products: SciPy and LAPACK, nothing of the session."""
    source: Any = open_source(address(rows, genes, (0, rows)))
    G, sums = np.zeros((genes, genes)), np.zeros(genes)
    for start in range(0, rows, _ROWS):
        X = source.sparse_rows(start, min(start + _ROWS, rows))
        G += (X.T @ X).toarray()
        sums += X.sum(axis=0)
    mean = sums / rows
    C = G - rows * np.multiply.outer(mean, mean)
    scale = np.sqrt(np.diagonal(C) / rows)
    values, vectors = np.linalg.eigh(C / np.multiply.outer(scale, scale))
    return np.sqrt(values[::-1][:components]), vectors[:, ::-1][:, :components]


def run(rows: int, genes: int, components: int, memory: int) -> dict[str, Any]:
    """One session, and what came of it."""
    study = job(rows, genes, components, memory)
    with tempfile.TemporaryDirectory() as folder:
        with local_federation(study, policy=Policy.permissive()) as federation:
            done = federation.run(study, lambda record: None)
            done.write(Path(folder) / "result")
        shared = read_result(Path(folder) / "result")
        own = read_result(party_folders(Path(folder) / "result")[0])
        certificate = shared.certificate
        peaks = {party.name: taken for party, taken in certificate.peak_memory.items()}
        record = {
            "shape": [rows, genes],
            "components": components,
            "seconds": done.seconds,
            "peak_memory": peaks,
            "within_4_gib": max(peaks.values()) <= MOST_MEMORY,
            "bytes_total": certificate.bytes_total,
            "residual": certificate.residual,
            "found": {name: own.facts["found"][name] for name in ("steps", "directions")},
        }
        U, s = np.array(shared.arrays["components"]).T, np.array(shared.arrays["singular_values"])
    print(json.dumps(record, default=str), file=sys.stderr, flush=True)  # before the check, which takes as long
    started = time.perf_counter()
    values, vectors = expected(rows, genes, components)
    apart = U - vectors @ (vectors.T @ U)
    return {
        **record,
        "difference_of_S_over_S_1": float(np.abs(s - values).max() / values[0]),
        "sine_of_the_angle": float(np.linalg.norm(apart, 2)),
        "seconds_checking_apart": time.perf_counter() - started,
    }


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser()
    for name, default in (("rows", 1_000_000), ("genes", 2000), ("components", 50), ("memory", 2 << 30)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    record = run(asked.rows, asked.genes, asked.components, asked.memory)
    print(json.dumps(record, default=str))
    return 0 if record["within_4_gib"] else 1


if __name__ == "__main__":
    sys.exit(main())
