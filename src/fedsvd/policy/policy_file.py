"""An owner's ``policy.toml``: what this site allows to be released, read into ``policy.rules.Policy``.

What is not in the file has its default. No other key is taken: a misspelt rule that was silently left out may be the
one that protects a person. A policy from a file is always enforced; only estimators and simulations merely warn.
"""

import difflib
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, ValidationError

from fedsvd.errors import ConfigError
from fedsvd.policy.rules import Policy
from fedsvd.protocol.tasks import IN_THE_LAB, PUBLISHED, Scheme, Task
from fedsvd.storage import private
from fedsvd.storage.toml import read_toml

POLICY = "policy.toml"
_DEFAULTS = Policy(enforce=True)
_GONE = {
    "changed_records": "remember = true; least_count says how many records change together",
    "least_changed": "remember = true; least_count says how many records change together",
    "versions_per_year": "leave it out; remember = true has every version compared with all that was remembered",
}  # of 0.1.0 and 0.2.0
_HEAD = """\
# What this site allows to be released. A study below it is refused before anything leaves the site.
"""


def _from(least: int, description: str) -> Any:
    return Field(ge=least, description=description)


class PolicyFile(BaseModel):
    """The rules, in the order of the file; a description is the comment above its rule."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, hide_input_in_errors=True)

    tasks: Annotated[tuple[Task, ...], Field(description="What may be computed.")] = _DEFAULTS.tasks
    schemes: Annotated[
        tuple[Scheme, ...],
        Field(description="How data is hidden."),
    ] = _DEFAULTS.schemes
    parties_for_full: Annotated[
        StrictInt,
        _from(2, "Fewest parties where U and S are released: each can compute the others' summed Gram matrix."),
    ] = _DEFAULTS.parties_for_full
    consent_to_two: Annotated[
        StrictBool,
        Field(description="With two parties that is the partner's own, and often its records. true: we agree to that."),
    ] = _DEFAULTS.consent_to_two
    consent_to_gram: Annotated[
        StrictBool,
        Field(
            description="A job may ask for mode A, in which all parties hold the joint Gram matrix. true: we agree to "
            "that."
        ),
    ] = _DEFAULTS.consent_to_gram
    consent_to_columns: Annotated[
        StrictBool,
        Field(
            description="A job on split columns may ask for standard errors, or choose a ridge: from these a party "
            "computes how its columns correlate with the others', or sees the joint spectrum. true: we agree to that."
        ),
    ] = _DEFAULTS.consent_to_columns
    records_for_full: Annotated[
        StrictInt,
        _from(1, "Fewest records (columns, where these are split) of any party where U and S are released."),
    ] = _DEFAULTS.records_for_full
    records: Annotated[StrictInt, _from(1, "Fewest where only U_r or coefficients are.")] = _DEFAULTS.records
    parties_for_clusters: Annotated[
        StrictInt,
        Field(ge=2, description="Fewest parties where standard errors are robust to clusters."),
    ] = _DEFAULTS.parties_for_clusters
    least_freedom: Annotated[
        StrictInt,
        _from(
            0,
            "Fewest records beyond the coefficients, n - p, where a regression releases standard errors; 0: no limit.",
        ),
    ] = _DEFAULTS.least_freedom
    least_class: Annotated[
        StrictInt,
        _from(0, "Fewest rows of the smallest class of a generalised linear model; the plan must stop below it."),
    ] = _DEFAULTS.least_class
    least_events: Annotated[
        StrictInt,
        _from(0, "Fewest events, or rows of the smallest class, for each of its coefficients; likewise."),
    ] = _DEFAULTS.least_events
    most_components: Annotated[
        StrictInt | None,
        _from(1, "Most components that may be released; no limit while this line is commented out."),
    ] = _DEFAULTS.most_components
    most_directions: Annotated[
        StrictInt | None,
        _from(1, "Most directions of the joint Gram matrix that parties may open by scheme steps; no limit likewise."),
    ] = _DEFAULTS.most_directions
    least_count: Annotated[
        StrictInt,
        _from(
            1,
            "Fewest records of a level that is named to all parties, and fewest entries behind a joint mean. We are "
            "asked where products or classes count fewer of ours, and with fewer of ours for each column of a model.",
        ),
    ] = _DEFAULTS.least_count
    most_leverage: Annotated[
        StrictFloat,
        Field(
            ge=0.0,
            le=1.0,
            description="How much of what is opened one of our records may make up before we are asked; in a column "
            "that a job made, more than 0.8 is refused. 1.0: our own records are not judged at all.",
        ),
    ] = _DEFAULTS.most_leverage
    answered: Annotated[
        tuple[StrictStr, ...],
        Field(
            description="Rules whose questions we always answer with yes, by the names that approvals show; "
            '["all"]: every one. Else a job waits for its owner.'
        ),
    ] = _DEFAULTS.answered
    remember: Annotated[
        StrictBool,
        Field(
            description="Whether this site remembers its tables: fewer than least_count new or corrected records wait, "
            "and other parties than before are a question. false: nothing is compared with earlier studies."
        ),
    ] = _DEFAULTS.remember
    least_overlap: Annotated[
        StrictInt, _from(1, "Fewest common records where records are matched; fewer end the study before it begins.")
    ] = _DEFAULTS.least_overlap
    set_growth: Annotated[
        StrictInt,
        _from(
            0,
            "Most times another party's set of records may grow over all earlier matchings with it; 0: no limit.",
        ),
    ] = _DEFAULTS.set_growth
    failed_attempts: Annotated[
        StrictInt, _from(0, "Failed attempts that one approval covers; a study that succeeds here spends it.")
    ] = _DEFAULTS.failed_attempts
    digits: Annotated[
        Literal["table", "more", "all"],
        Field(
            description='Most digits that sums of a model, or of a search by steps, may have: "table" as few as its '
            'printed table needs, "more" for errors to seven digits, "all" those of the numbers themselves.'
        ),
    ] = "all"
    openings: Annotated[
        Literal["held", "any"],
        Field(
            description="Whether bits that a study opens are judged by those that records hold: above 1.5 times as "
            'many we are asked, above 3 times the study is refused. "any": they are not judged.'
        ),
    ] = "held"
    units: Annotated[
        Literal["warn", "refuse"],
        Field(
            description="What is done where joint means show that a column of ours may be in another unit than at the "
            'other parties: "warn" in our log before the study goes on, "refuse" to go on.'
        ),
    ] = "warn"
    researcher: Annotated[
        Literal["ask", "shared", "none"],
        Field(
            description="Whether the researcher who asked gets what all parties share, without rows of records, if all "
            'parties agree: "ask" at every approval, "shared" always, "none" never.'
        ),
    ] = "ask"
    foreign: Annotated[
        dict[str, Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]],
        Field(
            description="Tasks that are not fedsvd's own and may run here, each by the hash of the source you have "
            "read: fedsvd tasks show NAME."
        ),
    ] = {}


def write_default_policy(path: Path) -> None:
    """A new file with every rule, its default and what it is for."""
    private.create(path, spelt_policy(_DEFAULTS).encode())


def spelt_policy(policy: Policy) -> str:
    """A policy as the text of its file: every rule, its value and what it is for."""
    lines = [_HEAD]
    for key, field in PolicyFile.model_fields.items():
        value = getattr(policy, key)
        if key == "foreign":
            named = [f'"{name}" = "{hash}"' for name, hash in value.items()] or ['# "group-variance" = "sha256:..."']
            lines.append("\n".join(["[foreign]", f"# {field.description}", *named, ""]))
            continue
        lines.append(f"# {field.description}\n{'# ' if value is None else ''}{key} = {_spelt(value)}\n")
    return "\n".join(lines)


def read_policy(path: Path) -> Policy:
    """The policy in a file; a fault in it is one error with the key, and nothing is allowed."""
    table = read_toml(path, "docs/deployment.md")
    try:
        file = PolicyFile.model_validate(table)
    except ValidationError as invalid:
        key = str(invalid.errors(include_url=False, include_context=False)[0]["loc"][0])
        raise _fault(path, key, table.get(key)) from None
    return replace(_DEFAULTS, **{key: getattr(file, key) for key in file.model_fields_set})


def _fault(path: Path, key: str, value: object) -> ConfigError:
    """What is wrong with the value of a key, and a line that would be right."""
    if key in _GONE:
        return ConfigError(f"{key} in {path} is no rule any more", _GONE[key])
    rules = PolicyFile.model_fields
    if key not in rules:
        near = difflib.get_close_matches(key, rules, 1)
        fix = f"did you mean {near[0]}?" if near else f"one of {', '.join(rules)}"
        return ConfigError(f"{key[:80]!r} in {path} is not a rule", fix)
    if key == "schemes" and isinstance(value, list) and PUBLISHED in value:
        left = [scheme for scheme in value if scheme != PUBLISHED]
        return ConfigError(f"{key} in {path}: {IN_THE_LAB}", f"{key} = {_spelt(left or list(_DEFAULTS.schemes))}")
    if key in ("tasks", "schemes"):
        names = [member.value for member in (Task if key == "tasks" else Scheme)]
        return ConfigError(f"{key} in {path} is not a list of {', '.join(names)}", f"{key} = {_spelt(names)}")
    if key == "foreign":
        if misplaced := [rule for rule in value if rule in rules] if isinstance(value, dict) else []:
            fix = "write it above [foreign]; below it are tasks and their hashes alone"
            return ConfigError(f"{misplaced[0]} in {path} is written below [foreign]", fix)
        fix = '[foreign] "NAME" = "sha256:...", with the 64 digits that fedsvd tasks show NAME prints'
        return ConfigError(f"[foreign] in {path} has a value that is no hash", fix)
    if key in ("researcher", "openings", "digits", "units"):
        words = ", ".join(get_args(rules[key].annotation))
        return ConfigError(f"{key} in {path} is not one of {words}", f"{key} = {_spelt(getattr(_DEFAULTS, key))}")
    if key == "answered":
        return ConfigError(f"{key} in {path} is not a list of rules", f'{key} = ["few", "cells"]')
    if isinstance(getattr(_DEFAULTS, key), bool):
        return ConfigError(f"{key} in {path} is not true or false", f"{key} = {_spelt(getattr(_DEFAULTS, key))}")
    if isinstance(getattr(_DEFAULTS, key), float):
        return ConfigError(f"{key} in {path} is not a number from 0.0 to 1.0", f"{key} = {getattr(_DEFAULTS, key)}")
    least = next(rule.ge for rule in rules[key].metadata if hasattr(rule, "ge"))
    return ConfigError(f"{key} in {path} is not a whole number from {least} up", f"{key} = {max(least, 10)}")


def _spelt(value: object) -> str:
    """A value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return "[" + ", ".join(f'"{name}"' for name in value) + "]"
    if isinstance(value, str):
        return f'"{value}"'
    return "10" if value is None else str(value)
