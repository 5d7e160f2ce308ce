"""Errors and warnings in the words of the surface that a person uses: options, keys, keywords, or a site's own file.

A fault is found below all surfaces, and its text names keys of a job file: ``missing = "drop"``, ``(categories)``, and
words "in the map of the table". A person who typed a command is shown ``--missing drop``, ``(--categories)`` and
``--map``, one who called an estimator ``missing="drop"`` of ``fedsvd.prepared``, a site's owner ``site.toml``. Keys
are those of the option table; what stands in braces is a line of a map, the same on all surfaces.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import cache, wraps
from typing import ParamSpec, TypeVar

from fedsvd.errors import FedSVDError, together
from fedsvd.tasks.option import CLI, ESTIMATOR
from fedsvd.tasks.options import OPTIONS

P = ParamSpec("P")
R = TypeVar("R")
IN_MAP = "in the map of the table"


class Surface(StrEnum):
    """Where a person reads a text, by what its words are."""

    OPTIONS = "options"  # of a command without a job file
    KEYS = "keys"  # of a job file
    KEYWORDS = "keywords"  # of estimators and ``fedsvd.prepared``
    SITE = "site"  # of a party between institutions: site.toml


_MAPS = {
    Surface.OPTIONS: "--map",
    Surface.KEYS: "map of its [[party]]",
    Surface.KEYWORDS: "map= of fedsvd.prepared",
    Surface.SITE: "[table] of site.toml",
}
_COLUMNS_AT_A_SITE = "[table.map] of site.toml"  # where a line about one column stands; [table] is of the file
_SECTIONS = ("prepare.categories", "masks", "match", "prepare", "job")  # of a key that two have, the last is meant
_WORD = r'"[\w.:-]+"'
_VALUES = rf"\[\.\.\.\]|\[[^\]]*\]|{_WORD}(?:(?:, | or |, or ){_WORD})*|true\b|false\b|-?[\d.]*\d"
_BRACES = re.compile(r"(\w+ = \{.*\})")  # a line of a map, with what it holds


@contextmanager
def spelt_for(surface: Surface) -> Iterator[None]:
    """Errors that leave the block are in the words of this surface."""
    try:
        yield
    except FedSVDError as error:
        spell(error, surface)
        raise


def in_words_of(surface: Surface) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """The same around a function; a warning inside is still at the caller's line, which is not one of contextlib."""

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def called(*args: P.args, **words: P.kwargs) -> R:
            with spelt_for(surface):
                return function(*args, **words)

        return called

    return decorated


def spell(error: FedSVDError, surface: Surface) -> FedSVDError:
    """The error, and all that it stands for, in the words of this surface.

    A site logs its errors, and logs are collected: entries of its table stay in ``at_home``. All other surfaces are
    read by the person who has the table.
    """
    for each in error.problems or (error,):
        each.fault, each.at_home = spelt(each.fault, surface), spelt(each.at_home, surface)
        each.fix = spelt(each.fix, surface) if surface is Surface.SITE else each.at_home or spelt(each.fix, surface)
    if error.problems:
        error.fault = together(error.problems).fault
    return error


def spelt(text: str, surface: Surface) -> str:
    """The text in the words of this surface."""
    known = "|".join(map(re.escape, (*_MAPS.values(), _COLUMNS_AT_A_SITE)))
    text = re.sub(rf"(\}} )?{IN_MAP}(?!,? (?:{known}))", lambda found: _in_map(surface, found[1] or ""), text)
    if surface in (Surface.KEYS, Surface.SITE):
        return text
    parts = _BRACES.split(text)
    parts[::2] = [(_as_options if surface is Surface.OPTIONS else _as_keywords)(part) for part in parts[::2]]
    return "".join(parts)


def _in_map(surface: Surface, line: str) -> str:
    """Where the map is; ``line`` ends a line about one column, where there is one before it."""
    where = _COLUMNS_AT_A_SITE if line and surface is Surface.SITE else _MAPS[surface]
    return f"{line}{IN_MAP}, {where}"


def _as_options(text: str) -> str:
    text = re.sub(r'\[dictionary\] file = "([^"]*)"', r"--dictionary \1", text)
    return _replaced(text, _options(), lambda key, value: _option(_options()[key], value))


def _option(name: str, value: str) -> str:
    """An option with what it is given: once for each of a list."""
    if value in ("true", "false"):
        return name if value == "true" else name.replace("--", "--no-", 1)
    if value == "[...]":
        return f"{name} NAME for each"
    if value.startswith("["):
        return " ".join(f"{name} {each.strip()}" for each in value.strip("[]").replace('"', "").split(","))
    return f"{name} {value}".replace('"', "")


def _as_keywords(text: str) -> str:
    text = re.sub(r'\[dictionary\] file = "([^"]*)"', r'dictionary="\1"', text)
    return _replaced(text, _keywords(), lambda key, value: _keywords()[key].format(_literal(value)))


def _literal(value: str) -> str:
    return {"true": "True", "false": "False"}.get(value, value)


def _replaced(text: str, names: dict[str, str], said: Callable[[str, str], str]) -> str:
    """Every key of a job file, with its value, in brackets, or as a table of the file."""
    keys = "|".join(sorted(names, key=len, reverse=True))
    text = re.sub(rf"(?<![-\w.])(?:\[prepare\] )?({keys}) = ({_VALUES})", lambda f: said(f[1], f[2]), text)
    text = re.sub(rf"\[prepare\.({keys})\]|\(({keys})((?:, (?:{keys}))*)(?=[,)])", lambda f: _bare(f, names), text)
    text = re.sub(
        rf"\[(?:job|prepare|match|masks)\] ({keys}) of the job", lambda f: names[f[1]].replace("{}", ""), text
    )
    return re.sub(r",? under \[(?:job|prepare|match|masks)\]", "", text)


def _bare(found: re.Match[str], names: dict[str, str]) -> str:
    """A key without a value; in brackets there may be several."""
    keys = [found[1]] if found[1] else [found[2], *found[3].split(", ")[1:]]
    said = ", ".join(names[key].replace("{}", "") for key in keys)
    return said if found[1] else f"({said}"


@cache
def _options() -> dict[str, str]:
    """The option of each key that has one."""
    named = {each.key: each.name(CLI) for name in _SECTIONS for each in OPTIONS if each.section == name}
    return {"name": "--name", "scratch": "--scratch"} | {
        key: f"--{name.replace('_', '-')}" for key, name in named.items() if name
    }


@cache
def _keywords() -> dict[str, str]:
    """The keyword of each key, with ``{}`` where its value stands."""
    of = {"prepare": " of fedsvd.prepared", "prepare.categories": " of fedsvd.prepared"}
    found = {"scratch": "scratch={}"}
    for section in _SECTIONS:
        for each in OPTIONS:
            if each.section == section:
                name = each.name(ESTIMATOR)
                found[each.key] = (
                    f"masks=Masks({name}={{}})" if section == "masks" else f"{name}={{}}{of.get(section, '')}"
                )
    return found
