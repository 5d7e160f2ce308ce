"""A regression table on split rows by sums of few digits, as a user plays it (specification, section 3).

One pass compresses the own rows ``[1 X_i y_i]`` to a factor; every sum but that of robust errors follows from it. The
CSP sees padded words, and how many scores there are. No home test is made on the way: a linear model weights no record
by its coefficients, so that leverages are those that the owner approved.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from fedsvd.compress.centre import own_shift
from fedsvd.compress.reduce import Reduced
from fedsvd.errors import DataError
from fedsvd.linalg.backend import to_numpy
from fedsvd.protocol.model import Digits
from fedsvd.protocol.steps import SIZE_CLASSES
from fedsvd.protocol.tasks import Robust
from fedsvd.roles.user.digits import DigitSums, name_of
from fedsvd.roles.user.horizontal_regression import own_squares, robust_tables
from fedsvd.roles.user.prediction import RegressionResult
from fedsvd.roles.user.requests import Local, Script
from fedsvd.roles.user.squared_scores import joint_clusters
from fedsvd.roles.user.statistics import joint_weight
from fedsvd.roles.user.work import Work
from fedsvd.statistics.linear_digits import LinearFit, LinearShape, fit_by_digits, squares_by_digits
from fedsvd.statistics.newton import MORE, TABLE, Fitting, powers
from fedsvd.statistics.newton_requests import Asked, Sizes, Totals
from fedsvd.types import Float

_OF_LEVERAGE = 7  # bits of a leverage: HC2 and HC3 are not defined where fewer are left of 1 less it


@dataclass(repr=False)
class _Home:
    """Own rows as a factor of ``[1 X_i y_i]`` about own means, and the own matrix of robust errors once it is made."""

    L: Float  # (features + targets, any)
    mean: Float  # of each column, as a shift and what is left of it; zero without an intercept
    rest: Float
    weight: float  # the number of own rows, or the sum of their weights
    features: int
    first: int
    scales: Float = field(default_factory=lambda: np.ones(1))  # powers of two that columns are divided by
    squares: Float | None = None  # (targets, products)
    joint_means: Float | None = None  # of all users, once they were opened

    def sizes(self, asked: Sizes) -> Float:
        """Own numbers whose magnitudes bound the joint ones."""
        match asked.of:
            case "columns":
                return self._spread(np.zeros(len(self.L)))
            case "start":
                assert asked.at is not None
                return self._spread(asked.at.centre)
            case "squares":
                largest: Float = np.abs(self.values(asked)).reshape(len(self.L) - self.features, -1).max(axis=1)
                return largest
        return self.values(asked)

    def values(self, asked: Sizes | Asked) -> Float:
        """Own parts of totals, of columns divided by their scales."""
        if asked.of == "moments":
            return self.weight * (self.mean + self.rest) / self.scales
        if asked.of == "squares":
            assert self.squares is not None
            return (self.squares / np.square(self.scales[self.features :, None])).ravel()
        assert asked.at is not None
        X, Y = self._factor(asked.at.centre)
        if asked.of == "table":
            return np.asarray((X @ X.T)[np.triu_indices(len(X))])
        left = Y - asked.at.beta.reshape(len(X), -1).T @ X
        found: Float = (X @ left.T).ravel() if asked.of == "score" else np.einsum("ij,ij->i", left, left)
        return found

    def _spread(self, centre: Float) -> Float:
        """The root mean square of each column about a point."""
        off = self.mean - centre + self.rest
        found: Float = np.sqrt(np.einsum("ij,ij->i", self.L, self.L) / self.weight + np.square(off))
        return found

    def _factor(self, centre: Float) -> tuple[Float, Float]:
        """A factor of the rows about a point: features, after the constant where the model has one; targets."""
        L = self.L / self.scales[:, None]
        if not self.first:
            return L[: self.features], L[self.features :]
        root = math.sqrt(self.weight)
        moved = np.column_stack((root * (self.mean - centre + self.rest) / self.scales, L))
        constant = np.zeros((1, moved.shape[1]))
        constant[0, 0] = root
        return np.concatenate((constant, moved[: self.features])), moved[self.features :]


def script(work: Work) -> Script:
    """Compress; the fit; robust errors where the plan has them."""
    plan = work.plan
    weight = yield from joint_weight(work)
    home: _Home = yield Local("compress", lambda: _own(work))
    shape = LinearShape(
        users=plan.k,
        n=plan.n,
        features=plan.m,
        targets=plan.targets,
        intercept=plan.centre,
        weight=weight.total,
        log_weights=weight.logs,
        alpha=plan.alpha,
        table=MORE if plan.digits is Digits.MORE else TABLE,
        robust=bool(plan.robust),
    )
    sums = DigitSums(work)
    fit: LinearFit = yield from _played(sums, home, fit_by_digits(shape), weight.total)
    models, first = fit.models, int(plan.centre)
    if plan.robust:
        clusters: int = yield from joint_clusters(work) if plan.robust == Robust.CLUSTER else _none()
        home.squares = yield Local("scores", lambda: own_squares(work, models, 2.0 ** (_OF_LEVERAGE - shape.table)))
        total = yield from _played(sums, home, squares_by_digits(fit, shape))
        models = robust_tables(work, models, total, clusters)
    w = np.stack([model.solution for model in models])
    intercept = w[:, 0] if first else np.zeros(len(w))
    means = home.joint_means
    return RegressionResult(
        w[:, first:], intercept, plan.m, fit.step, (), inference=models, bits=sums.bits, means=means
    )


def _none() -> Script:
    return 0
    yield


def _own(work: Work) -> _Home:
    """One pass over the own rows."""
    shift = own_shift(work.source, work.device) if work.plan.centre else None
    reduced: Reduced = work.reduce(shift)
    L, nothing = to_numpy(reduced.L_i), np.zeros(work.source.shape[0])
    weight = float(reduced.count) if shift is not None else _weight(work)
    mean = nothing if reduced.shift is None else reduced.shift
    rest = nothing if reduced.offset_i is None else reduced.offset_i
    return _Home(L, mean, rest, weight, work.plan.m, int(work.plan.centre))


def _weight(work: Work) -> float:
    return float(work.n_i) if work.row_weights is None else float(work.row_weights.sum())


def _played(sums: DigitSums, home: _Home, steps: Fitting, weight: float = 1.0) -> Script:
    """What a fit comes to, its requests answered by sums."""
    asked, sent, number = next(steps), np.zeros(0), 0
    while True:
        name = name_of(asked)
        if isinstance(asked, Sizes):
            sizes = yield from sums.sizes(name, home.sizes(asked))
            if asked.of != "squares" and (sizes == SIZE_CLASSES.stop).any():
                raise _too_large()
            if asked.of in ("columns", "start"):
                home.scales = powers(sizes)
            answer = sizes
        else:
            if asked.of == "score":
                number += 1
                name = f"{name} {number}"
            values = home.values(asked) - (sent if asked.piece else 0.0)
            total, part = yield from sums.total(name, values, asked.units)
            sent = part + (sent if asked.piece else 0.0)
            if asked.of == "moments":
                home.joint_means = total / weight * home.scales
                sums.opened_means(home.joint_means)
            answer = Totals(total)
        try:
            asked = steps.send(answer)
        except StopIteration as end:
            return end.value


def _too_large() -> DataError:
    return DataError(
        "a column has numbers beyond 2^63, and sums of few digits have no unit for it",
        'take another unit of measurement, or digits = "all"',
    )
