"""Effects: what a state machine wants done, as data. It owns no socket, clock, thread or logger."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedsvd.errors import FedSVDError
from fedsvd.protocol.messages import Message
from fedsvd.protocol.parties import Party


@dataclass(frozen=True)
class Send:
    """Send this to that party."""

    to: Party
    message: Message


@dataclass(frozen=True)
class Compute:
    """Run this, wherever the player likes, and give the value back as ``Computed(label, value)``."""

    label: str
    work: Callable[[], Any]


@dataclass(frozen=True)
class Finish:
    """The role is done; this is its result."""

    result: Any


@dataclass(frozen=True)
class Abort:
    """The session is over here, and why."""

    error: FedSVDError


Effect = Send | Compute | Finish | Abort
