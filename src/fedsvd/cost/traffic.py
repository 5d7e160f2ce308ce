"""What a plan will make the parties send, before anything is sent: every message of a session, with empty stand-ins.

The messages are the real ones, and ``messages.size`` counts them as the metered transport does, so the count is exact.
Nearly all of it follows from the plan; the rank, which decides the null space of a regression and the paper's answers,
is an argument (``Expected``). A session that starts again after an overflow is not foreseen.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np

from fedsvd.protocol.certificate import Link
from fedsvd.protocol.keys import deals
from fedsvd.protocol.matching import HASH_WORDS, answer_rows, cut, exchanges, parts_of
from fedsvd.protocol.messages import (
    ID_WORDS,
    BatchRequest,
    BlindedRightFactor,
    BlindedRightMask,
    Challenge,
    CommonRows,
    Countersigned,
    FactorRows,
    Factors,
    Finished,
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
    size,
)
from fedsvd.protocol.model import ModelPlan
from fedsvd.protocol.parties import ALL, CSP, TA, Party, user
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.sums import evaluation_sums, null_space_sum, planned_sums
from fedsvd.protocol.tasks import Align, Family, Item, Mode, Task
from fedsvd.protocol.upload import batches
from fedsvd.roles.user.agreement import PART
from fedsvd.sealing.seal import OVERHEAD
from fedsvd.secagg.sums import TAG_WORDS, PlannedSum
from fedsvd.types import Float, Ring

Sent = tuple[Party, Party, Message, int]  # from, to, what, how many times
_HEADERS = 1 << 20  # bytes: more than names, shapes and lengths of any message take
_KEY, _SEED, _SIGNATURE, _DIGEST, _LENGTH = 32, 32, 64, 32, 8


@dataclass(frozen=True)
class Expected:
    """What the data decides, and how its owner stores results.

    Ill-conditioned data is compressed another way, and vectors of a long side are put right. A plan cannot know which
    it will meet: half of that work is counted where nothing else is said.
    """

    rank: int
    ill: float = 0.5  # how much of the additional work of ill-conditioned data is counted
    in_memory: bool = True  # whether users hold their own part whole, rather than panel by panel
    iterations: int = 6  # of each model, where the data decides how many


def full_rank(plan: SessionPlan) -> int:
    """The most the rank can be: the shorter side, less one where centring takes the mean out of the longer one."""
    if plan.task in (Task.LR, Task.GLM):
        features = plan.N if plan.stacks_labels else plan.m
        samples = plan.m if plan.stacks_labels else plan.n
        return features if plan.alpha > 0 else min(features, samples - int(plan.centre and not plan.biased))
    return min(plan.m, plan.n - int(plan.task in (Task.PCA, Task.PCR)))


def traffic(plan: SessionPlan, expected: Expected) -> tuple[Counter[Link], Counter[Link]]:
    """Content bytes and messages by link (from, to)."""
    sent, messages = Counter[Link](), Counter[Link]()
    for origin, to, message, times in messages_of(plan, expected):
        sent[origin, to] += times * size(message)
        messages[origin, to] += times
    return sent, messages


def longest_message(plan: SessionPlan) -> int:
    """More bytes than any message of this session has; one that claims more is not read."""
    expected = [Expected(rank) for rank in {1, full_rank(plan)}]
    longest = max(size(message) for each in expected for _, _, message, _ in messages_of(plan, each))
    return 2 * longest + _HEADERS


def messages_of(plan: SessionPlan, expected: Expected) -> Iterator[Sent]:
    """Every message of a session without faults; the order between links is free."""
    yield from _keys(plan)
    yield from _sums(plan, expected)
    if plan.matches:
        yield from _matching(plan)
    if not plan.opens_nothing and plan.mode is not Mode.A:
        yield from _upload(plan)
        yield from _answer(plan, expected)
    yield from _common(plan, expected)
    for party in plan.users:
        yield from _to_all(plan, party, _DIGEST)
        yield from _to_all(plan, party, _SIGNATURE)
        yield party, CSP, Finished(plan.digest, bytes(_DIGEST)), 1
        yield CSP, party, Countersigned(plan.digest, bytes(_SIGNATURE if plan.csp_identity else 0)), 1


def _keys(plan: SessionPlan) -> Iterator[Sent]:
    """Steps 1 and 2: keys, seeds, row ids."""
    digest, holders = plan.digest, [party for party in plan.parties if party != CSP]
    seeds = {party: _SEED * len(deals(plan, party)) for party in holders}
    offers = {party: (bytes(_KEY), bytes(seeds[party]), bytes(_SIGNATURE)) for party in holders}
    for party in holders:
        yield party, CSP, KeyOffer(digest, *offers[party]), 1
        if party != TA:
            yield CSP, party, KeyBook(digest, tuple((other, *offers[other]) for other in holders)), 1
    for dealer in holders:
        for party in plan.users:
            if party != dealer and seeds[dealer]:
                yield from _sealed(plan, dealer, party, seeds[dealer] + _dealt_masks(plan, dealer, party))
    if plan.check_ids:
        for party in plan.users:
            yield party, CSP, RowIds(digest, _words(ID_WORDS)), 1
            yield CSP, party, RowsAgree(digest), 1


def _dealt_masks(plan: SessionPlan, dealer: Party, party: Party) -> int:
    """Bytes of masks that the TA of the paper's scheme deals behind its seed."""
    if not plan.published or dealer != TA:
        return 0
    whole = 8 * plan.masked_rows**2 if plan.deals_left else 0
    return sum(8 * rows * own for rows, own in _slices(plan, party.index - 1)) + whole


def _common(plan: SessionPlan, expected: Expected) -> Iterator[Sent]:
    """What user 1 decides for all: U and S, or w, in mode A; else the signs of U."""
    if plan.opens_nothing or (plan.task is Task.LR and plan.mode is not Mode.A):
        return
    if plan.glm is not None:
        for _ in range(plan.glm.fits * (_iterations(plan.glm, expected) + 1)):
            yield from _to_all(plan, user(1), 8 * (plan.M + 3))
        return
    columns = (plan.M if plan.full_matrices else released_columns(plan, expected)) if plan.mode is not Mode.A else 0
    length = -(-columns // 8)
    if plan.mode is Mode.A:
        length = 8 * plan.answer_numbers if plan.task is Task.LR else 8 * (plan.m + 1) * plan.planned_rank
    yield from _to_all(plan, user(1), length)


def _to_all(plan: SessionPlan, origin: Party, length: int) -> Iterator[Sent]:
    """A group-sealed message, in parts of at most 2^26 bytes."""
    whole = length + _LENGTH
    for start in range(0, whole, PART):
        sealed = _bytes_of(OVERHEAD + min(PART, whole - start))
        yield origin, CSP, Relay(plan.digest, ALL, sealed), 1
        for party in plan.users:
            if party != origin:
                yield CSP, party, Relayed(plan.digest, origin, sealed), 1


def _sealed(plan: SessionPlan, origin: Party, to: Party, length: int) -> Iterator[Sent]:
    sealed = _bytes_of(OVERHEAD + length)
    yield origin, CSP, Relay(plan.digest, to, sealed), 1
    yield CSP, to, Relayed(plan.digest, origin, sealed), 1


def _bytes_of(length: int) -> bytes:
    # As long as a sealed message, and no longer in memory: the slices of a wide Q are gigabytes.
    return cast(bytes, np.broadcast_to(np.uint8(0), length))


def _slices(plan: SessionPlan, i: int) -> list[tuple[int, int]]:
    """The shapes of user i's slices of Q, as the CSP receives them transposed: window width, own columns."""
    return [(window.width, _width(window.columns[i])) for window in plan.right_windows]


def _width(own: slice) -> int:
    return int(own.stop - own.start)


def sums_of(plan: SessionPlan, expected: Expected) -> tuple[PlannedSum, ...]:
    """Every sum of a session: the plan's, and the null space of a regression that loses rank."""
    if plan.glm is not None:
        pairs = ((evaluation_sums(plan, number), gram) for number, gram in evaluations_of(plan, expected))
        return tuple(each for (totals, words), gram in pairs for each in ((totals, words) if gram else (totals,)))
    lost = null_space_sum(plan, expected.rank)
    return planned_sums(plan) if lost is None else (*planned_sums(plan), lost)


def evaluations_of(plan: SessionPlan, expected: Expected) -> Iterator[tuple[int, bool]]:
    """The numbers of the evaluations of a generalised linear model, and whether each has a Gram matrix.

    Each model begins with one, has one to each iteration, and ends with the null model and, where a dispersion is
    estimated, with the likelihood; steps that are halved, and the iterations of a null model with an offset, are not
    foreseen.
    """
    about = plan.glm
    if about is None:
        return
    endings = 2 if about.family in (Family.GAUSSIAN, Family.GAMMA) else int(about.family is not Family.MULTINOMIAL)
    number = 0
    for _ in range(about.fits):
        for gram in [True] * (_iterations(about, expected) + 1) + [False] * endings:
            number += 1
            yield number, gram


def _iterations(about: ModelPlan, expected: Expected) -> int:
    return min(about.max_iterations, expected.iterations)


def _sums(plan: SessionPlan, expected: Expected) -> Iterator[Sent]:
    digest, first = plan.digest, True
    for planned in sums_of(plan, expected):
        for batch in range(len(planned.batches)):
            words, tag = _words(*planned.shape(batch)), _words(TAG_WORDS)
            commitment = bytes(_DIGEST if first else 0)
            commitments = (commitment,) * plan.k if first else ()
            first = False
            for party in plan.users:
                yield party, CSP, SumShare(digest, planned.name, batch, words, tag, commitment), 1
                if planned.receiver in (None, party.index):
                    yield CSP, party, SumReply(digest, planned.name, batch, words, tag, commitments), 1


def _upload(plan: SessionPlan) -> Iterator[Sent]:
    """Step 5: requests and batches, those of one shape together."""
    digest = plan.digest
    shapes = Counter(batch.shape for batch in batches(plan))
    for party in plan.users:
        yield party, CSP, Ready(digest), 1
        for shape, times in shapes.items():
            yield CSP, party, BatchRequest(digest, 0), times
            yield party, CSP, PaddedBatch(digest, 0, _words(*shape)), times


def _matching(plan: SessionPlan) -> Iterator[Sent]:
    """Commitments to all; then hashes and places, or sets of points from user to user."""
    digest = plan.digest
    for party, count in zip(plan.users, plan.counts, strict=True):
        yield from _to_all(plan, party, _DIGEST)
        if plan.align is Align.SERVER:
            for part in parts_of(plan, count):
                yield party, CSP, IdHashes(digest, 0, _words(_width(part), HASH_WORDS)), 1
            for part in parts_of(plan, answer_rows(plan)):
                yield CSP, party, CommonRows(digest, 0, _words(_width(part))), 1
    for origin, to, length in exchanges(plan):
        for part in cut(plan, length):
            yield from _sealed(plan, plan.users[origin], plan.users[to], _width(part))


def released_columns(plan: SessionPlan, expected: Expected) -> int:
    """The columns of U that are released."""
    return expected.rank if plan.components is None else min(expected.rank, plan.components)


def _answer(plan: SessionPlan, expected: Expected) -> Iterator[Sent]:
    """Step 6: what the CSP answers, and eq. 6 in the paper's scheme."""
    digest, r = plan.digest, released_columns(plan, expected)
    if plan.task is Task.LR:
        features = plan.N if plan.stacks_labels else plan.m
        null = _numbers(features, features - expected.rank)
        for party in plan.users:
            yield CSP, party, Solution(digest, _numbers(features, plan.targets), null, expected.rank, 0.0), 1
        if plan.challenges:
            yield from _challenge(plan)
        return
    columns, rows = (plan.M, plan.N) if plan.full_matrices else (r, r)
    if not plan.published:
        columns = plan.planned_rank  # zero columns beyond the rank
    values = min(plan.M, plan.N) if plan.full_matrices else columns
    sigma = _numbers(values) if plan.releases(Item.SPECTRUM) else None
    for i, party in enumerate(plan.users):
        yield CSP, party, Factors(digest, _numbers(0 if plan.tall else plan.M, columns), sigma, 0.0, 0.0), 1
        if plan.tall:
            yield from _rows(plan, party, columns)
        if plan.published and plan.task is not Task.PCA and plan.releases(Item.OWN_PART):
            blinded = tuple(_numbers(*shape) for shape in _slices(plan, i))
            yield party, CSP, BlindedRightMask(digest, blinded), 1
            yield CSP, party, BlindedRightFactor(digest, (_numbers(rows, plan.widths[i]),)), 1


def _challenge(plan: SessionPlan) -> Iterator[Sent]:
    """Step 7 on split columns: panels of two kinds of vectors, and the products for the label holder."""
    digest = plan.digest
    for party in plan.users:
        for number, rows in enumerate(plan.row_panels):
            yield party, CSP, Challenge(digest, 0, _words(rows.stop - rows.start, plan.targets + 1)), 1
            if number:
                yield CSP, party, BatchRequest(digest, 0), 1
    yield CSP, user(plan.label_user), Product(digest, _numbers(plan.targets)), 1


def _rows(plan: SessionPlan, party: Party, r: int) -> Iterator[Sent]:
    """U' panel by panel, where it is too long for one message."""
    heights = Counter(rows.stop - rows.start for rows in plan.row_panels)
    for height, times in heights.items():
        yield party, CSP, RowsRequest(plan.digest, 0), times
        yield CSP, party, FactorRows(plan.digest, 0, _numbers(height, r)), times


def _words(*shape: int) -> Ring:
    """An array of this shape that takes no memory."""
    return np.broadcast_to(np.uint64(0), shape)


def _numbers(*shape: int) -> Float:
    return np.broadcast_to(np.float64(0), shape)
