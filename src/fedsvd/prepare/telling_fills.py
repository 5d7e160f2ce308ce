"""Which gaps of a party's own table are filled with numbers that can be told from entries, in sums of products.

Product sums of columns of whole numbers are whole numbers. One gap that is filled with 5.3 adds 0.3 times that person's
other entry to each of them, and a user who sees the sum in enough digits reads it: of five people with one gap each
all 35 other entries were read. It is the same on any grid that entries lie on (tenths, even numbers, whole pounds in
kilograms, float32), and with a number that is far from all entries. So what fills gaps should be what entries are.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import MatrixSource
from fedsvd.data.views import underlying
from fedsvd.prepare.columns import arranged
from fedsvd.prepare.derived import names_of, row_panels
from fedsvd.prepare.missing import Filled, gaps
from fedsvd.prepare.soft_impute import Completed
from fedsvd.types import Float

_PRIMES = (2, 3, 5, 7)  # of which a coarser grid is a multiple
_STRAY = 50  # one entry in 50 may be off a grid, and fewer than the least count


def telling_fills(table: MatrixSource, least: int) -> tuple[str, ...]:
    """The columns with own gaps in which what fills them may be told from entries.

    Nothing is told by 0, which adds nothing; by a number that ``least`` entries are; or by a mean in the decimals that
    the dictionary gives the column, unless its entries lie on a coarser grid. On which grid entries lie that have no
    decimals in a dictionary is not guessed: a mean of all digits is on none.
    """
    completed, filled = underlying(table, Completed), underlying(table, Filled)
    if completed is not None:
        told = _told(completed.by_means, least)
        return tuple(name for name in completed.taking_means if name in told)
    return () if filled is None else _told(filled, least)


def _told(filled: Filled, least: int) -> tuple[str, ...]:
    names, decimals = names_of(filled.gapped), filled.decimals
    with_gaps = np.flatnonzero(gaps(filled.gapped).counts).tolist()
    on_grid = [j for j in with_gaps if decimals is None or names[j] in decimals]
    looked = np.array([j for j in on_grid if filled.fills[j] != 0.0], np.intp)
    told = set(with_gaps) - set(on_grid)
    if looked.size:
        off = _unlike(filled, looked, least) if decimals is None else _off_grid(filled, looked, decimals, least)
        told |= set(looked[off].tolist())
    return tuple(names[j] for j in sorted(told))


def _unlike(filled: Filled, columns: NDArray[np.intp], least: int) -> NDArray[np.bool_]:
    """Whether fewer than ``least`` entries are what the job fills gaps with."""
    alike = sum((panel == filled.fills[columns]).sum(axis=0) for panel in _panels(filled, columns))
    return np.asarray(alike) < least


def _off_grid(filled: Filled, columns: NDArray[np.intp], decimals: Mapping[str, int], least: int) -> NDArray[np.bool_]:
    """Whether entries, in steps of their decimals, lie on a coarser grid, as even numbers or multiples of ten do."""
    names = names_of(filled.gapped)
    unit = 10.0 ** np.array([decimals[names[j]] for j in columns.tolist()])
    grids = [_Residues(prime, len(columns)) for prime in _PRIMES]
    present = np.zeros(len(columns), np.int64)
    for panel in _panels(filled, columns):
        steps = np.rint(panel * unit)
        present += (~np.isnan(steps)).sum(axis=0)
        for grid in grids:
            grid.add(steps)
    strays = np.minimum(least - 1, present // _STRAY)
    return np.asarray(np.any([grid.is_one(present, strays) for grid in grids], axis=0))


def _panels(filled: Filled, columns: NDArray[np.intp]) -> Iterator[Float]:
    return (panel for _, panel in row_panels(arranged(filled.gapped, [names_of(filled.gapped)[j] for j in columns])))


class _Residues:
    """How many entries of each column, in whole steps, leave each remainder by a prime, and from where to where."""

    def __init__(self, prime: int, width: int) -> None:
        self._prime = prime
        self._counts = np.zeros((prime, width), np.int64)
        self._least, self._largest = np.full((prime, width), np.inf), np.full((prime, width), -np.inf)

    def add(self, steps: Float) -> None:
        rest = np.mod(steps, self._prime)
        for remainder in range(self._prime):
            held = rest == remainder
            self._counts[remainder] += held.sum(axis=0)
            self._least[remainder] = np.minimum(self._least[remainder], np.where(held, steps, np.inf).min(axis=0))
            self._largest[remainder] = np.maximum(self._largest[remainder], np.where(held, steps, -np.inf).max(axis=0))

    def is_one(self, present: NDArray[np.int64], strays: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether all entries but strays leave one remainder, with at least two values."""
        most = np.argmax(self._counts, axis=0)
        places = np.arange(len(most))
        counts, apart = self._counts[most, places], self._largest[most, places] > self._least[most, places]
        return np.asarray((present - counts <= strays) & apart)
