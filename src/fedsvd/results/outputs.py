"""The one writer of outputs: values under declared names become arrays, files, tables and facts of a reader's result.

Who gets what, and which table shows it, follows from the declarations (``protocol.outputs``) that the result carries;
a value that is not declared is refused. Of a table whose cells no declaration can say, such as that of a regression,
the cells are given.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import ConfigError
from fedsvd.protocol.outputs import FEATURE, RECORD, TARGET, Kind, Output, To, shared_by
from fedsvd.protocol.tasks import Split
from fedsvd.results.folder import Table
from fedsvd.results.result import PartyResult
from fedsvd.results.vector_files import VectorFile


@dataclass(frozen=True, repr=False)
class Values:
    """What was computed, under declared names: arrays (or files of them), facts, and the cells of some tables."""

    arrays: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    objects: Mapping[str, Any] = field(default_factory=dict)  # what facts of these names describe, as it was computed
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)  # along an axis, where they are not the reader's

    def __or__(self, more: "Values") -> "Values":
        arrays, facts = {**self.arrays, **more.arrays}, {**self.facts, **more.facts}
        objects, labels = {**self.objects, **more.objects}, {**self.labels, **more.labels}
        return Values(arrays, facts, (*self.tables, *more.tables), objects, labels)


def stored(to: PartyResult, values: Values) -> PartyResult:
    """The result with the arrays, files and facts among these values that its reader gets; no table."""
    arrays, files, facts = {}, {}, {}
    for name, value in values.arrays.items():
        output = declared(to, name)
        if not receives(to, output) or output.kind is Kind.COLUMN:
            continue
        if isinstance(value, VectorFile):
            files[name] = value
        else:
            arrays[name] = value
    for name, value in values.facts.items():
        if receives(to, declared(to, name, Kind.FACT)):
            facts[name] = value
    objects = {name: value for name, value in values.objects.items() if receives(to, declared(to, name, Kind.FACT))}
    return replace(to.adding(arrays, facts=facts, files=files), objects={**to.objects, **objects})


def written(to: PartyResult, values: Values, ids: NDArray[Any] | None = None) -> PartyResult:
    """The result with all of these values that its reader gets, and with the tables that show them.

    ``ids`` are those of the reader's rows, where they have some.
    """
    to = stored(to, values)
    given = {table.name: table for table in values.tables}
    shown = [output for output in to.outputs if output.table and receives(to, output)]
    for name in dict.fromkeys(output.table for output in shown):
        if name in given:
            to = to.adding(table=given[name])
            continue
        present = [output for output in shown if output.table == name and _is_shown(values, output)]
        if present:
            to = to.adding(table=_table(to, present, values, ids))
    return to


def declared(to: PartyResult, name: str, kind: Kind = Kind.ARRAY) -> Output:
    """The declaration of an output."""
    for output in to.outputs:
        if output.name == name and (output.kind is Kind.FACT) == (kind is Kind.FACT):
            return output
    raise ConfigError(f"task {str(to.task)!r} gives {name}, which it does not declare", "declare it among its outputs")


def receives(to: PartyResult, output: Output) -> bool:
    """Whether the reader of this result gets an output."""
    receiver = output.receiver(to.split)
    if receiver is To.HOLDER:
        return to.index is not None and to.index == to.plan.label_user
    return receiver is To.ALL or to.index is not None


def shared_part(result: PartyResult) -> PartyResult:
    """What all users share, from one party's result as it was read back."""
    kept = shared_by(result.outputs, result.split)
    arrays = {output.name for output in kept if output.kind is not Kind.FACT}
    facts = {output.name for output in kept if output.kind is Kind.FACT}
    by_rows = result.split is Split.HORIZONTAL  # where columns are split, their names are a party's own
    return replace(
        result,
        reader=None,
        features=result.features if by_rows else None,
        arrays={name: array for name, array in result.arrays.items() if name in arrays},
        facts={name: fact for name, fact in result.facts.items() if name in facts},
        objects={},
    )


def with_tables_of_records(shared: PartyResult, without: Sequence[str] = ()) -> PartyResult:
    """What all share, with its tables that have a row for each record: without the ids of any party's rows."""
    kept = (output for output in shared_by(shared.outputs, shared.split) if output.table and RECORD in output.axes)
    names = [output.name for output in kept if output.name in shared.arrays and output.table not in without]
    return written(shared, Values({name: shared.arrays[name] for name in names}))


def _is_shown(values: Values, output: Output) -> bool:
    value = values.arrays.get(output.name)
    return output.kind is not Kind.FACT and value is not None and not isinstance(value, VectorFile)


def _table(to: PartyResult, outputs: Sequence[Output], values: Values, ids: NDArray[Any] | None) -> Table:
    """A table with one column for each output, or for each place along the shorter axis of a single one."""
    first, array = outputs[0], values.arrays[outputs[0].name]
    if len(first.axes) == 1:
        rows, columns = first.axes[0], {each.heading or each.name: values.arrays[each.name] for each in outputs}
    else:
        rows = next((axis for axis in (RECORD, FEATURE) if axis in first.axes), first.axes[0])  # those that may be many
        across = next((axis for axis in first.axes if axis != rows), rows)
        array = array if first.axes[0] == rows else array.T
        headings = values.labels.get(across) or _headings(to, across, array.shape[1])
        columns = dict(zip(headings, array.T, strict=True))
    label, index = _index(to, rows, len(array), values.labels.get(rows), ids)
    while label in columns:  # a target may be called what we call the rows
        label += "_"
    return Table(first.table, {label: index, **columns})


def _index(
    to: PartyResult, axis: str, count: int, labels: Sequence[str] | None, ids: NDArray[Any] | None
) -> tuple[str, Sequence[object] | NDArray[Any]]:
    """What each row of a table is, and under which heading."""
    if axis == RECORD:
        return ("row", np.arange(count)) if ids is None else ("id", ids)
    if axis == FEATURE:
        return axis, to.feature_names(count)
    return axis, labels or (to.targets if axis == TARGET else np.arange(1, count + 1))


def _headings(to: PartyResult, axis: str, count: int) -> Sequence[str]:
    if axis == FEATURE:
        return to.feature_names(count)
    return to.targets if axis == TARGET else [f"{axis}_{j + 1}" for j in range(count)]
