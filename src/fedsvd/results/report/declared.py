"""Outputs that a report shows as their task declares them: a table of each; of a foreign task also what ran."""

from collections.abc import Iterator
from itertools import product

import numpy as np

from fedsvd.results.foreign_tables import headings, places
from fedsvd.results.report.sections import Grid, Section, grid
from fedsvd.results.result import PartyResult

_ROWS = 60


def declared_outputs(result: PartyResult) -> Iterator[Section]:
    """What came out, a table of each output that says what it is and that the reader holds."""
    words, grids = [], []
    about = result.plan.foreign
    if about is not None:
        chosen = [(name, str(value)) for name, value in about.chosen.items()]
        grids += [grid("Options", ("option", "value"), chosen)] if chosen else []
        words += [about.about, f"The task is {about.name}, with the declaration {about.declaration}."]
    grids += _tables(result)
    if words or grids:
        yield Section("outputs", "What came out", tuple(words), (), tuple(grids))


def _tables(result: PartyResult) -> Iterator[Grid]:
    for output in result.outputs:
        if not output.says or output.name not in result.arrays:
            continue
        array = result.arrays[output.name]
        labels = product(*(places(result, axis, size) for axis, size in zip(output.axes, array.shape, strict=True)))
        rows = [
            (*label, f"{value:.6g}") for label, value, _ in zip(labels, np.ravel(array), range(_ROWS), strict=False)
        ]
        more = f", the first {_ROWS} of {array.size:,} numbers" if array.size > _ROWS else ""
        yield grid(f"{output.says}{more}", (*headings(output.axes), output.name), rows)
