"""What a task asks of its role: the steps between which a user waits for another party.

A task is a script, a generator that reads like the specification: it yields one of these, and gets the answer back when
it has come. Which message may bring the answer, from whom and in which state, is the role's transition table; a script
cannot widen it. All of a script runs in ``Compute`` effects (``protocol/machine.py``), what stands between its requests
too; ``Local`` is for what is worth a name in the progress and in the times of the stages.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from fedsvd.secagg.pads import Pads
from fedsvd.types import Ring

ASK_ITS_OWNER = "nothing is released; run again, and ask the owner of that party if it repeats"
"""What to do where a number that one party sent to the others does not pass its check."""
SCALE_DOWN = "take a larger unit of measurement for what is so large: NAME = { factor = 0.001 } in the map of the table"
SCALE_UP = "take a smaller unit of measurement for what is so small: NAME = { factor = 1000 } in the map of the table"


@dataclass(frozen=True, repr=False)
class Local:
    """A local computation, such as a pass over the data. Answer: what ``work`` returns."""

    label: str
    work: Callable[[], Any]


@dataclass(frozen=True, repr=False)
class Sum:
    """A sum of the plan. ``share`` makes this user's numbers of one batch, encoded as the sum's kind says.

    Answer: the opened total, batches joined, or None at a user who is not its one receiver; or what ``read`` makes of
    it, once for all users of one process, by whom it must not be changed.
    """

    name: str
    share: Callable[[int], Ring]
    read: Callable[[Ring], Any] | None = None


@dataclass(frozen=True, repr=False)
class Upload:
    """This user's share as uint64, batch by batch. Answer: the CSP's, ``Factors`` or ``Solution``.

    ``padded`` makes a batch with its pads, where they can be put on while its words are still in a cache.
    """

    batch: Callable[[int], Ring]
    count: int
    padded: Callable[[int, Pads], Ring] | None = None


@dataclass(frozen=True, repr=False)
class Common:
    """Bytes that user 1 decides for all, as many as the plan says, sealed to the group. Answer: these bytes."""

    purpose: str
    make: Callable[[], bytes]  # called at user 1 alone


@dataclass(frozen=True, repr=False)
class Fetch:
    """One panel of a U' too long for one message. Answer: its rows."""

    panel: int
    r: int


@dataclass(frozen=True, repr=False)
class Multiply:
    """Columns under P, panel by panel: the last times the others. Answer: the products, at the label holder alone."""

    batch: Callable[[int], Ring]
    count: int


@dataclass(frozen=True, repr=False)
class Commit:
    """A commitment to what this user brings, sealed to all, where no sum carries it. Answer: None, when all came."""

    commitment: bytes


@dataclass(frozen=True, repr=False)
class Witness:
    """Something that all users hold, for the digest they compare at the end. Answer: None."""

    name: str
    content: bytes


@dataclass(frozen=True, repr=False)
class Compare:
    """A set of ids, hashed or blinded, for the CSP to match. Answer: the places of the common ones, (rows,)."""

    hashed: Ring  # (ids, 2), or (ids, 4) for points


@dataclass(frozen=True, repr=False)
class Give:
    """Bytes for one other user, sealed to it. Answer: None, at once."""

    to: int  # counted from 0
    content: bytes


@dataclass(frozen=True, repr=False)
class Take:
    """The next bytes that another user gives this one. Answer: these bytes."""

    origin: int  # counted from 0
    size: int


Request = Local | Sum | Upload | Common | Fetch | Multiply | Commit | Witness | Compare | Give | Take
Script = Generator[Request, Any, Any]
