"""A first ``dictionary.toml`` from one party's table, for a person to correct; the file is public.

Law of this file: what it writes says nothing of fewer than ``least_count`` records. A level is listed where that many
records have it. A range is made of the values that that many records reach at either end, half their distance further,
rounded outwards: extreme records decide nothing of it. Decimals are those that ``least_count`` records have. Knots are
quantiles with that many records beyond the outer ones, rounded. What is left out, and how many records are outside, is
for the owner's own screen (``Proposal.notes``). Of tables that are one person's, ``least_count`` may be 1.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.profile import Kind, profile
from fedsvd.data.source import MatrixSource
from fedsvd.data.suspects import is_id_name
from fedsvd.errors import DataError
from fedsvd.prepare.derived import names_of
from fedsvd.prepare.dictionary import Dictionary, dictionary_of
from fedsvd.storage.toml import spelt_toml
from fedsvd.types import Float

QUANTILES = (0.05, 0.35, 0.65, 0.95)
_FINER = 20.0
_FEW_VALUES = 20
_MOST_LEVELS = 50
_MOST_DECIMALS = 6
_HEADER = """\
# A first dictionary, proposed from one table. This file is public: every party, the CSP and all readers see it.
# It says nothing of fewer than {least} records of that table: rarer levels are left out, and no range is that of its
# extreme records. It does say which columns the table has, roughly how far their values go, and which levels are common
# there. Take out what is not for others, widen ranges to what is possible, add missing levels, units and meanings.
"""


@dataclass(frozen=True)
class Proposal:
    """The dictionary, its file, and what its owner should know and no one else."""

    dictionary: Dictionary
    text: str
    notes: tuple[str, ...]


def propose(source: MatrixSource, name: str = "", least_count: int = 5) -> Proposal:
    """A dictionary of the columns of this table, which says nothing of fewer than ``least_count`` records."""
    if source.names is None:
        found = {"name": name, "columns": "*"}
        return Proposal(dictionary_of(found), f'{_header(least_count)}name = "{name}"\ncolumns = "*"\n', ())
    if source.shape[0] < 2 * least_count:
        raise DataError(f"the table has {source.shape[0]} rows", f"propose from a table of at least {2 * least_count}")
    columns: dict[str, dict[str, Any]] = {}
    notes: list[str] = []
    for about in profile(source).columns:
        said = _column(source, about.name, about.kind, least_count, notes)
        if said is not None:
            columns[about.name] = said
    if not columns:
        raise DataError("nothing can be said of any column in public", "write the dictionary by hand")
    every = [each for each, said in columns.items() if said.get("role") != "id"]
    views = {"all": every} if every else {}
    dictionary = dictionary_of({"name": name, "columns": columns, "views": views})
    return Proposal(dictionary, f'{_header(least_count)}name = "{name}"\n\n{laid_out(columns, views)}', tuple(notes))


def laid_out(columns: Mapping[str, Any], views: Mapping[str, Any]) -> str:
    """Columns and views as a person writes them into a file, a table to each column."""
    tables: dict[str, Any] = {f"columns.{_quoted(each)}": said for each, said in columns.items()}
    return spelt_toml({**tables, "views": views})


def _header(least: int) -> str:
    return _HEADER.format(least=least)


def _quoted(name: str) -> str:
    return name if name.isascii() and name.replace("_", "").replace("-", "").isalnum() else f'"{_escaped(name)}"'


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"')


def _column(source: MatrixSource, name: str, kind: Kind, least: int, notes: list[str]) -> dict[str, Any] | None:
    """What the file says of one column; None where nothing can be said."""
    if kind is Kind.EMPTY:
        notes.append(f"column {name!r} is empty, and left out")
        return None
    if kind is Kind.DATE:
        notes.append(f'column {name!r} holds dates, and is left out: map it to days or years (date = "%Y-%m-%d")')
        return None
    if kind is Kind.TEXT:
        return _of_text(source, name, least, notes)
    place = names_of(source).index(name)
    values = source.raw(slice(0, source.shape[0]), slice(place, place + 1))[:, 0]
    held: Float = np.sort(values[~np.isnan(values)])
    if is_id_name(name) and len(np.unique(held)) == len(held) == source.shape[0]:
        return {"role": "id"}
    if kind is Kind.BINARY:
        return {"range": [0, 1], "decimals": 0}
    if len(held) < 2 * least:
        notes.append(f"column {name!r} has fewer than {2 * least} entries, and is left out")
        return None
    return _of_numbers(held, name, least, notes)


def _of_text(source: MatrixSource, name: str, least: int, notes: list[str]) -> dict[str, Any] | None:
    values, gaps = source.text(name)
    levels, counts = np.unique(values[~gaps], return_counts=True)
    common = [text for text, count in zip(levels.tolist(), counts.tolist(), strict=True) if count >= least]
    if len(levels) == source.shape[0] - int(gaps.sum()) and (is_id_name(name) or not common):
        if is_id_name(name):
            return {"role": "id"}
        notes.append(f"column {name!r} has another text in each row, and is left out")
        return None
    if not common or len(common) > _MOST_LEVELS:
        notes.append(f"column {name!r} has {len(common)} levels that {least} records have, and is left out")
        return None
    if len(common) < len(levels):
        rare = int(counts.sum() - sum(count for count in counts.tolist() if count >= least))
        notes.append(
            f"column {name!r}: {len(levels) - len(common)} rarer levels, of {rare} records, are left out, and a study "
            "refuses them: list them in the file, or recode them in the map of the table"
        )
    return {"levels": common}


def _of_numbers(held: Float, name: str, least: int, notes: list[str]) -> dict[str, Any]:
    low, high = float(held[least - 1]), float(held[-least])
    spread = high - low or abs(high) or 1.0
    step = 10.0 ** math.floor(math.log10(spread))
    first, last = math.floor((low - spread / 2) / step) * step, math.ceil((high + spread / 2) / step) * step
    first = max(first, 0.0) if held[0] >= 0 else first
    outside = int(np.sum((held < first) | (held > last)))
    if outside:
        notes.append(
            f"column {name!r}: {outside} records are outside of the proposed range, and a study refuses them: widen "
            "range in the file to what is possible, or list their code as missing in the map of the table"
        )
    decimals = _decimals(held, least)
    said: dict[str, Any] = {"range": [_plain(first), _plain(last)]}
    said |= {} if decimals is None else {"decimals": decimals}
    knots = knots_of(held, step / _FINER)
    return {**said, "knots": knots} if knots and len(held) * QUANTILES[0] >= least else said


def knots_of(held: Float, step: float) -> list[int | float]:
    """Knots of a natural spline of these values, rounded to multiples of ``step``; none where they would be one.

    They are at the quantiles that Harrell gives for four knots.
    """
    if len(np.unique(held)) <= _FEW_VALUES:
        return []
    found = [round(float(value) / step) * step for value in np.quantile(held, QUANTILES)]
    return [_plain(value) for value in found] if all(b > a for a, b in pairwise(found)) else []


def _decimals(held: Float, least: int) -> int | None:
    """The decimals that at least ``least`` records have; None for more than a few."""
    for digits in range(_MOST_DECIMALS + 1):
        finer: NDArray[np.bool_] = np.abs(np.round(held, digits) - held) > 1e-9 * np.maximum(1.0, np.abs(held))
        if int(finer.sum()) < least:
            return digits
    return None


def _plain(number: float) -> int | float:
    rounded = float(f"{number:.12g}")
    return int(rounded) if rounded == int(rounded) else rounded
