"""An experiment of the paper as a TOML file says it: what is run at which size, what the paper prints, what is drawn.

The files lie in ``paper``, one for each table or figure. ``[smoke]``, ``[quick]`` and ``[full]`` are the settings of
the runner named by ``kind``; a key that is missing in a larger size is taken from ``[common]``. Figures of
the paper are typed from its text, each with its place, and become rows like any other.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from fedsvd.errors import ConfigError


class Size(StrEnum):
    """How much is run: seconds, minutes on two cores, or what the paper ran."""

    SMOKE = "smoke"
    QUICK = "quick"
    FULL = "full"


@dataclass(frozen=True)
class Quoted:
    """A figure that the paper prints: of which method, where, at which case."""

    method: str
    metric: str
    value: float
    unit: str
    place: str
    case: Mapping[str, Any]


@dataclass(frozen=True)
class TableSpec:
    """A table: which rows, which case fields stand in front, which methods side by side."""

    title: str
    index: tuple[str, ...]
    columns: tuple[str, ...]
    where: Mapping[str, Any]


@dataclass(frozen=True)
class FigureSpec:
    """A figure with the paper's axes: metric over a case field, a line to each method (and to each ``by``)."""

    title: str
    x: str
    metric: str
    xlabel: str
    ylabel: str
    lines: tuple[str, ...]
    by: str = ""
    log: str = "xy"
    where: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """Something that must show: ``of`` against ``than`` in every row that has both."""

    title: str
    of: tuple[str, ...]
    than: str
    where: Mapping[str, Any]
    times: float = 1.0
    kind: str = "at most"  # or "within a factor", "digits"
    or_than: str = ""  # another bar, of which the larger counts


@dataclass(frozen=True)
class Ratio:
    """One method's value over another's at every case that has both."""

    of: str
    over: str
    metric: str


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper."""

    name: str
    title: str
    place: str
    kind: str
    said: str
    notes: tuple[str, ...]
    settings: Mapping[str, Mapping[str, Any]]
    quoted: tuple[Quoted, ...] = ()
    tables: tuple[TableSpec, ...] = ()
    figures: tuple[FigureSpec, ...] = ()
    checks: tuple[Check, ...] = ()
    ratios: tuple[Ratio, ...] = ()
    rows_of: str = ""

    def at(self, size: Size) -> dict[str, Any]:
        """The settings of one size."""
        return {**self.settings.get("common", {}), **self.settings.get(size, {})}


def folder() -> Path:
    """Where the experiments lie."""
    return Path(__file__).parent / "paper"


def experiments(where: Path | None = None) -> dict[str, Experiment]:
    """All experiments, by name, in the order in which the paper has them."""
    files = sorted((where or folder()).glob("*.toml"))
    if not files:
        raise ConfigError(f"no experiments in {where or folder()}", "run it from a clone, or install the package again")
    found = [_read(file) for file in files]
    return {experiment.name: experiment for _, experiment in sorted(found, key=lambda pair: pair[0])}


def _read(path: Path) -> tuple[int, Experiment]:
    try:
        record = tomllib.loads(path.read_text(encoding="utf-8"))
        settings = {key: record[key] for key in ("common", *Size) if key in record}
        experiment = Experiment(
            name=path.stem,
            title=record["title"],
            place=record["place"],
            kind=record["kind"],
            said=record.get("said", ""),
            notes=tuple(record.get("notes", ())),
            settings=settings,
            quoted=tuple(_quoted(entry) for entry in record.get("paper", ())),
            tables=tuple(_table(entry) for entry in record.get("table", ())),
            figures=tuple(_figure(entry) for entry in record.get("figure", ())),
            checks=tuple(_check(entry) for entry in record.get("check", ())),
            ratios=tuple(Ratio(**entry) for entry in record.get("ratio", ())),
            rows_of=record.get("rows_of", ""),
        )
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as fault:
        raise ConfigError(f"{path.name} is not an experiment: {fault}", "compare it with the others") from None
    return int(record.get("order", 100)), experiment


def _quoted(entry: Mapping[str, Any]) -> Quoted:
    return Quoted(
        f"paper: {entry['method']}",
        entry["metric"],
        float(entry["value"]),
        entry.get("unit", ""),
        entry["place"],
        dict(entry.get("case", {})),
    )


def _table(entry: Mapping[str, Any]) -> TableSpec:
    return TableSpec(entry["title"], tuple(entry["index"]), tuple(entry["columns"]), dict(entry.get("where", {})))


def _figure(entry: Mapping[str, Any]) -> FigureSpec:
    words = {**entry, "lines": tuple(entry["lines"])}
    return FigureSpec(**words)


def _check(entry: Mapping[str, Any]) -> Check:
    of = entry["of"]
    return Check(**{**entry, "of": (of,) if isinstance(of, str) else tuple(of), "where": dict(entry.get("where", {}))})
