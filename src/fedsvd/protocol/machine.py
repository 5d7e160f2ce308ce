"""State machines: how a role is written, and how tables, scripts, effects and the player fit together.

A role (the CSP, a user, the TA) is a state machine. It owns no socket, clock, thread, file or logger, and so the same
machine runs in a simulation, in a test that replays an order of messages, and between institutions.

*The transition table.* Rows of (state, message, who may send it, handler, states it may lead to). ``receive`` looks up
the row of the state the machine is in. A missing row is the error: the session aborts, and nothing else changes. So
what a peer can cause can be read off the table, and tests try every (state, message, sender) there is. The diagrams in
``docs/diagrams`` are made from the tables.

*Handlers.* A handler is given the sender and the message, and returns the next state and a tuple of effects. It checks
what is cheap to check, and decides. The table permits: a handler that leads where its row does not is a defect of ours,
not of a peer. A handler that raises a ``FedSVDError`` ends the session.

*Effects*. What the machine wants done, as data. ``Send``: a message for a party. ``Compute``: a computation, whose
value is given back to the machine (``computed``): it is no message, so that no peer can send one. ``Finish``: the
result. ``Abort``: the session is over here. Every long computation is a ``Compute``: masking, padding, opening,
decoding, sealing of long messages, checks of an answer, products. A handler does no more than add up shares as they
come. While a computation is under way the machine may receive other messages, where its table says so. Computations of
one machine are run one after the other, in the order in which it asked for them.

*Scripts* (``roles/user``). What a user does depends on the task, and would be unreadable as rows. So a task is a
script: a generator that reads like the specification, yields a request for what it needs next (a sum, an upload, rows
of U', a local computation), and is sent the answer when that has come. The user turns each request into a state and
effects (``User._ask``), and runs the script on, inside a ``Compute``, when its answer is there. A script asks; the
table permits: it cannot widen what may be received.

*The player* (``engine/player.py``). The only code that performs effects. It receives a message from a transport, gives
it to ``receive``, and performs the effects in order: sends, runs computations, gives their values back, announces an
abort to the others. It reports a lost peer or a failed computation by ``fail``. A process of its own plays one machine
over gRPC; the simulation (``engine/simulate.py``) schedules a player for each role over loopback links.

Laws of this file. The digest of the plan is compared before anything else of a message is read. A machine that is done
or aborted receives nothing more. An abort changes ``state``, ``failure`` and ``stage``, and nothing else.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from fedsvd.errors import FedSVDError, LocalProtocolError, PeerAborted, PlanMismatch, UnexpectedMessage
from fedsvd.protocol.messages import Aborted, Message
from fedsvd.protocol.parties import Party, Role
from fedsvd.protocol.plan import SessionPlan


@dataclass(frozen=True)
class Send:
    """Send this to that party."""

    to: Party
    message: Message


@dataclass(frozen=True)
class Compute:
    """Run this, wherever the player likes, and give its value to ``Machine.computed``."""

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


Step = tuple[Enum, tuple[Effect, ...]]


class Computed:
    """In a row, in place of a kind of message: the value of the machine's own computation. It has no instances."""


Arriving = type[Message] | type[Computed]


@dataclass(frozen=True)
class Row:
    """One transition: in ``state``, ``message`` from ``sender`` goes to ``handler``, and leads to one of these."""

    state: Enum
    message: Arriving
    sender: Role
    handler: Callable[..., Step]
    leads_to: frozenset[Enum]


Table = Mapping[tuple[Enum, Arriving, Role], Row]


def table(*rows: tuple[Enum, Arriving, Role, Callable[..., Step], set[Any]]) -> Table:
    """The rows, by state, message and sender; no two rows may be for the same."""
    built: dict[tuple[Enum, Arriving, Role], Row] = {}
    for state, message, sender, handler, leads_to in rows:
        if (state, message, sender) in built:
            raise LocalProtocolError(f"two rows for {state.name}, {message.__name__}, {sender}")
        built[state, message, sender] = Row(state, message, sender, handler, frozenset(leads_to))
    return built


class Machine:
    """The state machine of a role in one session.

    Subclasses give ``TABLE``, ``STATES`` with NEW, DONE and ABORTED, and handlers.
    """

    TABLE: ClassVar[Table]
    STATES: ClassVar[type[Enum]]

    def __init__(self, me: Party, plan: SessionPlan) -> None:
        self.me = me
        self.plan = plan
        self._parties = frozenset(plan.parties)
        self.state: Enum = self.STATES["NEW"]
        self._ends = self.STATES["DONE"], self.STATES["ABORTED"]
        self.failure: FedSVDError | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.me}, {self.state.name})"

    @property
    def over(self) -> bool:
        """Whether the session has ended here, well or badly."""
        return self.state in self._ends

    def receive(self, sender: Party, message: Message) -> tuple[Effect, ...]:
        """What follows from ``message`` of ``sender``; an ``Abort`` when the table does not permit it."""
        return self._follow(lambda: self._permitted(sender, message), sender, message)

    def computed(self, value: Any) -> tuple[Effect, ...]:
        """What follows from the value of our own ``Compute``."""
        return self._follow(self._computing, value)

    def _follow(self, row_of: Callable[[], Row], *arrived: Any) -> tuple[Effect, ...]:
        if self.over:
            return ()
        try:
            row = row_of()
            state, effects = row.handler(self, *arrived)
        except FedSVDError as error:
            return self._abort(error)
        if state not in row.leads_to:
            return self._abort(LocalProtocolError(f"{row.handler.__name__} led to {state.name}"))
        self.state = state
        return effects

    def _computing(self) -> Row:
        row = self.TABLE.get((self.state, Computed, self.me.role))
        if row is None:
            raise LocalProtocolError(f"nothing is being computed in state {self.state.name}")
        return row

    def _permitted(self, sender: Party, message: Message) -> Row:
        if message.plan != self.plan.digest:
            raise PlanMismatch(f"{sender} sent a message of another plan", "all parties must load the same job file")
        if isinstance(message, Aborted):
            raise PeerAborted(f"{sender} stopped in {message.stage} with {message.code}")
        row = self.TABLE.get((self.state, type(message), sender.role))
        # From its own role a party receives only from itself: users send each other sealed messages, through the CSP.
        stranger = sender not in self._parties or (sender.role is self.me.role and sender != self.me)
        if row is None or stranger:
            raise UnexpectedMessage(f"{type(message).__name__} from {sender} in state {self.state.name}")
        return row

    def fail(self, error: FedSVDError) -> tuple[Effect, ...]:
        """The player reports that a computation of ours failed, or that a peer is gone."""
        return () if self.over else self._abort(error)

    def _abort(self, error: FedSVDError) -> tuple[Effect, ...]:
        self.failure = error
        self.stage = self.state.name
        self.state = self.STATES["ABORTED"]
        return (Abort(error),)
