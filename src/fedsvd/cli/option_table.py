"""Typer's options, made from the option table (``tasks/options.py``): names, types, defaults, help."""

from collections.abc import Callable
from keyword import iskeyword
from typing import Annotated, Any

import typer

from fedsvd.protocol.tasks import Task
from fedsvd.tasks.dictionary_options import DICTIONARY
from fedsvd.tasks.option import CLI, Option
from fedsvd.tasks.options import applies, option_of, section_of
from fedsvd.tasks.table_options import MATCH, PREPARE

# What is left out on the command line is left out of these tables: a key that says nothing is refused there.
_LEFT_OUT = ("match", "prepare", "prepare.categories")


def asked(section: str, key: str) -> Any:
    """What Typer reads of this option, for a command that names its type itself."""
    return _info(option_of(section, key))


def parameters(*options: Option) -> dict[str, tuple[Any, Any]]:
    """Annotation and default of each option, by the name of its parameter."""
    return {parameter(option): (_annotation(option), default(option)) for option in options if option.name(CLI)}


def study_options(task: Task) -> tuple[Option, ...]:
    """The options of ``[job]`` that this task heeds; its name and its task are said otherwise."""
    return tuple(each for each in section_of("job") if each.key not in ("name", "task") and applies(each.key, task))


def match_options(task: Task) -> tuple[Option, ...]:
    """The options of ``[match]``, and of linkage maps, where columns may be split."""
    return (*MATCH, option_of("party", "link")) if applies("ids", task) else ()


def described_options() -> tuple[Option, ...]:
    """The dictionary, and how parties' own tables are mapped to it."""
    return (*DICTIONARY, option_of("party", "map"))


def prepare_options() -> tuple[Option, ...]:
    """The options of ``[prepare]``; those that say more of one column stand next to it."""
    return PREPARE


def parameter(option: Option) -> str:
    """The name of an option's parameter in Python."""
    name = option.name(CLI)
    return option.key if iskeyword(name) else name


def default(option: Option) -> Any:
    """The job file's own default, or none where leaving it out says something else."""
    value = option.default_of(CLI)
    if _typed(option) is bool:
        return value
    return None if value in ((), {}) or option.section in _LEFT_OUT else value


def _typed(option: Option) -> Any:
    """What is read of the option; keys of a nested table name their column too, and those of a party its name."""
    return list[str] if option.section in ("prepare.categories", "party") else option.kind.typed


def _annotation(option: Option) -> Any:
    typed = _typed(option)
    return Annotated[typed | None if default(option) is None else typed, _info(option)]


def _info(option: Option) -> Any:
    flag = f"--{option.name(CLI).replace('_', '-')}"
    if option.kind.typed is bool and option.default is True:
        flag = f"{flag}/--no-{option.name(CLI).replace('_', '-')}"
    more: dict[str, Any] = {} if option.kind.least is None else {"min": option.kind.typed(option.kind.least)}
    if option.metavar is not None:
        more["metavar"] = option.metavar
    if option.kind.fits is not None:
        more["callback"] = _checked(option.kind.fits, option.kind.otherwise)
    return typer.Option(flag, help=option.help, **more)


def _checked(fits: Callable[[str], bool], otherwise: str) -> Callable[[str | None], str | None]:
    """A text that does not fit is misuse of the command line: exit code 2."""

    def check(value: str | None) -> str | None:
        if value is None or fits(value):
            return value
        raise typer.BadParameter(otherwise)

    return check
