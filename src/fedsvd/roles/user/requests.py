"""What a task asks of its role: the steps between which a user waits for somebody else.

A task is a script, a generator that reads like the protocol's page: it yields one of these, and gets the answer back
when it has come. Which message may bring the answer, from whom and in which state, is the role's table; a script
cannot widen it.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from fedsvd.types import Array, Float


@dataclass(frozen=True, repr=False)
class Local:
    """Work at home: a pass over the data. Answer: what ``work`` returns."""

    label: str
    work: Callable[[], Any]


@dataclass(frozen=True, repr=False)
class Sum:
    """A users-only sum of ``values``. Answer: the total, or None at a user who is not the one receiver.

    Without ``bound`` the numbers may have any magnitude and the sum is exact. With it, no share's entry exceeds the
    bound, which all users know, and a value costs one word instead of 67.
    """

    name: str
    values: Float
    bound: float | None = None
    receiver: int | None = None  # one user may read it; None means all


@dataclass(frozen=True, repr=False)
class Upload:
    """Y_i, panel by panel. Answer: what the CSP says of the sum, ``Factors`` or ``Solution``."""

    panel: Callable[[int], Array]
    bounds: tuple[float, float]  # of an entry of the matrix, and of the labels beside it


@dataclass(frozen=True, repr=False)
class Signs:
    """The signs of the columns of U, decided by user 1. Answer: the signs all users take."""

    U: Float


@dataclass(frozen=True, repr=False)
class Recover:
    """Eq. 6 through the CSP. Answer: ``[Vt_i]^R``, window by window."""

    Qt_i_blinded: tuple[Float | None, ...]


@dataclass(frozen=True, repr=False)
class Fetch:
    """One window of a U' too long to be told at once. Answer: its rows."""

    panel: int
    r: int


Request = Local | Sum | Upload | Signs | Recover | Fetch
Script = Generator[Request, Any, Any]
