"""The smallest block width that resists: the paper's advice to users, followed with an attack that sees more.

The paper suggests to run ICA on one's own data and to choose b so that it fails. Here every width is attacked over
several runs, on both sides, and resists when the p-values are uniform. A width that resists these attacks has not been
shown to be safe: tile spectra and known columns do not care how wide a block is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsvd.lab.attacks.calibration import LEVEL, side_p_values
from fedsvd.lab.attacks.score import uniformity
from fedsvd.lab.attacks.view import record_tables
from fedsvd.lab.audit.subject import Audited
from fedsvd.protocol.tasks import Item

WIDTHS = (10, 20, 50, 100, 200, 500, 1000)
_REPEATS = 5


@dataclass(frozen=True)
class Width:
    """A block width and the uniformity of p-values under it."""

    b: int
    uniformity: float

    @property
    def resists(self) -> bool:
        return self.uniformity >= LEVEL


def attacked_widths(subject: Audited, go_on: Callable[[int], bool]) -> list[Width]:
    """Every width, the smallest first, as long as ``go_on`` says so; the first that makes one block of all is last.

    A width whose runs were broken off is not among them.
    """
    X = subject.X
    tables = [X[:, half].T for half in np.array_split(np.arange(X.shape[1]), 2)]
    release: dict[str, Any] = {"components": 1, "release": (Item.COMPONENTS, Item.SPECTRUM)}
    found: list[Width] = []
    for b in WIDTHS:
        p: dict[str, list[float]] = {}
        for repeat in range(_REPEATS):
            if not go_on(b):
                return found
            run = record_tables(tables, scheme="paper", block_size=b, random_state=repeat, **release)
            for side, value in side_p_values(run.csp.Y, X, b, repeat).items():
                p.setdefault(side, []).append(value)
        found.append(Width(b, min(uniformity(np.array(values)) for values in p.values())))
        if b >= max(X.shape):
            break
    return found


def smallest_that_resists(widths: list[Width]) -> int | None:
    """The smallest width from which on all that were attacked resist."""
    smallest = None
    for width in reversed(widths):
        if not width.resists:
            break
        smallest = width.b
    return smallest
