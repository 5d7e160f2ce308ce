"""Whole studies against doing it in one place: the speed bars, all roles in one process, one after the other.

Two users, as many BLAS threads as are set, data in memory. Beside each stands what Excalibur measured (C++ with MKL,
two peers with a core each, plain TCP, on a machine of two cores): for orientation, because it was another machine.
"""

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

from benchmarks.measure import Row, at_most, faster
from fedsvd.data.open import open_source
from fedsvd.errors import PrivacyWarning
from fedsvd.protocol.tasks import Split, Task
from fedsvd.studies.parties import PartyData
from fedsvd.studies.planning import Study
from fedsvd.studies.run import Outcome, run_study


def rows() -> Iterator[Row]:
    """Every bar of this file, measured as it is asked for."""
    yield from wide()
    yield from top_five()
    yield from tall()
    yield from regression()


def wide(m: int = 1000, n: int = 100_000) -> Iterator[Row]:
    """U, S and all Vt_i of a short and wide matrix, by exact sums; the rival's SVD runs once, because it takes long."""
    X = np.random.default_rng(0).standard_normal((m, n))
    parties = [PartyData(open_source(X[:, : n // 2])), PartyData(open_source(X[:, n // 2 :]))]
    ours = federated(Study(Task.SVD, Split.VERTICAL), parties)
    took, centralised, outcome = float("inf"), float("inf"), None
    for _ in range(2):
        seconds, outcome = timed(ours)
        took = min(took, seconds)
        centralised = min(centralised, timed(lambda: qr_route(X))[0])
    full = timed(lambda: np.linalg.svd(X, full_matrices=False))[0]
    name = f"SVD {m:,} x {n:,}"
    yield faster(name, took, full, "numpy svd", 2.5)
    yield at_most(name, took, centralised, "numpy qr(mode='r'), small SVD, one pass", 1.2)
    yield beside(name, took, 10.7)
    assert outcome is not None
    yield at_most(f"{name}, bytes on all links", outcome.certificate.bytes_total / 1e6, 90.0, "the bar", 1.0, "MB")


def top_five(m: int = 1000, n: int = 100_000) -> Iterator[Row]:
    """The top five components and all scores, samples split."""
    D = np.random.default_rng(0).standard_normal((n, m))
    parties = [PartyData(open_source(D[: n // 2])), PartyData(open_source(D[n // 2 :]))]
    ours = federated(Study(Task.PCA, components=5), parties)
    yield beside(f"top-5 PCA {m:,} x {n:,}", min(timed(ours)[0] for _ in range(2)), 4.6)


def tall(m: int = 10_000, n: int = 1_000) -> Iterator[Row]:
    """A tall matrix split by columns."""
    X = np.random.default_rng(0).standard_normal((m, n))
    parties = [PartyData(open_source(X[:, : n // 2])), PartyData(open_source(X[:, n // 2 :]))]
    ours = federated(Study(Task.SVD, Split.VERTICAL), parties)
    took, rival = in_few_turns(ours, lambda: np.linalg.svd(X, full_matrices=False))
    yield at_most(f"SVD {m:,} x {n:,}, split columns", took, rival, "numpy svd", 2.0)
    yield beside(f"SVD {m:,} x {n:,}, split columns", took, 2.1)


def regression(m: int = 200_000, n: int = 200) -> Iterator[Row]:
    """Least squares with an intercept, features split."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, n))
    y = X @ rng.standard_normal((n, 1)) + rng.standard_normal((m, 1))
    parties = [PartyData(open_source(X[:, : n // 2])), PartyData(open_source(X[:, n // 2 :]), labels=y)]
    ours = federated(Study(Task.LR, Split.VERTICAL, targets=1, label_user=2), parties)
    took, rival = in_few_turns(ours, lambda: np.linalg.lstsq(X, y, rcond=None))
    yield at_most(f"LR {m:,} x {n}, split columns", took, rival, "numpy lstsq", 4.0)
    yield beside(f"LR {m:,} x {n}, split columns", took, 2.3)


def qr_route(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The centralised way that compression is measured against: QR of X^T, a small SVD, one pass for Vt."""
    R = np.linalg.qr(X.T, mode="r")
    U, sigma, _ = np.linalg.svd(R.T)
    return U, sigma, (U / sigma).T @ X


def federated(study: Study, parties: list[PartyData]) -> Callable[[], Outcome]:
    """The study, ready to run; what two parties can derive of each other is no matter here."""

    def run() -> Outcome:
        with catch_warnings():
            simplefilter("ignore", PrivacyWarning)
            return run_study(study, parties)

    return run


def beside(name: str, took: float, theirs: float) -> Row:
    """A row without a bar: ours beside the best that Excalibur was seen to do."""
    return Row(name, took, theirs, "Excalibur, elsewhere", "for orientation", theirs / took, True)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    started = perf_counter()
    value = work()
    return perf_counter() - started, value


def in_few_turns(ours: Callable[[], object], rival: Callable[[], object], turns: int = 3) -> tuple[float, float]:
    """The best of a few turns each; the first of them warms up."""
    pairs = [(timed(ours)[0], timed(rival)[0]) for _ in range(turns)]
    return min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
