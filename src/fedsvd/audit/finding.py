"""What an audit finds: one line for each attack, a verdict, and what a picture of it needs.

Pictures show scores and chance. Entries of the data are drawn only where the person asked for it; otherwise what was
recovered is drawn against the truth by *rank*, which shows how well they agree and none of the values.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import scipy.stats

from fedsvd.types import Float

_CELLS = 20
_POINTS = 2000


class Verdict(StrEnum):
    """What came of an attack, the worst first."""

    RECOVERED = "recovered"  # data itself, or nearly
    LEAKS = "leaks"  # more than chance
    STATED = "as stated"  # what the threat model says this role learns
    NOTHING = "nothing seen"
    LEFT_OUT = "left out"


@dataclass(frozen=True, repr=False)
class Picture:
    """One drawing: ``kind`` is null, spread, agreement or entries."""

    kind: str
    title: str
    data: dict[str, list[float] | float | list[list[float]]]


@dataclass(frozen=True, repr=False)
class Finding:
    """One attack by one role: what it was given, what it learned, and how that compares with chance."""

    role: str
    attack: str
    verdict: Verdict
    learned: str
    knows: str = "the plan"
    p: float | None = None
    figures: dict[str, float] | None = None
    pictures: tuple[Picture, ...] = ()

    def record(self) -> dict[str, Any]:
        return {
            "role": self.role,
            "attack": self.attack,
            "verdict": str(self.verdict),
            "learned": self.learned,
            "knows": self.knows,
            "p": self.p,
            "figures": self.figures or {},
        }


def null_picture(title: str, observed: float, null: Float) -> Picture:
    """The score next to what the same output reaches by chance."""
    return Picture("null", title, {"observed": float(observed), "null": [round(float(value), 5) for value in null]})


def spread_picture(title: str, best: Float, chance: Float) -> Picture:
    """How well each record is matched, and how well by chance."""
    shares = np.linspace(0.0, 1.0, 41)
    lines = {
        name: [round(float(value), 4) for value in np.quantile(values, shares)]
        for name, values in (("found", best), ("chance", chance))
    }
    return Picture("spread", title, {"shares": shares.round(4).tolist(), **lines})


def agreement_picture(title: str, found: Float, true: Float, include_data: bool, seed: int = 0) -> Picture:
    """Recovered against true: entries themselves where asked for, else how many fall into each cell of ranks."""
    if include_data:
        picked = np.random.default_rng(seed).permutation(found.size)[:_POINTS]
        points = np.column_stack((true.ravel()[picked], found.ravel()[picked]))
        return Picture("entries", title, {"points": points.round(4).tolist()})
    # Ties share their mean rank, so a table of few values shows as few columns, without saying which values.
    across, up = (scipy.stats.rankdata(values.ravel()) / values.size for values in (true, found))
    cells = np.histogram2d(across, up, bins=_CELLS, range=[[0.0, 1.0], [0.0, 1.0]])[0]
    return Picture("agreement", title, {"cells": (cells / max(cells.max(), 1.0)).round(3).tolist()})
