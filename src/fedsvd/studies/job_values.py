"""The values that keys of a job file may have: names, columns, counts, amounts of bytes, numbers of components.

Each is checked as the file is parsed, and a fault names what would be right. The sections that have these keys are in
``job_file.py``.
"""

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, StrictInt, StringConstraints, WithJsonSchema

from fedsvd.protocol.parties import NAME
from fedsvd.protocol.tasks import RENAMED, ComponentRule, Scheme, Task, is_rule
from fedsvd.studies.job_faults import one_of
from fedsvd.studies.match_section import MOST_ID_COLUMNS

TASKS = (Task.SVD, Task.PCA, Task.LSA, Task.LR, Task.GLM, Task.CCA, Task.PCR)
SCHEMES = ("auto", *Scheme)
_MOST_LABELS = 1000
_LONGEST_NAME = 1000  # characters of a column's name; survey tools make whole questions of them
_LONGEST_PLACE = 4000
_LARGEST_COUNT = 2**48
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def bytes_of(text: object) -> object:
    """A number of bytes, from a whole number or a text such as ``"512 MiB"``; anything else as it is."""
    if not isinstance(text, str):
        return text
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?|)b?\s*", text.lower())
    if found is None or found[2] not in _UNITS:
        raise ValueError('a number of bytes, or a text such as "512 MiB" or "2 GB"')
    return int(min(float(found[1]) * _UNITS[found[2]], 2.0 * _LARGEST_COUNT))


def scheme_of(value: object) -> object:
    """A scheme's name; one of protocol 1 is answered with the name that took its place."""
    if isinstance(value, str) and value in RENAMED:
        raise ValueError(f'{value!r} is a scheme of protocol 1: write scheme = "{RENAMED[value]}"')
    return one_of(value, SCHEMES)


Name = Annotated[str, StringConstraints(pattern=NAME, max_length=64)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=_LONGEST_PLACE)]
Column = Annotated[str, StringConstraints(min_length=1, max_length=_LONGEST_NAME)]
_ONE = {"type": "string", "minLength": 1, "maxLength": _LONGEST_NAME}
_NAMES = {"anyOf": [_ONE, {"type": "array", "items": _ONE, "maxItems": _MOST_LABELS}]}
Columns = Annotated[
    tuple[Column, ...],
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
    Field(max_length=_MOST_LABELS),
    WithJsonSchema(_NAMES),
]
IdColumns = Annotated[
    Column | Annotated[tuple[Column, ...], Field(min_length=2, max_length=MOST_ID_COLUMNS)],
    BeforeValidator(lambda value: value[0] if isinstance(value, list | tuple) and len(value) == 1 else value),
    WithJsonSchema({"anyOf": [_ONE, {"type": "array", "items": _ONE, "minItems": 1, "maxItems": MOST_ID_COLUMNS}]}),
]
Count = Annotated[StrictInt, Field(ge=1, le=_LARGEST_COUNT)]
_AMOUNT = {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "examples": ["512 MiB"]}]}
Bytes = Annotated[StrictInt, BeforeValidator(bytes_of), Field(ge=1, le=_LARGEST_COUNT), WithJsonSchema(_AMOUNT)]


def components_of(value: object) -> object:
    """A number of components, or a rule that finds it, as text; anything else is refused with what would be right."""
    whole = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _LARGEST_COUNT
    if whole or (isinstance(value, str | float) and is_rule(str(value))):
        return value if whole else str(value)
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
Components = Annotated[StrictInt | str, BeforeValidator(components_of), WithJsonSchema(_COUNTED)]
