"""Times to an event that are degenerate, for tests against R: ``python -m tests.degenerate_times FOLDER`` writes them.

``tests/vectors/degenerate.R`` reads the tables and prints ``degenerate-r.json``: what R says, warns and refuses.
"""

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd


def _plain() -> pd.DataFrame:
    """Two sites, one column of numbers and one of 0 and 1, times in tenths, no ties with an event."""
    rng = np.random.default_rng(77)
    site = np.repeat([1, 2], [70, 50])
    x, group = rng.normal(size=120).round(2), np.arange(120) % 2
    time = (10.0 * rng.exponential(np.exp(-0.5 * x))).round(3) + 0.1
    return pd.DataFrame(
        {"x": x, "group": group, "entry": -1.0, "time": time, "status": np.arange(120) % 3 > 0, "site": site}
    )


def _one_event(data: pd.DataFrame, rank: int) -> pd.DataFrame:
    """Of the first site the record that leaves at this place has the only event."""
    at = data[data["site"] == 1]["time"].sort_values().index[rank]
    return data.assign(status=data.index == at)


def _separated(data: pd.DataFrame) -> pd.DataFrame:
    """Records with a 1 leave after all events."""
    return data.assign(time=data["time"] + 100.0 * data["group"], status=data["group"] == 0)


def _censored_first(data: pd.DataFrame) -> pd.DataFrame:
    """Every record without an event left before the first event."""
    return data.assign(time=np.where(data["status"], 50.0 + data["time"], data["time"] / 100.0))


CASES: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "plain": lambda data: data,
    "no event": lambda data: data.assign(status=False),
    "one event": lambda data: _one_event(data, 20),
    "the only event leaves last": lambda data: _one_event(data, -1),
    "separated": _separated,
    "all censored before the first event": _censored_first,
    "ties everywhere": lambda data: data.assign(time=7.0, status=True),
    "time zero": lambda data: data.assign(time=np.where(data.index % 10 == 0, 0.0, data["time"])),
    "negative times": lambda data: data.assign(time=data["time"] - 5.0, entry=-20.0),
    "entry after exit": lambda data: data.assign(entry=np.where(data.index % 40 == 3, data["time"] + 1.0, -1.0)),
    "a site without events": lambda data: data.assign(status=data["status"] & (data["site"] == 1)),
    "a site of eight rows": lambda data: data.assign(site=np.where(data.index < 112, 1, 2)),
}


@cache
def case(name: str) -> pd.DataFrame:
    """``x, group, entry, time, status, site``."""
    return CASES[name](_plain()).astype({"status": int})


if __name__ == "__main__":
    for each in CASES:
        case(each).to_csv(Path(sys.argv[1]) / f"{each}.csv", index=False)
