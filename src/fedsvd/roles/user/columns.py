"""User i's columns as a vertical regression has them: centred, scaled by powers of two, with its share of the ridge.

A user owns whole columns, so centring and scaling are local. A ridge is rows ``sqrt(alpha) I`` (label 0) below the
data, one to each column of all users; P mixes them with the data.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedsvd.compress.centre import unit_scales
from fedsvd.compress.reduce import rows_of
from fedsvd.errors import NumericalError
from fedsvd.linalg.backend import matmul, namespace, to_numpy
from fedsvd.roles.user.work import Work
from fedsvd.types import Array, Float


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
        """One or two passes over the columns: means, then energies about them, and what the means are off."""
        plan, m = work.plan, work.plan.m
        weight = float(m) if work.row_weights is None else float(np.sum(work.row_weights))
        sums, mean = np.zeros(work.n_i), np.zeros(work.n_i)
        if plan.centre and not plan.biased:

            def summed(place: slice) -> Float:
                X = _weighted(work, rows_of(work.source, place.start, place.stop, work.device), place, 2)
                return to_numpy(namespace(X).sum(X, axis=0))

            mean = sum(work.over_rows("columns", m, work.n_i, summed), sums) / weight
        about = work.put(mean)

        def moments(place: slice) -> tuple[Float, Float]:
            X = rows_of(work.source, place.start, place.stop, work.device) - about
            off = to_numpy(namespace(X).sum(_weighted(work, X, place, 2), axis=0))
            return _energy(_weighted(work, X, place, 1)), off

        parts = work.over_rows("columns", m, work.n_i, moments)
        energy, rest = (sum((part[place] for part in parts), np.zeros(work.n_i)) for place in (0, 1))
        rest = rest / weight if plan.centre and not plan.biased else np.zeros(work.n_i)
        energy = np.maximum(_expect_finite(energy) - weight * rest**2, 0.0)
        usual = energy * (m / weight)
        deviation = unit_scales(usual, m, mean) if plan.centre and not plan.biased else np.sqrt(energy / m)
        powers = inverse = inverse_powers(penalised(deviation, plan.alpha, m))
        if plan.alphas:
            # A penalty that is yet to be chosen is one number for all columns as they are.
            inverse = np.where(deviation > 0, 1.0, 0.0)
        blinding = np.where(inverse > 0, powers, 0.0) / np.where(inverse > 0, inverse, 1.0)
        zeros, t = np.flatnonzero(deviation == 0), plan.targets
        if plan.biased and work.i == plan.k - 1:
            mean, inverse, energy = np.append(mean, 0.0), np.append(inverse, 1.0), np.append(energy, float(m))
            rest, blinding = np.append(rest, 0.0), np.append(blinding, 1.0)
        label_mean, label_scale = np.zeros(t), np.zeros(t)
        if work.labels is not None:
            label_mean = (
                np.average(work.labels, axis=0, weights=work.row_weights)
                if plan.centre and not plan.biased
                else label_mean
            )
            with np.errstate(over="ignore"):
                deviation = np.sqrt(_expect_finite(np.mean((work.labels - label_mean) ** 2, axis=0)))
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
        if self.width > X.shape[1]:
            X = np.concatenate((X, np.ones((stop - start, 1))), axis=1)
        scaled = X - self._mean
        scaled -= self._rest
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
        product, there = np.empty((M, w.shape[1])), work.put(w)

        def times(place: slice) -> None:
            product[place] = to_numpy(matmul(self.rows(place.start, place.stop), there))

        self._ready()
        work.over_rows("columns", M, self.width, times)
        return product

    def _ready(self) -> None:
        """Have what threads share, before there are any."""
        assert self._mean is not None
        assert self._rest is not None
        assert self._inverse is not None

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


def _weighted(work: Work, X: Array, rows: slice, power: int) -> Array:
    """Rows times the root of their weights, or this power of it; all users have the same weights."""
    if work.row_weights is None:
        return X
    root = np.sqrt(work.row_weights[rows, None])
    return X * work.put(root if power == 1 else root * root)


def _expect_finite(energy: Float) -> Float:
    if not np.isfinite(energy).all():
        raise NumericalError("the squared norm of a column leaves the range of float64", "scale the data")
    return energy


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
    """Inverse powers of two nearest to the deviations; zero where there is none."""
    _, power = np.frexp(deviation)
    return np.where(deviation > 0, np.ldexp(1.0, -power), 0.0)
