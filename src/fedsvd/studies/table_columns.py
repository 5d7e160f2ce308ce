"""Columns of one table as a study reads them: ids as text, labels as numbers, features by name."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import MatrixSource
from fedsvd.data.suspects import shared_id
from fedsvd.data.views import NumberedNames, Without
from fedsvd.errors import ConfigError, DataError, NotNumeric
from fedsvd.prepare.at_home import CLASSES_FIX, NUMBERS_FIX
from fedsvd.prepare.spellings import other_levels
from fedsvd.types import Float


def row_ids(source: MatrixSource, name: str) -> NDArray[np.str_]:
    """The ids as text, one to a row."""
    return as_text(source.column(name))


def as_text(column: NDArray[Any]) -> NDArray[np.str_]:
    """A column as text; whole numbers without a point."""
    if column.dtype.kind == "f" and bool(np.all(column == np.floor(column))):
        column = column.astype(np.int64)
    return column.astype(np.str_)


def labels_in(source: MatrixSource, names: Sequence[str], classes: Sequence[str] = (), outcome: bool = True) -> Float:
    """The label columns of these names, (rows, targets); the first as numbers of its classes where there are some.

    ``outcome``: whether the first is what is predicted; events, weights and an offset have no classes.
    """
    first = []
    if classes:
        first = [class_codes(names[0], row_ids(source, names[0]), classes)]
    return np.column_stack(
        first + [_numbers(source, name, outcome and name == names[0]) for name in names[len(first) :]]
    )


def class_codes(column: str, text: NDArray[np.str_], classes: Sequence[str]) -> Float:
    """The class of every row as a number from 0, in the order of the study's classes."""
    place = {spelt: code for code, spelt in enumerate(classes)}
    strange = sorted({value for value in text.tolist() if value not in place})
    if strange:
        raise other_levels(column, strange, classes)
    return np.array([place[value] for value in text.tolist()], dtype=np.float64)


def feature_names(table: MatrixSource) -> Sequence[str]:
    """The names of the columns; x0, x1, ... where the data has none, as scikit-learn counts them."""
    return table.names if table.names is not None else NumberedNames(table.shape[1])


def with_features(source: MatrixSource, features: Sequence[str]) -> MatrixSource:
    """The columns of these names in this order, whatever else the data holds; by position where it has no names."""
    if source.names is None:
        if source.shape[1] != len(features):
            fault = f"the data has {source.shape[1]} columns without names, the result was made from {len(features)}"
            raise DataError(fault, "give the same columns in the same order, or a table with names")
        return source
    place = {name: j for j, name in enumerate(source.names)}
    missing = [name for name in features if name not in place]
    if missing:
        fault = f"{len(missing)} of {len(features)} columns are missing, the first is {missing[0]!r}"
        raise DataError(fault, "give a table with the columns that the result was made from")
    return source if source.names == tuple(features) else Without(source, [place[name] for name in features])


def _numbers(source: MatrixSource, name: str, outcome: bool) -> Float:
    column = source.column(name)
    if column.dtype.kind not in "iuf":
        numbered = _numbered(column)
        if numbered is not None:
            return numbered
        if not outcome:
            raise NotNumeric(f"column {name!r} holds text, and is read as numbers", NUMBERS_FIX)
        raise NotNumeric(f"the label column {name!r} holds text, not numbers", CLASSES_FIX)
    return column.astype(np.float64)


def _numbered(column: NDArray[Any]) -> Float | None:
    """Texts of digits with zeros in front, as ids of subjects are, as numbers; None where two would be one."""
    texts = np.unique(column.astype(np.str_))
    if not np.char.isdecimal(texts).all() or len(np.unique(texts.astype(np.float64))) < len(texts):
        return None
    return column.astype(np.str_).astype(np.float64)


def expect_named_ids(sources: Sequence[MatrixSource]) -> None:
    """Refuse tables that share a column of row ids which the study does not name: as a feature it would do harm."""
    name = shared_id(sources)
    if name is None:
        return
    how = f'id = "{name}" compares the ids and leaves the column out of the data'
    if not name:  # what pandas writes above an index
        how = 'name it (to_csv(index_label="row")), and id = "row" compares it; or write the table without: index=False'
    raise ConfigError(
        f"every party has a column {name!r} with another value in each row, as row ids are, and no id is named",
        f'{how}; ids = "trust", if it is data and the rows are known to be in the same order',
    )
