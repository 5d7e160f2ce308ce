"""Iterative refinement of coefficients against an exact Gram matrix of integers.

A factor of float64 knows the Gram matrix G to 53 bits; the joint sum of a study knows it exactly. Residuals of the
normal equations taken in integers correct the coefficients until they no longer change:

    w <- w + (A^T A)^-1 (g - G w),    A the triangle of a float64 factor

Each round gains the digits that A has, so that also Wampler's and Filip's problems end at full float64 accuracy. The
sum of squared residuals comes from the same integers, without cancellation.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from fedsvd.errors import PrecisionLost, ShapeError
from fedsvd.statistics.triangle import EPS, Triangle
from fedsvd.types import Float

Integers = NDArray[np.object_]
_MOST_ROUNDS = 60


@dataclass(frozen=True, repr=False)
class ExactGram:
    """A symmetric Gram matrix ``entries[i, j] 2^(exponents[i] + exponents[j])`` of Python integers, (c, c)."""

    entries: Integers
    exponents: tuple[int, ...]

    def __post_init__(self) -> None:
        c = len(self.exponents)
        if self.entries.shape != (c, c) or self.entries.dtype != np.object_:
            raise ShapeError(f"{c} exponents need integers of shape {(c, c)}, got {self.entries.shape}")

    def __repr__(self) -> str:
        return f"ExactGram(columns={len(self.exponents)})"

    @classmethod
    def of_words(cls, words: NDArray[np.uint64], unit_bits: int, exponents: tuple[int, ...]) -> "ExactGram":
        """From the upper triangle by rows as a study sums it, of columns divided by ``2^exponents``.

        Words, (c (c + 1) / 2, 2), are the low and the high 64 bits of signed integers in units of ``2^-unit_bits``,
        which is even: half of it belongs to each column.
        """
        c = len(exponents)
        if words.shape != (c * (c + 1) // 2, 2) or unit_bits % 2:
            raise ShapeError(f"{c} columns need {c * (c + 1) // 2} words of an even unit, got {words.shape}")
        low, high = words[:, 0].astype(np.object_), words[:, 1].view(np.int64).astype(np.object_)
        entries = np.zeros((c, c), dtype=np.object_)
        entries[np.triu_indices(c)] = low + high * (1 << 64)
        lower = np.tril_indices(c, -1)
        entries[lower] = entries.T[lower]
        return cls(entries, tuple(e - unit_bits // 2 for e in exponents))


@dataclass(frozen=True, repr=False)
class Refined:
    """Coefficients and sums of squares of each target, the latter correctly rounded for these coefficients."""

    w: Float  # (q, targets)
    residual: Float  # (targets,)
    total: Float  # (targets,), around the mean where the first column is the constant


@dataclass(frozen=True, repr=False)
class _Wide:
    """Numbers ``digits[j] 2^exponents[j]`` of some 120 bits."""

    digits: Integers
    exponents: tuple[int, ...]

    def floats(self) -> Float:
        return np.array([float(_scaled(d, e)) for d, e in zip(self.digits, self.exponents, strict=True)])

    def plus(self, step: Float) -> "_Wide":
        moved = [int(Fraction(float(v)) / _scaled(1, e)) for v, e in zip(step, self.exponents, strict=True)]
        return _Wide(self.digits + np.array(moved, dtype=np.object_), self.exponents)


def refined(problem: Triangle, gram: ExactGram, intercept: bool) -> Refined:
    """The solution of the normal equations of ``gram``, whose last columns are the targets; needs full rank."""
    q = problem.scale.shape[0]
    start = problem.solve()
    targets = range(start.shape[1])
    solutions = [_refine(problem, gram, start[:, k], q + k) for k in targets]
    return Refined(
        np.stack([wide.floats() for wide in solutions], axis=1),
        np.array([_squares(gram, solutions[k], q + k) for k in targets]),
        np.array([_total(gram, q + k, intercept) for k in targets]),
    )


def _refine(problem: Triangle, gram: ExactGram, w: Float, target: int) -> _Wide:
    # No coefficient is held to less than 2^-120 of what the largest one contributes: rounding w to float64 at each
    # round would leave errors that an ill-conditioned A makes larger.
    largest = float(np.max(np.abs(w) * problem.scale, initial=0.0)) or 1.0
    exponents = tuple(int(np.frexp(largest / scale)[1]) - 120 for scale in problem.scale)
    wide = _Wide(np.zeros(w.shape[0], dtype=np.object_), exponents).plus(w)
    before = np.inf
    for _ in range(_MOST_ROUNDS):
        left = _normal_residual(gram, wide, target) / problem.scale
        step = solve_triangular(problem.A, solve_triangular(problem.A, left, trans="T")) / problem.scale
        wide = wide.plus(step)
        size = float(np.max(np.abs(step) * problem.scale))
        if np.all(np.abs(step) <= EPS / 4.0 * np.abs(wide.floats())) or size <= EPS**2 * largest:
            return wide
        if size > before / 2.0:
            break
        before = size
    raise PrecisionLost(
        "the coefficients cannot be refined: the columns are dependent up to rounding",
        "leave out a column, or use the coefficients of the factor",
    )


def _normal_residual(gram: ExactGram, w: _Wide, target: int) -> Float:
    """``g - G w``, each entry rounded once."""
    columns, digits, exponent = _combination(gram, w, target)
    sums: Any = gram.entries[np.ix_(columns[:-1], columns)] @ digits
    return np.array([float(_scaled(total, exponent + gram.exponents[i])) for i, total in enumerate(sums)])


def _squares(gram: ExactGram, w: _Wide, target: int) -> float:
    """``||y - X w||^2`` for exactly these coefficients, rounded once."""
    columns, digits, exponent = _combination(gram, w, target)
    return float(_scaled(digits @ (gram.entries[np.ix_(columns, columns)] @ digits), 2 * exponent))


def _total(gram: ExactGram, target: int, intercept: bool) -> float:
    square = _scaled(gram.entries[target, target], 2 * gram.exponents[target])
    if intercept and gram.entries[0, 0]:
        along = _scaled(gram.entries[0, target], gram.exponents[0] + gram.exponents[target])
        square -= along * along / _scaled(gram.entries[0, 0], 2 * gram.exponents[0])
    return float(square)


def _combination(gram: ExactGram, w: _Wide, target: int) -> tuple[list[int], Integers, int]:
    """``y - X w`` as whole multiples of the integer columns of gram, in units of ``2^exponent``."""
    columns = [*range(len(w.exponents)), target]
    shifts = [e + gram.exponents[j] for j, e in zip(columns, (*w.exponents, 0), strict=True)]
    least = min(shifts)
    digits = [d << (s - least) for d, s in zip((*-w.digits, 1), shifts, strict=True)]
    return columns, np.array(digits, dtype=np.object_), least


def _scaled(value: int, exponent: int) -> Fraction:
    return Fraction(value) * (Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent))
