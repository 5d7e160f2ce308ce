"""Columns of a formula on the scale of the table: a logarithm or a root of a column has that column's unit.

Another unit moves a logarithm by a constant, which is seldom three deviations: bilirubin in umol/L moves ``log(bili)``
by 2.8 where its deviation is 1. The geometric mean moves by the factor itself, and a map names columns of the table.
"""

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fedsvd.types import Float

_FUNCTION = re.compile(r"(\w+)\(([^()]*)\)")
_MOST = 700.0  # beyond, an exponential is no number
_BASES = {"log": np.e, "log2": 2.0, "log10": 10.0}
_PLAIN = re.compile(r"[^\W\d][\w.]*")


def column_of(name: str) -> str:
    """The column of the table that a column of a formula is a function of; the name itself where it is none."""
    found = _FUNCTION.fullmatch(name)
    inner = None if found is None else _PLAIN.match(found[2].strip())
    return name if found is None or inner is None or found[1] == "C" else inner[0]


def is_product(name: str, names: Sequence[str]) -> bool:
    """Whether a column multiplies others that are here too, and says no more of a unit than they do."""
    parts = name.split(":")
    return len(parts) > 1 and name not in parts and any(part in names for part in parts)


def on_own_scale(names: Sequence[str], means: Float, deviations: Float | None) -> tuple[Float, Float | None]:
    """Geometric means of logarithms and squares of roots, with deviations to first order."""
    means, spread = means.copy(), None if deviations is None else deviations.copy()
    for j, (invert, slope) in enumerate(map(_inverse, names)):
        if invert is not None and slope is not None:
            factor = slope(means[j])
            means[j] = invert(means[j])
            if spread is not None:
                spread[j] *= factor
    return means, spread


_Function = Callable[[NDArray[np.float64] | float], float]


def _inverse(name: str) -> tuple[_Function | None, _Function | None]:
    """What undoes the function that a column is of, and its slope there."""
    found = _FUNCTION.fullmatch(name)
    word = "" if found is None else found[1]
    if word in _BASES:
        scale = float(np.log(_BASES[word]))

        def exponential(value: NDArray[np.float64] | float) -> float:
            return float(np.exp(np.clip(scale * value, -_MOST, _MOST)))

        return exponential, lambda value: scale * exponential(value)
    if word == "sqrt":
        return lambda value: float(value**2), lambda value: float(2.0 * abs(value))
    return None, None
