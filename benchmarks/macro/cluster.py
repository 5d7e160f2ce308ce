"""What a cluster costs on one machine: a party's compression by Dask workers against the same in one process.

On one machine with as many workers as cores the most that can be gained is what BLAS threads gain anyway; the ratio
is the overhead of scheduling, of processes and of TLS. Start-up of the cluster is printed apart.
"""

from collections.abc import Iterator
from time import perf_counter

import numpy as np

from benchmarks.measure import Row
from fedsvd.compress.reduce import compress, panel_width
from fedsvd.data.open import open_source
from fedsvd.engine.cluster import Cluster


def rows(m: int = 500, n: int = 200_000, workers: int = 2) -> Iterator[Row]:
    """Compression of a matrix made on the fly, by one process and by the workers; the factors must agree."""
    source = open_source(f"synthetic://{m}x{n}?seed=1")
    started = perf_counter()
    L_i = compress(source).L_i
    alone = perf_counter() - started
    with Cluster.open(workers=workers) as cluster:
        up = perf_counter() - started - alone
        started = perf_counter()
        R = cluster.factor(source, None, panel_width(m)).factor()
        spread = perf_counter() - started
    expected = np.linalg.svd(L_i, compute_uv=False)
    error = float(np.abs(np.linalg.svd(R, compute_uv=False) - expected).max() / expected[0])
    name = f"compress {m} x {n:,} on {workers} Dask workers"
    yield Row(name, spread, alone, "one process", "for orientation", spread / alone, True)
    yield Row(f"{name}: starting the cluster", up, alone, "one process", "for orientation", up / alone, True)
    yield Row(f"{name}: singular values", error, 1e-12, "one process", "<= 1e-12", error / 1e-12, error <= 1e-12, "S_1")
