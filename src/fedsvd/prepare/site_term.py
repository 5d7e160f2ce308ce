"""``site`` in a formula: which party a row is of, as a column of text that no table holds.

A bare ``site`` stands for it (``y ~ age + site``); a column of the data that is called so is read as ``C(site)``, or
named under ``categories``. The names of the parties stand in the job, so that no level is pooled.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import Index, MatrixSource
from fedsvd.errors import ConfigError
from fedsvd.prepare.derived import SideBySide, names_of
from fedsvd.prepare.formula_terms import SITE
from fedsvd.prepare.rule import Rule


class _OneText(MatrixSource):
    """A column with one text in every row."""

    def __init__(self, name: str, text: str, rows: int) -> None:
        super().__init__((rows, 1), np.dtype(np.float64), (name,))
        self._text = text

    @property
    def text_names(self) -> frozenset[str]:
        return frozenset(self.names or ())

    def _text_values(self, position: int) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        return np.full(self.shape[0], self._text), np.zeros(self.shape[0], np.bool_)

    def column(self, name: str) -> NDArray[Any]:
        return self.text(name)[0]

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        return np.full((self.shape[0], 1), np.nan)[rows][:, columns]

    def _place(self, row: int, column: int) -> str:
        return f"row {row} of {SITE}"


def with_site(source: MatrixSource, rule: Rule | None, party: str) -> MatrixSource:
    """A party's table, with its name as a column where the formula asks for it."""
    if rule is None or not rule.by_site:
        return source
    if SITE in names_of(source):
        raise ConfigError(
            f"{SITE} in the formula is which party a row is of, and the table has a column {SITE!r} too",
            f"write C({SITE}), or I({SITE}) for numbers, to read that column; or leave it out",
        )
    return SideBySide(source, _OneText(SITE, party, source.shape[0]))
