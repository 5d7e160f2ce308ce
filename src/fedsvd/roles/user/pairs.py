"""What a matching asks of the role beyond sums: commitments without a sum, hashes for the CSP, bytes for one user.

Messages of one user wait in the order in which it sent them, sealed to the group or to us alone (``agreement.Group``);
the script asks for them in that order, so that none is opened as what it is not.
"""

from typing import Any

import numpy as np

from fedsvd.errors import UnexpectedMessage
from fedsvd.protocol.machine import Send, Step
from fedsvd.protocol.matching import answer_rows, cut, parts_of
from fedsvd.protocol.messages import CommonRows, IdHashes, Relay
from fedsvd.protocol.parties import CSP, Party, user
from fedsvd.protocol.plan import SessionPlan
from fedsvd.roles.user.requests import Commit, Compare, Give, Take, Witness
from fedsvd.roles.user.scripted import Asked, Scripted
from fedsvd.roles.user.seeding import Inputs, State
from fedsvd.types import Ring


class Paired(Scripted):
    """A user that matches its records with those of others."""

    def __init__(self, me: Party, plan: SessionPlan, inputs: Inputs) -> None:
        super().__init__(me, plan, inputs)
        self._places: list[Ring] = []

    def _ask_pair(self, asked: Commit | Witness | Compare | Give | Take) -> Step:
        match asked:
            case Commit(commitment):
                self._group.commit(commitment)
                effects = self._relayed(self._group.sealed("committing", commitment))
                state, more = self._listen(State.COMMITTING)
                return state, effects + more
            case Witness(name, content):
                return self._compute("computing", lambda: self._witnessed(name, content), self._ask)
            case Compare(hashed):
                return self._compare(hashed)
            case Give(to, content):
                return self._compute("sealing", lambda: self._sealed_to(user(to + 1), content), self._given)
            case Take():
                return self._await_taken()

    def _witnessed(self, name: str, content: bytes) -> Asked:
        self._group.witness(name, content)
        return self._advance(None)

    def _committed(self) -> Step:
        """Every user's commitment is here."""
        self._group.take_commitments()
        return self._go_on(None)

    # --- hashes for the CSP ---------------------------------------------------------------------------------------

    def _compare(self, hashed: Ring) -> Step:
        digest = self.plan.digest
        parts = parts_of(self.plan, len(hashed))
        return State.MATCHING, tuple(Send(CSP, IdHashes(digest, n, hashed[part])) for n, part in enumerate(parts))

    def _on_places(self, sender: Party, message: CommonRows) -> Step:
        """One batch of the CSP's answer; with the last the script goes on."""
        parts = parts_of(self.plan, answer_rows(self.plan))
        number = len(self._places)
        if message.batch != number or message.places.shape != (parts[number].stop - parts[number].start,):
            raise UnexpectedMessage("a batch of common records that the plan does not have here")
        self._places.append(message.places)
        if len(self._places) < len(parts):
            return State.MATCHING, ()
        places, self._places = self._places, []
        return self._compute("computing", lambda: self._advance(np.concatenate(places)), self._ask)

    # --- bytes for one user ---------------------------------------------------------------------------------------

    def _sealed_to(self, to: Party, content: bytes) -> tuple[Party, list[bytes], Asked]:
        """The content in parts, sealed to one user, and what the script asks for next."""
        sealed = [self._keys.seal(to, content[part]) for part in cut(self.plan, len(content))]
        return to, sealed, self._advance(None)

    def _given(self, made: tuple[Party, list[bytes], Asked]) -> Step:
        to, sealed, asked = made
        effects = tuple(Send(CSP, Relay(self.plan.digest, to, part)) for part in sealed)
        state, more = self._ask(asked)
        return state, effects + more

    def _await_taken(self) -> Step:
        """Open what another user gave us, if all parts of it are here."""
        request = self._asked(Take)
        origin, count = user(request.origin + 1), len(cut(self.plan, request.size))
        if self._group.waiting(origin) < count:
            return State.TAKING, ()
        sealed = self._group.taken(origin, count)

        def opened() -> Any:
            content = b"".join(self._keys.open(origin, part) for part in sealed)
            if len(content) != request.size:
                raise UnexpectedMessage(f"a sealed message of another length from {origin}")
            return self._advance(content)

        return self._compute("computing", opened, self._ask)
