"""TOML files that people write (job.toml, site.toml, policy.toml): read, or one error with line, cause and fix."""

import tomllib
from pathlib import Path
from typing import Any

from fedsvd.errors import ConfigError

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
