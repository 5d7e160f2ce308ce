"""The few type aliases that all packages share, and how a number of bytes is written for a person.

Shapes are not part of a type: they stand in docstrings and are checked once, at the entry of a package, by
``expect_shape``. ``Array`` is an array of whatever namespace the caller computes in (NumPy, PyTorch,
CuPy); ``Float`` and ``Ring`` are always NumPy.
"""

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, NewType

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import ShapeError

Float = NDArray[np.float64]
Ring = NDArray[np.uint64]
Array = Any

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}

# A function over pieces of work, as ``map`` has it; a runtime may bring one that several threads share.
Each = Callable[[Callable[[int], None], Iterable[int]], Iterable[None]]

# The value of an option, as JSON has it.
Scalar = str | int | float | bool

Digest = NewType("Digest", str)
SessionId = NewType("SessionId", str)


def byte_unit(count: float) -> tuple[str, int]:
    """The unit in which a number of bytes is shown, and its bytes: one of those that ``memory`` is written in."""
    scale = 1
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1023.95 * scale:  # what rounds to 1024.0 is 1.0 of the next unit
            return unit, scale
        scale *= 1024
    return "TiB", scale


def byte_size(count: float) -> str:
    """A number of bytes for a person, in the units that ``memory = "2 GiB"`` is written in: ``3.2 MiB``."""
    unit, scale = byte_unit(count)
    return f"{count:.0f} B" if scale == 1 else f"{count / scale:.1f} {unit}"


def enough_bytes(count: int) -> str:
    """The least memory to allow, ``count`` bytes: in whole MiB for a job file, and exactly for Python."""
    return f"{-(-count // 2**20)} MiB ({count} bytes)"


def bytes_of(text: object) -> object:
    """A number of bytes, from a whole number or a text such as ``"512 MiB"``; anything else as it is."""
    if not isinstance(text, str):
        return text
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?|)b?\s*", text.lower())
    if found is None or found[2] not in _UNITS:
        raise ValueError('a number of bytes, or a text such as "512 MiB" or "2 GB"')
    return int(min(float(found[1]) * _UNITS[found[2]], 2.0**49))  # more than any limit, and still an integer


def expect_shape(name: str, array: Array, *shape: int) -> None:
    """Raise ``ShapeError`` unless ``array`` has exactly this shape."""
    if tuple(array.shape) != shape:
        raise ShapeError(f"{name} has shape {tuple(array.shape)}, expected {shape}")


def near(word: object, words: Iterable[object]) -> str:
    """The question whether a word like this was meant, or nothing: the end of a fix."""
    found = closest(word, words)
    return f"; did you mean {found!r}?" if found is not None else ""


def as_fix(fault: str) -> str:
    """What a checker of values says of one that does not fit, as a fix: what to give in its place."""
    text = fault.removeprefix("Value error, ")
    if not text.startswith("Input should be "):
        return text
    text = text.removeprefix("Input should be ").partition(", unable")[0].replace("valid ", "").replace("tuple", "list")
    bounds = {"greater than or equal to": "from {} up", "less than or equal to": "up to {}"}
    bounds |= {"greater than": "above {}", "less than": "below {}"}
    for words, said in bounds.items():
        if text.startswith(words):
            return f"give a number {said.format(text.removeprefix(words).strip())}"
    return f"give {text}"


def closest(word: object, words: Iterable[object]) -> str | None:
    """The one of these words that is this one but for case and blanks, or nearly this one; None where none is."""
    known = [str(each) for each in words]
    same = [each for each in known if each.strip().casefold() == str(word).strip().casefold()]
    return next(iter(same or get_close_matches(str(word), known, n=1, cutoff=0.6)), None)
