"""Low-rank imputation (soft-impute, Mazumder, Hastie and Tibshirani 2010) of a table whose rows are split, by sums.

An iterate is Z, the table with its gaps filled. The singular values of the joint Z are lowered by ``penalty`` and the
gaps filled from the result. With rows split, Z^T Z = sum_i Z_i^T Z_i: a party adds one Gram matrix to a secure sum in
each iteration, and what comes back (columns x columns) says how it fills its own gaps. Only the missing entries are
stored between iterations; the table is read once in each.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import Index, MatrixSource
from fedsvd.errors import ConfigError, NotConverged
from fedsvd.prepare.derived import Derived, names_of, positions, row_panels
from fedsvd.types import Float, expect_shape


@dataclass(frozen=True)
class Iterate:
    """The filled values of one party, row after row, and where each row's begin; and how far they moved."""

    values: Float  # (gaps,)
    starts: NDArray[np.int64]  # (rows + 1,)


@dataclass(frozen=True)
class Contribution:
    """What a party adds to the sum of one iteration."""

    gram: Float  # (columns, columns)
    moved: float  # squared change of its filled values
    size: float  # squared size of its filled values before

    def vector(self) -> Float:
        """What goes into a secure sum, shape (columns^2 + 2,)."""
        return np.concatenate((self.gram.ravel(), [self.moved, self.size]))

    @classmethod
    def of_vector(cls, vector: Float, columns: int) -> "Contribution":
        """The inverse of ``vector``."""
        expect_shape("the sum of an iteration", vector, columns * columns + 2)
        gram = vector[: columns * columns].reshape(columns, columns)
        return cls((gram + gram.T) / 2, float(vector[-2]), float(vector[-1]))

    def has_settled(self, tolerance: float) -> bool:
        """Whether the filled values moved by less than ``tolerance`` of their size, over all parties."""
        return self.moved <= tolerance**2 * max(self.size, np.finfo(np.float64).tiny)


def start(source: MatrixSource, fills: Float) -> tuple[Iterate, Contribution]:
    """The first iterate, every gap filled with its column's value in ``fills`` (the joint means, or zeros)."""
    counts = np.zeros(source.shape[0], np.int64)
    values, gram = [], np.zeros((source.shape[1], source.shape[1]))
    for rows, panel in row_panels(source):
        missing = np.isnan(panel)
        counts[rows] = missing.sum(axis=1)
        Z = np.where(missing, fills, panel)
        values.append(Z[missing])
        gram += Z.T @ Z
    first = Iterate(np.concatenate(values), np.concatenate(([0], np.cumsum(counts))))
    return first, Contribution(gram, float("inf"), float(first.values @ first.values))


def shrinkage(gram: Float, penalty: float) -> Float:
    """W = V diag(max(s - penalty, 0) / s) V^T of the joint Z = U diag(s) V^T: Z W is Z with lowered singular values."""
    if not penalty > 0:
        raise ConfigError(f"the penalty of soft-impute is {penalty}", "give a positive number, of the size of s_1 / 50")
    eigenvalues, V = np.linalg.eigh(gram)
    s = np.sqrt(np.maximum(eigenvalues, 0.0))
    factors = np.where(s > penalty, 1.0 - penalty / np.where(s > penalty, s, 1.0), 0.0)
    W: Float = (V * factors) @ V.T
    return W


def step(source: MatrixSource, iterate: Iterate, W: Float) -> tuple[Iterate, Contribution]:
    """One pass: the gaps filled from Z W, and the Gram matrix of the table filled so."""
    values = np.empty_like(iterate.values)
    gram = np.zeros((source.shape[1], source.shape[1]))
    for rows, panel in row_panels(source):
        first, last = int(iterate.starts[rows.start]), int(iterate.starts[rows.stop])
        missing = np.isnan(panel)
        Z = panel.copy()
        Z[missing] = iterate.values[first:last]
        values[first:last] = (Z @ W)[missing]
        Z[missing] = values[first:last]
        gram += Z.T @ Z
    change = values - iterate.values
    return Iterate(values, iterate.starts), Contribution(
        gram, float(change @ change), float(iterate.values @ iterate.values)
    )


def expect_settled(joint: Contribution, tolerance: float, iterations: int) -> None:
    """Refuse an imputation that was still moving when its iterations ended."""
    if not joint.has_settled(tolerance):
        raise NotConverged(
            f"soft-impute still moved after {iterations} iterations", "allow more iterations, or a larger penalty"
        )


class Imputed(Derived):
    """A table with its gaps filled by an iterate."""

    def __init__(self, base: MatrixSource, iterate: Iterate) -> None:
        super().__init__(base, names_of(base))
        expect_shape("the starts of an iterate", iterate.starts, base.shape[0] + 1)
        self._iterate = iterate

    def _cells(self, rows: Index, columns: Index) -> Float:
        which = positions(rows, self.shape[0])
        cells = self._base.raw(rows, slice(0, self.shape[1])).copy()
        missing = np.isnan(cells)
        starts = self._iterate.starts
        lengths = starts[which + 1] - starts[which]
        within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        cells[missing] = self._iterate.values[np.repeat(starts[which], lengths) + within]
        picked: Float = cells[:, columns]
        return picked
