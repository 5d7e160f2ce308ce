"""Outcomes of two classes for tests against R, and R's answers: ``python -m tests.classes_data FOLDER`` writes tables.

``tests/vectors/roc.R`` reads them (``Rscript tests/vectors/roc.R FOLDER``) and prints ``roc-r.json``, in which the
versions of R and of pROC stand. Tables are made here or come with scikit-learn, statsmodels and R's MASS
(``tests/kit.py``).
"""

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.datasets as econometric
from sklearn import datasets
from tests.kit import kit

TABLES = ("made", "biopsies", "fair", "birthwt")
THRESHOLDS = (0.1, 0.3)


@cache
def table(name: str) -> pd.DataFrame:
    """``y``, features and ``site`` of one data set."""
    if name == "made":
        return _made()
    if name == "biopsies":
        return _biopsies()
    return _fair() if name == "fair" else _birth_weights()


def parties(name: str) -> tuple[list[pd.DataFrame], list[np.ndarray]]:
    """Features and outcomes of each site."""
    data = table(name)
    own = [data[data["site"] == site] for site in np.unique(data["site"])]
    return [each.drop(columns=["y", "site"]) for each in own], [each["y"].to_numpy() for each in own]


def _made() -> pd.DataFrame:
    """A rare outcome at five uneven sites: the fourth has no case, the last eight rows."""
    rng = np.random.default_rng(29)
    site = np.repeat([1, 2, 3, 4, 5], [900, 500, 240, 52, 8])
    X = np.column_stack(
        (rng.normal(60, 9, len(site)).round(), rng.integers(0, 2, len(site)), rng.normal(size=len(site)))
    )
    eta = -2.9 + 0.05 * (X[:, 0] - 60) + 0.6 * X[:, 1] + 0.8 * X[:, 2]
    y = (rng.random(len(site)) < 1 / (1 + np.exp(-eta))) & (site != 4)
    return pd.DataFrame({"y": y.astype(int), "age": X[:, 0], "sex": X[:, 1], "marker": X[:, 2].round(3), "site": site})


def _biopsies() -> pd.DataFrame:
    """Wisconsin's biopsies by three features that do not separate them."""
    data = datasets.load_breast_cancer(as_frame=True)
    features = data.frame[["mean texture", "mean smoothness", "mean symmetry"]]
    features.columns = ["texture", "smoothness", "symmetry"]
    return features.assign(y=1 - data.target, site=1 + np.arange(len(features)) % 3)


def _fair() -> pd.DataFrame:
    """Fair's survey of 6,366 women."""
    data = econometric.fair.load_pandas().data
    columns = ["rate_marriage", "age", "yrs_married", "religious"]
    return data[columns].assign(y=(data["affairs"] > 0).astype(int), site=1 + np.arange(len(data)) % 4)


def _birth_weights() -> pd.DataFrame:
    return kit("birthwt").rename(columns={"low": "y"}).drop(columns="bwt")


if __name__ == "__main__":
    for each in TABLES:
        table(each).to_csv(Path(sys.argv[1]) / f"{each}.csv", index=False)
