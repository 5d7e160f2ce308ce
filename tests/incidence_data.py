"""Times to one of two causes for tests against R: ``python -m tests.incidence_data FOLDER`` writes the tables."""

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from tests.kit import kit
from tests.survival_data import table as survival_table

NAMES = ("made", "mgus2")
GRID = {"made": (1, 24), "mgus2": (12, 30)}
"""The width of a bin, and how many there are."""


def edges_of(name: str) -> np.ndarray:
    """The edges of a table's grid."""
    width, count = GRID[name]
    return float(width) * np.arange(1, count + 1)


@cache
def table(name: str) -> pd.DataFrame:
    """``time, status, group, site``; a status of 0 is the end of follow-up, 1 and 2 are causes."""
    if name == "mgus2":
        data = kit("mgus2")
        return data.assign(group=1 + data["male"])[["time", "status", "group", "site"]]
    data = survival_table("made")
    cause = np.random.default_rng(31).integers(1, 3, len(data))
    return data.assign(status=data["status"] * cause)[["time", "status", "group", "site"]]


if __name__ == "__main__":
    for each in NAMES:
        table(each).to_csv(Path(sys.argv[1]) / f"{each}.csv", index=False)
