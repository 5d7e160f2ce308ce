"""Record matching at the CSP (``align = "server"``; specification, section 9): which keyed hashes all users sent.

The key is the users', so that the CSP compares hashes and can guess no id. It learns how large the sets are and how
many records any of them share. Every user gets the places of the common records in its own set, in the order of the
hashes, and of the other sets nothing.
"""

from collections.abc import Iterable

import numpy as np

from fedsvd.errors import RepeatedShare, RowsDiffer, ShapeError, UnexpectedMessage
from fedsvd.linalg.common_rows import common_rows
from fedsvd.protocol.machine import Effect, Send
from fedsvd.protocol.matching import HASH_WORDS, expect_overlap, padded_answer, parts_of
from fedsvd.protocol.messages import CommonRows, IdHashes
from fedsvd.protocol.parties import Party
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Align
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
        if not self._plan.matches or self._plan.align is not Align.SERVER:
            raise UnexpectedMessage(f"{sender} sends hashes of ids where the plan matches none")
        batches, parts = self._sets[sender], self._parts(sender)
        if message.batch != len(batches) or len(batches) == len(parts):
            raise RepeatedShare(f"{sender} sent batch {message.batch} of its ids out of turn")
        part = parts[message.batch]
        if message.hashed.shape != (part.stop - part.start, HASH_WORDS):
            raise ShapeError(f"a batch of ids of {sender} has another size than the plan says")
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
        return parts_of(self._plan, self._plan.counts[party.index - 1])


def expect_equal_rows(hashes: Iterable[Ring]) -> None:
    """Compare the hashes of the users' id columns; all there is to say is that they differ."""
    if len({hashed.tobytes() for hashed in hashes}) > 1:
        raise RowsDiffer(
            "rows have different ids at different parties, or stand in another order",
            "sort every party's rows by id (sort_by_id = true; sort_index or reindex in pandas) and use only ids "
            'that all have; ids = "trust", if the rows belong together and their ids need not agree',
        )
