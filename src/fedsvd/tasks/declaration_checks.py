"""What a declaration of a foreign task may say: keys, kinds, names, texts and sizes, each with its bound.

A declaration is a peer's text that every member's owner is shown, so no key is taken that is not known here, and every
text in it can be shown as it is.
"""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fedsvd.errors import ConfigError, printable
from fedsvd.protocol.steps import StepKind
from fedsvd.tasks.expressions import expect_size

FORMAT = 1
LONGEST = 1 << 16  # characters of a declaration
MOST_NUMBERS = 1 << 22  # of all sums and rounds together
MOST_ROUNDS = 1000
_MOST_STEPS, _MOST_OPTIONS, _MOST_OUTPUTS, _MOST_AXES = 64, 32, 32, 3
_MOST_BITS = 52  # a share is rounded in float64
_LONGEST_TEXT, _LONGEST_COLUMN = 300, 1000
_TASK = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_WORD = re.compile(r"[a-z][a-z0-9_]{0,39}")
_STEP = re.compile(r"[a-z]+([ -][a-z]+)*")  # no digits: the names of a repetition end in the number of the round
PUBLIC = ("parties", "features")
_RESERVED = ("row_ids",)  # an array that results have anyway
_SUMS = tuple(str(kind) for kind in (StepKind.WHOLE, StepKind.WIDE, StepKind.TOTAL, StepKind.BOUND))
_KINDS: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "word": (str,),
    "flag": (bool,),
    "column": (str,),
}

Value = bool | int | float | str


def checked(record: object) -> dict[str, Any]:
    """The record of a declaration, every part of which is as it should be."""
    where = "the declaration of a foreign task"
    top = _table(record, where, ("fedsvd", "name", "about", "options", "steps", "outputs"))
    if top["fedsvd"] != FORMAT or isinstance(top["fedsvd"], bool):
        raise ConfigError(f"{where} is of another format", f'"fedsvd": {FORMAT}')
    name = top["name"]
    if not isinstance(name, str) or len(name) > 64 or _TASK.fullmatch(name) is None:
        raise ConfigError(f"{where} has no name", "lower-case letters and digits with hyphens: group-variance")
    where = f"the declaration of {name}"
    _text(top["about"], f"{where}, about")
    options = _named(top["options"], f"{where}, options")
    for option, each in options.items():
        _expect_option(name, option, each)
    known = (*PUBLIC, *(option for option, each in options.items() if each["kind"] == "integer"))
    _expect_steps(top["steps"], where, known)
    _expect_outputs(top["outputs"], where, known)
    return top


def flat(steps: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Every sum, those of repetitions too."""
    return [inner for each in steps for inner in (each["steps"] if "repeat" in each else [each])]


def option_value(task: str, name: str, about: Mapping[str, Any], value: object) -> Value:
    """The value of an option, or ``ConfigError``."""
    kind, where = about["kind"], f"the option {name} of {task}"
    fits = isinstance(value, _KINDS[kind]) and (kind == "flag" or not isinstance(value, bool))
    if kind in ("integer", "number"):
        if not fits or not isinstance(value, int | float) or not about["least"] <= value <= about["most"]:
            fix = f"{'a whole number' if kind == 'integer' else 'a number'} from {about['least']} to {about['most']}"
            raise ConfigError(f"{where} is {printable(value, 80)!r}", fix)
        return value if kind == "integer" else float(value)
    if not fits or not isinstance(value, bool | str) or (kind == "word" and value not in about["choices"]):
        right = {"word": f"one of {', '.join(about.get('choices', ()))}", "flag": "true or false"}
        raise ConfigError(f"{where} is {printable(value, 80)!r}", right.get(kind, "the name of a column"))
    if isinstance(value, str) and (len(value) > _LONGEST_COLUMN or printable(value) != value):
        raise ConfigError(f"{where} has control characters, or is too long", "rename the column in every party's data")
    return value


def _table(value: object, where: str, needed: Sequence[str], more: Sequence[str] = ()) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} is no table", "{...} in JSON")
    unknown = [key for key in value if key not in (*needed, *more)]
    missing = [key for key in needed if key not in value]
    if unknown or missing:
        fault = f"has a key {printable(unknown[0], 80)!r}" if unknown else f"lacks {missing[0]!r}"
        raise ConfigError(f"{where} {fault}", f"its keys are {', '.join((*needed, *more))}")
    return value


def _text(value: object, where: str) -> None:
    if not isinstance(value, str) or not 1 <= len(value) <= _LONGEST_TEXT or printable(value) != value:
        raise ConfigError(f"{where} is no sentence", f"a text of 1 to {_LONGEST_TEXT} characters that can be shown")


def _named(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict) or len(value) > _MOST_OPTIONS:
        raise ConfigError(f"{where} is no table of at most {_MOST_OPTIONS}", '{"NAME": {...}}')
    for name in value:
        if _WORD.fullmatch(name) is None or name in PUBLIC:
            fix = f"lower-case letters, digits and _, and none of {', '.join(PUBLIC)}"
            raise ConfigError(f"{where}: {printable(name, 80)!r} is no name", fix)
    return value


def _listed(value: object, where: str, most: int) -> list[Any]:
    if not isinstance(value, list) or not 1 <= len(value) <= most:
        raise ConfigError(f"{where} is no list of 1 to {most}", "[{...}, ...]")
    return value


def _expect_option(task: str, name: str, value: object) -> None:
    where = f"the option {name} of {task}"
    about = _table(value, where, ("kind", "help"), ("default", "least", "most", "choices"))
    _text(about["help"], f"{where}, help")
    kind = about["kind"]
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ConfigError(f"{where} has no known kind", f"one of {', '.join(_KINDS)}")
    numeric = kind in ("integer", "number")
    bounded = {"least": numeric, "most": numeric, "choices": kind == "word"}
    if any((key in about) != needed for key, needed in bounded.items()):
        fix = "integer and number have least and most, word has choices, flag and column have neither"
        raise ConfigError(f"{where} is not bounded as its kind asks", fix)
    for key in ("least", "most") if numeric else ():
        if not _is_number(about[key]) or (kind == "integer" and not isinstance(about[key], int)):
            raise ConfigError(f"{where}: {key} is no finite {kind}", f'"{key}": 1, say')
    for choice in _listed(about["choices"], f"{where}, choices", 64) if kind == "word" else ():
        _text(choice, f"{where}, choices")
    if "default" in about:
        option_value(task, name, about, about["default"])


def _is_number(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and abs(value) < 2**53  # type: ignore[arg-type]


def _expect_steps(value: object, where: str, known: Collection[str]) -> None:
    seen: list[str] = []  # every name so far
    outer: list[str] = []  # bounds among them, whose power of two may be the unit of a total after them
    for each in _listed(value, f"{where}, steps", _MOST_STEPS):
        if not isinstance(each, dict) or "repeat" not in each:
            _expect_step(each, where, known, seen, outer)
            continue
        _table(each, f"{where}, repeat", ("repeat", "most", "steps"))
        _step_name(each["repeat"], where, seen)
        expect_size(each["most"], known, f"{where}, most of {each['repeat']!r}")
        bounds: list[str] = []
        for inner in _listed(each["steps"], f"{where}, steps of {each['repeat']!r}", _MOST_STEPS):
            _expect_step(inner, where, known, seen, bounds)


def _expect_step(value: object, where: str, known: Collection[str], seen: list[str], bounds: list[str]) -> None:
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind not in _SUMS:
        fix = f"{', '.join(_SUMS)}, or a repeat of these"
        raise ConfigError(f"{where}: a step of kind {printable(kind, 40)!r}", fix)
    total, sized = kind == StepKind.TOTAL, kind != StepKind.BOUND
    keys = ("name", "kind", "says", *(("size",) if sized else ()), *(("bits",) if total else ()))
    step = _table(value, f"{where}, a step", keys, ("unit",) if total else ())
    _step_name(step["name"], where, seen)
    _text(step["says"], f"{where}, step {step['name']!r}, says")
    if sized:
        expect_size(step["size"], known, f"{where}, step {step['name']!r}")
    bits = step.get("bits", 1)
    if not isinstance(bits, int) or isinstance(bits, bool) or not 1 <= bits <= _MOST_BITS:
        raise ConfigError(f"{where}: step {step['name']!r} has no number of bits", f"1 to {_MOST_BITS}")
    if "unit" in step and step["unit"] not in bounds:
        fix = "name a bound of the same list"
        raise ConfigError(f"{where}: the unit of step {step['name']!r} is no bound before it", fix)
    if not sized:
        bounds.append(step["name"])


def _step_name(value: object, where: str, seen: list[str]) -> None:
    if not isinstance(value, str) or len(value) > 40 or _STEP.fullmatch(value) is None or value in seen:
        fix = "lower-case words, up to 40 letters, every step another one"
        raise ConfigError(f"{where}: {printable(value, 40)!r} is no name of a step", fix)
    seen.append(value)


def _expect_outputs(value: object, where: str, known: Collection[str]) -> None:
    names: list[str] = []
    for each in _listed(value, f"{where}, outputs", _MOST_OUTPUTS):
        output = _table(each, f"{where}, an output", ("name", "axes", "size", "says"))
        name, axes, sizes = output["name"], output["axes"], output["size"]
        if not isinstance(name, str) or _WORD.fullmatch(name) is None or name in (*names, *_RESERVED):
            raise ConfigError(f"{where}: {printable(name, 40)!r} is no name of an output", "lower-case letters and _")
        names.append(name)
        _text(output["says"], f"{where}, output {name!r}, says")
        fits = isinstance(axes, list) and isinstance(sizes, list) and 1 <= len(axes) == len(sizes) <= _MOST_AXES
        if not fits or not all(isinstance(axis, str) and _WORD.fullmatch(axis) and axis != "record" for axis in axes):
            raise ConfigError(f"{where}: output {name!r} has no axes", f"1 to {_MOST_AXES} names, and as many sizes")
        for size in sizes:
            expect_size(size, known, f"{where}, output {name!r}")
