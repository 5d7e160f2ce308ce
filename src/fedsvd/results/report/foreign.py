"""The outputs of a foreign task in a report: a table of each, in its author's words, and what ran."""

from collections.abc import Iterator
from itertools import product

import numpy as np

from fedsvd.results.foreign_tables import headings, places
from fedsvd.results.report.sections import Section, grid
from fedsvd.results.result import PartyResult

_ROWS = 60


def foreign_sections(result: PartyResult) -> Iterator[Section]:
    """What came out, one table to each declared output that the reader holds."""
    about = result.plan.foreign
    if about is None:
        return
    chosen = [(name, str(value)) for name, value in about.chosen.items()]
    grids = [grid("Options", ("option", "value"), chosen)] if chosen else []
    words = [about.about, f"The task is {about.name}, with the declaration {about.declaration}."]
    for output in about.outputs:
        if output.name not in result.arrays:
            continue
        labels = product(*(places(result, axis, size) for axis, size in zip(output.axes, output.shape, strict=True)))
        values = np.ravel(result.arrays[output.name])
        rows = [(*label, f"{value:.6g}") for label, value, _ in zip(labels, values, range(_ROWS), strict=False)]
        more = f", the first {_ROWS} of {values.size:,} numbers" if values.size > _ROWS else ""
        grids.append(grid(f"{output.says}{more}", (*headings(output), output.name), rows))
    yield Section("outputs", "What came out", tuple(words), (), tuple(grids))
