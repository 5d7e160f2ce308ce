"""Low-rank imputation (soft-impute, Mazumder, Hastie and Tibshirani 2010) of a table whose rows are split, by sums.

Soft-impute fills the gaps of Z so that each is what Z W has in its place, W = V diag(max(s - penalty, 0) / s) V^T from
the singular values of the joint Z itself. With rows split, Z^T Z = sum_i Z_i^T Z_i: in each round a party adds the Gram
matrix of its filled table to a secure sum, and W follows from the total. For a given W a row is completed on its own,
z_m = (I - W_mm)^-1 W_mo z_o for its missing and its observed entries. The paper repeats z_m <- (Z W)_m instead; both
end at the same table, the one with the least Moreau envelope of the nuclear norm, for which ||Z (I - W)^(1/2)||^2 is a
majorant that a round minimises whole: a few dozen rounds do.

Columns are standardised first, by means and deviations of present entries at all parties, and the penalty is a share of
the largest singular value of the first Z. What remains at the end is W, so that new rows are completed alike.

A round opens sixteen bits of what the Gram matrix has moved by: a party sends what its own is beyond all that it sent
before, in a unit that falls with the largest number of the round before. A pattern of gaps that few own rows have
takes the means: from round to round only rows with gaps move, and one row alone would be read from that.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import Index, MatrixSource
from fedsvd.errors import ConfigError, NotConverged
from fedsvd.prepare.derived import Derived, names_of, row_panels
from fedsvd.prepare.missing import Filled
from fedsvd.types import Float, expect_shape


@dataclass(frozen=True, repr=False)
class Completion:
    """How gaps are filled: joint means and deviations of the columns, and the shrinkage W, (columns, columns)."""

    means: Float
    deviations: Float
    W: Float
    alone: Float  # (patterns, columns), 1 where an entry is missing: own patterns of too few rows, which take the means

    def standard(self, cells: Float) -> Float:
        """These rows in joint deviations from the joint means, each gap filled from its row's own entries."""
        Z: Float = (cells - self.means) / self.deviations
        missing = np.isnan(Z)
        gapped = np.flatnonzero(missing.any(axis=1))
        patterns, which = np.unique(missing[gapped], axis=0, return_inverse=True)
        alone = {pattern.astype(np.bool_).tobytes() for pattern in self.alone.reshape(-1, cells.shape[1])}
        for number, gaps in enumerate(patterns):
            these = gapped[np.ravel(which) == number]
            if gaps.tobytes() in alone:
                Z[np.ix_(these, gaps)] = 0.0
                continue
            # W has eigenvalues below 1, so that I - W_mm is positive definite.
            left = np.eye(int(gaps.sum())) - self.W[np.ix_(gaps, gaps)]
            Z[np.ix_(these, gaps)] = np.linalg.solve(left, self.W[np.ix_(gaps, ~gaps)] @ Z[np.ix_(these, ~gaps)].T).T
        return Z


def patterns_of_few(source: MatrixSource, least: int, person: NDArray[np.intp] | None = None) -> Float:
    """One pass: the patterns of gaps that fewer than ``least`` rows of a table have, or persons with several rows."""
    found: dict[bytes, set[int]] = {}
    for rows, panel in row_panels(source):
        missing, here = np.isnan(panel), np.arange(source.shape[0])[rows] if person is None else person[rows]
        gapped = missing.any(axis=1)
        patterns, which = np.unique(missing[gapped], axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            found.setdefault(pattern.tobytes(), set()).update(here[gapped][np.ravel(which) == number].tolist())
    few = [np.frombuffer(pattern, np.bool_) for pattern, who in found.items() if len(who) < least]
    return np.array(few, dtype=np.float64).reshape(len(few), source.shape[1])


@dataclass(frozen=True)
class Contribution:
    """A party's own part of one round."""

    gram: Float  # (columns (columns + 1) / 2,), the upper triangle of that of its filled table
    moved: float  # squared change of its filled values since the round before
    size: float  # their squared size


def from_triangle(values: Float, columns: int) -> Float:
    """The symmetric matrix of this upper triangle."""
    expect_shape("the sum of a round", values, numbers_of_a_round(columns))
    gram = np.zeros((columns, columns))
    gram[np.triu_indices(columns)] = values
    return gram + np.triu(gram, 1).T


def expect_settled(moved: float, size: float, tolerance: float, rounds: int) -> None:
    """Refuse an imputation whose filled values still moved by more than ``tolerance`` of their size."""
    if moved > tolerance**2 * max(size, np.finfo(np.float64).tiny):
        fault = f"low-rank imputation still moved after {rounds} rounds"
        raise NotConverged(fault, "allow more rounds, or a larger penalty")


def numbers_of_a_round(columns: int) -> int:
    """The numbers of one sum."""
    return columns * (columns + 1) // 2


def contribution(source: MatrixSource, now: Completion, before: Completion) -> Contribution:
    """One pass: the Gram matrix of the table as it is filled now, and how far its filled values moved."""
    gram, moved, size = np.zeros((source.shape[1], source.shape[1])), 0.0, 0.0
    for _, panel in row_panels(source):
        missing, Z = np.isnan(panel), now.standard(panel)
        change = (Z - before.standard(panel))[missing]
        gram += Z.T @ Z
        moved += float(change @ change)
        size += float(Z[missing] @ Z[missing])
    return Contribution(gram[np.triu_indices(len(gram))], moved, size)


def shrinkage(gram: Float, penalty: float) -> Float:
    """W = V diag(max(s - penalty, 0) / s) V^T of the joint Z = U diag(s) V^T: Z W is Z with lowered singular values."""
    if not penalty > 0:
        raise ConfigError(f"the penalty of soft-impute is {penalty}", "give a positive number, of the size of s_1 / 50")
    eigenvalues, V = np.linalg.eigh(gram)
    s = np.sqrt(np.maximum(eigenvalues, 0.0))
    factors = np.where(s > penalty, 1.0 - penalty / np.where(s > penalty, s, 1.0), 0.0)
    W: Float = (V * factors) @ V.T
    return W


class Completed(Derived):
    """A table with its gaps filled row by row; what is not missing stays as it is, to the last bit."""

    def __init__(self, base: MatrixSource, found: Completion, decimals: Mapping[str, int] | None = None) -> None:
        super().__init__(base, names_of(base))
        expect_shape("the shrinkage of a completion", found.W, base.shape[1], base.shape[1])
        self._found = found
        taking = np.asarray(found.alone.reshape(-1, base.shape[1]).any(axis=0))
        self.by_means = Filled(base, found.means, decimals=decimals or {})
        """The table with all gaps filled by means, as those of ``taking_means`` are."""
        self.taking_means = tuple(name for name, takes in zip(names_of(base), taking.tolist(), strict=True) if takes)

    def _cells(self, rows: Index, columns: Index) -> Float:
        cells = self._base.raw(rows, slice(0, self.shape[1]))
        filled = self._found.means + self._found.deviations * self._found.standard(cells)
        picked: Float = np.where(np.isnan(cells), filled, cells)[:, columns]
        return picked

    def _place(self, row: int, column: int) -> str:
        return self._base._place(row, column)
