"""Whole studies against one place: on two cores and on all, with an even and with an ill-conditioned spectrum.

    python -m benchmarks.macro.studies [--cores N] [--only WORD] [--turns N]

``rows`` runs this file once for each number of cores, in a process of its own that is pinned to them: BLAS reads how
many threads it may have when it is loaded. All roles are in one process; data is in memory. The centralised way is QR
of X^T, a small SVD, one pass for Vt, or the library call that a user would write.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from benchmarks.measure import Row, at_most

CONDITIONS = (1.0, 1e3, 1e8)


@dataclass(frozen=True)
class Bar:
    """A study, the condition number of its data, and the largest ratio on two cores and on sixteen."""

    name: str
    condition: float
    two: float
    sixteen: float


BARS = (
    Bar("SVD 100,000 x 1,000", 1.0, 0.8, 0.7),
    Bar("SVD 100,000 x 1,000", 1e3, 1.0, 0.9),
    Bar("SVD 100,000 x 1,000", 1e8, 1.0, 0.9),
    Bar("PCA top 5 of 100,000 x 1,000", 1.0, 0.75, 0.6),
    Bar("PCA top 5 of 100,000 x 1,000", 1e3, 0.75, 0.6),
    Bar("PCA top 5 of 100,000 x 1,000", 1e8, 0.75, 0.6),
    Bar("SVD 10,000 x 1,000, split columns", 1.0, 1.6, 1.8),
    Bar("SVD 10,000 x 1,000, split columns", 1e8, 1.6, 1.8),
    Bar("LR 200,000 x 200, split columns", 1.0, 2.5, 2.5),
    Bar("LR 200,000 x 200, split columns", 1e3, 2.5, 2.5),
    Bar("PCA top 10 of 1,500 x 50,000 genotypes", 1.0, 1.3, 1.3),
)
SCALING = 0.45  # of our own time on two cores, with sixteen


def rows() -> Iterator[Row]:
    """Every bar, on two cores and on all there are, measured in processes of their own."""
    everything = len(os.sched_getaffinity(0))
    times: dict[tuple[str, float], float] = {}
    for cores in sorted({min(2, everything), everything}):
        for measured in in_a_process(cores):
            bar = next(bar for bar in BARS if (bar.name, bar.condition) == (measured["name"], measured["condition"]))
            name = f"{bar.name}, condition {bar.condition:g}, {cores} cores"
            most = bar.two if cores <= 2 else bar.sixteen
            yield at_most(name, measured["ours"], measured["rival"], measured["against"], most)
            key = (bar.name, bar.condition)
            if cores > 2 and key in times and not bar.name.startswith("LR"):
                yield at_most(f"{name} against 2", measured["ours"], times[key], "ours on 2 cores", SCALING)
            times.setdefault(key, measured["ours"])


def in_a_process(cores: int) -> Iterator[dict[str, Any]]:
    """What this file measures on so many cores."""
    threads = {name: str(cores) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    command = [sys.executable, "-m", "benchmarks.macro.studies", "--cores", str(cores)]
    with subprocess.Popen(command, env={**os.environ, **threads}, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            yield json.loads(line)


def main() -> None:
    """Measure on the cores that are asked for; one line of JSON for each bar."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cores", type=int, default=0, help="how many cores; all where left out")
    parser.add_argument("--only", default="", help="only bars with this word in their name")
    parser.add_argument("--turns", type=int, default=2)
    asked = parser.parse_args()
    if asked.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: asked.cores])
    pca([spread(30, 5, 1.0), spread(30, 5, 1.0)], 2)()  # what is imported at the first study is not measured
    for bar in BARS:
        if asked.only in bar.name:
            ours, rival, against = _study(bar)
            took = [(timed(ours), timed(rival)) for _ in range(asked.turns)]
            best = {"ours": min(pair[0] for pair in took), "rival": min(pair[1] for pair in took)}
            print(json.dumps({"name": bar.name, "condition": bar.condition, **best, "against": against}), flush=True)


def timed(work: Callable[[], object]) -> float:
    """Seconds of one run."""
    started = perf_counter()
    work()
    return perf_counter() - started


def _study(bar: Bar) -> tuple[Callable[[], object], Callable[[], object], str]:
    import numpy as np

    if bar.name.startswith("SVD 100,000"):
        X = spread(100_000, 1_000, bar.condition).T
        return vertical_svd(X), lambda: qr_route(X), "QR, small SVD, one pass"
    if bar.name.startswith("PCA top 5"):
        D = spread(100_000, 1_000, bar.condition)
        return pca([D[:50_000], D[50_000:]], 5), lambda: central_pca(D, 5), "QR, small SVD, one pass"
    if bar.name.startswith("SVD 10,000"):
        X = spread(10_000, 1_000, bar.condition)
        return vertical_svd(X), lambda: np.linalg.svd(X, full_matrices=False), "numpy.linalg.svd"
    if bar.name.startswith("LR"):
        X = spread(200_000, 200, bar.condition)
        y = X @ np.ones((200, 1)) + np.random.default_rng(1).standard_normal((200_000, 1))
        return regression(X, y), lambda: np.linalg.lstsq(X, y, rcond=None), "numpy.linalg.lstsq"
    from sklearn.decomposition import PCA

    G = np.random.default_rng(0).binomial(2, 0.3, size=(1_500, 50_000)).astype(float)
    parts = [G[:500], G[500:1_000], G[1_000:]]
    return pca(parts, 10), lambda: PCA(10, svd_solver="arpack").fit(G), "scikit-learn PCA, arpack"


def spread(rows: int, columns: int, condition: float) -> Any:
    """Gaussian data whose columns' scales run from 1 to 1/condition, mixed, so that no column alone is small."""
    import numpy as np

    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, columns))
    if condition == 1.0:
        return X
    Q = np.linalg.qr(rng.standard_normal((columns, columns)))[0]
    return (X * np.geomspace(1.0, 1.0 / condition, columns)) @ Q.T


def vertical_svd(X: Any) -> Callable[[], object]:
    """U, S and all Vt_i of a table whose columns two users hold."""
    from fedsvd.protocol.tasks import Split, Task
    from fedsvd.studies.study import Study

    half = X.shape[1] // 2
    return federated(Study(Task.SVD, Split.VERTICAL), [X[:, :half], X[:, half:]])


def pca(tables: list[Any], components: int) -> Callable[[], object]:
    """The top components and all scores, samples split."""
    from fedsvd.protocol.tasks import Task
    from fedsvd.studies.study import Study

    return federated(Study(Task.PCA, components=components), tables)


def regression(X: Any, y: Any) -> Callable[[], object]:
    """Least squares with an intercept, features split, labels with the second user."""
    from fedsvd.protocol.tasks import Split, Task
    from fedsvd.studies.study import Study

    half = X.shape[1] // 2
    study = Study(Task.LR, Split.VERTICAL, targets=1, label_user=2)
    return federated(study, [X[:, :half], X[:, half:]], [None, y])


def federated(study: Any, tables: list[Any], labels: list[Any] | None = None) -> Callable[[], object]:
    """The study, ready to run; what two parties can derive of each other is no matter here."""
    from warnings import catch_warnings, simplefilter

    from fedsvd.data.open import open_source
    from fedsvd.errors import PrivacyWarning
    from fedsvd.studies.parties import PartyData
    from fedsvd.studies.run import run_study

    given = labels or [None] * len(tables)
    parties = [PartyData(open_source(table), labels=y) for table, y in zip(tables, given, strict=True)]

    def run() -> object:
        with catch_warnings():
            simplefilter("ignore", PrivacyWarning)
            return run_study(study, parties)

    return run


def qr_route(X: Any) -> object:
    """The centralised way: QR of X^T, a small SVD, one pass for Vt."""
    import numpy as np

    R = np.linalg.qr(X.T, mode="r")
    U, sigma, _ = np.linalg.svd(R.T)
    return U, sigma, (U / sigma).T @ X


def central_pca(D: Any, components: int) -> object:
    """The same for components and scores of centred samples."""
    import numpy as np

    mean = D.mean(axis=0)
    centred = D - mean
    _, sigma, Vt = np.linalg.svd(np.linalg.qr(centred, mode="r"))
    return mean, sigma[:components], Vt[:components], centred @ Vt[:components].T


if __name__ == "__main__":
    main()
