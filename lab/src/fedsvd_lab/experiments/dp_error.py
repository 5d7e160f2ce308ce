"""Figure 2a: the error of a differentially private SVD over epsilon, and ours next to it.

The error is the RMSE of the top singular vectors against LAPACK. FedPCA runs as the paper seems to have run it, its
noise on data as it is, and as its authors demand, on samples of norm at most 1.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from fedsvd.types import Float
from fedsvd_lab.baselines.fedpca import Privacy, fedpca, scaled
from fedsvd_lab.baselines.subspace import right_vectors
from fedsvd_lab.datasets import paper
from fedsvd_lab.experiments.compare import svd_rmse
from fedsvd_lab.experiments.context import Context
from fedsvd_lab.experiments.lossless import FEDPCA, FEDPCA_SCALED, RMSE
from fedsvd_lab.experiments.ours import METHODS, dealt, factorise, joint_factors
from fedsvd_lab.experiments.rows import Case, Measurement

_BLOCK = 256


def cases(settings: Mapping[str, Any], context: Context) -> Iterator[Case]:
    """One case to each data set."""
    shapes = tuple(settings["synthetic"]), (1, 1)
    sizes = paper.Sizes(settings["images"], *shapes, seed=context.seed)
    for name in settings["datasets"]:
        key = {"dataset": name, "delta": settings["delta"]}
        yield Case(key, _errors(name, sizes, settings, context))


def _errors(
    name: str, sizes: paper.Sizes, settings: Mapping[str, Any], context: Context
) -> Callable[[], Iterator[Measurement]]:
    def run() -> Iterator[Measurement]:
        X = paper.factorised(name, context.library, sizes)
        r = min(settings["components"], min(X.shape))
        U, _, Vt = (part for part in np.linalg.svd(X, full_matrices=False))
        U, Vt = U[:, :r], Vt[:r]
        for method in METHODS:
            ran = factorise(dealt(X), method, r)
            found, _, found_Vt = joint_factors(ran)
            error = svd_rmse(U, Vt, found, found_Vt)
            for epsilon in settings["epsilon"]:  # ours knows no epsilon: a level line
                yield Measurement(method, RMSE, error, case={"epsilon": epsilon, "r": r}, scheme=ran.scheme)
        Y, exact, exact_t = (X, U, Vt) if name.startswith("synthetic") else (X.T, Vt.T, U.T)
        order = np.random.default_rng(context.seed).permutation(Y.shape[1])
        parts = np.array_split(Y[:, order], 2, axis=1)
        for method, own in ((FEDPCA, parts), (FEDPCA_SCALED, scaled(parts))):
            for epsilon in settings["epsilon"]:
                error = _rival(own, Y, exact, exact_t, Privacy(epsilon, settings["delta"]), context.seed)
                yield Measurement(method, RMSE, error, case={"epsilon": epsilon, "r": r})

    return run


def _rival(parts: list[Float], Y: Float, U: Float, Vt: Float, privacy: Privacy, seed: int) -> float:
    space = fedpca(parts, U.shape[1], privacy, seed=seed, block=max(_BLOCK, U.shape[1]))
    return svd_rmse(U, Vt, space.U, right_vectors(Y, space))
