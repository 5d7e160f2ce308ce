"""Which columns of a study's table the job made, and which combinations of columns its products count.

A record can stand out in a product, a power or a gap indicator although it does not in any column of the data, and who
asks for a study chooses these. So they are judged apart from the columns that a party brings.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import MatrixSource
from fedsvd.data.views import underlying
from fedsvd.prepare.derived import names_of
from fedsvd.prepare.formula_table import FormulaTable
from fedsvd.prepare.missing import Filled


def job_made(table: MatrixSource) -> dict[str, tuple[str, ...]]:
    """The columns that the job made of others, with those of the table that each is made of."""
    formula, filled = underlying(table, FormulaTable), underlying(table, Filled)
    found = {} if formula is None else dict(formula.made)
    if filled is not None and filled.marked:
        found |= {name: () for name in names_of(table) if name in filled.marked}
    return found


def combined(table: MatrixSource, most_values: int) -> Iterator[tuple[tuple[str, ...], NDArray[np.intp]]]:
    """The columns whose combinations products of the job count, and which combination each row has."""
    formula = underlying(table, FormulaTable)
    return iter(()) if formula is None else formula.combined(most_values)
