"""Many parties in one process: the same PCA divided among 2 to 50 parties, against itself among two.

    python -m benchmarks.many_parties [--cores N] [--parties K ...] [--turns N] [--json FILE]

PCA, top 5, of 20,000 x 200 by 2, 5, 10, 20 and 50 parties; all roles in one process, data in memory. Turns go through
all numbers of parties one after the other, the best of each counts, and a row is its ratio to two parties. Seconds and
processor seconds stand apart; with ``--cores 1`` they are the same. ``each`` is the processor time that one more party
costs. Run it on an idle machine; the bar is 50 parties at 6 times two. Rows of JSON are printed; with ``--json`` they
are written with the machine's fingerprint.
"""

import argparse
import json
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

ROWS, FEATURES, COMPONENTS = 20_000, 200, 5
BARS = {50: 6.0}


def main(words: Sequence[str] | None = None) -> int:
    """Measure; the exit status says whether the bar was met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cores", type=int, default=0, help="how many cores; all where left out")
    parser.add_argument("--parties", type=int, nargs="*", default=[5, 10, 20, 50])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the rows here")
    asked = parser.parse_args(words)
    if asked.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: asked.cores])
        for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[name] = str(asked.cores)  # before BLAS is loaded
    warnings.simplefilter("ignore")
    rows = measured([2, *asked.parties], asked.turns)
    for row in rows:
        print(json.dumps(row), flush=True)
    if asked.json:
        from benchmarks.measure import fingerprint

        asked.json.write_text(json.dumps({"machine": fingerprint(), "rows": rows}, indent=1) + "\n")
    return 0 if all(row["met"] for row in rows) else 1


def measured(parties: Sequence[int], turns: int) -> list[dict[str, Any]]:
    """One row for each number of parties, the first of which is what the others are compared with."""
    import numpy as np

    from benchmarks.measure import bytes_by_party, longest_parts
    from fedsvd import FederatedPCA, Simulation
    from fedsvd.policy.rules import Policy
    from fedsvd.secagg.neighbours import degree

    X = np.random.default_rng(28).standard_normal((ROWS, FEATURES)) * np.linspace(3.0, 1.0, FEATURES)
    s = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)[:COMPONENTS]
    best = {k: (float("inf"), float("inf")) for k in parties}
    apart = dict.fromkeys(parties, 0.0)
    parts: dict[int, dict[str, float]] = {}
    sent: dict[int, dict[str, dict[str, int]]] = {}
    for turn in range(turns + 1):
        for k in parties:
            tables = np.array_split(X, k)
            began, cpu = perf_counter(), process_time()
            found = FederatedPCA(COMPONENTS, federation=Simulation(policy=Policy.permissive())).fit(tables)
            took = perf_counter() - began, process_time() - cpu
            if took[0] < best[k][0]:
                parts[k] = longest_parts(found.certificate_)
            sent[k] = bytes_by_party(found.certificate_)
            apart[k] = max(apart[k], float(np.abs(found.singular_values_ / s - 1.0).max()))
            if turn:  # the first warms up
                best[k] = min(best[k][0], took[0]), min(best[k][1], took[1])
    first, rows = parties[0], []
    for k in parties:
        ratio = best[k][0] / best[first][0]
        row = {
            "name": f"PCA {ROWS:,} x {FEATURES}, {k} parties against {first}",
            "cores": len(os.sched_getaffinity(0)),
            "neighbours": degree(k),
            "seconds": round(best[k][0], 3),
            "processor seconds": round(best[k][1], 3),
            "each": round((best[k][1] - best[first][1]) / (k - first), 4) if k > first else None,
            "ratio": round(ratio, 2),
            "processor ratio": round(best[k][1] / best[first][1], 2),
            "largest difference": apart[k],
            "bytes": sent[k],
            "parts": parts[k],
            "bar": BARS.get(k),
            "met": k not in BARS or ratio <= BARS[k],
        }
        rows.append(row)
    return rows


if __name__ == "__main__":
    sys.exit(main())
