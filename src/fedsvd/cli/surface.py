"""Fixes in the words of the command line, of commands that have no job file.

An error is raised where a fault is found, and names keys of a job file there: ``missing = "drop"``, ``(categories)``.
A person who typed options is shown options: ``--missing drop``, ``(--categories)``. Keys are those of the option table.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from fedsvd.errors import FedSVDError, together
from fedsvd.tasks.option import CLI
from fedsvd.tasks.options import OPTIONS

_SECTIONS = ("prepare.categories", "masks", "match", "prepare", "job")  # of a key that two have, the last is meant
_WORDS = r'"[\w.-]+"(?:(?:, | or |, or )"[\w.-]+")*'


@contextmanager
def in_options() -> Iterator[None]:
    """Errors that leave the block have fixes in options."""
    try:
        yield
    except FedSVDError as error:
        for problem in error.problems:
            problem.fix = as_options(problem.fix)
        if error.problems:
            error.fault = together(error.problems).fault
        error.fix = as_options(error.fix)
        raise


def as_options(fix: str) -> str:
    """The fix with options in the place of keys of a job file."""
    fix = re.sub(r"(, of)? ?\(?fedsvd\.prepared in Python\)?", "", fix.replace(", of fedsvd.prepared in Python)", ")"))
    fix = re.sub(r"fedsvd\.open_source\(data, drop=\['([^']*)'\]\)", r"--drop \1", fix)
    names, flags = _names(), "|".join(sorted(_names(), key=len, reverse=True))
    fix = re.sub(rf"\[prepare\.({flags})\]", lambda found: names[found[1]], fix)
    fix = re.sub(rf"(?<![-\w])({flags}) = ({_WORDS})", lambda f: f"{names[f[1]]} {f[2]}".replace('"', ""), fix)
    fix = re.sub(rf"(?<![-\w])({flags}) = true\b", lambda found: names[found[1]], fix)
    fix = re.sub(rf"(?<![-\w])({flags}) = false\b", lambda f: names[f[1]].replace("--", "--no-", 1), fix)
    fix = re.sub(rf"(?<![-\w])({flags}) = (-?[\d.]+)", lambda found: f"{names[found[1]]} {found[2]}", fix)
    fix = re.sub(rf"\(({flags})(?=[,)])", lambda found: f"({names[found[1]]}", fix)
    return re.sub(r",? under \[(?:job|prepare|match|masks)\]", "", fix)


@cache
def _names() -> dict[str, str]:
    """The option of each key that has one."""
    found = {
        each.key: each.name(CLI) for name in _SECTIONS for each in OPTIONS if each.section == name and each.name(CLI)
    }
    return {key: f"--{name.replace('_', '-')}" for key, name in found.items()}
