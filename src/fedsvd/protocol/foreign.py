"""What a plan says of a foreign task: a statistic that a person outside fedsvd wrote (ADR 0065).

Its declaration travels in the job file. When a plan is made, sizes are worked out and the result is stored here as
plain data, hashed with the rest: the CSP, the release guard, the cost model and the report read it, and none of them
imports anything foreign. The steps themselves are ``plan.steps``.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedsvd.protocol.steps import PlannedStep, StepKind

FEATURE = "feature"
"""The axis of an output that has the names of the features."""

_BITS = {StepKind.WHOLE: 53, StepKind.WIDE: 53, StepKind.BOUND: 8}


@dataclass(frozen=True)
class ForeignOutput:
    """An array that every party has at the end."""

    name: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    says: str


@dataclass(frozen=True)
class ForeignPlan:
    """A foreign task in one plan: which declaration, with which options, and what its steps and outputs are."""

    name: str
    about: str
    declaration: str  # SHA-256 of the declaration in canonical JSON
    options: str  # as canonical JSON
    aside: tuple[str, ...]  # columns that options name: they are no features
    says: tuple[tuple[str, str], ...]  # what the parties learn from each step, by its name
    units: tuple[tuple[str, str], ...]  # totals in the unit that a bound before them found, and that bound
    outputs: tuple[ForeignOutput, ...]

    @property
    def chosen(self) -> dict[str, Any]:
        """The options by name."""
        found: dict[str, Any] = json.loads(self.options)
        return found


def foreign_of(record: Mapping[str, Any]) -> ForeignPlan:
    """A foreign task from its fields, as a plan is stored."""
    outputs = tuple(
        ForeignOutput(each["name"], tuple(each["axes"]), tuple(each["shape"]), each["says"])
        for each in record["outputs"]
    )
    pairs = {key: tuple((name, text) for name, text in record[key]) for key in ("says", "units")}
    return ForeignPlan(**{**record, **pairs, "aside": tuple(record["aside"]), "outputs": outputs})


def opened_bits(step: PlannedStep) -> int:
    """Bits of each number that a step of a foreign task opens to the parties, at most."""
    return _BITS.get(step.kind, step.step)


def opened_numbers(step: PlannedStep) -> int:
    """Numbers that it opens: a bound is one number, whatever its length."""
    return 1 if step.kind is StepKind.BOUND else step.size
