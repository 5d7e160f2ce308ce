"""Addresses of matrices that are made, not read: ``SCHEME://ROWSxCOLUMNS?key=value&key=value``.

A misspelt key is an error that names those there are. Numbers are written as Python writes them, with underscores if
one likes (``1000x50_000_000``); a run ``a:b`` counts from 0, without its end, and either end may be left out.
"""

import math
import re
from urllib.parse import parse_qsl

from fedsvd.errors import ConfigError


class Address:
    """One address, taken apart; what is asked of it must be a value of the kind asked for."""

    def __init__(self, text: str, scheme: str, keys: tuple[str, ...]) -> None:
        self._text, self._scheme = text, scheme
        body, _, query = text.removeprefix(scheme).partition("?")
        shape = re.fullmatch(r"([\d_]+)x([\d_]+)", body.rstrip("/"))
        if shape is None or not all(side.strip("_") and int(side) > 0 for side in shape.groups()):
            raise ConfigError(f"{text} names no shape", f"{scheme}1000x100000?seed=7, say")
        self.shape = int(shape[1]), int(shape[2])
        pairs = parse_qsl(query, keep_blank_values=True)
        self._values = dict(pairs)
        for key, _value in pairs:
            if key not in keys:
                raise ConfigError(f"{text}: {key[:40]!r} is not a setting", f"one of {', '.join(keys)}")
        if len(self._values) < len(pairs):
            raise ConfigError(f"{text} has a setting twice", "leave one of them out")
        self._heard: dict[str, str] = {}

    def whole(self, key: str, default: int) -> int:
        """A whole number, 0 or more."""
        value = self._values.get(key, str(default))
        if not re.fullmatch(r"\d[\d_]*", value):
            raise self._wrong(key, "a whole number, 0 or more")
        self._heard[key] = str(int(value))
        return int(value)

    def number(self, key: str, default: float) -> float:
        """A finite number, 0 or more."""
        try:
            value = float(self._values.get(key, default))
        except ValueError:
            value = math.nan
        if not 0 <= value < math.inf:
            raise self._wrong(key, "a finite number, 0 or more")
        self._heard[key] = repr(value)
        return value

    def text(self, key: str) -> str | None:
        """A word, or None where it was left out."""
        value = self._values.get(key)
        if value is not None and not value.strip():
            raise self._wrong(key, "a name")
        self._heard[key] = value or ""
        return value

    def run(self, key: str, length: int) -> tuple[int, int]:
        """A run inside ``0 .. length``; all of it where it was left out."""
        found = re.fullmatch(r"([\d_]*):([\d_]*)", self._values.get(key, ":"))
        first, last = (int(found[1] or 0), int(found[2] or length)) if found else (0, 0)
        if not 0 <= first < last <= length:
            raise self._wrong(key, f"a run such as 0:{length}, not empty and not beyond {length}")
        self._heard[key] = f"{first}:{last}"
        return first, last

    def canonical(self) -> str:
        """The address with every setting that was asked for, in one order and spelling."""
        settings = "&".join(f"{key}={value}" for key, value in sorted(self._heard.items()))
        return f"{self._scheme}{self.shape[0]}x{self.shape[1]}?{settings}"

    def _wrong(self, key: str, fix: str) -> ConfigError:
        return ConfigError(f"{self._text}: {key} is {self._values.get(key, '')[:40]!r}", fix)
