"""The declaration of a foreign task: options, steps, outputs, in JSON (ADR 0065).

It is all that the CSP, an owner who approves, the budget, the cost model and the report need: none of them imports the
task's module. Everything in it is checked when it is read (``declaration_checks.py``), by the same rules at every
party. Steps are sums that the parties open: ``whole``, ``wide``, ``total`` and ``bound``, and ``repeat`` of these.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fedsvd.errors import ConfigError, printable
from fedsvd.protocol.foreign import FEATURE, ForeignOutput, ForeignPlan
from fedsvd.protocol.steps import PlannedStep, StepKind, What, bound, listed, repeat, wide
from fedsvd.tasks.declaration_checks import LONGEST, MOST_NUMBERS, MOST_ROUNDS, Value, checked, flat, option_value
from fedsvd.tasks.expressions import size_of


@dataclass(frozen=True)
class Declaration:
    """A declaration that was checked."""

    name: str
    about: str
    text: str  # in canonical JSON

    @property
    def record(self) -> dict[str, Any]:
        """The declaration as plain values."""
        found: dict[str, Any] = json.loads(self.text)
        return found

    @property
    def digest(self) -> str:
        """SHA-256 of the declaration in canonical JSON."""
        return hashlib.sha256(b"fedsvd/task/1\x00" + self.text.encode()).hexdigest()

    def options(self, given: Mapping[str, Any]) -> dict[str, Value]:
        """All options with their values, defaults too; raises where one is unknown, missing or out of its range."""
        known = self.record["options"]
        for name in given:
            if name not in known:
                raise ConfigError(
                    f"{printable(name, 80)!r} is no option of {self.name}", f"one of {', '.join(known) or 'none'}"
                )
        found = {}
        for name, about in known.items():
            if name not in given and "default" not in about:
                raise ConfigError(f"{self.name} needs the option {name}: {about['help']}", f"{name} = ...")
            found[name] = option_value(self.name, name, about, given.get(name, about.get("default")))
        named = self.aside(found)
        if len(set(named)) < len(named):
            raise ConfigError(f"two options of {self.name} name the same column", "name different ones")
        return found

    def aside(self, options: Mapping[str, Value]) -> tuple[str, ...]:
        """The columns that options name: they are no features."""
        known = self.record["options"]
        return tuple(str(options[name]) for name in known if known[name]["kind"] == "column" and options[name])

    def planned(self, given: Mapping[str, Any], m: int, k: int) -> tuple[tuple[PlannedStep, ...], ForeignPlan]:
        """The steps of a plan, and what it says of them, of k parties whose tables have m columns."""
        record, options = self.record, self.options(given)
        aside = self.aside(options)
        if m <= len(aside):
            raise ConfigError(f"{self.name} names {len(aside)} of {m} columns, and no feature is left", "add one")
        names = {"parties": k, "features": m - len(aside)}
        names |= {key: int(options[key]) for key, about in record["options"].items() if about["kind"] == "integer"}
        steps = tuple(_planned(self.name, each, names) for each in record["steps"])
        numbers = sum(step.size for step in listed(steps))
        if numbers > MOST_NUMBERS:
            raise ConfigError(f"{self.name} opens {numbers:,} numbers", f"at most {MOST_NUMBERS:,}: change its options")
        inner = flat(record["steps"])
        about = ForeignPlan(
            name=self.name,
            about=self.about,
            declaration=self.digest,
            options=json.dumps(options, sort_keys=True, separators=(",", ":")),
            aside=aside,
            says=tuple((step["name"], step["says"]) for step in inner),
            units=tuple((step["name"], step["unit"]) for step in inner if "unit" in step),
            outputs=tuple(_output(self.name, each, names) for each in record["outputs"]),
        )
        return steps, about


def declaration_of(record: object) -> Declaration:
    """The declaration in parsed JSON; ``ConfigError`` for anything else."""
    found = checked(record)
    text = json.dumps(found, sort_keys=True, separators=(",", ":"))
    if len(text) > LONGEST:
        raise ConfigError(f"the declaration of {found['name']} has {len(text):,} characters", f"at most {LONGEST:,}")
    return Declaration(found["name"], found["about"], text)


def read_declaration(text: str) -> Declaration:
    """The declaration in a JSON text."""
    try:
        return declaration_of(json.loads(text))
    except (json.JSONDecodeError, RecursionError):
        raise ConfigError("the declaration of a foreign task is no JSON", "check it with python -m json.tool") from None


def _planned(task: str, step: Mapping[str, Any], names: Mapping[str, int]) -> PlannedStep:
    where = f"step {step.get('name', step.get('repeat'))!r} of {task}"
    if "repeat" in step:
        most = _bounded(step["most"], names, where, MOST_ROUNDS)
        return repeat(step["repeat"], most, *(_planned(task, each, names) for each in step["steps"]))
    kind, name = StepKind(step["kind"]), step["name"]
    if kind is StepKind.BOUND:
        return replace(bound(name), what=What.DECLARED)
    size = _bounded(step["size"], names, where, MOST_NUMBERS)
    # Of a total, a last digit counts 2^-bits of its unit.
    found = wide(name, size) if kind is StepKind.WIDE else PlannedStep(name, kind, size, step.get("bits", 0))
    return replace(found, what=What.DECLARED)


def _output(task: str, output: Mapping[str, Any], names: Mapping[str, int]) -> ForeignOutput:
    where = f"output {output['name']!r} of {task}"
    shape = tuple(_bounded(size, names, where, MOST_NUMBERS) for size in output["size"])
    for axis, length in zip(output["axes"], shape, strict=True):
        if axis == FEATURE and length != names["features"]:
            raise ConfigError(f"{where}: the axis {FEATURE!r} has {length} places", 'its size is "features"')
    if math.prod(shape) > MOST_NUMBERS:
        raise ConfigError(f"{where} has {math.prod(shape):,} numbers", f"at most {MOST_NUMBERS:,}")
    return ForeignOutput(output["name"], tuple(output["axes"]), shape, output["says"])


def _bounded(text: str, names: Mapping[str, int], where: str, most: int) -> int:
    found = size_of(text, names, where)
    if not 1 <= found <= most:
        raise ConfigError(f"{where} would have the size {found:,}", f"between 1 and {most:,}: change the options")
    return found
