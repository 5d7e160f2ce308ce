"""An owner's ``policy.toml``: what this site allows to be released (05-privacy), read into ``policy.rules.Policy``.

What is not in the file has its default. No other key is taken: a misspelt rule that was silently left out may be the
one that protects somebody. A policy from a file is always enforced; only estimators and simulations merely warn.
"""

import difflib
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedsvd.errors import ConfigError
from fedsvd.policy.rules import Policy
from fedsvd.protocol.tasks import Scheme, Task
from fedsvd.storage import private
from fedsvd.storage.toml import read_toml

POLICY = "policy.toml"
_DEFAULTS = Policy(enforce=True)
# Key, least value, comment; None as the least value where the key is no number.
_RULES: tuple[tuple[str, int | None, str], ...] = (
    ("tasks", None, "What may be computed."),
    ("schemes", None, 'How data is hidden. "paper" shows the CSP more: see the threat model.'),
    (
        "parties_for_full",
        2,
        "Fewest parties where U and S are released: each can compute the others' summed Gram matrix.",
    ),
    (
        "consent_to_two",
        None,
        "With two parties that is the partner's own, and often its records. true: we agree to that.",
    ),
    (
        "consent_to_gram",
        None,
        "A job may ask for mode A, in which all parties hold the joint Gram matrix. true: we agree to that.",
    ),
    ("records_for_full", 1, "Fewest records (columns, where these are split) of any party where U and S are released."),
    ("records", 1, "Fewest where only U_r or coefficients are."),
    ("most_components", 1, "Most components that may be released; no limit while this line is commented out."),
    (
        "least_changed",
        0,
        "Fewest records that may change between two studies: one changed record can be computed exactly.",
    ),
    ("versions_per_year", 0, "Most versions of a dataset in studies that release U and S; 0: no limit."),
    ("failed_attempts", 0, "Failed attempts that one approval covers; a study that succeeds here spends it."),
)
_RENAMED = {"changed_records": "least_changed"}  # since 0.1.0
_LISTS: dict[str, type[Task] | type[Scheme]] = {"tasks": Task, "schemes": Scheme}
_HEAD = """\
# What this site allows to be released. A study below it is refused before anything leaves the site.
"""


def write_default_policy(path: Path) -> None:
    """A new file with every rule, its default and what it is for."""
    private.create(path, spelt_policy(_DEFAULTS).encode())


def spelt_policy(policy: Policy) -> str:
    """A policy as the text of its file: every rule, its value and what it is for."""
    lines = [_HEAD]
    for key, _, comment in _RULES:
        value = getattr(policy, key)
        lines.append(f"# {comment}\n{'# ' if value is None else ''}{key} = {_spelt(value)}\n")
    return "\n".join(lines)


def read_policy(path: Path) -> Policy:
    """The policy in a file; a fault in it is one error with the key, and nothing is allowed."""
    table = read_toml(path, "docs/deployment.md")
    return replace(_DEFAULTS, **{key: _value(path, key, value) for key, value in table.items()})


def _value(path: Path, key: str, value: Any) -> Any:
    rules = {name: least for name, least, _ in _RULES}
    if key in _RENAMED:
        raise ConfigError(f"{key} in {path} has a new name", f"{_RENAMED[key]} = {value}")
    if key not in rules:
        near = difflib.get_close_matches(key, rules, 1)
        fix = f"did you mean {near[0]}?" if near else f"one of {', '.join(rules)}"
        raise ConfigError(f"{key[:80]!r} in {path} is not a rule", fix)
    least = rules[key]
    if key in _LISTS:
        return _members(path, key, value)
    if least is None and not isinstance(value, bool):
        raise ConfigError(f"{key} in {path} is not true or false", f"{key} = {_spelt(getattr(_DEFAULTS, key))}")
    if least is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
        raise ConfigError(f"{key} in {path} is not a whole number from {least} up", f"{key} = {max(least, 10)}")
    return value


def _members(path: Path, key: str, value: Any) -> tuple[Task, ...] | tuple[Scheme, ...]:
    allowed = _LISTS[key]
    names = [member.value for member in allowed]
    if not isinstance(value, list) or not all(isinstance(name, str) and name in names for name in value):
        raise ConfigError(f"{key} in {path} is not a list of {', '.join(names)}", f"{key} = {_spelt(names)}")
    return tuple(allowed(name) for name in value)  # type: ignore[return-value]


def _spelt(value: Any) -> str:
    """A value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return "[" + ", ".join(f'"{name}"' for name in value) + "]"
    return "10" if value is None else str(value)
