"""Times to an event for tests against R, and R's answers: ``python -m tests.survival_data FOLDER`` writes the tables.

``tests/vectors/survival.R`` reads them (``Rscript tests/vectors/survival.R FOLDER``) and prints ``survival-r.json``, in
which the versions of R and of its package survival stand. One table is made here, one comes with statsmodels, the
others with R's own package (``tests/kit.py``).
"""

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.datasets as econometric
from tests.kit import kit

MADE = ("made", "heart")
OF_R = ("lung", "colon", "pbc", "veteran", "mgus2")
GRID = {"made": (1, 24), "heart": (60, 30), "lung": (30, 34), "colon": (90, 37), "pbc": (180, 27), "veteran": (30, 34)}
GRID["mgus2"] = 12, 30
"""The width of a bin, and how many there are."""


def edges_of(name: str) -> np.ndarray:
    """The edges of a table's grid."""
    width, count = GRID[name]
    return float(width) * np.arange(1, count + 1)


@cache
def table(name: str) -> pd.DataFrame:
    """``time, status, group, site`` and covariates of one data set."""
    if name == "made":
        return _made()
    if name == "heart":
        return _heart()
    return _of_r(name)


def _made() -> pd.DataFrame:
    """Five uneven sites, the fourth without an event, the last of eight rows; times in months, with ties."""
    rng = np.random.default_rng(30)
    site = np.repeat([1, 2, 3, 4, 5], [300, 170, 90, 40, 8])
    n = len(site)
    X = np.column_stack((rng.normal(60, 9, n).round(), rng.integers(0, 2, n), rng.normal(size=n).round(2)))
    group = rng.integers(1, 4, n)
    rate = 0.06 * np.exp(0.03 * (X[:, 0] - 60) + 0.4 * X[:, 1] - 0.3 * (group == 2) + 0.2 * np.sin(site))
    time, end = rng.exponential(1 / rate), rng.uniform(2, 30, n)
    status = ((time <= end) & (site != 4)).astype(int)
    observed = np.where(site == 4, end, np.minimum(time, end))
    observed = np.ceil(observed * 4) / 4
    columns = {"time": observed, "status": status, "group": group, "site": site}
    return pd.DataFrame({**columns, "age": X[:, 0], "sex": X[:, 1], "marker": X[:, 2]})


def _heart() -> pd.DataFrame:
    """Stanford's heart transplants, by age above 45, in three sites by row number."""
    data = econometric.heart.load_pandas().data
    site = 1 + np.arange(len(data)) % 3
    group = 1 + (data["age"] > 45)
    columns = {"time": data["survival"], "status": data["censors"].astype(int), "group": group, "site": site}
    return pd.DataFrame({**columns, "age": data["age"]})


def _of_r(name: str) -> pd.DataFrame:
    data, by = kit(name), {"lung": "sex", "colon": "lev5", "pbc": "edema", "veteran": "trt", "mgus2": "male"}[name]
    status = (data["status"] > 0).astype(int)  # of two causes any
    return data.assign(status=status, group=1 + np.unique(data[by] > data[by].min(), return_inverse=True)[1])


if __name__ == "__main__":
    for each in (*MADE, *OF_R):
        table(each).to_csv(Path(sys.argv[1]) / f"{each}.csv", index=False)
