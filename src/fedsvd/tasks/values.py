"""The kinds of values that options take: names, columns, counts, amounts of bytes, words of a list, tables.

Each is checked as a job file is parsed, and a fault names what would be right.
"""

from collections.abc import Iterable
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    StringConstraints,
    WithJsonSchema,
)

from fedsvd.protocol.parties import NAME
from fedsvd.protocol.tasks import IN_THE_LAB, PUBLISHED, RENAMED, ComponentRule, Item, Scheme, Task, is_rule
from fedsvd.statistics.fives import MOST_EDGES, MOST_THRESHOLDS
from fedsvd.tasks.option import Kind, Option
from fedsvd.types import bytes_of, near

SCHEMES = ("auto", *Scheme)
MOST_ID_COLUMNS = 16
_MOST_LABELS = 1000
_MOST_SLOPES = 8  # random effects of one group, next to its intercept
_MOST_NAMES = 10_000
_MOST_LEVELS = 1000
_MOST_CATEGORIES = 100
_MOST_CLASSES = 100
_MOST_ALPHAS = 1000
_LONGEST_NAME = 1000  # characters of a column's name; survey tools make whole questions of them
_LONGEST_PLACE = 4000
_LONGEST_FORMULA = 10_000
LARGEST_COUNT = 2**48


# --- words of a list --------------------------------------------------------------------------------------------------


def one_of(value: object, allowed: Iterable[str]) -> object:
    """The value if it is one of the words allowed; else a fault that lists them."""
    names = [str(item) for item in allowed]
    if isinstance(value, str) and value in names:
        return value
    raise ValueError(f"one of {', '.join(names)}{near(value, names)}")


def _enumeration(choices: Iterable[str]) -> Any:
    """An enumeration of these words, for Typer, which offers the members of one."""
    made: Any = StrEnum
    return made("Words", [(each.upper(), each) for each in choices])


def word(allowed: Iterable[str], schema: Any = str) -> Kind:
    """One of the words of an enumeration, or of a list; a list may be bound to an enumeration of the same words."""
    choices, typed = tuple(str(each) for each in allowed), allowed
    if isinstance(allowed, type):
        schema = allowed
    else:
        typed = _enumeration(choices)
    check = BeforeValidator(partial(one_of, allowed=choices))
    return Kind(Annotated[schema, check], typed, choices=choices, bound=lambda given: Annotated[given, check])


def optional(kind: Kind) -> Kind:
    """The same values, or none."""
    return Kind(
        kind.schema | None,
        kind.typed,
        kind.least,
        kind.fits,
        kind.otherwise,
        kind.choices,
        None if kind.bound is None else lambda given: kind.annotation(given) | None,
    )


# --- numbers ----------------------------------------------------------------------------------------------------------


def whole(least: int, most: int = LARGEST_COUNT) -> Kind:
    """A whole number in this range."""
    return Kind(Annotated[StrictInt, Field(ge=least, le=most)], int, least)


def number(**bounds: Any) -> Kind:
    """A number within bounds that pydantic names: ``ge``, ``gt``, ``lt``, ``allow_inf_nan``."""
    return Kind(Annotated[float, Field(**bounds)], float, bounds.get("ge"))


_AMOUNT = {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "examples": ["512 MiB"]}]}
BYTES = Kind(
    Annotated[StrictInt, BeforeValidator(bytes_of), Field(ge=1, le=LARGEST_COUNT), WithJsonSchema(_AMOUNT)], str
)


def components_of(value: object) -> object:
    """A number of components, or a rule that finds it, as text; anything else is refused with what would be right."""
    counted = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LARGEST_COUNT
    if counted or (isinstance(value, str | float) and is_rule(str(value))):
        return value if counted else str(value)
    raise ValueError(
        f"a whole number from 1 up, a share of the variance between 0 and 1, or one of {', '.join(ComponentRule)}"
    )


_COUNTED = {
    "anyOf": [
        {"type": "integer", "minimum": 1},
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        {"enum": [str(rule) for rule in ComponentRule]},
    ]
}
COMPONENTS = Kind(
    Annotated[StrictInt | str, BeforeValidator(components_of), WithJsonSchema(_COUNTED)],
    str,
    fits=lambda text: is_rule(text) or (text.isdecimal() and int(text) > 0),
    otherwise=f"not a number from 1 up, a share between 0 and 1, or one of {', '.join(ComponentRule)}.",
)
_Time = Annotated[float, Field(allow_inf_nan=False)]
TIMES = Kind(Annotated[tuple[_Time, ...], Field(max_length=MOST_EDGES)], list[float])
_Share = Annotated[float, Field(gt=0, lt=1)]
_sorted = AfterValidator(lambda values: tuple(sorted(set(values))))
THRESHOLDS = Kind(Annotated[tuple[_Share, ...], Field(max_length=MOST_THRESHOLDS), _sorted], list[float])
_Alpha = Annotated[float, Field(gt=0, allow_inf_nan=False)]
PENALTIES = Kind(Annotated[tuple[_Alpha, ...], Field(max_length=_MOST_ALPHAS)], list[float])
FLAG = Kind(StrictBool, bool)


# --- texts ------------------------------------------------------------------------------------------------------------


def scheme_of(value: object) -> object:
    """A scheme's name; one of protocol 1 is answered with its new name, the paper's with where it is."""
    if isinstance(value, str) and value in RENAMED:
        raise ValueError(f'{value!r} is a scheme of protocol 1: write scheme = "{RENAMED[value]}"')
    if value == PUBLISHED:
        raise ValueError(f"{IN_THE_LAB}: leave scheme out, or run fedsvd reproduce")
    return one_of(value, SCHEMES)


def _alone(value: object) -> object:
    """A text where a list may stand is a list of one."""
    return (value,) if isinstance(value, str) else value


_Name = Annotated[str, StringConstraints(pattern=NAME, max_length=64)]
_Column = Annotated[str, StringConstraints(min_length=1, max_length=_LONGEST_NAME)]
_ONE = {"type": "string", "minLength": 1, "maxLength": _LONGEST_NAME}


def _listed(most: int) -> Any:
    """Names of columns: one, or a list of at most ``most``."""
    several = {"anyOf": [_ONE, {"type": "array", "items": _ONE, "maxItems": most}]}
    return Annotated[tuple[_Column, ...], BeforeValidator(_alone), Field(max_length=most), WithJsonSchema(several)]


SCHEME = Kind(
    Annotated[str, BeforeValidator(scheme_of)],
    str,
    fits=lambda text: text in SCHEMES,
    otherwise=f"not one of {', '.join(SCHEMES)}; {IN_THE_LAB}.",
    choices=SCHEMES,
)
NAMED = Kind(_Name, str)
TEXT = Kind(Annotated[str, StringConstraints(min_length=1, max_length=_LONGEST_PLACE)], str)
ADDRESS = Kind(Annotated[str, StringConstraints(pattern=r"^[^\s:/]{1,255}:\d{1,5}$")], str)
FORMULA = Kind(Annotated[str, StringConstraints(max_length=_LONGEST_FORMULA)], str)
COLUMN = Kind(_Column, str)
LABELS = Kind(_listed(_MOST_LABELS), list[str])
SLOPES = Kind(_listed(_MOST_SLOPES), list[str])
ID_COLUMNS = Kind(
    Annotated[
        _Column | Annotated[tuple[_Column, ...], Field(min_length=2, max_length=MOST_ID_COLUMNS)],
        BeforeValidator(lambda value: value[0] if isinstance(value, list | tuple) and len(value) == 1 else value),
        WithJsonSchema({"anyOf": [_ONE, {"type": "array", "items": _ONE, "minItems": 1, "maxItems": MOST_ID_COLUMNS}]}),
    ],
    list[str],
)
DATES = Kind(Annotated[tuple[_Column, ...], BeforeValidator(_alone), Field(max_length=MOST_ID_COLUMNS)], list[str])
NAMES = Kind(_listed(_MOST_NAMES), list[str])
FLAG_OR_NAMES = Kind(StrictBool | NAMES.schema, bool)
_Levels = Annotated[tuple[_Column, ...], Field(min_length=1, max_length=_MOST_LEVELS)]
LEVELS = Kind(_Levels | tuple[()], list[str])
RENAMES = Kind(Annotated[dict[_Column, _Column], Field(max_length=_MOST_NAMES)], list[str])
ORDERS = Kind(Annotated[dict[_Column, _Levels], Field(max_length=_MOST_NAMES)], list[str])
ITEMS = Kind(
    Annotated[
        tuple[Annotated[Item, BeforeValidator(partial(one_of, allowed=tuple(Item)))], ...], Field(max_length=len(Item))
    ],
    list[str],
)


def _class(value: object) -> object:
    """A class as text: 1, 1.0 and "1" are the same."""
    if isinstance(value, bool):
        raise ValueError("a text or a number")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int | float) else value


_Class = Annotated[
    str,
    BeforeValidator(_class),
    Field(min_length=1, max_length=200),
    WithJsonSchema({"anyOf": [{"type": "string", "minLength": 1, "maxLength": 200}, {"type": "number"}]}),
]
CLASSES = Kind(Annotated[tuple[_Class, ...], Field(max_length=_MOST_CLASSES)], list[str])


# --- nested tables ----------------------------------------------------------------------------------------------------


def _by_name(value: object) -> object:
    """``categories = "sex"`` and ``categories = ["sex", "stage"]`` ask for indicators of all levels."""
    names = [value] if isinstance(value, str) else value
    return {name: {} for name in names} if isinstance(names, list | tuple) else value


def _categories(section: Any) -> Any:
    tables: Any = dict[_Column, section]
    return Annotated[tables, BeforeValidator(_by_name), Field(max_length=_MOST_CATEGORIES)]


CATEGORIES = Kind(dict, list[str], bound=_categories)
SETTINGS = Kind(dict[str, StrictBool | StrictInt | StrictFloat | StrictStr], list[str])
"""Options of a foreign task by name; its declaration says which there are."""
RECORD = Kind(dict[str, Any], str)
"""A table that is checked by what reads it."""


def named_column(key: str, help: str, meaning: str, *, tasks: tuple[Task, ...], unset: str = "") -> Option:
    """An option of ``[job]`` that names one column of every party's table, or none."""
    return Option(key, optional(COLUMN), None, help, meaning, unset, tasks, columns=True)
