"""What one option of a study is: its name, the values it takes, its default, its texts, and the tasks that heed it.

The tables of options are in ``study_options.py``, ``model_options.py``, ``table_options.py`` and
``foreign_options.py``; ``options.py`` puts them together. Job-file schema, command line, reference pages and the
report's job file are made from them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fedsvd.errors import ConfigError
from fedsvd.protocol.tasks import Task

TASKS = tuple(task for task in Task if task.line or task is Task.FOREIGN)
"""The tasks that a person asks for; the others are sessions that go with them."""

NEEDED: Final = ...
"""The default of an option that cannot be left out."""

CLI = "cli"
ESTIMATOR = "estimator"


@dataclass(frozen=True)
class Kind:
    """The values an option takes, as pydantic checks them in a job file and as Typer reads them from a command line."""

    schema: Any
    typed: Any
    least: float | None = None  # refused below by the command line itself, with its own exit code
    fits: Callable[[str], bool] | None = None  # likewise, for texts that are not numbers or words of a list
    otherwise: str = ""  # what would fit, in words
    choices: tuple[str, ...] = ()
    # The schema, given a type from above this package: an enumeration of the same words, or a nested section.
    bound: Callable[[Any], Any] | None = None

    def annotation(self, given: Any = None) -> Any:
        """What pydantic checks; ``given`` is the type from above where there is one."""
        return self.schema if given is None or self.bound is None else self.bound(given)


@dataclass(frozen=True)
class Option:
    """One option, said once for all surfaces."""

    key: str
    kind: Kind
    default: Any
    help: str  # of the command line: one line
    meaning: str = ""  # of the reference page
    unset: str = ""  # what the reference page calls a default that is no value
    tasks: tuple[Task, ...] = TASKS  # that heed it
    section: str = "job"  # the job file's table; empty where a job file has no such key
    metavar: str | None = None
    columns: bool = False  # its value names columns of the parties' tables
    names: Mapping[str, str] = field(default_factory=dict)  # by surface, where it is not the key
    defaults: Mapping[str, Any] = field(default_factory=dict)  # by surface or estimator, where it is not the default
    script: bool = False  # its value is in the plan, where the scripts of its tasks read it (``plan.option``)

    def name(self, surface: str) -> str:
        """What the option is called there."""
        return self.names.get(surface, self.key)

    def default_of(self, *surfaces: str) -> Any:
        """The default on the first of these surfaces that has one of its own, else the job file's."""
        return next((self.defaults[surface] for surface in surfaces if surface in self.defaults), self.default)


@dataclass(frozen=True)
class Rule:
    """What cannot be asked for together: ``applies`` finds it, ``fault`` says what is wrong and ``fix`` what to do.

    Texts with a part that varies are functions of what was asked.
    """

    applies: Callable[[Any], Any]
    fault: str | Callable[[Any], str]
    fix: str | Callable[[Any], str] = ""

    def texts(self, asked: Any) -> tuple[str, str]:
        """The fault and the fix, in the words of this case."""
        fault, fix = (text if isinstance(text, str) else text(asked) for text in (self.fault, self.fix))
        return fault, fix


def broken(rules: tuple[Rule, ...], asked: Any) -> Rule | None:
    """The first rule that this breaks."""
    return next((rule for rule in rules if rule.applies(asked)), None)


def expect(rules: tuple[Rule, ...], asked: Any) -> None:
    """Raise ``ConfigError`` for the first rule that is broken."""
    rule = broken(rules, asked)
    if rule is not None:
        raise ConfigError(*rule.texts(asked))
