"""Logistic regression of several classes (multinomial) on split rows, by Newton's method.

The first class is the reference; ``eta_k = x theta_k`` is the log-odds of class k against it. One row of data has the
Hessian ``S (x) x x^T`` with S the covariance of a multinomial draw. Its Cholesky factor has a closed form, because a
multinomial draw is a chain of binomial ones, so a party's rows again have a Gram matrix that is summed.

The ridge penalty is that of scikit-learn: on all K coefficient vectors of the symmetric form, which sum to 0.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fedsvd.errors import ConfigError, DataError, ShapeError
from fedsvd.statistics.distributions import wald
from fedsvd.statistics.ended import Ended
from fedsvd.statistics.glm import explained, inverse_of
from fedsvd.statistics.glm_digits import uncentred
from fedsvd.statistics.irls import Contribution, Limits, Request, Steps, asked, iterate, squares
from fedsvd.statistics.meats import meat
from fedsvd.statistics.newton import Fitting, by_size, ending_bits, fitted, opened_moments
from fedsvd.statistics.newton_requests import Evaluation, Found, Moments, Point, Shape, design
from fedsvd.statistics.robust import USUAL, Errors, Scores
from fedsvd.statistics.undefined import PENALISED, Number, Numbers, is_array
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class MultinomialInference:
    """A fitted model; arrays have a row for each class but the first and a column for each coefficient."""

    coefficients: Float  # (classes - 1, q), an intercept first; NaN where aliased
    intercept: bool
    standard_errors: Numbers
    z: Numbers
    p: Numbers
    intervals: Numbers  # (classes - 1, q, 2)
    covariance: Numbers  # ((classes - 1) q, (classes - 1) q), class after class
    n: int
    rank: int
    counts: Float  # (classes,), the sum of weights of each class
    deviance: float
    null_deviance: float
    log_likelihood: float
    aic: Number
    bic: Number
    iterations: int
    alpha: float
    level: float
    solution: Float  # of the same fitted values, of least norm where columns are dependent
    aliased: tuple[int, ...] = ()  # class after class: coefficients of columns that depend on those before them
    errors: Errors = USUAL
    naive: Numbers | None = None  # the covariance that the model itself says, where errors are robust

    @property
    def freedom(self) -> None:
        """Coefficients are tested by the normal law."""

    @property
    def compared(self) -> float:
        """By what nested models of the same records are compared."""
        return self.deviance

    def __repr__(self) -> str:
        return f"MultinomialInference(classes={self.counts.shape[0]}, n={self.n})"

    def in_words(self, name: str) -> str:
        """One sentence for a report."""
        return explained(name, self.iterations, self.deviance, self.null_deviance, self.n)

    def symmetric(self) -> Float:
        """The coefficients of all classes, (classes, q), that sum to 0: scikit-learn's form."""
        full = np.concatenate((np.zeros((1, self.solution.shape[1])), self.solution))
        centred: Float = full - full.mean(axis=0)
        return centred


def contribution(
    request: Request, X: Float, codes: Float, classes: int, *, intercept: bool = True, weights: Float | None = None
) -> Contribution:
    """A party's answer, from its rows X, (n_i, features), and the class of each as a number from 0."""
    labels = _labels(X, codes, classes)
    rows = np.concatenate((np.ones((X.shape[0], 1)), X), axis=1) if intercept else X
    prior = np.ones(X.shape[0]) if weights is None else weights
    chosen = np.eye(classes)[labels]
    if request.beta is None:
        start = np.log((chosen + 1.0 / classes) / 2.0)
        eta = start[:, 1:] - start[:, :1]
    else:
        if request.beta.shape != ((classes - 1) * rows.shape[1],):
            raise ShapeError(f"{rows.shape[1]} columns and {classes} classes do not fit {request.beta.shape}")
        eta = rows @ request.beta.reshape(classes - 1, -1).T
    log_share = special.log_softmax(np.concatenate((np.zeros((eta.shape[0], 1)), eta), axis=1), axis=1)
    deviance = -2.0 * prior * np.take_along_axis(log_share, labels[:, None], axis=1)[:, 0]
    root, residual = _chain(np.exp(log_share), chosen)
    possible = {
        "rows": float(X.shape[0]),
        "weight": float(np.sum(prior)),
        "deviance": float(np.sum(deviance)),
        "pearson": float(prior @ np.einsum("ik,ik->i", residual, residual)),
        **{f"class {k}": float(count) for k, count in enumerate(prior @ chosen)},
    }
    totals = tuple(possible[name] for name in request.totals)
    if not request.gram:
        return Contribution(None, totals)
    scaled = np.sqrt(prior)[:, None, None] * root
    working = np.sqrt(prior)[:, None] * residual
    if request.beta is None:
        working += np.einsum("ijk,ij->ik", scaled, eta)
    design = np.einsum("ijk,iq->ikjq", scaled, rows).reshape(working.size, -1)
    return Contribution(np.concatenate((design, working.reshape(-1, 1)), axis=1), totals)


def _labels(X: Float, codes: Float, classes: int) -> NDArray[np.int64]:
    labels = np.asarray(codes).astype(np.int64)
    inside = np.array_equal(labels, codes) and bool(np.all((labels >= 0) & (labels < classes)))
    if labels.shape != (X.shape[0],) or not inside:
        raise DataError(
            f"classes are not whole numbers from 0 to {classes - 1}, one for each row", "name all classes (classes)"
        )
    return labels


def evaluate(
    at: Point, X: Float, codes: Float, classes: int, *, intercept: bool = True, weights: Float | None = None
) -> Evaluation:
    """A party's part of deviance, score and information at a point, from its rows X and the class of each."""
    labels = _labels(X, codes, classes)
    Z, prior = design(at, X, int(intercept)), np.ones(X.shape[0]) if weights is None else weights
    K, q = classes - 1, Z.shape[1]
    eta = Z @ at.beta.reshape(K, q).T
    log_share = special.log_softmax(np.concatenate((np.zeros((eta.shape[0], 1)), eta), axis=1), axis=1)
    deviance = -2.0 * float(prior @ np.take_along_axis(log_share, labels[:, None], axis=1)[:, 0])
    share, chosen = np.exp(log_share[:, 1:]), np.eye(classes)[labels][:, 1:]
    score = ((chosen - share) * prior[:, None]).T @ Z
    curved = prior[:, None] * share * (1.0 - share)
    information = None
    if at.information:
        information = np.empty((K * q, K * q))
        for a in range(K):
            for b in range(a, K):
                weight = curved[:, a] if a == b else -prior * share[:, a] * share[:, b]
                block = (Z * weight[:, None]).T @ Z
                information[a * q : (a + 1) * q, b * q : (b + 1) * q] = block
                information[b * q : (b + 1) * q, a * q : (a + 1) * q] = block.T
    return Evaluation(deviance, 0.0, score.ravel(), information, curved)


def scores(
    at: Point, X: Float, codes: Float, classes: int, *, intercept: bool = True, weights: Float | None = None
) -> Scores:
    """The score of each own row at a point, class after class."""
    labels, Z = _labels(X, codes, classes), design(at, X, int(intercept))
    eta = Z @ at.beta.reshape(classes - 1, -1).T
    share = special.softmax(np.concatenate((np.zeros((len(eta), 1)), eta), axis=1), axis=1)
    pull = (np.eye(classes)[labels] - share)[:, 1:] * (1.0 if weights is None else weights[:, None])
    return Scores(np.einsum("nk,nq->nkq", pull, Z).reshape(len(Z), -1))


def fit_by_digits(classes: int, shape: Shape, *, alpha: float, level: float = 0.95) -> Fitting:
    """The whole fit by sums of few digits (``newton.py``): a ``MultinomialInference``, and the last step."""
    if alpha > 0.0:
        root = _penalty(classes, shape.features, shape.intercept, alpha)
        shape = replace(shape, penalty=root.T @ root)
    moments: Moments = yield from opened_moments(shape)
    counts = moments.targets
    found: Found = yield from fitted(shape, moments, _null_constants(counts))
    summed = yield from meat(found, shape)
    totals = yield from by_size("end", found.at, shape.users, ending_bits(shape.table))
    ended = Ended(
        uncentred(found.beta, found.centre, shape),
        PENALISED if alpha > 0.0 else uncentred(found.root, found.centre, shape),
        {"deviance": max(float(totals[0]), 0.0)},
        found.iterations,
        found.halvings,
        meat=summed,
        errors=shape.errors,
    )
    null = _null_deviance(counts, float(counts.sum()))
    return _inference(ended, classes, shape.n, shape.intercept, counts, null, alpha, level), found.decrement


def _null_constants(counts: Float) -> Float:
    if not np.all(counts > 0.0):
        raise _empty()
    constants: Float = np.log(counts[1:] / counts[0])
    return constants


def _empty() -> DataError:
    return DataError("a class has no row in the joint data", "leave it out of the classes of the study")


def _null_deviance(counts: Float, weight: float) -> float:
    return float(-2.0 * np.sum(counts * np.log(counts / weight)))


def fit(
    classes: int,
    features: int,
    *,
    intercept: bool = True,
    alpha: float = 0.0,
    tolerance: float = 1e-9,
    max_iterations: int = 50,
    level: float = 0.95,
    errors: Errors = USUAL,
) -> Steps:
    """The whole fit, a ``MultinomialInference``: see ``glm.fit``; ``alpha`` is scikit-learn's ``1 / C``."""
    if classes < 3:
        raise ConfigError(f"{classes} classes are no multinomial model", "use the binomial family for two")
    names = tuple(f"class {k}" for k in range(classes))
    start = yield from asked(Request("step", 0, None, ("rows", "weight", *names), gram=True))
    counts = np.array([start.totals[name] for name in names])
    if not np.all(counts > 0.0):
        raise _empty()
    n, weight = round(start.totals["rows"]), start.totals["weight"]
    limits = Limits(n, weight, tolerance, max_iterations, dispersion=False, outcomes=True)
    penalty = _penalty(classes, features, intercept, alpha) if alpha > 0.0 else None
    found = yield from iterate(start, limits, penalty, ("deviance",), last=("deviance",))
    beta, aliased, inverse = inverse_of(found, n, alpha)
    summed = yield from squares(found.beta, inverse, errors)
    at_end = found.totals, found.iterations, found.halvings, found.beta, found.problem.rank
    ended = Ended(beta, inverse, *at_end, aliased, summed, errors)
    return _inference(ended, classes, n, intercept, counts, _null_deviance(counts, weight), alpha, level)


def _chain(share: Float, chosen: Float) -> tuple[Float, Float]:
    """Of each row: L, (n, K - 1, K - 1), with ``L L^T`` the covariance of classes 1 on, and ``L^-1 (chosen - share)``.

    Class k is drawn from what the classes 1 .. k - 1 left over; ``left`` are tail sums, so that nothing cancels.
    """
    p = share[:, 1:]
    classes = p.shape[1]
    after = share[:, :1] + np.cumsum(p[:, ::-1], axis=1)[:, ::-1]  # of class k and all later ones, and the reference
    left = np.concatenate((after[:, 1:], share[:, :1]), axis=1)  # without class k
    tiny = np.finfo(np.float64).tiny
    spread = np.sqrt(np.maximum(p * left / after, tiny))
    L = np.zeros((share.shape[0], classes, classes))
    for k in range(classes):
        L[:, k, k] = spread[:, k]
        L[:, k + 1 :, k] = -p[:, k + 1 :] * (spread[:, k] / left[:, k])[:, None]
    taken = np.cumsum(chosen[:, 1:], axis=1) - chosen[:, 1:]
    residual: Float = (chosen[:, 1:] - (1.0 - taken) * p / after) / spread
    return L, residual


def _penalty(classes: int, features: int, intercept: bool, alpha: float) -> Float:
    """A root of ``alpha (I - 1 1^T / K)`` for each feature, in the coordinates of the classes but the first."""
    between = np.linalg.cholesky(np.eye(classes - 1) - 1.0 / classes).T
    first = int(intercept)
    root: Float = math.sqrt(alpha) * np.kron(between, np.eye(features + first)[first:])
    return root


def _inference(
    found: Ended, classes: int, n: int, intercept: bool, counts: Float, null: float, alpha: float, level: float
) -> MultinomialInference:
    rank, beta = found.rank, found.beta
    covariance, naive = found.covariances(n)
    tests = wald(beta, np.sqrt(np.diag(covariance)) if is_array(covariance) else covariance, level)
    likelihood = -found.totals["deviance"] / 2.0
    shape = (classes - 1, -1)

    def shaped(values: Numbers, *more: int) -> Numbers:
        return values.reshape(*shape, *more) if is_array(values) else values

    return MultinomialInference(
        coefficients=beta.reshape(shape),
        intercept=intercept,
        standard_errors=shaped(tests.errors),
        z=shaped(tests.statistic),
        p=shaped(tests.p),
        intervals=shaped(tests.intervals, 2),
        covariance=covariance,
        n=n,
        rank=rank,
        counts=counts,
        deviance=found.totals["deviance"],
        null_deviance=null,
        log_likelihood=likelihood,
        aic=PENALISED if alpha > 0.0 else -2.0 * likelihood + 2.0 * rank,
        bic=PENALISED if alpha > 0.0 else -2.0 * likelihood + math.log(n) * rank,
        iterations=found.iterations,
        alpha=alpha,
        level=level,
        solution=found.solution.reshape(shape),
        aliased=found.aliased,
        errors=found.errors,
        naive=naive,
    )
