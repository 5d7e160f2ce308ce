"""A job from the options of a command: what a job file with these settings would say."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedsvd.cli.options import SchemeName
from fedsvd.data.open import is_address
from fedsvd.errors import ConfigError
from fedsvd.protocol.tasks import RELEASED_BY_DEFAULT, Item, Mode, Task, Trust
from fedsvd.studies.job_faults import NAME_RULE
from fedsvd.studies.job_file import NAME, Job, job_from


def job_from_options(
    task: Task,
    parties: Sequence[str],
    *,
    name: str | None,
    scheme: SchemeName,
    mode: Mode | None,
    trust: Trust,
    block_size: int | None,
    release: Sequence[str] | None = None,
    **study: Any,
) -> Job:
    """The job that a job file with these options would describe; options that were left out are left out there."""
    section = {key: value for key, value in study.items() if value not in (None, [], ())}
    named = [word.strip() for words in release or () for word in words.split(",") if word.strip()]
    if named:
        default = [str(item) for item in RELEASED_BY_DEFAULT[task] if item is not Item.OWN_PART]
        section["release"] = [*default, *(word for word in named if word not in default)]
    record: dict[str, Any] = {
        "job": {"name": name or str(task), "task": str(task), **section},
        "masks": {
            "scheme": str(scheme),
            **({} if mode is None else {"mode": str(mode)}),
            **({} if block_size is None else {"block_size": block_size}),
        },
        "party": named_parties(parties),
    }
    if trust is Trust.AUTHORITY:
        record["authority"] = {"name": "ta"}
    return job_from(record, Path())


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
