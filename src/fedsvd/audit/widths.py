"""The smallest block width that resists: the paper's advice to users, followed with an attack that sees more.

The paper suggests to run ICA on one's own data and to choose b so that it fails. Here every width is attacked over
several runs, on both sides, and resists when the p-values are uniform. A width that resists these attacks has not been
shown to be safe: tile spectra and known columns do not care how wide a block is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsvd.audit.attacks.calibration import LEVEL, side_p_values
from fedsvd.audit.attacks.score import uniformity
from fedsvd.audit.attacks.view import record_tables
from fedsvd.audit.subject import Audited
from fedsvd.protocol.tasks import Item

WIDTHS = (10, 20, 50, 100, 200, 500, 1000)
_REPEATS = 4


@dataclass(frozen=True)
class Width:
    """A block width and the uniformity of p-values under it."""

    b: int
    uniformity: float

    @property
    def resists(self) -> bool:
        return self.uniformity >= LEVEL


def attacked_widths(subject: Audited, go_on: Callable[[int], bool]) -> list[Width]:
    """Widths between those that fall and those that resist, by halves, as long as ``go_on`` says so; in order.

    A wider block hides more, so half of the widths need no runs. None is wider than the first that makes one block of
    all, and a width whose runs were broken off is not among them.
    """
    widths = [b for n, b in enumerate(WIDTHS) if n == 0 or WIDTHS[n - 1] < max(subject.X.shape)]
    found: list[Width] = []
    low, high = 0, len(widths) - 1
    while low <= high:
        middle = (low + high) // 2
        width = _attacked(subject, widths[middle], go_on)
        if width is None:
            break
        found.append(width)
        low, high = (low, middle - 1) if width.resists else (middle + 1, high)
    return sorted(found, key=lambda width: width.b)


def _attacked(subject: Audited, b: int, go_on: Callable[[int], bool]) -> Width | None:
    X = subject.X
    tables = [X[:, half].T for half in np.array_split(np.arange(X.shape[1]), 2)]
    release: dict[str, Any] = {"components": 1, "release": (Item.COMPONENTS, Item.SPECTRUM)}
    p: dict[str, list[float]] = {}
    for repeat in range(_REPEATS):
        if not go_on(b):
            return None
        run = record_tables(tables, scheme="paper", block_size=b, random_state=repeat, **release)
        for side, value in side_p_values(run.csp.Y, X, b, repeat).items():
            p.setdefault(side, []).append(value)
    return Width(b, min(uniformity(np.array(values)) for values in p.values()))


def smallest_that_resists(widths: list[Width]) -> int | None:
    """The smallest width from which on all that were attacked resist."""
    smallest = None
    for width in reversed(widths):
        if not width.resists:
            break
        smallest = width.b
    return smallest
