"""The engine of a role: a table of (state, message, who may say it, handler, where it may lead).

Laws of this file. A missing row *is* the error: the session aborts and nothing else changes. The digest of the plan is
compared before anything is read. A handler decides, the table permits: a handler that leads where its row does not
is a defect of ours, not of a peer. A session that is done or aborted hears nothing more.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from fedsvd.errors import FedSVDError, LocalProtocolError, PeerAborted, PlanMismatch, UnexpectedMessage
from fedsvd.protocol.effects import Abort, Effect
from fedsvd.protocol.messages import Aborted, Message
from fedsvd.protocol.parties import Party, Role
from fedsvd.protocol.plan import SessionPlan

Step = tuple[Enum, tuple[Effect, ...]]


@dataclass(frozen=True)
class Row:
    """One thing that may happen: in ``state``, ``message`` from ``speaker`` goes to ``handler`` and leads on."""

    state: Enum
    message: type[Message]
    speaker: Role
    handler: Callable[..., Step]
    leads_to: frozenset[Enum]


Table = Mapping[tuple[Enum, type[Message], Role], Row]


def table(*rows: tuple[Enum, type[Message], Role, Callable[..., Step], set[Any]]) -> Table:
    """The rows, by what can be looked up; the same thing may not be permitted twice."""
    built: dict[tuple[Enum, type[Message], Role], Row] = {}
    for state, message, speaker, handler, leads_to in rows:
        if (state, message, speaker) in built:
            raise LocalProtocolError(f"two rows for {state.name}, {message.__name__}, {speaker}")
        built[state, message, speaker] = Row(state, message, speaker, handler, frozenset(leads_to))
    return built


class Machine:
    """A role in one session. Subclasses give ``TABLE``, ``STATES`` with NEW, DONE and ABORTED, and handlers."""

    TABLE: ClassVar[Table]
    STATES: ClassVar[type[Enum]]

    def __init__(self, me: Party, plan: SessionPlan) -> None:
        self.me = me
        self.plan = plan
        self.state: Enum = self.STATES["NEW"]
        self.failure: FedSVDError | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.me}, {self.state.name})"

    @property
    def over(self) -> bool:
        """Whether the session has ended here, well or badly."""
        return self.state in (self.STATES["DONE"], self.STATES["ABORTED"])

    def receive(self, sender: Party, message: Message) -> tuple[Effect, ...]:
        """What follows from ``sender`` saying ``message``; an ``Abort`` when the table does not permit it."""
        if self.over:
            return ()
        try:
            row = self._permitted(sender, message)
            state, effects = row.handler(self, sender, message)
        except FedSVDError as error:
            return self._abort(error)
        if state not in row.leads_to:
            return self._abort(LocalProtocolError(f"{row.handler.__name__} led to {state.name}"))
        self.state = state
        return effects

    def _permitted(self, sender: Party, message: Message) -> Row:
        if message.plan != self.plan.digest:
            raise PlanMismatch(f"{sender} speaks of another plan", "all parties must load the same job file")
        if isinstance(message, Aborted):
            raise PeerAborted(f"{sender} stopped in {message.stage} with {message.code}")
        row = self.TABLE.get((self.state, type(message), sender.role))
        # Its own role a party hears from its own runtime alone: users do not talk to users except in sealed messages.
        stranger = sender not in self.plan.parties or (sender.role is self.me.role and sender != self.me)
        if row is None or stranger:
            raise UnexpectedMessage(f"{type(message).__name__} from {sender} in state {self.state.name}")
        return row

    def fail(self, error: FedSVDError) -> tuple[Effect, ...]:
        """The runtime reports that a computation of ours failed, or that a peer is gone."""
        return () if self.over else self._abort(error)

    def _abort(self, error: FedSVDError) -> tuple[Effect, ...]:
        self.failure = error
        self.stage = self.state.name
        self.state = self.STATES["ABORTED"]
        return (Abort(error),)
