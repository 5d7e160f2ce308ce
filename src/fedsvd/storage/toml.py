"""TOML files that people write (job.toml, site.toml, policy.toml): read, or one error with line, cause and fix.

A running service must notice that its owner has changed a file; ``Reread`` parses a file once, and again only then.
"""

import json
import re
import threading
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args

from fedsvd.errors import ConfigError
from fedsvd.types import as_fix, near

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

# How Python's parser begins what it has to say, and what people usually did then.
_FIXES = (
    ("Invalid value", 'a text stands in quotes: key = "text"; true and false are written small'),
    ("Expected '=' after a key", "write key = value, one to a line"),
    ("Invalid statement", "write key = value, one to a line; comments begin with #"),
    ("Unescaped '\\'", "write paths with / instead of \\"),
    ("Invalid hex value", "write paths with / instead of \\"),
    ("Illegal character", "close the quotes on the line where they open"),
    ("Unterminated string", "close the quotes"),
    ("Unclosed array", "close the list with ]"),
    ("Cannot overwrite a value", "a key stands in its table twice: keep one of the two"),
    ("Cannot declare", "a table stands in the file twice: keep one of the two"),
    ("Expected ']", "close the name of the table: [table], or [[party]]"),
)


def read_toml(path: Path, example: str) -> dict[str, Any]:
    """The values in a TOML file; ``example`` is the page that shows one."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise ConfigError(f"there is no file {path}", "check the path") from None
        raise ConfigError(f"cannot read {path}: {error.strerror}", "let this user read the file") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text", "save the file as UTF-8") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        cause, _, place = str(error).removesuffix(")").partition(" (at ")
        if not place.startswith("line "):  # the parser does not count lines at the end of a file
            place = f"the end, line {len(text.splitlines()) or 1}"
        fix = next((fix for begins, fix in _FIXES if cause.startswith(begins)), f"see {example} for an example")
        raise ConfigError(f"{path} is not TOML: {cause} at {place}", fix) from None
    except (RecursionError, ValueError, OverflowError) as error:  # brackets in brackets; a date of no calendar
        fault = f"{path} cannot be read as TOML ({type(error).__name__})"
        raise ConfigError(fault, f"see {example} for an example") from None


T = TypeVar("T")
_Version = tuple[int, int, int, int] | None


class Reread(Generic[T]):
    """A file as it was parsed last; parsed anew after it was written to, replaced or removed."""

    def __init__(self, path: Path, read: Callable[[], T]) -> None:
        self._path = path
        self._read = read
        self._lock = threading.Lock()
        self._parsed: tuple[_Version, T] | None = None

    def get(self) -> T:
        """What the file says now."""
        with self._lock:
            version = self._version()
            if self._parsed is None or self._parsed[0] != version:
                self._parsed = version, self._read()
            return self._parsed[1]

    def _version(self) -> _Version:
        try:
            about = self._path.stat()
        except OSError:
            return None
        return about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def spelt_toml(record: Mapping[str, Any]) -> str:
    """A file that ``read_toml`` reads as this record: a table to each section, lists of tables as such."""
    lines: list[str] = []
    for name, section in record.items():
        for each in section if isinstance(section, list | tuple) else (section,):
            head = f"[[{name}]]" if isinstance(section, list | tuple) else f"[{name}]"
            lines += ["", head, *(f"{_spelt(key)} = {_value(value)}" for key, value in each.items())]
    return "\n".join(lines[1:]) + "\n"


def spelt_fields(record: Mapping[str, Any]) -> str:
    """A file that ``read_toml`` reads as this record, on one line for each key at its top."""
    return "".join(f"{_spelt(key)} = {_value(value)}\n" for key, value in record.items())


def _value(value: object) -> str:
    """A value on one line; JSON's texts, numbers and truth values are TOML's, its objects are not."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_spelt(str(key))} = {_value(each)}" for key, each in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    # TOML allows no control character that JSON leaves as it is: DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _spelt(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def first_fault(where: str, invalid: "ValidationError", model: "type[BaseModel]", example: str) -> ConfigError:
    """The first thing that is wrong with a file that people write: the key as they would point at it, and the fix."""
    faults = invalid.errors(include_url=False, include_context=False)
    # A misspelt key is unknown under one name and missing under the other; the first says more.
    fault = min(faults, key=lambda fault: fault["type"] != "extra_forbidden")
    place = [str(part) for part in fault["loc"]]
    key = ".".join(part if re.fullmatch(r"[\w-]+", part) else repr(part) for part in place) or "the file"
    if fault["type"] == "extra_forbidden":
        keys = _keys(model, place[:-1])
        known = f"the keys there are {', '.join(keys)}" if keys else f"see {example} for an example"
        return ConfigError(f"{key} in {where} is not a key", f"{known}{near(place[-1], keys)}")
    if fault["type"] == "missing":
        return ConfigError(f"{where} lacks {key}", f"see {example} for an example")
    return ConfigError(f"{key} in {where} is not usable", as_fix(fault["msg"]))


def _keys(model: "type[BaseModel]", place: list[str]) -> list[str]:
    """The keys of the table at this place of a file; none where it is not one of listed keys."""
    for part in place:
        field = model.model_fields.get(part)
        inner = _models(model if field is None else field.annotation)
        if not inner:
            return []
        model = inner[0]
    return list(model.model_fields)


def _models(annotation: Any) -> "list[type[BaseModel]]":
    """The tables that a type is made of."""
    if isinstance(annotation, type) and hasattr(annotation, "model_fields"):
        return [annotation]
    return [found for part in get_args(annotation) for found in _models(part)]
