"""What is wrong with a job file, in words: the key as a person would point at it, and its nearest neighbour."""

from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from fedsvd.errors import ConfigError
from fedsvd.types import as_fix, near

NAME_RULE = "letters a to z, digits, '.', '_' and '-', at most 64, beginning with a letter or a digit"


def first_fault(invalid: ValidationError, keys: Mapping[str, Sequence[str]]) -> ConfigError:
    """The first thing that is wrong with a job file, and how to put it right."""
    faults = invalid.errors(include_url=False, include_context=False)
    # A misspelt key is unknown under one name and missing under the other; the first says more.
    fault = min(faults, key=lambda fault: fault["type"] != "extra_forbidden")
    place = fault["loc"]
    where = _place(place)
    if fault["type"] == "extra_forbidden":
        return ConfigError(f"the job has an unknown key {where}", _nearest_key(place, keys))
    if fault["type"] == "missing":
        return ConfigError(f"the job lacks {where}", "see docs/job-file.md for an example")
    text = as_fix(fault["msg"])
    if fault["type"] == "string_pattern_mismatch":
        text = 'host:port, such as "csp.example.org:7443"' if place[-1] == "address" else NAME_RULE
    elif place == ("party",) and fault["type"] != "too_long":
        text = "write one [[party]] table, with double brackets, for each party"
    said, semicolon, fix = text.partition("; ")
    if len(place) == 1 and fault["type"] == "value_error":  # what two keys say together: the text is the fault
        return ConfigError(said, fix if semicolon else f"correct {where} of the job")
    return ConfigError(f"{where} of the job is not usable", text)


def _place(place: tuple[int | str, ...]) -> str:
    """A key as a person would point at it: ``[job] task``, ``[[party]] 2 name``."""
    section, *rest = place
    if not rest:
        return f"[{section}]"
    if section == "party":
        numbered = [str(part + 1) if isinstance(part, int) else part for part in rest]
        return f"[[party]] {' '.join(numbered)}"
    return f"[{section}] {next(part for part in rest if isinstance(part, str))}"


def _nearest_key(place: tuple[int | str, ...], keys: Mapping[str, Sequence[str]]) -> str:
    key, section = str(place[-1]), str(place[0])
    elsewhere = [name for name in keys if key in keys[name]]
    if elsewhere:
        return f"{key} belongs to [{elsewhere[0]}]"
    if len(place) == 1:
        return f"the tables are {', '.join(f'[{name}]' for name in keys)}{near(key, keys)}"
    return f"the keys of [{section}] are {', '.join(keys[section])}{near(key, keys[section])}"
