"""Tidy rows and the journal that makes a run resumable.

A *case* is the smallest piece that is run at once; it yields one or more measurements. What a finished case measured is
appended to ``rows/EXPERIMENT.jsonl`` in one line, with its key; a case whose key is there is not run again. A line that
was cut off by a kill does not parse, and its case is run again.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedsvd_lab.experiments.experiment import Experiment, Quoted, Size
from fedsvd_lab.experiments.machine import fingerprint, load

Row = dict[str, Any]
MEASURED, EXTRAPOLATED, PREDICTED, QUOTED, NOT_RUN = "measured", "extrapolated", "predicted", "quoted", "not run"


@dataclass(frozen=True)
class Measurement:
    """One number: of which method, of what, at which case, and how it came about."""

    method: str
    metric: str
    value: float
    unit: str = ""
    case: Mapping[str, Any] = field(default_factory=dict)
    how: str = MEASURED
    scheme: str = ""
    network: str = "none: one process"
    note: str = ""


@dataclass(frozen=True)
class Case:
    """What is run at once: a key that says what it is, and the work; ``of`` in a key distinguishes cases, not rows."""

    key: Mapping[str, Any]
    run: Callable[[], Iterable[Measurement]]

    def words(self) -> str:
        """The key for a person."""
        return ", ".join(f"{name} {value}" for name, value in self.key.items())


class Journal:
    """The finished cases of one experiment at one size."""

    def __init__(self, folder: Path, experiment: Experiment, size: Size) -> None:
        self._file = folder / "rows" / f"{experiment.name}.jsonl"
        self._experiment, self._size = experiment, size
        self._finished: dict[str, list[Row]] = {}
        for line in _lines(self._file):
            if line["size"] == size:
                self._finished[line["key"]] = line["rows"]

    def has(self, case: Case) -> bool:
        return _key(case) in self._finished

    def add(self, case: Case, measurements: Iterable[Measurement], seed: int) -> None:
        """Remember what a case measured, for good."""
        when = datetime.now(UTC).isoformat(timespec="seconds")
        rows = [self._row(case, one, seed, when) for one in measurements]
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"size": self._size, "key": _key(case), "rows": rows}) + "\n")
        self._finished[_key(case)] = rows

    def rows(self, cases: Iterable[Case]) -> list[Row]:
        """The rows of these cases, in their order; those of settings that are no more are left in the file."""
        return [row for case in cases for row in self._finished.get(_key(case), [])]

    def _row(self, case: Case, one: Measurement, seed: int, when: str) -> Row:
        return {
            "experiment": self._experiment.name,
            "size": str(self._size),
            "case": {key: value for key, value in {**case.key, **one.case}.items() if key != "of"},
            "method": one.method,
            "metric": one.metric,
            "value": float(one.value),
            "unit": one.unit,
            "how": one.how,
            "scheme": one.scheme,
            "seeds": f"data {seed}, masks from the system" if one.scheme else f"{seed}",
            "network": one.network,
            "note": one.note,
            "when": when,
            "load": load(),
            **fingerprint(),
        }


def quoted_row(experiment: Experiment, size: Size, quoted: Quoted) -> Row:
    """A figure of the paper as a row."""
    return {
        "experiment": experiment.name,
        "size": str(size),
        "case": dict(quoted.case),
        "method": quoted.method,
        "metric": quoted.metric,
        "value": quoted.value,
        "unit": quoted.unit,
        "how": QUOTED,
        "note": f"the paper, {quoted.place}",
        "hardware": "the paper's: 3.6 GHz, 8 cores, 128 GB (appendix)",
    }


def matches(row: Row, where: Mapping[str, Any]) -> bool:
    """Whether a row's case (or its metric) is what is asked for; a list asks for one of its items."""
    fields = {**row["case"], "metric": row["metric"]}
    return all(fields.get(key) in (value if isinstance(value, list) else [value]) for key, value in where.items())


def _key(case: Case) -> str:
    return json.dumps(dict(case.key), sort_keys=True)


def _lines(file: Path) -> Iterator[Row]:
    if not file.exists():
        return
    for text in file.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(text)
        except json.JSONDecodeError:
            continue
