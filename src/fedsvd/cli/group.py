"""Exit codes and errors, the same for every command.

0 is success, 1 an error of fedsvd with its code (``FSVD-nnn: fault. Fix: what to do.``), 2 misuse of the command
line, 3 something unexpected, which is a defect: its text may hold anything, so only its type is shown unless
``FEDSVD_DEBUG`` is set, and 130 is Ctrl-C, with what was written and what not. With ``--format json`` every error is
one JSON object on standard output: ``{"error": {...}}``.
"""

import json
import os
import re
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from fedsvd.errors import FedSVDError
from fedsvd.storage.faults import of_machine

Verb = TypeVar("Verb", bound=Callable[..., Any])
OK, FAILED, MISUSED, UNEXPECTED, INTERRUPTED = 0, 1, 2, 3, 130
# Typer brings its own copy of click from version 0.20 on, so the class is found where it is sure to be.
_Misuse: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


_HEADINGS = {
    "Data": "party split label label_party id ids sort_by_id weights offset cluster clusters dictionary map",
    "Preparation": "columns drop rename missing constant penalty rounds indicators indicators_for ordinal categories "
    "drop_first reference missing_level formula combat preserve covariates centre scale minimum most_levels view rank",
    "Matching records": "align linkage id_case id_spaces id_dates month_first least_overlap",
    "Privacy": "scheme mode trust block_size digits release verify policy consent",
    "Output": "name out overwrite write figures format quiet",
    "Running": "env device engine memory scratch help",
}
_OTHER, _ARGUMENTS = "Model", "Arguments"
_HEADING_OF = {name: heading for heading, names in _HEADINGS.items() for name in names.split()}
_LONGEST_OPTION = 60  # with its choices
_FEWEST_GROUPED = 20  # options; of fewer one list is easier to read


_KINDS = {"list[str]": "TEXT", "str": "TEXT", "path": "PATH", "int range": "N", "int": "N", "list[float]": "NUMBER"}
_KINDS |= {"float range": "NUMBER", "float": "NUMBER"}


def _shorter(option: str, help: str = "") -> tuple[str, str]:
    """The option with what it takes in one word: TEXT, N, NUMBER, PATH, or its choices; many of them in the help."""
    short = re.sub(r"<([^>]*)>", lambda found: _KINDS.get(found[1], found[1]), option)
    name, _, choices = short.rpartition(" ")
    if len(short) <= _LONGEST_OPTION or "|" not in choices:
        return short, help
    text, mark, rest = help.partition("  [")
    return f"{name} WORD", f"{text.rstrip('.')}: {choices.replace('|', ', ')}.{mark}{rest}"


def _placeholder(argument: Any) -> str:
    """An argument as manual pages write it: FILE, [FOLDER], FILE..."""
    name = (argument.metavar or argument.name).strip("[]").upper()
    if argument.nargs != 1 and not name.endswith("..."):
        name += "..."
    return name if argument.required else f"[{name}]"


class Grouped(TyperCommand):
    """A command whose help fits 80 columns; arguments stand apart, and many options stand under headings."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words after the command's name; Typer's own braces differ between its versions."""
        arguments = [param for param in self.get_params(ctx) if param.param_type_name == "argument"]
        return ["[OPTIONS]", *map(_placeholder, arguments)]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Plain text, no boxes: half of their width was frames."""
        super(TyperCommand, self).format_help(ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The options under their headings, in the order of the headings."""
        params = [param for param in self.get_params(ctx) if not getattr(param, "hidden", False)]
        grouped: dict[str, list[tuple[str, str]]] = {}
        for param in params:
            record = param.get_help_record(ctx)
            if record is not None and param.param_type_name == "argument":
                grouped.setdefault(_ARGUMENTS, []).append((_placeholder(param), record[1].replace("  [required]", "")))
            elif record is not None:
                many = len(params) >= _FEWEST_GROUPED
                heading = _HEADING_OF.get(param.name or "", _OTHER) if many else "Options"
                grouped.setdefault(heading, []).append(_shorter(*record))
        order = [_ARGUMENTS, "Data", _OTHER, *(name for name in _HEADINGS if name != "Data"), "Options"]
        for heading in sorted(grouped, key=order.index):
            with formatter.section(heading):
                formatter.write_dl(grouped[heading], col_max=26)


class Plain(TyperGroup):
    """A group whose help is plain text under headings, as each command's own is."""

    HEADINGS: ClassVar[Mapping[str, str]] = {}  # the names under each, between blanks; the rest stands first

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Plain text, no boxes."""
        super(TyperGroup, self).format_help(ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The commands, then the few options of the group."""
        self.format_commands(ctx, formatter)
        records = [record for param in self.get_params(ctx) if (record := param.get_help_record(ctx)) is not None]
        with formatter.section("Options"):
            formatter.write_dl([(_shorter(name)[0].replace(" bool", ""), text) for name, text in records], col_max=26)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Each command with its line, under its heading."""
        heading_of = {name: heading for heading, names in self.HEADINGS.items() for name in names.split()}
        grouped: dict[str, list[tuple[str, str]]] = {heading: [] for heading in ("Commands", *self.HEADINGS)}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                grouped[heading_of.get(name, "Commands")].append((name, command.get_short_help_str(200)))
        for heading, lines in grouped.items():
            if lines:
                with formatter.section(heading):
                    formatter.write_dl(lines, col_max=26)


class Group(typer.Typer):
    """Commands under one word, with plain help: of the group, and of each command."""

    def __init__(self, help: str, cls: type[Plain] = Plain, no_args_is_help: bool = True) -> None:
        super().__init__(help=help, cls=cls, no_args_is_help=no_args_is_help)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Verb], Verb]:
        """As Typer's, with the help of ``Grouped``."""
        return super().command(name, cls=Grouped, **settings)


class Lazy(Plain, ABC):
    """A group that lists some commands by one line each; ``load`` imports such a command when it is called."""

    LINES: ClassVar[Mapping[str, str]] = {}

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, line in self.LINES.items():
            self.add_command(TyperCommand(name, help=line))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that the first word names, with its arguments and options."""
        name, command, rest = super().resolve_command(ctx, args)
        lazy = name is not None and name in self.LINES
        return name, self.loaded(str(name)) if lazy else command, rest

    @classmethod
    def loaded(cls, name: str) -> Any:
        """The command of this name, as a click command."""
        verb = cls.load(name)
        if isinstance(verb, typer.Typer):
            command: Any = typer.main.get_group(verb)
        else:
            alone = typer.Typer(add_completion=False)
            alone.command(name, cls=Grouped)(verb)
            command = typer.main.get_command(alone)
        command.name = name
        return command

    @classmethod
    @abstractmethod
    def load(cls, name: str) -> Any:
        """The function, or the Typer, of this name."""


class Commands(Lazy):
    """The commands of ``fedsvd``; every error ends here."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; here, because the library that reads the command line would call Ctrl-C an abort."""
        try:
            return super().invoke(ctx)
        except _Misuse as error:  # a value that does not fit, in the words of the library that checks it
            from fedsvd.types import as_fix

            error.message = as_fix(error.message)
            raise
        except KeyboardInterrupt as stopped:
            left = str(stopped) or "nothing was written"
            if _asks_for_json(sys.argv[1:]):
                _show_error(True, "interrupted", left, "", "KeyboardInterrupt")
            else:
                typer.echo(f"interrupted: {left}", err=True)
            sys.exit(INTERRUPTED)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and end the process with its exit code."""
        words = list(sys.argv[1:] if args is None else args)
        as_json = _asks_for_json(words)
        try:
            # In text the command line's own errors are shown the usual way, with the usage above them.
            code = super().main(words, prog_name, complete_var, not as_json, windows_expand_args, **extra)
            sys.exit(code if isinstance(code, int) else OK)
        except FedSVDError as error:
            from fedsvd.tasks.surface import Surface, spell  # which brings all options along

            spell(error, Surface.KEYS)
            _show_error(as_json, error.code, error.fault, error.fix, type(error).__name__, error.problems)
            sys.exit(FAILED)
        except _Misuse as error:
            _show_error(as_json, "usage", error.format_message(), f"fedsvd {' '.join(words[:1])} --help", "UsageError")
            sys.exit(MISUSED)
        except typer.Abort:
            sys.exit(FAILED)
        except Exception as error:
            if (ours := of_machine(error)) is not None:
                _show_error(as_json, ours.code, ours.fault, ours.fix, type(ours).__name__)
                sys.exit(FAILED)
            if os.environ.get("FEDSVD_DEBUG"):
                traceback.print_exc()
            fault = f"unexpected {type(error).__name__}: this is a defect of fedsvd"
            _show_error(as_json, "FSVD-000", fault, "report it, with what FEDSVD_DEBUG=1 prints", type(error).__name__)
            sys.exit(UNEXPECTED)


def _asks_for_json(words: Sequence[str]) -> bool:
    return "--format=json" in words or ("--format", "json") in pairwise(words)


def _show_error(
    as_json: bool, code: str, fault: str, fix: str, kind: str, problems: Sequence[FedSVDError] = ()
) -> None:
    if as_json:
        record: dict[str, Any] = {"code": code, "fault": fault, "fix": fix, "kind": kind}
        if problems:
            record["problems"] = [
                {"code": each.code, "fault": each.fault, "fix": each.fix, "kind": type(each).__name__}
                for each in problems
            ]
        typer.echo(json.dumps({"error": record}))
    else:
        typer.echo(f"{code}: {fault}. Fix: {fix}" if fix else f"{code}: {fault}", err=True)
