"""The outputs of a foreign task as arrays and tables, under their declared names."""

from itertools import product

import numpy as np

from fedsvd.protocol.foreign import FEATURE, ForeignOutput
from fedsvd.results.folder import Table
from fedsvd.results.outputs import Values
from fedsvd.results.result import PartyResult
from fedsvd.roles.user.foreign import ForeignResult


def outputs(to: PartyResult, computed: ForeignResult, tables: bool) -> Values:
    """Every declared output as an array; with ``tables`` also as a table with a row for each of its numbers."""
    about, made = to.plan.foreign, []
    for output in about.outputs if tables and about is not None else ():
        labels = [*product(*(places(to, axis, size) for axis, size in zip(output.axes, output.shape, strict=True)))]
        columns = dict(zip(headings(output), zip(*labels, strict=True), strict=True))
        value = "value" if output.name in columns else output.name
        made.append(Table(output.name, {**columns, value: np.ravel(computed.outputs[output.name])}))
    return Values(dict(computed.outputs), tables=tuple(made))


def headings(output: ForeignOutput) -> tuple[str, ...]:
    """The axes of an output, each by a name of its own."""
    return tuple(axis if output.axes.count(axis) == 1 else f"{axis}_{i}" for i, axis in enumerate(output.axes, start=1))


def places(to: PartyResult, axis: str, size: int) -> tuple[object, ...]:
    """What the places of an axis are called: names of features, or numbers from 0."""
    about = to.plan.foreign
    if axis == FEATURE and about is not None and to.features is not None:
        return tuple(name for name in to.features if name not in about.aside)
    return tuple(f"x{j}" for j in range(size)) if axis == FEATURE else tuple(range(size))
