"""Three small sweeps of our own: block size (figure 4e), users and their columns (figure 4f), reconstruction error."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from fedsvd_lab.datasets import synthetic
from fedsvd_lab.experiments.compare import mape, rmse
from fedsvd_lab.experiments.context import Context
from fedsvd_lab.experiments.ours import DEFAULT, METHODS, PAPER, Ran, as_published, dealt, factorise, joint_factors
from fedsvd_lab.experiments.rows import Case, Measurement

TIME, PER_USER, MAPE, RMSE = "time", "bytes sent by a user", "MAPE of the reconstruction", "RMSE of the reconstruction"


def block_size_cases(settings: Mapping[str, Any], context: Context) -> Iterator[Case]:
    """Time of the paper's scheme over b; the default has no such parameter and is run once for comparison."""
    m, n = settings["shape"]
    for b in settings["b"]:
        yield Case({"m": m, "n": n, "b": b}, _at_block_size(m, n, b, settings["b"], context))


def _at_block_size(m: int, n: int, b: int, widths: list[int], context: Context) -> Callable[[], Iterator[Measurement]]:
    def run() -> Iterator[Measurement]:
        parts = dealt(synthetic.power_law_of_the_code(m, n, seed=context.seed))
        ran = _best(lambda: as_published(parts, b=b))
        yield Measurement(PAPER, TIME, ran.seconds, "s", scheme=ran.scheme)
        if b == widths[0]:
            ran = _best(lambda: factorise(parts, DEFAULT))
            for other in widths:  # the same run stands at every b: a level line
                yield Measurement(DEFAULT, TIME, ran.seconds, "s", {"b": other}, scheme=ran.scheme)

    return run


def _best(run: Callable[[], Ran]) -> Ran:
    """The quicker of two runs: one may be disturbed."""
    return min((run(), run()), key=lambda ran: ran.seconds)


def users_cases(settings: Mapping[str, Any], context: Context) -> Iterator[Case]:
    """Bytes that one user sends, over the number of users and the columns of each."""
    for users in settings["users"]:
        for columns in settings["columns"]:
            key = {"m": settings["m"], "users": users, "n_i": columns}
            yield Case(key, _per_user(settings["m"], users, columns, context))


def _per_user(m: int, users: int, columns: int, context: Context) -> Callable[[], Iterator[Measurement]]:
    def run() -> Iterator[Measurement]:
        parts = dealt(synthetic.power_law_of_the_code(m, users * columns, seed=context.seed), users)
        for method in METHODS:
            ran = factorise(parts, method)
            most = max(ran.sent.values())
            yield Measurement(method, PER_USER, most, "bytes", scheme=ran.scheme)

    return run


def reconstruction_cases(settings: Mapping[str, Any], context: Context) -> Iterator[Case]:
    """How far ``U S V^T`` is from X, on the synthetic data in both readings."""
    for m, n in settings["shapes"]:
        for reading in ("code", "text"):
            yield Case({"m": m, "n": n, "reading": reading}, _reconstructed(m, n, reading, context))


def _reconstructed(m: int, n: int, reading: str, context: Context) -> Callable[[], Iterator[Measurement]]:
    def run() -> Iterator[Measurement]:
        make = synthetic.power_law_of_the_code if reading == "code" else synthetic.power_law
        X = make(m, n, seed=context.seed)
        for method in METHODS:
            ran = factorise(dealt(X), method)
            U, sigma, Vt = joint_factors(ran)
            again = (U * sigma) @ Vt
            yield Measurement(method, MAPE, mape(X, again), scheme=ran.scheme)
            yield Measurement(method, RMSE, rmse(X, again), scheme=ran.scheme)
        U, sigma, Vt = np.linalg.svd(X, full_matrices=False)
        again = (U * sigma) @ Vt
        yield Measurement("LAPACK", MAPE, mape(X, again))
        yield Measurement("LAPACK", RMSE, rmse(X, again))

    return run
