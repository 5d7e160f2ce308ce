"""What goes with the rows of a study and is no feature: weights, an offset, clusters; as arrays, or columns by name."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError, NotNumeric, ShapeError
from fedsvd.estimators.rows import joint_labels
from fedsvd.estimators.tables import are_parties
from fedsvd.studies.table_columns import row_ids
from fedsvd.types import Float


def set_aside(X: Any, named: Mapping[str, str]) -> tuple[Any, dict[str, list[NDArray[Any]]]]:
    """The tables without the columns of these names, and what each party's columns hold; as they are without names."""
    if not named:
        return X, {}
    one = not are_parties(X)
    sources = [open_source(table) for table in ([X] if one else X)]
    for key, name in named.items():
        lacking = [str(i) for i, source in enumerate(sources, start=1) if name not in (source.names or ())]
        if lacking:
            fix = "name a column that every table has"
            raise ConfigError(f"{key} = {name!r}: no such column at party {', '.join(lacking)}", fix)
    found = {key: [source.column(name) for source in sources] for key, name in named.items() if key != "cluster"}
    for key, columns in found.items():
        if any(column.dtype.kind not in "iuf" for column in columns):
            raise NotNumeric(f"the column {named[key]!r} holds text, not numbers", "encode it as numbers")
    if "cluster" in named:
        found["cluster"] = [row_ids(source, named["cluster"]) for source in sources]
    rest = [source.without(list(named.values())) for source in sources]
    return rest[0] if one else rest, found


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
    listed = isinstance(values, list | tuple) and len(values) == len(counts) > 1 and np.ndim(values[0]) > 0
    joint = np.concatenate([np.asarray(part) for part in values]) if listed else np.asarray(values)
    if joint.shape != (sum(counts),):
        raise ShapeError(f"clusters of shape {joint.shape} for {sum(counts)} samples", "give one for each sample")
    return joint.astype(np.str_)
