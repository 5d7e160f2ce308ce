"""Logistic regression of three parties against one place: scikit-learn's newton-cholesky and statsmodels' GLM.

    python -m benchmarks.macro.glm [--rows N] [--features N] [--turns N] [--without WORD]

All roles are in one process and data is in memory, on the same cores as the rivals. Ours ends with standard errors, a
null model and a step below 1e-9 standard errors; scikit-learn is run at its own tolerance and at one as tight as ours.
Seconds are measured in turns, and the best of each counts; CPU seconds are of the process, and say more where other
work shares the machine.
"""

import argparse
import json
import os
import platform
import warnings
from collections.abc import Callable, Iterator
from time import perf_counter, process_time

import numpy as np
import statsmodels.api as sm
from sklearn.linear_model import LogisticRegression

from benchmarks.measure import Row, at_most
from fedsvd import FederatedLogisticRegression, Simulation
from fedsvd.policy.rules import Policy
from fedsvd.types import Float

MOST = 1.5  # times the faster rival


def drawn(rows: int, features: int) -> tuple[Float, Float]:
    """Normal features and an outcome that a third of them have a part in."""
    rng = np.random.default_rng(19)
    X = rng.standard_normal((rows, features))
    w = np.where(np.arange(features) % 3 == 0, 0.3, 0.0)
    return X, (rng.random(rows) < 1.0 / (1.0 + np.exp(-(X @ w - 0.5)))).astype(np.float64)


def measured(run: Callable[[], object]) -> tuple[float, float, object]:
    """Seconds, CPU seconds, and what came out."""
    began, cpu = perf_counter(), process_time()
    found = run()
    return perf_counter() - began, process_time() - cpu, found


OURS = "fedsvd, three parties"


def rows(count: int = 1_000_000, features: int = 100) -> Iterator[Row]:
    """Ours against the faster of scikit-learn at its own tolerance and at one as tight as ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best, _ = compared(count, features, turns=2, without="statsmodels")
    rival = min((name for name in best if name != OURS), key=lambda name: best[name][0])
    yield at_most(f"logistic regression {count:,} x {features}", best[OURS][0], best[rival][0], rival, MOST)


def compared(
    count: int, features: int, turns: int, without: str
) -> tuple[dict[str, tuple[float, float]], dict[str, Float]]:
    """The best seconds and CPU seconds of every way, in turns, and what each found."""
    X, y = drawn(count, features)
    cuts = [count // 5, count // 2]
    tables, labels = np.split(X, cuts), np.split(y, cuts)

    def ours() -> Float:
        found = FederatedLogisticRegression(federation=Simulation(policy=Policy.permissive())).fit(tables, labels)
        return np.append(found.intercept_, found.coef_)

    def newton(tolerance: float) -> Callable[[], Float]:
        def run() -> Float:
            found = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=tolerance).fit(X, y)
            return np.append(found.intercept_, found.coef_)

        return run

    def statsmodels() -> Float:
        return np.asarray(sm.GLM(y, sm.add_constant(X), family=sm.families.Binomial()).fit().params)

    ways: dict[str, Callable[[], Float]] = {
        OURS: ours,
        "scikit-learn newton-cholesky, tol 1e-4": newton(1e-4),
        "scikit-learn newton-cholesky, tol 1e-10": newton(1e-10),
        "statsmodels GLM": statsmodels,
    }
    ways = {name: run for name, run in ways.items() if not without or without not in name}
    best: dict[str, tuple[float, float]] = {}
    values: dict[str, Float] = {}
    for _ in range(turns):
        for name, run in ways.items():
            seconds, cpu, found = measured(run)
            before = best.get(name, (np.inf, np.inf))
            best[name], values[name] = (min(before[0], seconds), min(before[1], cpu)), np.asarray(found)
    return best, values


def main() -> None:
    """One line of JSON for each way, then the ratio to the faster rival."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--without", default="", metavar="WORD", help="leave out ways whose name has this word")
    asked = parser.parse_args()
    best, values = compared(asked.rows, asked.features, asked.turns, asked.without)
    for name, (seconds, cpu) in best.items():
        off = float(np.abs(values[name] - values[OURS]).max())
        print(json.dumps({"way": name, "seconds": seconds, "cpu_seconds": cpu, "largest difference": off}))
    rivals = [pair for name, pair in best.items() if not name.startswith("fedsvd")]
    own = best[OURS]
    ratio, cpu_ratio = own[0] / min(pair[0] for pair in rivals), own[1] / min(pair[1] for pair in rivals)
    record = {"rows": asked.rows, "features": asked.features, "ratio": ratio, "cpu_ratio": cpu_ratio, "bar": MOST}
    record |= {"met": ratio <= MOST, "cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0]}
    print(json.dumps(record | {"machine": platform.processor() or platform.machine()}))


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
