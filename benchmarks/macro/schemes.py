"""All schemes on the same data: time, bytes, memory and what the CSP learns, in one table.

    python -m benchmarks.macro.schemes                1,000 x 20,000, two parties, columns split, all of U, S and Vt_i
    python -m benchmarks.macro.schemes 300x4000       another size

Each scheme runs in a process of its own, all roles in it, so that its peak is its own; the residual is the CSP's, and
the error is that of S against NumPy on the joint data. Written to benchmarks/results/schemes.json.
"""

import json
import subprocess
import sys
from pathlib import Path
from time import perf_counter, process_time
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.measure import RESULTS, fingerprint
from fedsvd.data.open import open_source
from fedsvd.errors import PrivacyWarning
from fedsvd.policy.learned import what_each_role_learns
from fedsvd.protocol.tasks import Scheme, Split, Task
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import run_study
from fedsvd.studies.study import Study

SHAPE = "1000x20000"


def main(words: list[str]) -> int:
    """Measure every scheme, print and write; with a scheme's name, that one alone."""
    if words[:1] and words[0] in list(Scheme):
        sys.stdout.write(json.dumps(measure(Scheme(words[0]), *_shape(words[1]))) + "\n")
        return 0
    shape = (words or [SHAPE])[0]
    rows = [_alone(scheme, shape) for scheme in Scheme]
    Console(width=160).print(_table(rows, shape))
    record = {"shape": shape, "schemes": rows, "machine": fingerprint()}
    (RESULTS / "schemes.json").write_text(json.dumps(record, indent=1) + "\n")
    return 0


def _alone(scheme: Scheme, shape: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.macro.schemes", scheme, shape]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def measure(scheme: Scheme, m: int, n: int) -> dict[str, Any]:
    """One scheme in this process."""
    X = np.random.default_rng(0).standard_normal((m, n)) * (np.arange(1, m + 1) ** -0.5)[:, None]
    parties = [PartyData(open_source(X[:, : n // 2])), PartyData(open_source(X[:, n // 2 :]))]
    before, clock, processor = _resident("VmRSS"), perf_counter(), process_time()
    with catch_warnings():
        simplefilter("ignore", PrivacyWarning)
        outcome = run_study(Study(Task.SVD, Split.VERTICAL, scheme=scheme), parties)
    took, used, peak = perf_counter() - clock, process_time() - processor, _resident("VmHWM")
    first = outcome.parties[0]
    sigma = np.linalg.svd(np.linalg.qr(X.T, mode="r"), compute_uv=False)
    return {
        "scheme": scheme,
        "seconds": took,
        "cpu_seconds": used,
        "bytes": outcome.certificate.bytes_total,
        "memory": peak - before,
        "residual": outcome.certificate.residual,
        "error": float(np.abs(first.sigma - sigma).max() / sigma[0]),
        "privacy": next(line for line in what_each_role_learns(outcome.plan) if line.startswith("The CSP")),
    }


def _table(rows: list[dict[str, Any]], shape: str) -> Table:
    table = Table(
        "scheme", "time", "processor", "bytes", "memory", "error of S", "what the CSP learns", title=f"SVD {shape}"
    )
    for row in rows:
        amounts = f"{row['seconds']:.1f} s", f"{row['cpu_seconds']:.1f} s", f"{row['bytes'] / 1e6:.0f} MB"
        table.add_row(row["scheme"], *amounts, f"{row['memory'] / 1e6:.0f} MB", f"{row['error']:.0e}", row["privacy"])
    return table


def _shape(text: str) -> tuple[int, int]:
    m, n = map(int, text.split("x"))
    return m, n


def _resident(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
