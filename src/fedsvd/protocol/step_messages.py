"""The messages of a session, derived from the steps of its plan: from, to, what, how many times.

Each kind of step says which messages it is; keys and signatures are the frame of every session. Messages are the real
ones with empty stand-ins for their arrays, so that ``messages.size`` counts them as a metered transport does. Steps are
given as they are played: without ``maybe`` and ``repeat``, with the sizes that they have in this session. Of what only
the data decides, the rank alone is not in a step: it is in the CSP's solution.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np

from fedsvd.protocol.matching import answer_rows, compared_set, cut, pairs_of, parts_of
from fedsvd.protocol.messages import (
    ID_WORDS,
    BatchRequest,
    Challenge,
    CommonRows,
    Countersigned,
    FactorRows,
    Factors,
    Finished,
    Gathered,
    IdHashes,
    KeyBook,
    KeyOffer,
    Message,
    PaddedBatch,
    Product,
    Ready,
    Relay,
    Relayed,
    RowIds,
    RowsAgree,
    RowsRequest,
    Solution,
    SumReply,
    SumShare,
)
from fedsvd.protocol.parties import ALL, CSP, Party, user
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.relayed import (
    AFTER,
    BEFORE,
    DIGEST_BYTES,
    SEAL_BYTES,
    SEED_BYTES,
    SEEDS,
    SIGNATURE_BYTES,
    deals,
    gathers,
    parts_to_all,
)
from fedsvd.protocol.shared import challenge_columns
from fedsvd.protocol.steps import FACTORS, SUMS, PlannedStep, StepKind, listed
from fedsvd.protocol.sums import summed
from fedsvd.protocol.tasks import Item
from fedsvd.protocol.upload import batches
from fedsvd.secagg.sums import TAG_WORDS
from fedsvd.types import Float, Ring

Sent = tuple[Party, Party, Message, int]  # from, to, what, how many times
_KEY = 32


@dataclass(frozen=True)
class Session:
    """A plan, the rank of its data, and whether of the batches of a sum the longest alone is wanted."""

    plan: SessionPlan
    rank: int
    longest: bool = False


def messages_of_steps(session: Session, steps: Iterable[PlannedStep]) -> Iterator[Sent]:
    """Every message of a session that plays these steps, without faults; the order between links is free."""
    plan, first = session.plan, True
    yield from _keys(plan)
    for step in (*BEFORE, *steps, *AFTER):
        if step.kind in SUMS:
            yield from _sum(session, step, first)
            first = False
        else:
            yield from _MESSAGES[step.kind](session, step)
    for party in plan.users:
        yield party, CSP, Finished(plan.digest, bytes(DIGEST_BYTES)), 1
        yield CSP, party, Countersigned(plan.digest, bytes(SIGNATURE_BYTES if plan.csp_identity else 0)), 1


def _keys(plan: SessionPlan) -> Iterator[Sent]:
    """Step 1: keys; and row ids, where they are compared."""
    digest, holders = plan.digest, [party for party in plan.parties if party != CSP]
    offers = {each: (bytes(_KEY), bytes(_seeds(plan, each)), bytes(SIGNATURE_BYTES)) for each in holders}
    for party in holders:
        yield party, CSP, KeyOffer(digest, *offers[party]), 1
    book = KeyBook(digest, tuple((other, *offers[other]) for other in holders))
    for party in plan.users:
        yield CSP, party, book, 1
    if plan.check_ids:
        for party in plan.users:
            yield party, CSP, RowIds(digest, _words(ID_WORDS)), 1
            yield CSP, party, RowsAgree(digest), 1


def _seeds(plan: SessionPlan, party: Party) -> int:
    return SEED_BYTES * len(deals(plan, party))


# --- kinds of steps ---------------------------------------------------------------------------------------------------


def _sum(session: Session, step: PlannedStep, first: bool) -> Iterator[Sent]:
    """Shares, and replies to those who open the sum; the data commitments of all ride on the first one."""
    plan, planned = session.plan, summed(step)
    longest = planned.batches.index(max(planned.batches))
    for batch in (longest,) if session.longest else range(len(planned.batches)):
        words, tag = _words(*planned.shape(batch)), _words(TAG_WORDS)
        commitment = bytes(DIGEST_BYTES if first else 0)
        commitments, first = (commitment,) * plan.k if first else (), False
        share = SumShare(plan.digest, planned.name, batch, words, tag, commitment)
        reply = SumReply(plan.digest, planned.name, batch, words, tag, commitments)
        yield from ((party, CSP, share, 1) for party in plan.users)
        yield from ((CSP, party, reply, 1) for party in plan.users if planned.receiver in (None, party.index))


def _from_user_1(session: Session, step: PlannedStep) -> Iterator[Sent]:
    yield from _to_all(session.plan, user(1), step.size)


def _from_each(session: Session, step: PlannedStep) -> Iterator[Sent]:
    plan = session.plan
    if not gathers(plan):
        for party in plan.users:
            yield from _to_all(plan, party, step.size)
        return
    (length,) = parts_to_all(step.size)
    sealed = _bytes_of(length)
    gathered = Gathered(plan.digest, tuple((party, sealed) for party in plan.users))
    yield from ((party, CSP, Relay(plan.digest, ALL, sealed), 1) for party in plan.users)
    yield from ((CSP, party, gathered, 1) for party in plan.users)


def _exchange(session: Session, step: PlannedStep) -> Iterator[Sent]:
    """Sealed messages between pairs of users; seeds go in one message each, what is long in parts."""
    plan = session.plan
    if step.name == SEEDS:
        for dealer in (party for party in plan.parties if party != CSP and deals(plan, party)):
            for party in (each for each in plan.users if each != dealer):
                yield from _sealed(plan, dealer, party, _seeds(plan, dealer))
        return
    for origin in plan.users:
        gives, _ = pairs_of(plan, origin.index - 1)[step.name]
        for pair in gives:
            for part in cut(plan, pair.size):
                yield from _sealed(plan, origin, plan.users[pair.other], _width(part))


def _upload(session: Session, step: PlannedStep) -> Iterator[Sent]:
    """Requests and batches, those of one shape together; then the answer that the step is named after."""
    plan, digest = session.plan, session.plan.digest
    shapes = Counter(batch.shape for batch in batches(plan))
    ready, asked = Ready(digest), BatchRequest(digest, 0)
    yield from ((party, CSP, ready, 1) for party in plan.users)
    yield from ((CSP, party, asked, shapes.total()) for party in plan.users)
    for shape, times in shapes.items():
        batch = PaddedBatch(digest, 0, _words(*shape))
        yield from ((party, CSP, batch, times) for party in plan.users)
    answer = _factors(plan, step) if step.name == FACTORS else _solution(session, step)
    yield from ((CSP, party, answer, 1) for party in plan.users)


def _factors(plan: SessionPlan, step: PlannedStep) -> Factors:
    """U and S; of a U that is fetched, no rows yet."""
    fetched = any(each.kind is StepKind.FETCH for each in listed(plan.steps))
    sigma = _numbers(step.size) if plan.releases(Item.SPECTRUM) else None
    return Factors(plan.digest, _numbers(0 if fetched else plan.M, step.size), sigma, 0.0, 0.0)


def _solution(session: Session, step: PlannedStep) -> Solution:
    null = _numbers(step.size, step.size - session.rank)
    return Solution(session.plan.digest, _numbers(step.size, session.plan.targets), null, session.rank, 0.0)


def _fetch(session: Session, step: PlannedStep) -> Iterator[Sent]:
    """U' panel by panel."""
    plan = session.plan
    heights = Counter(_width(rows) for rows in plan.row_panels)
    for party in plan.users:
        for height, times in heights.items():
            yield party, CSP, RowsRequest(plan.digest, 0), times
            yield CSP, party, FactorRows(plan.digest, 0, _numbers(height, step.size)), times


def _challenge(session: Session, step: PlannedStep) -> Iterator[Sent]:
    """Panels of vectors under P, and their products for the label holder."""
    plan, digest = session.plan, session.plan.digest
    heights = Counter(_width(rows) for rows in plan.row_panels)
    for party in plan.users:
        for height, times in heights.items():
            yield party, CSP, Challenge(digest, 0, _words(height, challenge_columns(plan))), times
        if heights.total() > 1:
            yield CSP, party, BatchRequest(digest, 0), heights.total() - 1
    yield CSP, user(plan.label_user), Product(digest, _numbers(challenge_columns(plan) ** 2)), 1


def _compare(session: Session, step: PlannedStep) -> Iterator[Sent]:
    """Sets of hashed or blinded ids to the CSP, and places back."""
    plan, digest = session.plan, session.plan.digest
    for i, party in enumerate(plan.users):
        rows, words = compared_set(plan, i)
        for part in parts_of(plan, rows):
            yield party, CSP, IdHashes(digest, 0, _words(_width(part), words)), 1
        for part in parts_of(plan, answer_rows(plan)):
            yield CSP, party, CommonRows(digest, 0, _words(_width(part))), 1


_MESSAGES: dict[StepKind, Callable[[Session, PlannedStep], Iterator[Sent]]] = {
    StepKind.FROM_USER_1: _from_user_1,
    StepKind.FROM_EACH: _from_each,
    StepKind.EXCHANGE: _exchange,
    StepKind.UPLOAD: _upload,
    StepKind.FETCH: _fetch,
    StepKind.CHALLENGE: _challenge,
    StepKind.COMPARE: _compare,
}


# --- sealed messages, and stand-ins -----------------------------------------------------------------------------------


def _to_all(plan: SessionPlan, origin: Party, length: int) -> Iterator[Sent]:
    """A group-sealed message, in parts of at most 2^26 bytes."""
    for part in parts_to_all(length):
        sealed = _bytes_of(part)
        yield origin, CSP, Relay(plan.digest, ALL, sealed), 1
        relayed = Relayed(plan.digest, origin, sealed)
        for party in plan.users:
            if party != origin:
                yield CSP, party, relayed, 1


def _sealed(plan: SessionPlan, origin: Party, to: Party, length: int) -> Iterator[Sent]:
    sealed = _bytes_of(SEAL_BYTES + length)
    yield origin, CSP, Relay(plan.digest, to, sealed), 1
    yield CSP, to, Relayed(plan.digest, origin, sealed), 1


def _bytes_of(length: int) -> bytes:
    # As long as a sealed message, and no longer in memory.
    return cast(bytes, np.broadcast_to(np.uint8(0), length))


def _width(own: slice) -> int:
    return int(own.stop - own.start)


def _words(*shape: int) -> Ring:
    """An array of this shape that takes no memory."""
    return np.broadcast_to(np.uint64(0), shape)


def _numbers(*shape: int) -> Float:
    return np.broadcast_to(np.float64(0), shape)
