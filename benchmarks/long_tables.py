"""Long tables of some thousands of features: PCA, linear and logistic regression against scikit-learn, split rows.

    python -m benchmarks.long_tables [--list] [--cores N] [--only WORD ...] [--turns N] [--json FILE]

A row is one study on one table: ``factors`` (ten strong directions over noise), ``noise`` (no direction is strong), or
``condition 1e8`` (singular values fall evenly to 1e-8 of the first). All roles are in one process, data is in memory,
and ours and the rivals run in turns on the same cores; the best turn of each counts, and the row is the ratio to the
faster rival. A PCA is measured by the scheme that ``auto`` takes and by sums of Gram matrices; a logistic regression
with few digits and with all. How far answers are apart, and what each part of ours took, stands beside the times.
Lines of JSON are printed as they are measured; with ``--json`` they are written with the machine's fingerprint too.
"""

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

Run = Callable[[], Any]


@dataclass(frozen=True)
class Bar:
    """A study, its table, how many parties hold it, and the largest ratio on two cores and on more."""

    study: str
    rows: int
    features: int
    table: str
    parties: int
    two: float
    more: float

    @property
    def name(self) -> str:
        return f"{self.study} {self.rows:,} x {self.features:,}, {self.table}, {self.parties} parties"


BARS = (
    *(
        Bar(study, 20_000, m, table, 2, 2.5, 3.0)
        for m in (1_000, 2_000, 4_000)
        for table in ("factors", "noise", "condition 1e8")
        for study in ("pca auto", "pca sum")
    ),
    *(Bar("linear", 20_000, 2_000, table, 3, 1.5, 1.5) for table in ("noise", "condition 1e8")),
    *(
        Bar(study, rows, features, "noise", 3, 2.0, 3.0)
        for rows, features in ((300_000, 50), (1_000_000, 100))
        for study in ("logistic few digits", "logistic all digits")
    ),
)
COMPONENTS = 5
_LAST: dict[str, Any] = {}  # the certificate of our last run


def main(words: Sequence[str] | None = None) -> int:
    """Measure what is asked for; the exit status says whether all bars were met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="name the rows and stop")
    parser.add_argument("--cores", type=int, default=0, help="how many cores; all where left out")
    parser.add_argument("--only", nargs="*", default=[], metavar="WORD", help="rows whose name has all of these words")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--json", type=Path, help="also write the rows here")
    asked = parser.parse_args(words)
    bars = [bar for bar in BARS if all(word in bar.name for word in asked.only)]
    if asked.list:
        print("\n".join(bar.name for bar in bars))
        return 0
    if asked.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: asked.cores])
        for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[name] = str(asked.cores)  # before BLAS is loaded
    import fedsvd  # before scikit-learn: it says how long idle threads of OpenBLAS spin

    assert fedsvd.__version__
    warnings.simplefilter("ignore")
    cores, found = len(os.sched_getaffinity(0)), []
    for bar in bars:
        found.append(measured(bar, asked.turns, cores))
        print(json.dumps(found[-1]), flush=True)
        if asked.json:
            from benchmarks.measure import fingerprint

            asked.json.write_text(json.dumps({"machine": fingerprint(), "rows": found}, indent=1) + "\n")
    return 0 if all(row["met"] for row in found) else 1


def measured(bar: Bar, turns: int, cores: int) -> dict[str, Any]:
    """The best seconds and processor seconds of ours and of every rival, their ratio, and how far answers differ."""
    from benchmarks.measure import bytes_by_party, longest_parts

    X = table(bar.table, bar.rows, bar.features)
    kind, _, option = bar.study.partition(" ")
    ours, rivals = {"pca": _pca, "linear": _linear, "logistic": _logistic}[kind](X, option, bar.parties)
    ways = {"ours": ours, **rivals}
    best = {name: (float("inf"), float("inf")) for name in ways}
    answers: dict[str, Any] = {}
    parts: dict[str, float] = {}
    for _ in range(turns):
        for name, run in ways.items():
            began, cpu = perf_counter(), process_time()
            answers[name] = run()
            took = perf_counter() - began, process_time() - cpu
            if name == "ours" and took[0] < best[name][0]:
                parts = longest_parts(_LAST["certificate"])
            best[name] = min(best[name][0], took[0]), min(best[name][1], took[1])
    rival = min(rivals, key=lambda name: best[name][0])
    most = bar.two if cores <= 2 else bar.more
    ratio = best["ours"][0] / best[rival][0]
    return {
        "name": bar.name,
        "cores": cores,
        "seconds": {name: round(pair[0], 3) for name, pair in best.items()},
        "processor seconds": {name: round(pair[1], 3) for name, pair in best.items()},
        "rival": rival,
        "ratio": round(ratio, 3),
        "bar": most,
        "met": ratio <= most,
        "largest difference": {name: _apart(answers["ours"], answers[name]) for name in rivals},
        "bytes": bytes_by_party(_LAST["certificate"]),
        "parts": parts,
    }


def _apart(ours: Any, theirs: Any) -> float:
    import numpy as np

    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def table(kind: str, rows: int, features: int) -> Any:
    """The table of this kind; the same for every study."""
    import numpy as np

    rng = np.random.default_rng(28)
    X = rng.standard_normal((rows, features))
    if kind == "factors":
        X += rng.standard_normal((rows, 10)) * np.geomspace(3.0, 1.0, 10) @ rng.standard_normal((10, features))
    elif kind == "condition 1e8":
        Q = np.linalg.qr(rng.standard_normal((features, features)))[0]
        X = (X * np.geomspace(1.0, 1e-8, features)) @ Q.T
    return X


def _simulation() -> Any:
    from fedsvd import Simulation
    from fedsvd.policy.rules import Policy

    return Simulation(policy=Policy.permissive())


def _pca(X: Any, scheme: str, parties: int) -> tuple[Run, dict[str, Run]]:
    """Singular values of the first components."""
    import numpy as np
    from sklearn.decomposition import PCA

    from fedsvd import FederatedPCA, Masks

    tables = np.array_split(X, parties)

    def ours() -> Any:
        found = FederatedPCA(COMPONENTS, masks=Masks(scheme=scheme), federation=_simulation()).fit(tables)
        _LAST["certificate"] = found.certificate_
        return np.asarray(found.singular_values_)

    def rival(solver: str) -> Run:
        return lambda: PCA(COMPONENTS, svd_solver=solver, random_state=0).fit(X).singular_values_

    return ours, {"scikit-learn PCA, its own choice": rival("auto"), "scikit-learn PCA, arpack": rival("arpack")}


def _linear(X: Any, _: str, parties: int) -> tuple[Run, dict[str, Run]]:
    """Intercept and coefficients by least squares."""
    import numpy as np
    from sklearn.linear_model import LinearRegression

    from fedsvd import FederatedLinearRegression

    rng = np.random.default_rng(29)
    y = X @ rng.standard_normal(X.shape[1]) + rng.standard_normal(len(X))
    tables, labels = np.array_split(X, parties), np.array_split(y, parties)

    def ours() -> Any:
        found = FederatedLinearRegression(federation=_simulation()).fit(tables, labels)
        _LAST["certificate"] = found.certificate_
        return np.append(found.intercept_, found.coef_)

    def rival() -> Any:
        found = LinearRegression(tol=1e-15).fit(X, y)  # at its own 1e-6 it drops what an ill-conditioned table holds
        return np.append(found.intercept_, found.coef_)

    return ours, {"scikit-learn LinearRegression": rival}


def _logistic(X: Any, digits: str, parties: int) -> tuple[Run, dict[str, Run]]:
    """Intercept and coefficients; ours comes with standard errors and a null model."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    from fedsvd import FederatedLogisticRegression

    rng = np.random.default_rng(29)
    w = np.where(np.arange(X.shape[1]) % 3 == 0, 0.3, 0.0)
    y = (rng.random(len(X)) < 1.0 / (1.0 + np.exp(-(X @ w - 0.5)))).astype(np.float64)
    tables, labels = np.array_split(X, parties), np.array_split(y, parties)
    opened = "table" if digits.startswith("few") else "all"

    def ours() -> Any:
        found = FederatedLogisticRegression(digits=opened, federation=_simulation()).fit(tables, labels)
        _LAST["certificate"] = found.certificate_
        return np.append(found.intercept_, found.coef_)

    def newton(tolerance: float) -> Run:
        def run() -> Any:
            found = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=tolerance).fit(X, y)
            return np.append(found.intercept_, found.coef_)

        return run

    return ours, {f"scikit-learn newton-cholesky, tol {tolerance:g}": newton(tolerance) for tolerance in (1e-4, 1e-9)}


if __name__ == "__main__":
    sys.exit(main())
