"""What a preparation came to at one party: the joint numbers, and its own, by which any table of its is prepared again.

The table of the study is prepared with a recipe when it is enlisted, when the study runs, and when new rows are to be
predicted. A recipe holds joint means and levels, which all parties have, and the site's own effects, which it alone
has: it stays with its owner. ``record`` and ``of_record`` are its JSON; numbers survive it bit by bit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fedsvd.errors import DataError
from fedsvd.prepare import combat
from fedsvd.prepare.categories import JointLevels
from fedsvd.prepare.columns import every, listed
from fedsvd.prepare.joint_counts import Rare, rare_of
from fedsvd.prepare.sites import Moments
from fedsvd.prepare.soft_impute import Completion
from fedsvd.types import Float

FORMAT = "fedsvd-recipe/1"


@dataclass(frozen=True, repr=False)
class Fills:
    """What stands for a missing entry of each column, and which columns have an indicator."""

    names: tuple[str, ...]
    values: Float
    marked: tuple[str, ...] = ()

    def of(self, names: Sequence[str]) -> Float:
        """The values for these columns; new rows need not have the outcome of a formula among them."""
        place = {name: j for j, name in enumerate(self.names)}
        lacking = [name for name in names if name not in place]
        if lacking:
            fault = f"the preparation knows no column {listed(lacking)}"
            raise DataError(fault, "give the columns of the study")
        return self.values[[place[name] for name in names]]


@dataclass(frozen=True, repr=False)
class Partialled:
    """The joint means of a table's columns and the coefficients on its covariates, (covariates, columns)."""

    means: Float
    coefficients: Float


@dataclass(frozen=True, repr=False)
class Filled:
    """How much was missing at all parties together."""

    rows: int
    columns: int
    missing: int


@dataclass(frozen=True, repr=False)
class Recipe:
    """Each part is there if the rule asks for it."""

    numbers: tuple[str, ...] = ()  # the columns of numbers that it reads
    levels: tuple[JointLevels, ...] = ()
    fills: Fills | None = None
    joint: Filled | None = None
    completion: Completion | None = None
    model: combat.Model | None = None
    adjustment: combat.Adjustment | None = None
    partialled: Partialled | None = None
    moments: Moments | None = None
    findings: tuple[str, ...] = ()  # what looks odd about this party's columns next to the others'
    knots: tuple[tuple[str, tuple[float, ...]], ...] = ()  # of columns in splines
    rare: Rare | None = None  # what joint counts left out or joined

    def __repr__(self) -> str:
        return f"Recipe({', '.join(part.name for part in fields(self) if getattr(self, part.name))})"

    @property
    def compared_units(self) -> bool:
        """Whether joint means were summed, and columns compared by them."""
        parts = (self.fills, self.completion, self.model, self.partialled)
        return any("unit" in text for text in self.findings) or any(part is not None for part in parts)

    def summary(self) -> dict[str, Any]:
        """What the parties came to together, for the owner's own results: counts and levels, and columns to look at."""
        found: dict[str, Any] = {}
        if self.joint is not None:
            found["rows"], found["entries_filled"] = self.joint.rows, self.joint.missing
        if self.fills is not None and self.fills.marked:
            found["indicators"] = list(self.fills.marked)
        if self.findings:
            found["look_at"] = list(self.findings)
        if self.rare is not None and self.rare.lines():
            found["rare"] = self.rare.lines()
        if self.levels:
            found["levels"] = {joint.name: list(joint.all) for joint in self.levels}
        return found

    def lines(self) -> list[str]:
        """The same in sentences."""
        lines = []
        if self.joint is not None:
            size = self.joint.rows * self.joint.columns
            lines.append(f"at all parties together {self.joint.missing} of {size} entries were filled in")
        lines += [] if self.rare is None else self.rare.lines()
        lines += self.findings
        lines += [
            f"column {joint.name!r} has the levels {every(joint.all)}"
            + ("" if joint.reference is None else f", compared with {joint.reference!r}")
            for joint in self.levels
        ]
        return lines

    def record(self) -> dict[str, Any]:
        """As JSON."""
        parts = {part.name: _plain(getattr(self, part.name)) for part in fields(self)}
        return {"format": FORMAT, **{name: part for name, part in parts.items() if part is not None}}


_PARTS: dict[str, type[Any]] = {
    "fills": Fills,
    "joint": Filled,
    "completion": Completion,
    "model": combat.Model,
    "adjustment": combat.Adjustment,
    "partialled": Partialled,
    "moments": Moments,
}


def of_record(record: Mapping[str, Any]) -> Recipe:
    """The inverse of ``record``."""
    if record.get("format") != FORMAT:
        raise DataError("this is no stored preparation", "prepare the table again")
    parts = {name: _part(kind, record[name]) for name, kind in _PARTS.items() if name in record}
    levels = tuple(
        JointLevels(each["name"], tuple(each["levels"]), each["other"], each.get("reference"))
        for each in record.get("levels", ())
    )
    knots = tuple((name, tuple(each)) for name, each in record.get("knots", ()))
    rare = rare_of(record["rare"]) if "rare" in record else None
    findings = tuple(record.get("findings", ()))
    return Recipe(tuple(record["numbers"]), levels, findings=findings, knots=knots, rare=rare, **parts)


def _plain(part: Any) -> Any:
    if part is None or isinstance(part, str | int | float):
        return part
    if isinstance(part, np.ndarray):
        return part.tolist()
    if isinstance(part, tuple):
        return [_plain(each) for each in part]
    return {each.name: _plain(getattr(part, each.name)) for each in fields(part)}


def _part(kind: type[Any], record: Mapping[str, Any]) -> Any:
    values: dict[str, Any] = {}
    for each in fields(kind):
        # A completion of version 0.2.0 has no patterns of few rows.
        value = record.get(each.name, []) if each.name == "alone" else record[each.name]
        if isinstance(value, list):
            texts = each.name in ("names", "marked", "covariates")
            value = tuple(value) if texts else np.asarray(value, dtype=np.float64)
        values[each.name] = value
    if kind is combat.Model:  # a list of no rows forgets how long they are
        covariates, columns = len(values["covariates"]), len(values["means"])
        values["effects"] = values["effects"].reshape(covariates, columns - covariates)
    return kind(**values)
