"""What a matching sends beyond sums: hashes of ids for the CSP, and bytes for one other user.

Messages of one user wait in the order in which it sent them, sealed to the group or to us alone (``agreement.Group``);
the script asks for them in that order, so that none is opened as what it is not.
"""

from fedsvd.errors import UnexpectedMessage
from fedsvd.protocol.keys import SessionKeys
from fedsvd.protocol.machine import Effect, Send
from fedsvd.protocol.matching import answer_rows, cut, parts_of
from fedsvd.protocol.messages import CommonRows, IdHashes
from fedsvd.protocol.parties import CSP, Party
from fedsvd.protocol.plan import SessionPlan
from fedsvd.types import Ring


class Pairs:
    """One user's end of the comparison of ids, and of messages between two users."""

    def __init__(self, plan: SessionPlan, keys: SessionKeys) -> None:
        self._plan, self._keys = plan, keys
        self._places: list[Ring] = []

    def hashes(self, hashed: Ring) -> tuple[Effect, ...]:
        """The hashes of our ids, in parts, for the CSP."""
        parts = enumerate(parts_of(self._plan, len(hashed)))
        return tuple(Send(CSP, IdHashes(self._plan.digest, number, hashed[part])) for number, part in parts)

    def read_places(self, message: CommonRows) -> list[Ring] | None:
        """All batches of the CSP's answer, with the last of them; None until then."""
        parts = parts_of(self._plan, answer_rows(self._plan))
        number = len(self._places)
        if message.batch != number or message.places.shape != (parts[number].stop - parts[number].start,):
            raise UnexpectedMessage("a batch of common records that the plan does not have here")
        self._places.append(message.places)
        if len(self._places) < len(parts):
            return None
        places, self._places = self._places, []
        return places

    def sealed(self, to: Party, content: bytes) -> list[bytes]:
        """The content in parts, sealed to one user."""
        return [self._keys.seal(to, content[part]) for part in cut(self._plan, len(content))]

    def parts(self, size: int) -> int:
        """How many sealed messages carry this number of bytes."""
        return len(cut(self._plan, size))

    def opened(self, origin: Party, sealed: list[bytes], size: int) -> bytes:
        """What another user sealed to us, which has this length, or ``UnexpectedMessage``."""
        content = b"".join(self._keys.open(origin, part) for part in sealed)
        if len(content) != size:
            raise UnexpectedMessage(f"a sealed message of another length from {origin}")
        return content
