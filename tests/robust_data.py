"""Records in clusters for tests of robust errors against R: ``python -m tests.robust_data FOLDER`` writes the table.

``tests/vectors/robust.R`` reads it (``Rscript tests/vectors/robust.R FOLDER``) and prints ``robust-r.json``, in which
the versions of R and of its packages stand.
"""

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import special

TERMS = ["age", "sex", "marker"]
FAMILIES = ("gaussian", "binomial", "poisson", "gamma", "probit", "negative-binomial")
"""Outcomes of the table that have a generalised linear model."""


@cache
def table() -> pd.DataFrame:
    """Three uneven sites; clusters of a few records, which share a part of every outcome; weights, entry times."""
    rng = np.random.default_rng(31)
    site = np.repeat([1, 2, 3], [260, 150, 60])
    n = len(site)
    cluster = 100 * site + rng.integers(0, 45, n) * (site == 1) + rng.integers(0, 24, n) * (site == 2)
    cluster = cluster + rng.integers(0, 11, n) * (site == 3)
    age, sex, marker = rng.normal(60, 9, n).round(), rng.integers(0, 2, n).astype(float), rng.normal(size=n).round(2)
    shared = 0.5 * rng.normal(size=400)[cluster - 100]
    eta = 0.03 * (age - 60) + 0.4 * sex - 0.3 * marker + shared
    rates = np.exp(0.5 + 0.5 * eta)
    time, end = rng.exponential(20.0 * np.exp(-eta)), rng.uniform(2, 40, n)
    observed = np.ceil(np.minimum(time, end) * 2) / 2
    columns = {
        "site": site,
        "cluster": cluster,
        **dict(zip(TERMS, (age, sex, marker), strict=True)),
        "gaussian": (eta + (1.0 + sex) * rng.normal(size=n)).round(4),
        "binomial": (rng.random(n) < special.expit(eta)).astype(float),
        "probit": (rng.random(n) < special.ndtr(eta)).astype(float),
        "poisson": rng.poisson(rates * rng.gamma(2.0, 0.5, n)).astype(float),
        "negative-binomial": rng.poisson(rates * rng.gamma(1.5, 1.0 / 1.5, n)).astype(float),
        "gamma": rng.gamma(2.0, rates).round(4) + 1e-3,
        "grade": np.digitize(eta + rng.logistic(size=n), [-1.0, 0.0, 1.2]).astype(float),
        "time": observed,
        "status": (time <= end).astype(float),
        "entry": np.maximum(0.0, observed - rng.integers(1, 12, n)),
        "w": rng.uniform(0.4, 2.5, n).round(2),
    }
    return pd.DataFrame(columns)


def by_site(*columns: str) -> list[np.ndarray]:
    """These columns of every site."""
    return [own[list(columns)].to_numpy() for _, own in table().groupby("site")]


if __name__ == "__main__":
    table().to_csv(Path(sys.argv[1]) / "robust.csv", index=False)
