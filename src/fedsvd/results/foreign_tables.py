"""Arrays under declared names; those of a foreign task, which may have any number of axes, as tables too."""

from collections.abc import Sequence
from itertools import product

import numpy as np

from fedsvd.protocol.foreign import FEATURE
from fedsvd.protocol.outputs import Named
from fedsvd.results.folder import Table
from fedsvd.results.outputs import Values
from fedsvd.results.result import PartyResult


def outputs(to: PartyResult, computed: Named, tables: bool) -> Values:
    """Every output as an array; with ``tables``, one of a foreign task as a table with a row for each number too."""
    about, made = to.plan.foreign, []
    for output in about.outputs if tables and about is not None else ():
        labels = [*product(*(places(to, axis, size) for axis, size in zip(output.axes, output.shape, strict=True)))]
        columns = dict(zip(headings(output.axes), zip(*labels, strict=True), strict=True))
        value = "value" if output.name in columns else output.name
        made.append(Table(output.name, {**columns, value: np.ravel(computed.outputs[output.name])}))
    return Values(dict(computed.outputs), tables=tuple(made))


def headings(axes: Sequence[str]) -> tuple[str, ...]:
    """The axes of an output, each by a name of its own."""
    return tuple(axis if axes.count(axis) == 1 else f"{axis}_{i}" for i, axis in enumerate(axes, start=1))


def places(to: PartyResult, axis: str, size: int) -> tuple[object, ...]:
    """What the places of an axis are called: names of features, or numbers from 0."""
    aside = () if to.plan.foreign is None else to.plan.foreign.aside
    if axis == FEATURE and to.features is not None:
        return tuple(name for name in to.features if name not in aside)
    return tuple(f"x{j}" for j in range(size)) if axis == FEATURE else tuple(range(size))
