"""This user's own mean of every row, as an exact pair, and the rows' deviations: one pass over its data (step 3)."""

import math
from dataclasses import dataclass
from operator import add

import numpy as np

from fedsvd.compress.centre import row_energy
from fedsvd.errors import NumericalError
from fedsvd.linalg import backend
from fedsvd.linalg.backend import EPS, namespace, to_numpy
from fedsvd.roles.user.work import Work
from fedsvd.secagg import wide
from fedsvd.types import Array, Float


@dataclass(frozen=True, repr=False)
class OwnMean:
    """This user's mean of every row as an exact pair, a shift of its own and the rest, and the rows' deviations."""

    shift: Float
    offset: Float
    deviation: Float

    @property
    def mean(self) -> Float:
        """To the nearest number."""
        return self.shift + self.offset

    def norm_about(self, mean: Float, rest: Float, n_i: int) -> float:
        """The norm of this user's n_i records about another mean, from what is known of each row."""
        off = self.shift - mean + self.offset - rest
        return math.sqrt(n_i) * math.hypot(backend.norm(self.deviation), backend.norm(off))

    def exact(self) -> list[int]:
        """``shift + offset`` in units of 2^-1074."""
        return list(map(add, wide.integers(self.shift), wide.integers(self.offset)))


def own_mean(work: Work) -> OwnMean:
    """One pass: sums and squares of every row, less its first entry, which saves the digits of a large mean."""
    rows, n_i = work.source.shape
    shift, sums, squares = np.empty(rows), np.zeros(rows), np.zeros(rows)

    def of_rows(part: slice, X: Array) -> None:
        shift[part] = to_numpy(X[:, 0])
        sums[part], squares[part] = _moments(X - X[:, :1])

    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused below
        if work.near:
            work.over_rows("means", rows, n_i, lambda part: of_rows(part, work.source.rows(part.start, part.stop)))
        elif work.plan.reads_rows:
            for part, X in work.row_panels("means"):
                of_rows(part, X)
        else:
            for part, X in work.panels("means"):
                if part.start == 0:
                    shift = np.array(to_numpy(X[:, 0]))
                more = _moments(X - work.put(shift[:, None]))
                sums, squares = sums + more[0], squares + more[1]
    if not np.isfinite(squares).all():
        raise beyond_squares()
    offset = sums / n_i
    deviation = np.sqrt(np.maximum(squares / n_i - offset**2, 0.0))
    # A spread that is all rounding counts as none.
    return OwnMean(shift, offset, np.where(deviation**2 > 8 * EPS * offset**2, deviation, 0.0))


def _moments(X: Array) -> tuple[Float, Float]:
    return to_numpy(namespace(X).sum(X, axis=1)), row_energy(X)


def beyond_squares() -> NumericalError:
    """The refusal of data whose squares leave the range of float64."""
    return NumericalError("the squared norm of a table leaves the range of float64", "scale the data down")
