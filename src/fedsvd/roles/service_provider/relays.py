"""What the CSP holds users to, and passes on between them without reading it: the steps of the plan (section 3).

For every user an automaton over ``plan.steps`` moves with what the CSP sees of it: names of sums, uploads, and of
sealed messages sender, receiver and bytes. What is not next in the plan ends the session; so an honest CSP passes on
nothing that the plan does not declare, whatever the code of a user asks for.
"""

from fedsvd.errors import LocalProtocolError, UnexpectedMessage
from fedsvd.protocol import relayed
from fedsvd.protocol.messages import (
    Challenge,
    Finished,
    IdHashes,
    Message,
    Ready,
    RowsRequest,
    SumShare,
)
from fedsvd.protocol.parties import ALL, Party, user
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.played import Pair, Played
from fedsvd.protocol.relayed import SEAL_BYTES, framed, parts_to_all, passed_on
from fedsvd.protocol.steps import SUMS, PlannedStep, StepKind

_TO_ALL = (StepKind.FROM_USER_1, StepKind.FROM_EACH)


class Relays:
    """The steps of every user as far as the CSP has seen them."""

    def __init__(self, plan: SessionPlan) -> None:
        self._users = plan.users
        steps = framed(plan)
        # What user 1 decides for all is no message of the others.
        self._played = {
            party: Played(steps, passed_on(plan, party), unseen=() if party == user(1) else (StepKind.FROM_USER_1,))
            for party in plan.users
        }
        self._open: dict[Party, list[int]] = {party: [] for party in plan.users}  # parts still to come
        self._gathers = relayed.gathers(plan)
        self._round: dict[Party, bytes] = {}  # of messages that are handed out together

    def __repr__(self) -> str:
        return f"Relays({len(self._users)} users)"

    def expect(self, sender: Party, message: Message) -> None:
        """Raise ``UnexpectedMessage`` unless a user's message begins, or goes on with, the next step of the plan."""
        match message:
            case SumShare(name=name, batch=0):
                self._advance(sender, SUMS, name)
            case Ready():
                self._advance(sender, (StepKind.UPLOAD,))
            case RowsRequest(panel=0):
                self._advance(sender, (StepKind.FETCH,))
            case Challenge(batch=0):
                self._advance(sender, (StepKind.CHALLENGE,))
            case IdHashes(batch=0):
                self._advance(sender, (StepKind.COMPARE,))
            case Finished():
                try:
                    self._played[sender].expect_end()
                except LocalProtocolError:
                    raise UnexpectedMessage(f"{sender} finishes before the last step of the plan") from None
            case _:
                pass

    def receivers(self, sender: Party, to: Party, length: int) -> list[Party]:
        """The one user that a message is for, or all others; one that the plan does not have is refused."""
        others = [party for party in self._users if party != sender]
        if to == ALL:
            self._to_all(sender, length)
            return others
        found = [party for party in others if party == to]
        try:
            self._played[sender].exchange(Pair(to.index - 1, length, True))
        except LocalProtocolError:
            found = []
        if not found:
            raise UnexpectedMessage(f"a sealed message from {sender} to {to} that is not the next one of the plan")
        return found

    def waits(self, sender: Party, to: Party) -> bool:
        """Whether the message just passed is handed out with those of all other users."""
        return self._gathers and to == ALL and self._played[sender].steps[-1].kind is StepKind.FROM_EACH

    def gathered(self, sender: Party, sealed: bytes) -> tuple[tuple[Party, bytes], ...]:
        """All users' messages of one round, with the last of them; nothing until then."""
        if sender in self._round:
            raise UnexpectedMessage(f"{sender} goes on before it has the messages of all other users")
        self._round[sender] = sealed
        if len(self._round) < len(self._users):
            return ()
        whole, self._round = self._round, {}
        return tuple((party, whole[party]) for party in self._users)

    def _to_all(self, sender: Party, length: int) -> None:
        """The next part of a message to all: of one under way, or the first of the next step."""
        parts = self._open[sender]
        if not parts:
            step = self._advance(sender, _TO_ALL, None, length)
            parts += parts_to_all(step.size)
            if step.upto and length < SEAL_BYTES + relayed.PART:
                parts[:] = [length]  # shorter than it may be: this is all of it
        expected = parts.pop(0)
        if length != expected:
            raise UnexpectedMessage(f"a sealed message from {sender} of another length than the plan says")

    def _advance(
        self, sender: Party, kinds: tuple[StepKind, ...], name: str | None = None, length: int = 0
    ) -> PlannedStep:
        fits = None if not length else lambda step: _begins(step, length)
        try:
            return self._played[sender].advance(kinds, name, fits)
        except LocalProtocolError:
            raise UnexpectedMessage(f"{sender} sends what is not the next step of the plan") from None


def _begins(step: PlannedStep, length: int) -> bool:
    """Whether a first message of this length can be the beginning of this step."""
    first = parts_to_all(step.size)[0]
    return length <= first if step.upto else length == first


class Commitments:
    """What every user committed to: it comes with a first share, and goes back to all with the first total."""

    def __init__(self, plan: SessionPlan) -> None:
        self._users = plan.users
        self._held: dict[Party, bytes] = {}
        self._sent = False

    def add(self, sender: Party, commitment: bytes) -> None:
        """A user's first share brings its data commitment, and no other does."""
        if (sender in self._held) == bool(commitment) or len(commitment) not in (0, 32):
            raise UnexpectedMessage(f"a data commitment of {sender} that is missing, repeated or of another length")
        if commitment:
            self._held[sender] = commitment

    def once(self) -> tuple[bytes, ...]:
        """All users' commitments, with the first total; nothing with any other."""
        if self._sent:
            return ()
        self._sent = True
        return tuple(self._held[party] for party in self._users)
