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

Of many columns the Gram matrix is long, and W is made of the few singular vectors above the penalty. Where a ``rank``
bounds their number, a round opens G K instead, the products with the orthonormal K of the round before: rank + 8
directions. K becomes the orthonormal factor of G K (block power iteration), and W follows from K^T G K
(Rayleigh-Ritz). Both iterations end together, at the table that Gram matrices lead to.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import Index, MatrixSource
from fedsvd.errors import ConfigError, NotConverged
from fedsvd.prepare.derived import Derived, names_of, row_panels
from fedsvd.prepare.missing import Filled
from fedsvd.randomness.keystream import Keystream
from fedsvd.randomness.seed import Seed
from fedsvd.types import Float, expect_shape

FIRST_ROUNDS = 8
"""By directions; a ratio of singular values to the fourth power is lost in each."""

_SPARE = 8  # directions beyond the rank
_START = Seed(bytes(32))  # of the first directions


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

    products: Float  # of its filled table, as the round opens them
    moved: float  # squared change of its filled values since the round before
    size: float  # their squared size


def from_triangle(values: Float, columns: int) -> Float:
    """The symmetric matrix of this upper triangle."""
    expect_shape("the sum of a round", values, _triangle(columns))
    gram = np.zeros((columns, columns))
    gram[np.triu_indices(columns)] = values
    return gram + np.triu(gram, 1).T


def expect_settled(moved: float, size: float, tolerance: float, rounds: int) -> None:
    """Refuse an imputation whose filled values still moved by more than ``tolerance`` of their size."""
    if moved > tolerance**2 * max(size, np.finfo(np.float64).tiny):
        fault = f"low-rank imputation still moved after {rounds} rounds"
        raise NotConverged(fault, "allow more rounds, or a larger penalty")


# --- what a round opens -----------------------------------------------------------------------------------------------


def _triangle(columns: int) -> int:
    return columns * (columns + 1) // 2


def directions(columns: int, rank: int) -> int:
    """How many directions a round opens products with; 0 where it opens the Gram matrix, which is not longer then."""
    wanted = rank + _SPARE if rank else columns
    return wanted if columns * wanted < _triangle(columns) else 0


def numbers_of_a_round(columns: int, rank: int = 0) -> int:
    """The numbers of one sum."""
    return columns * directions(columns, rank) or _triangle(columns)


def first_rounds(columns: int, rank: int) -> int:
    """Rounds before any gap is filled, from which the largest singular value of the first table follows."""
    return FIRST_ROUNDS if directions(columns, rank) else 1


class Opened(Protocol):
    """What rounds open, and what follows from it."""

    def largest(self, rows: float) -> float:
        """What no number is above before gaps are filled, in standard deviations of this many rows."""
        ...

    def products(self, Z: Float) -> Float:
        """Those of these rows, which are added up over all rows of all parties."""
        ...

    def spectrum(self, total: Float) -> tuple[Float, Float]:
        """Squared singular values of the joint table and their vectors: all of them, or the largest."""
        ...


class ByGram:
    """The upper triangle of the Gram matrix."""

    def __init__(self, columns: int) -> None:
        self._columns = columns

    def largest(self, rows: float) -> float:
        """By Cauchy and Schwarz."""
        return float(rows)

    def products(self, Z: Float) -> Float:
        """Z^T Z."""
        return np.asarray((Z.T @ Z)[np.triu_indices(self._columns)])

    def spectrum(self, total: Float) -> tuple[Float, Float]:
        """Of all of the matrix."""
        eigenvalues, V = np.linalg.eigh(from_triangle(total, self._columns))
        return eigenvalues, V


class ByDirections:
    """The products of the Gram matrix with directions that turn to its leading vectors; they change from round to
    round, by what is opened alone."""

    def __init__(self, columns: int, rank: int) -> None:
        # Public, and the same in every attempt: another start would open other directions of the same table.
        self._K = _orthonormal(Keystream(_START).normal((columns, directions(columns, rank))))

    def largest(self, rows: float) -> float:
        """A row of the Gram matrix has as many numbers as there are columns, and a direction has length 1."""
        return float(rows) * math.sqrt(len(self._K))

    def products(self, Z: Float) -> Float:
        """Z^T Z K."""
        return np.asarray((Z.T @ (Z @ self._K)).ravel())

    def spectrum(self, total: Float) -> tuple[Float, Float]:
        """Ritz values and vectors of the directions that were opened; the next ones are those that they went to."""
        K, Y = self._K, total.reshape(self._K.shape)
        H = K.T @ Y
        eigenvalues, y = np.linalg.eigh((H + H.T) / 2)
        self._K = _orthonormal(Y)
        return eigenvalues, K @ y


def _orthonormal(Y: Float) -> Float:
    """The nearest orthonormal columns (polar factor): continuous in Y, so that rounds move less and less."""
    P, _, Qt = np.linalg.svd(Y, full_matrices=False)
    return np.asarray(P @ Qt)


def opened_by(columns: int, rank: int) -> Opened:
    """What rounds open of a table with this number of columns."""
    return ByDirections(columns, rank) if directions(columns, rank) else ByGram(columns)


def contribution(source: MatrixSource, now: Completion, before: Completion, opened: Opened) -> Contribution:
    """One pass: the products of the table as it is filled now, and how far its filled values moved."""
    products, moved, size = opened.products(np.zeros((0, source.shape[1]))), 0.0, 0.0
    for _, panel in row_panels(source):
        missing, Z = np.isnan(panel), now.standard(panel)
        change = (Z - before.standard(panel))[missing]
        products += opened.products(Z)
        moved += float(change @ change)
        size += float(Z[missing] @ Z[missing])
    return Contribution(products, moved, size)


def shrinkage(squared: Float, V: Float, penalty: float) -> Float:
    """W = V diag(max(s - penalty, 0) / s) V^T of the joint Z = U diag(s) V^T: Z W is Z with lowered singular values."""
    if not penalty > 0:
        raise ConfigError(f"the penalty of soft-impute is {penalty}", "give a positive number, of the size of s_1 / 50")
    s = np.sqrt(np.maximum(squared, 0.0))
    above = s > penalty
    W: Float = (V[:, above] * (1.0 - penalty / s[above])) @ V[:, above].T
    return W


def expect_rank(squared: Float, penalty: float, rank: int) -> None:
    """Refuse a completion of a higher rank than the one that directions were planned for."""
    if rank and np.count_nonzero(squared > penalty**2) > rank:
        fault = f"more than {rank} singular values are above the penalty of the low-rank imputation"
        raise NotConverged(fault, "allow a higher rank, or a larger penalty")


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
