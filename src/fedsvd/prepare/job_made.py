"""Which columns of a study's table the job made, and which combinations of columns its products count.

A record can stand out in a product, a power or a gap indicator although it does not in any column of the data, and who
asks for a study chooses these. So they are judged apart from the columns that a party brings.
"""

from collections.abc import Iterable, Iterator
from itertools import product
from math import ceil, prod

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import MatrixSource
from fedsvd.data.views import underlying
from fedsvd.prepare.categories import JointLevels
from fedsvd.prepare.derived import names_of
from fedsvd.prepare.described import Described
from fedsvd.prepare.dictionary import Dictionary, Role
from fedsvd.prepare.formula_table import Combined, FormulaTable
from fedsvd.prepare.missing import Filled

_SHORT = 20  # whole numbers of a range that are taken for levels


def job_made(table: MatrixSource) -> dict[str, tuple[str, ...]]:
    """The columns that the job made of others, with those of the table that each is made of."""
    formula, filled = underlying(table, FormulaTable), underlying(table, Filled)
    found = {} if formula is None else dict(formula.made)
    if filled is not None and filled.marked:
        found |= {name: () for name in names_of(table) if name in filled.marked}
    return found


def columns_read(table: MatrixSource, levels: Iterable[JointLevels]) -> dict[str, tuple[str, ...]]:
    """Each column of a study's table with those of the data that it is made of."""
    formula = underlying(table, FormulaTable)
    if formula is not None:
        return formula.read
    coded = {f"{joint.name}_{level}": (joint.name,) for joint in levels for level in joint.all}
    return {name: coded.get(name, (name,)) for name in names_of(table)}


def combined(table: MatrixSource, most_values: int) -> Iterator[Combined]:
    """The columns whose combinations products of the job count, and which combination each row has."""
    formula = underlying(table, FormulaTable)
    return iter(()) if formula is None else formula.combined(most_values)


def empty_cells(table: MatrixSource, cells: Combined) -> int:
    """Combinations of the dictionary's levels that no row has and that are not structural zeros.

    Of a column that the dictionary does not describe, or that has many values, only those count that occur. None where
    there is no dictionary: without one, no level is known that does not occur.
    """
    described = underlying(table, Described)
    if described is None:
        return 0
    dictionary = described.dictionary
    values = [
        _listed_values(dictionary, name) or sorted({held[place] for held in cells.held})
        for place, name in enumerate(cells.names)
    ]
    possible, occurring = prod(map(len, values)), set(cells.held)
    if possible > len(cells.rows):  # more than there are rows: most of them are empty, whichever cannot occur
        return possible - len(occurring)
    zeros = [
        [(cells.names.index(name), level) for name, level in zero.items()]
        for zero in dictionary.structural_zeros
        if set(zero) <= set(cells.names)
    ]
    return sum(
        each not in occurring and not any(all(each[place] == level for place, level in zero) for zero in zeros)
        for each in product(*values)
    )


def _listed_values(dictionary: Dictionary, name: str) -> list[str]:
    """All values of a column, where the dictionary says them: levels, or the whole numbers of a short range."""
    if name not in dictionary.names:
        return []
    if levels := dictionary.levels_of(name):
        return list(levels)
    column = dictionary.described[name]
    if column.range is None or column.decimals != 0 or column.range[1] - column.range[0] >= _SHORT:
        return []
    return [str(value) for value in range(ceil(column.range[0]), int(column.range[1] // 1) + 1)]


def persons(table: MatrixSource) -> NDArray[np.intp] | None:
    """Which person each row is of, by the dictionary's id; None where it has none, or each person has one row."""
    described = underlying(table, Described)
    if described is None:
        return None
    roles = {column.role: name for name, column in described.dictionary.described.items()}
    if (name := roles.get(Role.ID)) is None or name not in names_of(described):
        return None
    ids, found = np.unique(table.text(name)[0], return_inverse=True)
    return found if len(ids) < len(found) else None
