"""Table 1: how far SVD, PCA / LSA and regression are from the answer in one place, ours and the rivals'.

The reference is LAPACK on the joint matrix. LAPACK on the same matrix with rows and columns permuted says how well that
reference is known: nothing can be nearer to it than it is to itself. Where the table is of ten vectors, they are also
compared with a reference refined in extended precision, because LAPACK itself is up to 5e-14 away from the truth.
The rivals see features x samples with samples dealt to the users, which is what fits the paper's figures.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from fedsvd.errors import DataError
from fedsvd.types import Float
from fedsvd_lab.baselines import sgd
from fedsvd_lab.baselines.fedpca import Privacy, fedpca, scaled
from fedsvd_lab.baselines.subspace import right_vectors, top_eigenvectors
from fedsvd_lab.baselines.wda import wda_pca
from fedsvd_lab.datasets import paper
from fedsvd_lab.experiments import refined
from fedsvd_lab.experiments.compare import projection_distance, projection_distance_spectral, svd_rmse
from fedsvd_lab.experiments.context import Context
from fedsvd_lab.experiments.ours import METHODS, dealt, factorise, joint_factors, regress, training_error
from fedsvd_lab.experiments.reference import Reference
from fedsvd_lab.experiments.rows import Case, Measurement

SVD, PCA, LR = "svd", "pca", "lr"
RMSE, DISTANCE, MSE = "RMSE of singular vectors", "projection distance", "mean squared error"
SPECTRAL = "projection distance, spectral norm"
TRUE = "projection distance to the refined reference"
LAPACK = "LAPACK on permuted data"
FEDPCA, FEDPCA_SCALED = "FedPCA", "FedPCA, samples of norm 1"


def cases(settings: Mapping[str, Any], context: Context) -> Iterator[Case]:
    """One case to each data set and task; what a data set needs is loaded once."""
    shapes = tuple(settings["synthetic"]), tuple(settings["synthetic_regression"])
    sizes = paper.Sizes(settings["images"], *shapes, seed=context.seed)
    rivals = paper.Sizes(settings["images_rivals"], *shapes, seed=context.seed)
    fitted = paper.Sizes(settings["images_regression"], *shapes, seed=context.seed)
    for name in settings["datasets"]:
        held: dict[str, Any] = {}
        size: dict[str, Any] = {"images": sizes.images} if name == "mnist" else {}
        if name.startswith("synthetic"):
            size = {"shape": "x".join(map(str, sizes.synthetic))}
        r = tuple(settings["components"])
        yield Case({"dataset": name, "task": SVD, **size}, _svd(name, sizes, context, held))
        yield Case({"dataset": name, "task": PCA, "r": r[0], **size}, _pca(name, sizes, context, held, r))
        size = {"images": rivals.images} if name == "mnist" else size
        key = {"dataset": name, "task": PCA, "r": r[0], "of": "rivals", **size}
        yield Case(key, _rivals(name, rivals, r[0], context))
        if name != "synthetic-text":
            size = {"images": fitted.images} if name == "mnist" else {}
            if name == "synthetic":
                size = {"shape": "x".join(map(str, fitted.synthetic_regression))}
            yield Case({"dataset": name, "task": LR, **size}, _regression(name, fitted, context, settings))


def _reference(name: str, sizes: paper.Sizes, context: Context, held: dict[str, Any]) -> Reference:
    if "reference" not in held:
        held["reference"] = Reference.of(
            paper.factorised(name, context.library, sizes), context.seed, name.startswith("synthetic")
        )
    reference: Reference = held["reference"]
    return reference


def _svd(name: str, sizes: paper.Sizes, context: Context, held: dict[str, Any]) -> Callable[[], Iterator[Measurement]]:
    def run() -> Iterator[Measurement]:
        ref = _reference(name, sizes, context, held)
        rank = ref.rank
        for method in METHODS:
            ran = factorise(dealt(ref.X), method)
            U, sigma, Vt = joint_factors(ran)
            if len(sigma) < rank:
                raise DataError(f"{method} found rank {len(sigma)} on {name}, LAPACK {rank}", "report it")
            held[method] = U[:, : ref.most]
            error = svd_rmse(ref.U[:, :rank], ref.Vt[:rank], U[:, :rank], Vt[:rank])
            yield Measurement(method, RMSE, error, scheme=ran.scheme)
        yield Measurement(LAPACK, RMSE, ref.own_rmse, note="mean over permutations")
        Y = ref.X if ref.of_features else ref.X.T
        parts = np.array_split(Y, 2, axis=1)
        U, Vt = (ref.U, ref.Vt) if ref.of_features else (ref.Vt.T, ref.U.T)
        for method, own in ((FEDPCA, parts), (FEDPCA_SCALED, scaled(parts))):
            space = fedpca(own, rank, Privacy(), seed=context.seed, block=Y.shape[0])
            found = right_vectors(Y, space)
            yield Measurement(method, RMSE, svd_rmse(U[:, :rank], Vt[:rank], space.U[:, :rank], found[:rank]))

    return run


def _pca(
    name: str, sizes: paper.Sizes, context: Context, held: dict[str, Any], components: tuple[int, ...]
) -> Callable[[], Iterator[Measurement]]:
    def run() -> Iterator[Measurement]:
        ref = _reference(name, sizes, context, held)
        for r in components:
            for method in METHODS:
                ran = factorise(dealt(ref.X), method, r)
                U = ran.parties[0].U
                yield from _distances(method, ref, U, r, ran.scheme)
            yield Measurement(LAPACK, DISTANCE, ref.own_distance(r), case={"r": r}, note="mean over permutations")
            if ref.refinable:
                yield Measurement(LAPACK, TRUE, ref.own_truth(r), case={"r": r}, note="LAPACK on the data as it is")

    return run


def _distances(method: str, ref: Reference, U: Float, r: int, scheme: str) -> Iterator[Measurement]:
    exact = ref.U[:, :r]
    case = {"r": r}
    yield Measurement(method, DISTANCE, projection_distance(exact, U), case=case, scheme=scheme)
    yield Measurement(method, SPECTRAL, projection_distance_spectral(exact, U), case=case, scheme=scheme)
    if ref.refinable:
        yield Measurement(method, TRUE, refined.distance(ref.truth(r), U), case=case, scheme=scheme)


def _rivals(name: str, sizes: paper.Sizes, r: int, context: Context) -> Callable[[], Iterator[Measurement]]:
    """FedPCA and WDA on features x samples: the paper's synthetic matrix, the transpose of its real ones."""

    def run() -> Iterator[Measurement]:
        X = paper.factorised(name, context.library, sizes)
        Y = X if name.startswith("synthetic") else X.T
        # An eigenvector of the Gram matrix is exact enough for errors of 1e-5 and more.
        exact = top_eigenvectors(Y @ Y.T, r).U
        order = np.random.default_rng(context.seed).permutation(Y.shape[1])
        parts = np.array_split(Y[:, order], 2, axis=1)
        for method, own in ((FEDPCA, parts), (FEDPCA_SCALED, scaled(parts))):
            space = fedpca(own, r, Privacy(), seed=context.seed, block=Y.shape[0])
            yield Measurement(method, DISTANCE, projection_distance(exact, space.U))
        yield Measurement("WDA", DISTANCE, projection_distance(exact, wda_pca(parts, r).U))

    return run


def _regression(
    name: str, sizes: paper.Sizes, context: Context, settings: Mapping[str, Any]
) -> Callable[[], Iterator[Measurement]]:
    def run() -> Iterator[Measurement]:
        X, y = paper.regression(name, context.library, sizes)
        parts = dealt(X)
        for method in METHODS:
            ran = regress(parts, y, method)
            yield Measurement(method, MSE, training_error(ran, parts, y), scheme=ran.scheme)
        yield Measurement("optimum (LAPACK)", MSE, sgd.optimum(X, y))
        epochs = tuple(settings["epochs"])
        for epoch, error in sgd.full_batch(X, y, epochs).items():
            yield Measurement(f"SGD {epoch} epochs, full batch", MSE, error)
        affordable = tuple(epoch for epoch in epochs if epoch * X.size <= settings["most_steps"])
        for epoch, error in sgd.mini_batches(X, y, affordable, seed=context.seed).items():
            yield Measurement(f"SGD {epoch} epochs, batches of {sgd.BATCH}", MSE, error)

    return run
