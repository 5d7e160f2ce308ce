"""Outcomes that have no answer, or that R warns of, and what we say of each: next to ``tests/vectors/verdicts-r.json``.

No number is drawn at random, so that ``tests/vectors/verdicts.R`` has the same rows.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from fedsvd import (
    FederatedCox,
    FederatedGLM,
    FederatedKaplanMeier,
    FederatedOrdinalRegression,
    FederatedTable,
    Policy,
    Simulation,
)

VECTORS = Path(__file__).parent / "vectors"
R = json.loads((VECTORS / "verdicts-r.json").read_text(encoding="utf-8"))
_I = np.arange(120)
_X = np.sin(_I).round(2)
_SITE = np.repeat([1, 2], [70, 50])


def sites(**columns: object) -> list[pd.DataFrame]:
    """The rows at two sites, with these columns."""
    data = pd.DataFrame({"x": _X, **columns})
    return [data[site == _SITE].reset_index(drop=True) for site in (1, 2)]


def _times() -> dict[str, np.ndarray]:
    return {"time": 1.0 + 37 * _I % 101, "status": (_I % 3 > 0).astype(int)}


def _classes(y: object, levels: list[str]) -> object:
    return FederatedOrdinalRegression(levels=levels, federation=SEEDED).fit(sites(y=y), "y")


def _counts(y: np.ndarray) -> object:
    return FederatedGLM("negative-binomial", federation=SEEDED).fit(sites(y=y), "y")


SEEDED = Simulation(random_state=30)
_GRADES = np.where(_X < -0.4, "mild", np.where(_X < 0.4, "moderate", "severe"))
REFUSED: dict[str, Callable[[], object]] = {
    "one_group": lambda: FederatedKaplanMeier([50, 101]).fit(sites(**_times(), g=1), "time", "status", "g"),
    "constant_inside_sites": lambda: FederatedCox(federation=SEEDED).fit(
        sites(**_times(), site=10.0 * _SITE), "time", "status"
    ),
    "classes_separated": lambda: _classes(_GRADES, ["mild", "moderate", "severe"]),
    "two_classes": lambda: _classes(np.where(_I % 3 > 0, "b", "a"), ["a", "b"]),
    "counts_all_zero": lambda: _counts(np.zeros(120)),
    "counts_underdispersed": lambda: _counts(1.0 + _I % 3),
}


def small_cells() -> FederatedTable:
    """Table 1 of a level that nine of 120 records have, all of one group; outside of each party there are six."""
    level, group = np.repeat(["a", "b", "a"], [51, 9, 60]), np.repeat(["u", "v"], 60)
    data = pd.DataFrame({"level": level, "group": group})
    parts = [data[site == _I % 3] for site in range(3)]
    asked = {"columns": ["level"], "federation": Simulation(policy=Policy.permissive())}
    return FederatedTable("group", **asked).fit([part.reset_index(drop=True) for part in parts])


def ours(name: str) -> str:
    """What we say where R refuses, warns or leaves empty: the first sentence of the refusal."""
    try:
        REFUSED[name]()
    except Exception as refusal:
        return str(refusal).split("\n")[0]
    raise AssertionError(f"{name} has an answer")
