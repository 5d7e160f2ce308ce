"""Exit codes and errors, the same for every command.

0 is success, 1 an error of fedsvd with its code (``FSVD-nnn: fault. Fix: what to do.``), 2 misuse of the command
line, 3 something unexpected, which is a defect: its text may hold anything, so only its type is shown unless
``FEDSVD_DEBUG`` is set, and 130 is Ctrl-C, with what was written and what not. With ``--format json`` every error is
one JSON object on standard output: ``{"error": {...}}``.
"""

import json
import os
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from fedsvd.errors import FedSVDError
from fedsvd.storage.faults import of_machine

OK, FAILED, MISUSED, UNEXPECTED, INTERRUPTED = 0, 1, 2, 3, 130
# Typer brings its own copy of click from version 0.20 on, so the class is found where it is sure to be.
_Misuse: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


class Lazy(TyperGroup, ABC):
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
            alone.command(name)(verb)
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
