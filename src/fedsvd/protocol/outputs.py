"""What a study gives, declared: name, axes, who gets it, and which table shows it.

A task declares its outputs once (``tasks``). From them follow the files of a results folder, which of them all parties
share, the CSV tables, the attributes of an estimator, fitted or loaded, and the drawings. A declaration is plain data:
it stands in the manifest of every result, so that a folder is read without the module of its task.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fedsvd.protocol.tasks import Split

RECORD, FEATURE, COMPONENT, TARGET, CLASS = "record", "feature", "component", "target", "class"
TERM, PENALTY, MEASURE = "term", "penalty", "measure"
"""Axes. What lies along one of them has the labels of the reader: row ids, column names, names of targets; any other
word is an axis whose places are numbered."""


class To(StrEnum):
    """Who gets an output."""

    ALL = "all parties"  # and, where all of them agree, the researcher who asked (``for_researcher``)
    OWN = "each party its own"
    HOLDER = "the party with the labels"


class Kind(StrEnum):
    """What an output is stored as."""

    ARRAY = "array"  # NAME.npy, and in a table where one is named
    COLUMN = "column"  # a column of a table alone
    FACT = "fact"  # in the manifest


@dataclass(frozen=True)
class Output:
    """One output of a task."""

    name: str
    axes: tuple[str, ...] = ()
    to: To = To.ALL
    by_columns: To | None = None  # who gets it where columns are split, if that is another
    kind: Kind = Kind.ARRAY
    table: str = ""  # the CSV table that shows it; "" for none
    heading: str = ""  # of its column, where it is one
    attribute: str = ""  # of the estimator; "" for none, or for one that follows from several outputs
    says: str = ""  # what it is, above its table in a report; "" where the report has a section of its own for it
    padded: bool = False  # the attribute has zeros up to the number of components that was asked for
    draws: tuple[str, ...] = ()  # drawings that need it: in the report, of ``plot``, as files (ADR 0098)

    def receiver(self, split: Split) -> To:
        """Who gets it on this split."""
        return self.by_columns if self.by_columns is not None and split is Split.VERTICAL else self.to

    def split_axis(self, split: Split) -> int | None:
        """Along which axis the parties' own parts are joined; None where each party's is a whole."""
        axis = RECORD if split is Split.HORIZONTAL else FEATURE
        return self.axes.index(axis) if axis in self.axes else None

    def record(self) -> dict[str, Any]:
        """As JSON has it: what is not said has its default."""
        said = {"name": self.name, "axes": list(self.axes), "to": str(self.to)}
        more = {"by_columns": self.by_columns, "table": self.table, "heading": self.heading}
        more |= {"attribute": self.attribute, "says": self.says, "kind": "" if self.kind is Kind.ARRAY else self.kind}
        flags = ({"padded": True} if self.padded else {}) | ({"draws": list(self.draws)} if self.draws else {})
        return said | {key: str(value) for key, value in more.items() if value} | flags


def output_of(record: Mapping[str, Any]) -> Output:
    """The output that a record describes; ``ValueError`` and its like where it describes none."""
    values = dict(record)
    values |= {"axes": tuple(str(axis) for axis in record["axes"]), "to": To(record["to"])}
    if "by_columns" in record:
        values["by_columns"] = To(record["by_columns"])
    values["kind"] = Kind(record.get("kind", Kind.ARRAY))
    values["draws"] = tuple(str(name) for name in record.get("draws", ()))
    return Output(**values)


@dataclass(frozen=True, repr=False)
class Named:
    """What a script ends with where all it has to say are arrays under declared names."""

    outputs: Mapping[str, Any]


def array(name: str, *axes: str, **more: Any) -> Output:
    """An array with a table of its own; further fields by name."""
    return Output(name, axes, table=name, **more)


def hidden(name: str, *axes: str, **more: Any) -> Output:
    """An array that no table shows."""
    return Output(name, axes, **more)


def column(name: str, axis: str, table: str, heading: str, **more: Any) -> Output:
    """One column of a table that several outputs share."""
    return Output(name, (axis,), table=table, heading=heading, **more)


def fact(
    name: str, *, to: To = To.ALL, by_columns: To | None = None, table: str = "", draws: tuple[str, ...] = ()
) -> Output:
    """What the manifest says."""
    return Output(name, (), to, by_columns, Kind.FACT, table, draws=draws)


def shared_by(outputs: Sequence[Output], split: Split) -> tuple[Output, ...]:
    """The outputs that all parties get."""
    return tuple(output for output in outputs if output.receiver(split) is To.ALL)


def for_researcher(outputs: Sequence[Output], split: Split) -> tuple[Output, ...]:
    """The outputs that a researcher gets where all parties agree: shared, and without a row for each record."""
    return tuple(output for output in shared_by(outputs, split) if RECORD not in output.axes)


def is_shared_file(outputs: Sequence[Output], split: Split, file: str) -> bool:
    """Whether a file of a party's folder is the same at all parties.

    A table with a row for each record has the party's own ids in it, and is not.
    """
    stem, _, suffix = file.rpartition(".")
    for output in shared_by(outputs, split):
        arrays = suffix == "npy" and output.name == stem and output.kind is Kind.ARRAY
        table = suffix in ("csv", "parquet") and output.table == stem and RECORD not in output.axes
        if arrays or table:
            return True
    return False
