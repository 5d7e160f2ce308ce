"""The tables of options in ``docs/job-file.md``, made from the options themselves.

``python docs/_ext/option_tables.py`` writes them, and a test holds the page to them. What stands between the tables is
written by hand.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "job-file.md"
HEAD = "| key | default | meaning |\n|---|---|---|\n"
TABLES = {
    "## `[job]`": ("job",),
    "## `[dictionary]`": ("dictionary",),
    "## `[match]`": ("match",),
    "## `[prepare]`": ("prepare",),
    "## `[foreign]`": ("foreign",),
    "## `[masks]`, `[csp]`, `[authority]`, `[[party]]`": ("masks", "csp", "authority", "party"),
}
_SHOWN = {"authority": "`[authority]` ", "party": "`[[party]]` "}


def made(text: str) -> str:
    """The page with its tables of options as the options are."""
    for title, sections in TABLES.items():
        before, found, after = text.partition(f"\n{title}\n")
        if not found:
            raise ValueError(f"the page has no part {title}")
        start = after.index(HEAD)
        rest = re.sub(r"\A(?:\|.*\n)+", "", after[start:])
        text = before + found + after[:start] + HEAD + table(sections) + rest
    return text


def table(sections: Sequence[str]) -> str:
    """The rows of these tables of a job file."""
    from fedsvd.tasks.options import section_of

    return "".join(row(option) for name in sections for option in section_of(name))


def row(option: Any) -> str:
    """One option as a row: what it is called, its default, what it means."""
    return f"| {_SHOWN.get(option.section, '')}`{option.key}` | {default_words(option)} | {option.meaning} |\n"


def default_words(option: Any) -> str:
    """The default as a job file spells it, or what leaving the key out means."""
    from fedsvd.tasks.option import NEEDED

    value = option.default
    if option.unset:
        return str(option.unset)
    if value is NEEDED:
        return "needed"
    if value is None or value in ((), {}, ""):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, str):
        return f'`"{value}"`'
    return f"`{re.sub('e-0', 'e-', repr(value))}`"


if __name__ == "__main__":
    PAGE.write_text(made(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
