"""Which BLAS to compute with: ratios that show what two pools of threads cost each other on this machine.

    python -m benchmarks.micro.blas_pools [side]

Run it on an idle machine, with OPENBLAS_NUM_THREADS unset. A row is one round of calls that follow one another in the
product's loops, in several ways; a ratio of 1 is what the calls take when each is repeated alone. ``the product`` is
what ``fedsvd.linalg.backend`` does now, inside ``one_pool`` as a session runs, and outside of it.
"""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from time import perf_counter

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_limits

from benchmarks.measure import fingerprint
from fedsvd.linalg import backend, blas, pools

Call = Callable[[], object]


def described() -> list[str]:
    """Every BLAS of this process in words: its file, its version, its threads."""
    return [
        f"{Path(library.filepath).parent.name}: {library.internal_api} {library.version}, {library.num_threads} threads"
        for library in pools.loaded_libraries()
    ]


def main(side: int = 1000) -> None:
    """Print every table."""
    print(f"{fingerprint()['processor']}; {'; '.join(described())}; load-free rounds, best of many\n")
    rng = np.random.default_rng(0)
    A = rng.standard_normal((side, side))
    F = np.asfortranarray(A)
    G = np.asfortranarray(A @ A.T + side * np.eye(side))
    R = np.asfortranarray(np.triu(A) + side * np.eye(side))
    X = rng.standard_normal((side, 4 * side))
    lapack, scipy_blas = scipy.linalg.lapack, scipy.linalg.blas

    _table(
        f"a product, then a Cholesky factor ({side} x {side})",
        {
            "NumPy, then SciPy": [lambda: A @ A, lambda: lapack.dpotrf(G)],
            "SciPy's wrappers": [lambda: scipy_blas.dgemm(1.0, F, F), lambda: lapack.dpotrf(G)],
            "NumPy alone": [lambda: A @ A, lambda: np.linalg.cholesky(G)],
            "the product": [lambda: backend.matmul(A, A), lambda: backend.cholesky(G)],
        },
    )
    _table(
        f"an update of a factor: solve, Gram matrix, Cholesky, then a product ({side} x {4 * side})",
        {
            "NumPy products": [
                lambda: scipy_blas.dtrsm(1.0, R, X.T, side=1, trans_a=0),
                lambda: X @ X.T,
                lambda: lapack.dpotrf(G),
                lambda: A @ X,
            ],
            "the product": [
                lambda: backend.solve_triangular(R, X, transposed=True),
                lambda: backend.add_gram(None, X),
                lambda: backend.cholesky(G),
                lambda: backend.matmul(A, X),
            ],
        },
    )
    _small(rng)
    _places(rng, side)


def _table(title: str, ways: dict[str, list[Call]]) -> None:
    print(title)
    for name, calls in ways.items():
        for inside, pool in (("", nullcontext()), (", one pool", pools.one_pool())):
            _row(name + inside, calls, pool)
    _row("NumPy's pool limited at each call", _limited(next(iter(ways.values()))), nullcontext())
    print()


def _row(name: str, calls: list[Call], pool: AbstractContextManager[object]) -> None:
    with pool:
        alone = sum(_best(call) for call in calls)
        together = _best(lambda: [call() for call in calls])
    print(f"  {name:<36} {1e3 * together:9.2f} ms   {together / alone:6.2f} of each alone")


def _limited(calls: list[Call]) -> list[Call]:
    def around(call: Call) -> Call:
        def limited() -> object:
            with threadpool_limits(1, "blas"):
                return call()

        return limited

    return [calls[0], *(around(call) for call in calls[1:])]


def _small(rng: np.random.Generator) -> None:
    """LAPACK on small matrices: all threads against one."""
    print("small factorisations: all threads over one thread (above 1: one is quicker)")
    for n in (32, 64, 128, 192, 256, 384, 512, 1024):
        A = rng.standard_normal((n, n))
        G, calls = np.asfortranarray(A @ A.T), {}
        calls["Cholesky"] = lambda G=G: scipy.linalg.lapack.dpotrf(G)
        calls["QR"] = lambda A=A, n=n: scipy.linalg.lapack.dgeqrf(A, lwork=64 * n)
        calls["SVD"] = lambda A=A: blas.gesdd(A)
        ratios = []
        for name, call in calls.items():
            many = _best(call)
            with pools.one_thread():
                ratios.append(f"{name} {many / _best(call):5.2f}")
        print(f"  n = {n:<5} {'   '.join(ratios)}")
    print(f"  (one thread is used below {pools.WORTH_SHARING})\n")


def _places(rng: np.random.Generator, side: int) -> None:
    """A product into columns of a larger array: in place against a copy."""
    W, X, out = rng.standard_normal((side, side)), rng.standard_normal((side, 4 * side)), np.empty((side, 12 * side))

    def copied() -> None:
        out[:, side : 5 * side] = W @ X

    in_place = _best(lambda: backend.matmul(W, X, out[:, side : 5 * side]))
    print(f"into columns of a larger array: {in_place / _best(copied):.2f} of NumPy's product and a copy")


def _best(call: Call, seconds: float = 0.5) -> float:
    """The best time of a call over half a second, at least three rounds."""
    best, until, rounds = float("inf"), perf_counter() + seconds, 0
    while rounds < 3 or perf_counter() < until:
        started = perf_counter()
        call()
        best, rounds = min(best, perf_counter() - started), rounds + 1
    return best


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
