"""All options of all surfaces, in the order of the reference page, and who heeds which.

To add an option: one row in a table of this package, the script that reads it, one field of an estimator.
"""

import json
from collections.abc import Callable

from pydantic import TypeAdapter, ValidationError

from fedsvd.errors import ConfigError
from fedsvd.protocol.tasks import Task
from fedsvd.tasks.describe_options import DESCRIBE
from fedsvd.tasks.dictionary_options import DICTIONARY
from fedsvd.tasks.foreign_options import FOREIGN
from fedsvd.tasks.model_options import MODEL
from fedsvd.tasks.option import Option
from fedsvd.tasks.study_options import FACTORISATION, MASKS, STUDY
from fedsvd.tasks.survival_options import SURVIVAL
from fedsvd.tasks.table_options import MATCH, PREPARE
from fedsvd.types import Scalar, as_fix

OPTIONS: tuple[Option, ...] = (
    *STUDY,
    *MODEL,
    *SURVIVAL,
    *DESCRIBE,
    *FACTORISATION,
    *DICTIONARY,
    *MATCH,
    *PREPARE,
    *MASKS,
    *FOREIGN,
)


def section_of(name: str) -> tuple[Option, ...]:
    """The options of one table of a job file; those of no table for an empty name."""
    return tuple(option for option in OPTIONS if option.section == name)


def option_of(section: str, key: str) -> Option:
    """One option by its place in a job file."""
    return next(option for option in section_of(section) if option.key == key)


def applies(key: str, task: Task) -> bool:
    """Whether a study of this task may say something by this key of ``[job]``."""
    return task in option_of("job", key).tasks


def named_columns(name: str, section: object) -> tuple[str, ...]:
    """The columns that this table of a job file names: one, several or none by an option."""
    values = (getattr(section, option.key) for option in section_of(name) if option.columns)
    return tuple(
        text for value in values if value is not None for text in ((value,) if isinstance(value, str) else value)
    )


def scripted(
    task: Task, value_of: Callable[[Option], object], options: tuple[Option, ...] = OPTIONS
) -> tuple[tuple[str, Scalar], ...]:
    """The options that the script of this task alone reads, with their values, as a plan has them."""
    return tuple(
        (option.key, _checked(option, value_of(option))) for option in options if option.script and task in option.tasks
    )


def completed(
    task: Task, given: tuple[tuple[str, Scalar], ...], options: tuple[Option, ...] = OPTIONS
) -> tuple[tuple[str, Scalar], ...]:
    """Those that were given, and defaults of the others: a script finds each of its options in the plan."""
    return tuple(sorted({**dict(scripted(task, lambda option: option.default, options)), **dict(given)}.items()))


def _checked(option: Option, value: object) -> Scalar:
    """A value as a job file would have it: estimators, too, are held to the kind of the option."""
    try:
        found = TypeAdapter(option.kind.schema).validate_python(value)
    except ValidationError as fault:
        text = fault.errors(include_url=False, include_context=False, include_input=False)[0]["msg"]
        raise ConfigError(f"{option.key} is not usable", as_fix(text)) from None
    if isinstance(found, tuple):
        return json.dumps(found)  # a plan has texts and numbers
    if not isinstance(found, Scalar):
        raise ConfigError(f"{option.key} is no single value", "a script takes texts, numbers, true or false")
    return found
