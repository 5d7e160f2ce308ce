"""Sections of a job file: models whose keys are the rows of the option table (``tasks/options.py``).

A section's class has what follows from its keys; the keys themselves, with their types and defaults, are added here. To
mypy a key is of any type: pydantic has checked its value when the file was parsed.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, create_model

from fedsvd.tasks.option import Rule, broken
from fedsvd.tasks.options import section_of


class Section(BaseModel):
    """One table of a job file: no key that is not listed, and no change once it is parsed."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, hide_input_in_errors=True)

    if TYPE_CHECKING:

        def __init__(self, **keys: Any) -> None: ...
        def __getattr__(self, key: str) -> Any: ...

    def heeded(self, rules: tuple[Rule, ...]) -> None:
        """Raise ``ValueError`` for the first of these rules that the section breaks, as validators do."""
        rule = broken(rules, self)
        if rule is not None:
            raise ValueError("; ".join(text for text in rule.texts(self) if text))


S = TypeVar("S", bound=Section)


def with_keys(name: str, bound: Mapping[str, Any] | None = None) -> Callable[[type[S]], type[S]]:
    """The class with the keys of this section; ``bound`` are types that the table, below this package, cannot name."""
    given = bound or {}

    def made(section: type[S]) -> type[S]:
        keys: dict[str, Any] = {}
        for option in section_of(name):
            above, default = given.get(option.key), option.default
            if isinstance(above, type) and issubclass(above, Enum):
                default = above(default)
            keys[option.key] = option.kind.annotation(above), default
        model = create_model(section.__name__, __base__=section, __doc__=section.__doc__, **keys)
        model.__module__, model.__qualname__ = section.__module__, section.__qualname__
        return model

    return made
