"""What goes with the rows of a study and is no feature: weights, an offset, clusters; as arrays, or columns by name."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.open import open_source
from fedsvd.data.source import MatrixSource
from fedsvd.errors import ConfigError, DataError, NotNumeric, ShapeError
from fedsvd.estimators.rows import cut, gaps, joint_labels
from fedsvd.estimators.tables import are_parties, opened_tables
from fedsvd.studies.table_columns import row_ids
from fedsvd.types import Float, near


def set_aside(X: Any, named: Mapping[str, str]) -> tuple[Any, dict[str, list[NDArray[Any]]]]:
    """The tables without the columns of these names, and what each party's columns hold; as they are without names."""
    if not named:
        return X, {}
    sources, one = opened(X), not are_parties(X)
    for key, name in named.items():
        expect_everywhere(sources, key, name)
    found = {key: [source.column(name) for source in sources] for key, name in named.items() if key != "cluster"}
    for key in {"strata", "subject"} & set(found):  # names of one party alone, so that any numbers will do
        found[key] = [column if column.dtype.kind in "iuf" else _codes(column) for column in found[key]]
    for key, columns in found.items():
        if any(column.dtype.kind not in "iuf" for column in columns):
            raise NotNumeric(
                f"the column {named[key]!r} holds text, not numbers", f"give numbers for {key}, or leave it out"
            )
    if "cluster" in named:
        found["cluster"] = [row_ids(source, named["cluster"]) for source in sources]
    # A random slope is of a column that has a fixed effect too.
    aside = [name for key, name in named.items() if not key.startswith("slope")]
    rest = [source.without(aside) for source in sources]
    return rest[0] if one else rest, found


def _codes(column: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.unique(column.astype(np.str_), return_inverse=True)[1], np.float64)


def one_by_one(columns: Mapping[str, Any]) -> dict[str, Any]:
    """The same columns, of several names under one key each under its own: slope, slope 2, ..."""
    found: dict[str, Any] = {}
    for key, given in columns.items():
        for j, each in enumerate(given if is_named(given) and not isinstance(given, str) else [given]):
            found[f"{key} {j + 1}" if j else key] = each
    return found


def is_named(given: Any) -> bool:
    """Whether this names a column, or several."""
    return isinstance(given, str) or (isinstance(given, list | tuple) and all(isinstance(each, str) for each in given))


def opened(X: Any) -> tuple[MatrixSource, ...]:
    """The tables of a list, or one table that is to be divided."""
    return opened_tables(X) if are_parties(X) else (open_source(X),)


def expect_everywhere(sources: Sequence[MatrixSource], key: str, name: str) -> None:
    """Raise unless every table has a column of this name; the name that is nearest is part of the error."""
    lacking = [i for i, source in enumerate(sources) if name not in (source.names or ())]
    if lacking:
        known = sources[lacking[0]].names
        where = f" at party {', '.join(str(i + 1) for i in lacking)}" if len(sources) > 1 else ""
        fix = "name a column that every table has" + near(name, known or ())
        unnamed = "" if known else ": the table has no names of columns"
        raise ConfigError(f"{key} = {name!r}: no such column{where}{unnamed}", fix)


def numbers_of_rows(values: Any, counts: Sequence[int], what: str) -> Float:
    """One number for each joint row, from one array or a list with one for each party."""
    joint = joint_labels(values, counts, {"weights": "sample_weight"}.get(what, what))
    if joint.ndim != 1:
        raise ShapeError(
            f"{what} has {joint.ndim} dimensions", "give one number for each sample: Sample weights are 1D"
        )
    return joint


def texts_of_rows(values: Any, counts: Sequence[int]) -> NDArray[Any]:
    """One label of any kind for each joint row, likewise."""
    # A column by its name is a list of one where one table is to be divided.
    listed = isinstance(values, list | tuple) and len(values) in (1, len(counts)) and np.ndim(values[0]) > 0
    # As objects: NumPy makes a text of a NaN in a list of texts.
    given: Any = values if listed or isinstance(values, np.ndarray) else np.asarray(values, dtype=object)
    expect_groups(given if listed else cut(given, (0, *accumulate(counts))))
    joint = np.concatenate([np.asarray(part) for part in values]) if listed else np.asarray(values)
    if joint.shape != (sum(counts),):
        raise ShapeError(f"clusters of shape {joint.shape} for {sum(counts)} samples", "give one for each sample")
    return joint.astype(np.str_)


def expect_groups(parts: Sequence[Any]) -> None:
    """Refuse rows without a group, of which text would be a group by the name of "nan" or "None"."""
    for party, part in enumerate(parts, start=1):
        if missing := int(gaps(part).sum()):
            raise DataError(
                f"the group of some rows is missing: {missing} rows of party {party} have no cluster or group",
                "leave out rows without a group",
            )
