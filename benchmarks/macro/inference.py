"""A regression with all of its inference against QR of the joint table in one place, in one run.

    python -m benchmarks.macro.inference                1,000,000 x 200, three parties
    python -m benchmarks.macro.inference 200000x100     smaller

Written to benchmarks/results/inference.json: seconds and processor seconds of both, and their ratio. In one place means
``numpy.linalg.qr`` of [1 X], its triangular solves, residuals, and the inverse for standard errors, on the same cores.
"""

import json
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from benchmarks.measure import RESULTS, Row, at_most, fingerprint
from fedsvd import FederatedLinearRegression

BAR = 1.2


def rows(n: int = 1_000_000, p: int = 200) -> Iterator[Row]:
    """Ours against QR, the better of two turns of each."""
    found = [compared(n, p) for _ in range(2)]
    ours, rival = (min(each[who]["seconds"] for each in found) for who in ("federated", "one place"))
    name = f"regression with inference {n:,} x {p}, split rows"
    yield at_most(name, ours, rival, "numpy.linalg.qr and solves", BAR)
    error = found[0]["largest difference of standard errors"]
    yield Row(f"{name}: standard errors", error, 1e-10, "QR", "<= 1e-10", error / 1e-10, error <= 1e-10, "relative")


def compared(n: int, p: int) -> dict[str, Any]:
    """Seconds and processor seconds of both, and how far their standard errors are apart."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    y = X @ rng.standard_normal(p) + rng.standard_normal(n)
    thirds = [n // 3, 2 * n // 3]
    joint, expected = _timed(lambda: _in_one_place(X, y))
    model = FederatedLinearRegression(inference=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        federated, model = _timed(lambda: model.fit(np.split(X, thirds), np.split(y, thirds)).inference_[0])
    difference = float(np.max(np.abs(model.standard_errors / expected - 1.0)))
    return {
        "shape": [n, p],
        "parties": 3,
        "one place": joint,
        "federated": federated,
        "ratio": federated["seconds"] / joint["seconds"],
        "ratio of processor seconds": federated["cpu_seconds"] / joint["cpu_seconds"],
        "bar": BAR,
        "largest difference of standard errors": difference,
    }


def main(words: list[str]) -> int:
    """Measure, compare, write."""
    n, p = map(int, (words or ["1000000x200"])[0].split("x"))
    record = {**compared(n, p), "machine": fingerprint()}
    print(json.dumps(record, indent=1))
    (RESULTS / "inference.json").write_text(json.dumps(record, indent=1) + "\n")
    return 0


def _in_one_place(X: Any, y: Any) -> Any:
    """Standard errors of ordinary least squares by QR."""
    design = np.column_stack((np.ones(len(y)), X))
    Q, R = np.linalg.qr(design)
    w = solve_triangular(R, Q.T @ y)
    residual = y - design @ w
    root = solve_triangular(R, np.eye(R.shape[0]))
    sigma = np.sqrt(residual @ residual / (len(y) - R.shape[0]))
    return sigma * np.linalg.norm(root, axis=1)


def _timed(work: Any) -> tuple[dict[str, float], Any]:
    started, cpu = time.perf_counter(), time.process_time()
    value = work()
    return {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu}, value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
