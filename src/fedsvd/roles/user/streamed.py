"""A_i as it is read from the data: less the mean of each row, scaled. Nothing of it is ever held whole.

Where the data lies in memory it is multiplied where it lies, in few long products. A mean is then taken off the
product, not off the data, unless it is so far from zero, counted in deviations, that the difference would lose digits.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedsvd.compress.reduce import columns_of, rows_of
from fedsvd.data.source import MatrixSource
from fedsvd.linalg.backend import matmul, norm
from fedsvd.linalg.device import Device, host_or
from fedsvd.types import Array, Float

_LONG = 1 << 22  # numbers of a panel that one product reads where it lies
NEAR_ZERO = 8.0
"""Within this many deviations of zero a mean may be taken off a product instead of the data: three bits and no more."""


@dataclass(frozen=True, repr=False)
class Streamed:
    """A_i read from the source: less the mean of each row, times a scale of each row, or times one power of two."""

    source: MatrixSource
    mean: Float | None = None
    inverse: Float | None = None
    device: Device | None = None
    rest: Float | None = None  # of the mean: what is below its last digit
    power: int = 0
    norm: float | None = None  # ``||A_i||_F``, where it is known
    own_mean: Float | None = None  # this user's, where no mean is further than ``NEAR_ZERO`` from zero

    def columns(self, start: int, stop: int) -> Array:
        return self._adjusted(columns_of(self.source, start, stop, self.device), slice(None))

    def rows(self, start: int, stop: int) -> Array:
        return self._adjusted(rows_of(self.source, start, stop, self.device), slice(start, stop))

    def _adjusted(self, X: Array, rows: slice) -> Array:
        given = X
        if self.mean is not None:
            X = X - host_or(self.device, self.mean[rows, None])
        if self.rest is not None:
            X -= host_or(self.device, self.rest[rows, None])
        if self.inverse is not None:
            scale = host_or(self.device, self.inverse[rows, None])
            X = X * scale if X is given else _times(X, scale)
        for factor in powers_of_two(self.power):
            X = X * factor if X is given else _times(X, factor)
        return X

    @property
    def off_products(self) -> bool:
        """Whether the mean may be taken off a product instead of the data, or there is none."""
        return self.mean is None or self.own_mean is not None

    @property
    def at_once(self) -> bool:
        """Whether it is multiplied where it lies, in memory, with the mean taken off the product."""
        return self.device is None and self.source.in_memory and self.inverse is None and self.off_products

    def transposed_times(self, U: Float, memory: int) -> Float:
        """``A_i^T U``, (n_i, r), where it is multiplied ``at_once``."""
        W = np.zeros((self.source.shape[1], U.shape[1]))
        for place in self._panels(memory):
            X = self.source.rows(place.start, place.stop)
            matmul(X.T, U[place], W, add=True)
        if self.mean is not None:
            W -= self.mean @ U
        return self._scaled(W)

    def times(self, W: Float, memory: int) -> Float:
        """``A_i W``, (m, r), where it is multiplied ``at_once``."""
        product = np.empty((self.source.shape[0], W.shape[1]))
        for place in self._panels(memory):
            product[place] = matmul(self.source.rows(place.start, place.stop), W)
        if self.mean is not None:
            product -= np.multiply.outer(self.mean, W.sum(axis=0))
        return self._scaled(product)

    def gram_times(self, V: Float, memory: int) -> Float:
        """``A_i A_i^T V``, (m, r), for a few vectors, where it is multiplied ``at_once``.

        How products are added up does not depend on the number of threads.
        """
        return self.times(self.transposed_times(V, memory), memory)

    def squared_norm(self, memory: int) -> float:
        """``||A_i||_F^2``, where it is multiplied ``at_once``."""
        rows, n_i = self.source.shape
        parts = (norm(self.source.rows(place.start, place.stop)) ** 2 for place in long_panels(rows, n_i, memory))
        squared = math.fsum(parts)
        if self.mean is not None and self.own_mean is not None:
            squared += n_i * float(self.mean @ (self.mean - 2.0 * self.own_mean))
        return max(0.0, math.ldexp(squared, 2 * self.power))

    def _panels(self, memory: int) -> Iterator[slice]:
        """All rows of data that is read without conversion; of other data, what a budget holds."""
        rows, n_i = self.source.shape
        lies = np.may_share_memory(self.source.rows(0, 1), self.source.rows(0, 1))
        return iter((slice(0, rows),)) if lies else long_panels(rows, n_i, memory)

    def _scaled(self, product: Float) -> Float:
        for factor in powers_of_two(self.power):
            product *= factor
        return product


def powers_of_two(power: int) -> tuple[float, ...]:
    """Numbers whose product is 2^power, each of which float64 holds; none where that is one."""
    if not power:
        return ()
    half = power // 2
    return (math.ldexp(1.0, power),) if abs(power) < 1000 else (math.ldexp(1.0, half), math.ldexp(1.0, power - half))


def _times(X: Array, factor: Array | float) -> Array:
    """X times a factor, over X: no one else uses it."""
    X *= factor
    return X


def long_panels(rows: int, width: int, memory: int) -> Iterator[slice]:
    """So many rows of this width in few parts, which fit the memory budget should they be converted."""
    height = max(1, min(_LONG, memory // 32) // width)
    return (slice(start, min(start + height, rows)) for start in range(0, rows, height))
