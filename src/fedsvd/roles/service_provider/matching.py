"""Record matching at the CSP (specification, section 9): which keyed hashes, or blinded points, all users sent.

The key, or the factors, are the users', so that the CSP compares what it can guess no id by. It learns how large the
sets are and how many records any of them share. Every user gets the places of the common records in the set that it
sent, in the order of the hashes or points, and of the other sets nothing; where too few are common, no user gets any.
"""

from collections.abc import Iterable

import numpy as np

from fedsvd.errors import RepeatedShare, RowsDiffer, UnexpectedMessage
from fedsvd.linalg.common_rows import common_rows
from fedsvd.protocol.machine import Effect, Send
from fedsvd.protocol.matching import compared_set, expect_overlap, padded_answer, parts_of
from fedsvd.protocol.messages import CommonRows, IdHashes
from fedsvd.protocol.parties import Party
from fedsvd.protocol.plan import SessionPlan
from fedsvd.types import Ring


class Matching:
    """The users' sets as they come, batch by batch, and the answer once all are here."""

    def __init__(self, plan: SessionPlan) -> None:
        self._plan = plan
        self._sets: dict[Party, list[Ring]] = {party: [] for party in plan.users}

    def __repr__(self) -> str:
        return f"Matching({len(self._sets)} users)"

    def add(self, sender: Party, message: IdHashes) -> bool:
        """Take in the next batch of a user's set; whether all sets are complete with it."""
        if not self._plan.matches:
            raise UnexpectedMessage(f"{sender} sends a set of ids where the plan matches none")
        batches, parts = self._sets[sender], self._parts(sender)
        if message.batch != len(batches) or len(batches) == len(parts):
            raise RepeatedShare(f"{sender} sent batch {message.batch} of its ids out of turn")
        part, (_, words) = parts[message.batch], compared_set(self._plan, sender.index - 1)
        if message.hashed.shape != (part.stop - part.start, words):
            raise UnexpectedMessage(f"a batch of ids of {sender} has another size than the plan says")
        batches.append(message.hashed)
        return all(len(self._sets[party]) == len(self._parts(party)) for party in self._plan.users)

    def answer(self) -> tuple[Effect, ...]:
        """For every user the places of the common records in its set; the sets are dropped."""
        arrays = []
        for party in self._plan.users:
            words = np.concatenate(self._sets.pop(party))
            arrays.append(np.ascontiguousarray(words, dtype="<u8").view(np.uint8))
        found = common_rows(arrays)
        expect_overlap(self._plan, found.count)
        effects = []
        for party, positions in zip(self._plan.users, found.positions, strict=True):
            answer = padded_answer(self._plan, positions)
            for batch, part in enumerate(parts_of(self._plan, len(answer))):
                effects.append(Send(party, CommonRows(self._plan.digest, batch, answer[part])))
        return tuple(effects)

    def _parts(self, party: Party) -> tuple[slice, ...]:
        return parts_of(self._plan, compared_set(self._plan, party.index - 1)[0])


def expect_equal_rows(hashes: Iterable[Ring]) -> None:
    """Compare the hashes of the users' id columns; all there is to say is that they differ."""
    if len({hashed.tobytes() for hashed in hashes}) > 1:
        raise RowsDiffer(
            "rows have different ids at different parties, or stand in another order",
            "sort every party's rows by id (sort_by_id = true), where all have the same ids; match records first, "
            'where they do not (align = "ecdh" under [match]); look whether a spreadsheet took zeros in front of ids '
            '(NAME = { width = DIGITS } in the map of the table); ids = "trust", if the rows belong together whatever '
            "their ids are",
        )
