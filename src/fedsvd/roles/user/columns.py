"""User i's columns as a vertical regression has them: centred, scaled by powers of two, with its share of the ridge.

A user owns whole columns, so centring and scaling are local. A ridge is rows ``sqrt(alpha) I`` (label 0) below the
data, one for each column of all users; P mixes them with the data.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedsvd.compress.centre import unit_scales
from fedsvd.compress.reduce import rows_of
from fedsvd.errors import NumericalError
from fedsvd.linalg.backend import matmul, namespace, to_numpy
from fedsvd.protocol.tasks import Item
from fedsvd.roles.user.requests import SCALE_DOWN
from fedsvd.roles.user.statistics import below_squares
from fedsvd.roles.user.streamed import NEAR_ZERO
from fedsvd.roles.user.work import Work
from fedsvd.types import Array, Float

_LEAST_LABEL = 1e-140
_LEAST_SQUARE = 2.0**-1000  # the inverse of one is a float64, too
_FIRST = 64  # rows that say where about the means are
_MISLED = 15 / 16  # the part of an energy that the distance from there may make


@dataclass(frozen=True, repr=False)
class Columns:
    """User i's columns as the CSP's problem has them: centred, scaled by powers of two, with its ridge rows."""

    work: Work
    mean: Float
    rest: Float  # of the mean: what is below its last digit
    inverse: Float  # of the scales; zero for a constant column
    constant: tuple[int, ...]
    label_mean: Float
    label_scale: Float  # zero at users without labels, so that the sum is the label holder's
    squared: Float  # column energies after centring and scaling
    blinding: Float  # powers of two that bring a coefficient of unit size to these columns

    @classmethod
    def of(cls, work: Work) -> "Columns":
        """One pass over the columns; two where their first rows mislead."""
        plan, m = work.plan, work.plan.m
        weight = float(m) if work.row_weights is None else float(np.sum(work.row_weights))
        mean, rest, energy = _moments(work, weight)
        usual = energy * (m / weight)
        deviation = unit_scales(usual, m, mean) if plan.centre else np.sqrt(energy / m)
        powers = inverse = inverse_powers(penalised(deviation, plan.alpha, m))
        if plan.alphas:
            # A penalty that is yet to be chosen is one number for all columns as they are.
            inverse = np.where(deviation > 0, 1.0, 0.0)
        blinding = np.where(inverse > 0, powers, 0.0) / np.where(inverse > 0, inverse, 1.0)
        zeros, t = np.flatnonzero(deviation == 0), plan.targets
        label_mean, label_scale = np.zeros(t), np.zeros(t)
        if work.labels is not None:
            if plan.centre:
                label_mean = np.average(work.labels, axis=0, weights=work.row_weights)
            with np.errstate(over="ignore", invalid="ignore"):
                deviation = _expect_finite(_deviation(work.labels - label_mean))
            if plan.alphas or plan.releases(Item.INFERENCE):
                _expect_squares(deviation)
            label_scale = 1.0 / np.where(deviation > 0, inverse_powers(deviation), 1.0)
        constant = tuple(int(j) for j in zeros)
        return cls(work, mean, rest, inverse, constant, label_mean, label_scale, energy * inverse**2, blinding)

    @property
    def width(self) -> int:
        return len(self.inverse)

    def energy(self) -> float:
        """``||A_i||_F^2``, ridge rows included."""
        ridge = self.work.plan.alpha * float(np.sum(self.inverse[: self.work.n_i] ** 2))
        return float(self.squared.sum()) + ridge

    def data(self, start: int, stop: int) -> Array:
        """Rows of the scaled columns, without the ridge, where this user computes."""
        X = rows_of(self.work.source, start, stop, self.work.device)
        scaled = X - self._mean
        if not self._near_zero:
            scaled -= self._rest
        if self._scales:
            scaled *= self._inverse
        return _weighted(self.work, scaled, slice(start, stop), 1)

    @cached_property
    def _mean(self) -> Array:
        return self.work.put(self.mean)

    @cached_property
    def _rest(self) -> Array:
        return self.work.put(self.rest)

    @cached_property
    def _inverse(self) -> Array:
        return self.work.put(self.inverse)

    @cached_property
    def _scales(self) -> bool:
        return bool(np.any(self.inverse != 1.0))

    @cached_property
    def _near_zero(self) -> bool:
        """Whether no mean is far from zero, counted in deviations: it has no digits to lose, before or after."""
        return bool(np.all(np.abs(self.mean) * self.inverse <= NEAR_ZERO * np.sqrt(self.squared / self.work.plan.m)))

    def rows(self, start: int, stop: int) -> Array:
        """Rows of A_i: data rows, then those of the ridge."""
        m = self.work.plan.m
        A_rows = self.data(min(start, m), min(stop, m))
        if stop <= m:
            return A_rows
        return namespace(A_rows).concat((A_rows, self.work.put(self._ridge(max(start, m) - m, stop - m))), axis=0)

    def columns(self, start: int, stop: int) -> Array:
        """Columns of A_i, ridge rows included."""
        return self.rows(0, self.work.plan.M)[:, start:stop]

    def _ridge(self, start: int, stop: int) -> Float:
        """Rows of the ridge: this user's part of the diagonal."""
        ridge = np.zeros((stop - start, self.width))
        offset = sum(self.work.plan.counts[: self.work.i])
        own = np.arange(max(start, offset), min(stop, offset + self.work.n_i))
        ridge[own - start, own - offset] = np.sqrt(self.work.plan.alpha) * self.inverse[own - offset]
        return ridge

    def times(self, w: Float) -> Float:
        """``A_i w``, in one pass over the data."""
        work, M = self.work, self.work.plan.M
        if work.near and self._near_zero and self.width == work.n_i:
            return self._times_at_once(w)
        product, there = np.empty((M, w.shape[1])), work.put(w)

        def times(place: slice) -> None:
            product[place] = to_numpy(matmul(self.rows(place.start, place.stop), there))

        self._ready()
        work.over_rows("columns", M, self.width, times)
        return product

    def transposed(self, v: Float) -> Float:
        """``A_i^T v`` for v (M,), in one pass over the data."""

        def times(place: slice) -> Float:
            A = self.rows(place.start, place.stop)
            return to_numpy(namespace(A).matrix_transpose(A) @ self.work.put(v[place]))

        self._ready()
        parts = self.work.over_rows("columns", self.work.plan.M, self.width, times)
        total: Float = np.sum(parts, axis=0)
        return total

    def _times_at_once(self, w: Float) -> Float:
        """The same with the means taken off the product: a few products with the data in place."""
        work, plan, n_i = self.work, self.work.plan, self.work.n_i
        scaled, product = self.inverse[:, None] * w, np.zeros((plan.M, w.shape[1]))
        mean = self.mean @ scaled + self.rest @ scaled
        for place in work.long_panels(plan.m, n_i):
            product[place] = matmul(work.source.rows(place.start, place.stop), scaled) - mean
        if work.row_weights is not None:
            product[: plan.m] *= np.sqrt(work.row_weights)[:, None]
        if plan.m < plan.M:
            own = plan.m + sum(plan.counts[: work.i])
            product[own : own + n_i] = np.sqrt(plan.alpha) * scaled
        return product

    def _ready(self) -> None:
        """Have what threads share, before there are any."""
        for shared in (self._mean, self._rest, self._inverse, self._scales, self._near_zero):
            assert shared is not None

    def blinded_labels(self, a_i: Float) -> Float:
        """``A_i a_i``, ridge rows included, and y on top of it at the label holder."""
        y_i = self.times(a_i) if np.any(a_i) else np.zeros((self.work.plan.M, self.work.plan.targets))
        y_i += self.own_labels()
        return y_i

    def own_labels(self) -> Float:
        """y, centred and scaled, at the label holder; zeros elsewhere."""
        work = self.work
        y_i = np.zeros((work.plan.M, work.plan.targets))
        if work.labels is not None:
            y = (work.labels - self.label_mean) / self.label_scale
            y_i[: work.plan.m] += y if work.row_weights is None else y * np.sqrt(work.row_weights)[:, None]
        return y_i


def _moments(work: Work, weight: float) -> tuple[Float, Float, Float]:
    """The mean of every column, what is below its last digit, and the energy about both; zeros where none is taken."""
    nothing = np.zeros(work.n_i)
    if not work.plan.centre:
        return nothing, nothing, _expect_spread(work, nothing, _expect_finite(_about(work, nothing)[0]))
    about = _first_mean(work)
    energy, off = _about(work, about)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused below
        mean = about + off / weight
        rest = about - mean + off / weight
        if np.any(off**2 > _MISLED * weight * energy):
            energy, off = _about(work, mean)
            rest = off / weight
        spread = np.maximum(_expect_finite(energy) - off**2 / weight, 0.0)
    return mean, rest, _expect_spread(work, about, spread)


def _first_mean(work: Work) -> Float:
    """The mean of the first rows; of a column that does not change in them, that very number."""
    first = to_numpy(rows_of(work.source, 0, min(_FIRST, work.plan.m), work.device))
    with np.errstate(over="ignore"):
        mean: Float = np.where((first == first[0]).all(axis=0), first[0], first.mean(axis=0))
    return mean


def _about(work: Work, centre: Float) -> tuple[Float, Float]:
    """Energies of the columns about these numbers, and sums, both weighted, in one pass."""
    there = work.put(centre)

    def moments(place: slice) -> tuple[Float, Float]:
        X = rows_of(work.source, place.start, place.stop, work.device) - there
        off = _weighted(work, X, place, 2)
        return _energy(_weighted(work, X, place, 1)), to_numpy(namespace(X).sum(off, axis=0))

    with np.errstate(over="ignore", invalid="ignore"):
        parts = work.over_rows("columns", work.plan.m, work.n_i, moments)
        energy, off = (sum((part[place] for part in parts), np.zeros(work.n_i)) for place in (0, 1))
    return energy, off


def _deviation(centred: Float) -> Float:
    """The root of the mean square of every column, whose squares may leave the range of float64."""
    power = np.frexp(np.abs(centred).max(axis=0))[1]
    scaled = np.ldexp(centred, -np.minimum(power, 1022))
    found: Float = np.ldexp(np.sqrt(np.mean(scaled**2, axis=0)), power)
    return found


def _weighted(work: Work, X: Array, rows: slice, power: int) -> Array:
    """Rows times the root of their weights, or this power of it; all users have the same weights."""
    if work.row_weights is None:
        return X
    root = np.sqrt(work.row_weights[rows, None])
    return X * work.put(root if power == 1 else root * root)


def _expect_finite(energy: Float) -> Float:
    if not np.isfinite(energy).all():
        raise NumericalError("the squared norm of a column leaves the range of float64", SCALE_DOWN)
    return energy


def _expect_spread(work: Work, centre: Float, energy: Float) -> Float:
    """Refuse columns that vary about these numbers, and whose squares are below the range of float64."""
    small = np.flatnonzero(energy < work.plan.m * _LEAST_SQUARE)

    def farthest(place: slice) -> Float:
        X = to_numpy(rows_of(work.source, place.start, place.stop, work.device))
        far: Float = np.abs(X[:, small] - centre[small]).max(axis=0)
        return far

    if len(small):
        far = np.max(work.over_rows("columns", work.plan.m, work.n_i, farthest), axis=0)
        if np.any((far > 0.0) & (far < _LEAST_LABEL)):
            raise below_squares()
    return energy


def _expect_squares(deviation: Float) -> None:
    """Refuse labels whose squares, which a table and a choice are made of, leave the range of float64."""
    if np.any((deviation > 0.0) & ((deviation < _LEAST_LABEL) | (deviation > 1.0 / _LEAST_LABEL))):
        raise NumericalError(
            "the squares of the labels leave the range of float64",
            "take another unit of measurement for them: NAME = { factor = ... } in the map of the table",
        )


def _energy(X: Array) -> Float:
    """The squared norm of every column."""
    squared: Float = (
        np.einsum("ij,ij->j", X, X) if isinstance(X, np.ndarray) else to_numpy(namespace(X).sum(X * X, axis=0))
    )
    return squared


def penalised(deviation: Float, alpha: float, count: int) -> Float:
    """Deviations of the columns with their rows of the ridge, which outweighs a small column; zero stays zero.

    Scaled by its own deviation alone, a column of 1e-6 would carry a ridge of 1e6 next to columns of unit size.
    """
    return np.where(deviation > 0, np.hypot(deviation, np.sqrt(alpha / count)), 0.0)


def inverse_powers(deviation: Float) -> Float:
    """Inverse powers of two nearest to the deviations; zero where a deviation is zero."""
    _, power = np.frexp(deviation)
    return np.where(deviation > 0, np.ldexp(1.0, -power), 0.0)
