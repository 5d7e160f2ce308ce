"""y of ``fit``: values, or names of columns of the parties' tables; the same names that a job between institutions has.

Split by samples every party's table has the columns. Split by features one party's table has them, and that party holds
the labels. They are then no features. What y is called is kept, for tables of coefficients.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d

from fedsvd.data.source import MatrixSource
from fedsvd.errors import ConfigError, DataError, NotNumeric
from fedsvd.estimators.inference import names_of_targets
from fedsvd.estimators.row_columns import expect_everywhere, opened
from fedsvd.estimators.rows import NUMBERS_OR_CLASSES, expect_complete
from fedsvd.estimators.tables import are_parties
from fedsvd.prepare.spellings import expect_shared
from fedsvd.protocol.tasks import Split
from fedsvd.types import near


@dataclass(frozen=True, repr=False)
class Target:
    """Labels as arrays, what their columns are called where y named them, and the one party whose table had them."""

    values: Any
    names: tuple[str, ...] = ()
    holder: int | None = None  # counted from 0, where features are split over the tables that were given

    def called(self, values: Any, count: int) -> tuple[str, ...]:
        """The names of the targets: those of columns, or those that values have."""
        return self.names or names_of_targets(values, count)


def target_in(
    X: Any, y: Any, split: Split, label_party: int | None = None, *, classes: bool = False
) -> tuple[Any, Target]:
    """The tables without the columns that y names, and y's values; both as they were where y holds values.

    A list of texts is a list of names, but for ``classes``, which may be texts themselves.
    """
    names = _named(y, classes)
    if not names:
        return X, Target(y)
    sources, one = opened(X), not are_parties(X)
    if one or split is Split.HORIZONTAL:
        for name in names:
            expect_everywhere(sources, "y", name)
        parts = [_values(source, names, classes) for source in sources]
        rest = [source.without(names) for source in sources]
        return (rest[0], Target(parts[0], names)) if one else (rest, Target(parts, names))
    holder = _holder(sources, names, label_party)
    rest = [source.without(names) if i == holder else source for i, source in enumerate(sources)]
    return rest, Target(_values(sources[holder], names, classes), names, holder)


def _named(y: Any, classes: bool) -> tuple[str, ...]:
    if isinstance(y, str):
        return (y,)
    listed = isinstance(y, list | tuple) and not classes and all(isinstance(name, str) for name in y)
    return tuple(y) if listed else ()


def _holder(sources: Sequence[MatrixSource], names: Sequence[str], asked: int | None) -> int:
    """Whose table has all these columns; refused where another has one of them too, as in a job."""
    every = [name for source in sources for name in source.names or ()]
    for name in names:
        if name not in every:
            raise ConfigError(f"y = {name!r}: no party has such a column", f"check the spelling{near(name, every)}")
    holding = [i for i, source in enumerate(sources) if not set(names).isdisjoint(source.names or ())]
    called = ", ".join(repr(name) for name in names)
    if len(holding) > 1:
        where = ", ".join(str(i + 1) for i in holding)
        raise ConfigError(f"y = {called}: columns of the parties {where}", "leave labels out of all tables but one")
    if asked not in (None, *holding):
        fault = f"y = {called}: a column of party {holding[0] + 1}, and not of the party that label_party names"
        raise ConfigError(fault, f"label_party={holding[0]}, or leave it out")
    return holding[0]


def _values(source: MatrixSource, names: Sequence[str], classes: bool) -> NDArray[Any]:
    columns = [source.column(name) for name in names]
    for name, column in zip(names, columns, strict=True):
        if not classes and column.dtype.kind not in "iuf":
            raise NotNumeric(f"the label column {name!r} holds text, not numbers", NUMBERS_OR_CLASSES)
    return columns[0] if len(columns) == 1 else np.column_stack(columns)


def class_labels(y: Any) -> NDArray[Any]:
    """All labels in one array, (n,); a list of arrays is one for each party."""
    if y is None:
        raise ConfigError("a classifier requires y to be passed, but the target y is None", "give y to fit")
    if isinstance(y, list | tuple) and len(y) and all(np.ndim(part) > 0 for part in y):
        for party, part in enumerate(y, start=1):
            expect_complete(part, "y", party)
        parts = [_one_class_column(part) for part in y]
        texts = {
            f"party {i}": part.astype(np.str_) for i, part in enumerate(parts, start=1) if part.dtype.kind in "UOT"
        }
        if 0 < len(texts) < len(parts):
            other = next(f"party {i}" for i in range(1, len(parts) + 1) if f"party {i}" not in texts)
            raise DataError(
                f"labels of {next(iter(texts))} are texts, and those of {other} are not",
                "give the same classes at all parties: y.map({0: 'no', 1: 'yes'})",
            )
        if texts:  # numbers are the same at all parties, or people say so
            expect_shared(texts)
        return np.concatenate(parts)
    return _one_class_column(y)


def _one_class_column(y: Sequence[Any] | Any) -> NDArray[Any]:
    labels: NDArray[Any] = column_or_1d(y, warn=True)
    expect_complete(labels, "y")
    check_array(labels, ensure_2d=False, dtype=None, input_name="y")
    check_classification_targets(labels)
    return labels
