"""``fedsvd svd``, ``pca``, ``lsa``, ``lr``, ``glm``, ``cca``, ``pcr``: a study without a job file, with its options.

The commands are made from the option table (``tasks/options.py``): a key of ``[job]`` is an option of every task it
applies to, with the default it has there. What is asked is put together as a job file and checked as one.
"""

import csv
import inspect
import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from fedsvd.cli import options
from fedsvd.cli.main import VERBS
from fedsvd.cli.option_table import (
    described_options,
    match_options,
    parameter,
    parameters,
    prepare_options,
    study_options,
)
from fedsvd.cli.output import Format, Output
from fedsvd.cli.rungs import Consent, Env, Environment, PolicyOption, carry_out_on
from fedsvd.data.open import is_address
from fedsvd.errors import ConfigError
from fedsvd.protocol.parties import NAME
from fedsvd.protocol.tasks import Item, Task, Trust
from fedsvd.studies.job_faults import NAME_RULE
from fedsvd.studies.job_file import Job, job_of_tables_here
from fedsvd.tasks.declared import declared
from fedsvd.tasks.option import NEEDED
from fedsvd.tasks.options import option_of, section_of
from fedsvd.tasks.surface import Surface, spelt_for

_RUN: dict[str, tuple[Any, Any]] = {
    "env": (Env, Environment.SIM),
    "policy": (PolicyOption, None),
    "consent": (Consent, False),
    "out": (options.Out, None),
    "overwrite": (options.Overwrite, False),
    "figures": (options.Figures, None),
    "scratch": (options.Scratch, None),
    "quiet": (options.Quiet, False),
    "format": (options.FormatOption, Format.TEXT),
}


def command(verb: str) -> Callable[..., None]:
    """The function behind ``fedsvd VERB``, with the signature that Typer reads."""
    task = Task(verb)
    sections = {
        "study": parameters(*study_options(task)),
        "match": parameters(*match_options(task)),
        "prepare": parameters(*prepare_options()),
        "described": parameters(*described_options()),
        "masks": parameters(*section_of("masks")),
    }

    def run(party: list[str], **given: Any) -> None:
        said = {name: {key: given[key] for key in keys} for name, keys in sections.items()}
        with spelt_for(Surface.OPTIONS):
            job = job_from_options(task, party, trust=given["trust"], name=given["name"], **said)
            output = Output(given["format"], given["quiet"], Surface.OPTIONS)
            run_options = (given[key] for key in ("out", "overwrite", "scratch", "policy", "consent", "figures"))
            carry_out_on(given["env"], output, job, *run_options)

    keys: dict[str, tuple[Any, Any]] = {"party": (options.Parties, inspect.Parameter.empty)}
    for section in sections.values():
        keys |= section
    keys |= parameters(option_of("", "trust"), option_of("job", "name")) | _RUN
    kind = inspect.Parameter.KEYWORD_ONLY
    signature = [
        inspect.Parameter(key, kind, default=inspect.Parameter.empty if default is NEEDED else default, annotation=it)
        for key, (it, default) in keys.items()
    ]
    run.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    run.__annotations__ = {key: annotation for key, (annotation, _) in keys.items()}
    run.__name__, run.__doc__ = verb, VERBS[verb]
    return run


def job_from_options(
    task: Task,
    parties: Sequence[str],
    study: dict[str, Any],
    masks: dict[str, Any],
    trust: Trust,
    name: str | None,
    prepare: dict[str, Any] | None = None,
    match: dict[str, Any] | None = None,
    described: dict[str, Any] | None = None,
) -> Job:
    """The job that a job file with these options would describe; options that were left out are left out there."""
    section = {key: _plain(value) for key, value in study.items() if value not in (None, [], ())}
    if isinstance(section.get("components"), str):
        section["components"] = _count(section["components"])
    named = [word.strip() for words in section.pop("release", ()) for word in words.split(",") if word.strip()]
    if named:
        default = [str(item) for item in declared(task).released if item is not Item.OWN_PART]
        section["release"] = [*default, *(word for word in named if word not in default)]
    record: dict[str, Any] = {
        "job": {"name": name or str(task), "task": str(task), **section},
        "masks": {key: _plain(value) for key, value in masks.items() if value is not None},
        "party": named_parties(parties),
    }
    asked = prepare_section(prepare or {})
    if asked:
        record["prepare"] = asked
    given = {key: value for key, value in (match or {}).items() if value not in (None, [], ()) and value is not False}
    add_files(record["party"], "linkage", "link", given.pop("linkage", ()))
    add_files(record["party"], "map", "map", (described or {}).get("map") or ())
    matched = {each.key: _plain(given[parameter(each)]) for each in section_of("match") if parameter(each) in given}
    if matched:
        record["match"] = matched
    if trust is Trust.AUTHORITY:
        record["authority"] = {"name": "ta"}
    if (described or {}).get("dictionary") is not None:
        record["dictionary"] = {"file": (described or {})["dictionary"]}
    return job_of_tables_here(record, Path())


def _plain(value: Any) -> Any:
    """A word of a list as its text: the job file has it from another enumeration of the same words."""
    return str(value) if isinstance(value, StrEnum) else value


def _count(word: str) -> int | float | str:
    """A number of components, a share or the name of a rule, as a job file would have it."""
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


def prepare_section(given: dict[str, Any]) -> dict[str, Any]:
    """``[prepare]`` of a job file, from the words of a command line; options that were left out are left out."""
    asked = {key: _plain(value) for key, value in given.items() if value not in (None, [], ()) and value is not False}
    for key in ("columns", "drop", "indicators_for", "categories", "covariates", "preserve"):
        if key in asked:
            asked[key] = [name for words in asked[key] for name in _names(words)]
    if "indicators_for" in asked:
        if "indicators" in asked:
            raise ConfigError("--indicators is for all columns, --indicators-for for some", "leave one of them out")
        asked["indicators"] = asked.pop("indicators_for")
    if "rename" in asked:
        asked["rename"] = dict(pair("--rename", "OLD=NEW", words) for words in asked["rename"])
    if "ordinal" in asked:
        pairs = (pair("--ordinal", "COLUMN=FIRST,SECOND", words) for words in asked["ordinal"])
        asked["ordinal"] = {name: _names(levels) for name, levels in pairs}
    return _with_categories(asked)


def _with_categories(asked: dict[str, Any]) -> dict[str, Any]:
    """``[prepare.categories]``: the columns of ``--categories``, and of the options that say more of one."""
    found: dict[str, dict[str, Any]] = {name: {} for name in asked.pop("categories", ())}
    for key, word in (("reference", "reference"), ("missing_level", "missing")):
        for words in asked.pop(key, ()):
            name, level = pair(f"--{key.replace('_', '-')}", "COLUMN=LEVEL", words)
            if word in found.setdefault(name, {}):
                raise ConfigError(f"--{key.replace('_', '-')} names column {name!r} twice", "name it once")
            found[name][word] = level
    for words in asked.pop("drop_first", ()):
        for name in _names(words):
            found.setdefault(name, {})["drop_first"] = True
    return asked | {"categories": found} if found else asked


def add_files(parties: list[dict[str, str]], option: str, key: str, given: Sequence[str]) -> None:
    """Files of single parties, ``NAME=FILE``: linkage maps, how tables are mapped; a map without a name is of all."""
    for words in given:
        if key == "map" and not has_name(words):
            for each in parties:
                each.setdefault(key, words)
            continue
        name, file = pair(f"--{option}", "NAME=FILE", words)
        party = next((each for each in parties if each["name"] == name), None)
        if party is None:
            fix = f"one of {', '.join(each['name'] for each in parties)}"
            raise ConfigError(f"--{option} is of party {name!r}, and there is none of that name", fix)
        party[key] = file


def pair(option: str, shape: str, words: str) -> tuple[str, str]:
    """What stands left and right of the first ``=``."""
    name, equals, rest = words.partition("=")
    if not (name and equals and rest):
        raise ConfigError(f"{option} {words!r} is not {shape}", f"write {option} {shape}")
    return name, rest


def _names(words: str) -> list[str]:
    """Column names with commas between them; one that has a comma itself stands in double quotes."""
    return [name for row in csv.reader([words], skipinitialspace=True) for name in row if name]


def has_name(word: str) -> bool:
    """Whether this is ``NAME=FILE``, not a file with such a name, nor an address with settings."""
    return "=" in word.partition("://")[0] and not Path(word).exists()


def named_parties(words: Sequence[str]) -> list[dict[str, str]]:
    """Names and files from ``[NAME=]FILE``; without a name, that of the file, numbered where it is taken."""
    parties: list[dict[str, str]] = []
    for word in words:
        name, _, file = word.partition("=")
        if not has_name(word):
            stem = word.partition("://")[0] if is_address(word) else Path(word).name.partition(".")[0]
            file, name = word, re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-_")[:60]
            taken = [party["name"].lower() for party in parties]
            name, number = name or "party", 1
            while (numbered := name if number == 1 else f"{name}-{number}").lower() in taken:
                number += 1
            name = numbered
        elif re.fullmatch(NAME, name) is None:
            raise ConfigError(f"{name!r} cannot be the name of a party", NAME_RULE)
        elif name in [party["name"] for party in parties]:
            raise ConfigError(f"two parties are named {name}", "give every party a name of its own")
        parties.append({"name": name, "data": file})
    return parties
