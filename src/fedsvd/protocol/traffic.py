"""What a plan will make the parties say, before anybody says it: every message of a session, with empty stand-ins.

The messages are the real ones, and ``messages.size`` counts them as the metered transport does, so the count is exact
wherever shapes decide. Two things depend on the data: the rank, and whether S_1 > 16 S_r, which asks for one more
users-only sum; both are arguments (``Expected``). A session that starts again after an overflow is not foreseen.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np

from fedsvd.protocol.messages import (
    BatchRequest,
    BlindedRightFactor,
    BlindedRightMask,
    FactorRows,
    Factors,
    Finished,
    KeyBook,
    KeyOffer,
    MaskedBatch,
    Message,
    PaddedBatch,
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
from fedsvd.protocol.parties import CSP, TA, Party, user
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Check, Item, Scheme, Task, Trust
from fedsvd.protocol.upload import batches
from fedsvd.secagg.wide import WORDS
from fedsvd.types import Float, Ring

Said = tuple[Party, Party, Message, int]  # from, to, what, how many times
_SEALED = 25  # bytes a seal adds: version, number, tag
_KEY, _SEED, _SIGNATURE = 32, 32, 64


@dataclass(frozen=True)
class Expected:
    """What the data decides: the rank, and whether the right singular vectors want their correction."""

    rank: int
    corrected: bool = True
    in_memory: bool = True  # whether users hold their own part whole, rather than panel by panel


def full_rank(plan: SessionPlan) -> int:
    """The most the rank can be: the shorter side, less one where centring takes the mean out of the longer one."""
    if plan.task is Task.LR:
        features = plan.N if plan.by_rows else plan.m
        samples = plan.m if plan.by_rows else plan.n
        return features if plan.alpha > 0 else min(features, samples - int(plan.centre and not plan.biased))
    return min(plan.m, plan.n - int(plan.task is Task.PCA))


def traffic(plan: SessionPlan, expected: Expected) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
    """Content bytes and messages by link (from, to)."""
    sent, messages = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for origin, to, message, times in said(plan, expected):
        sent[origin.name, to.name] += times * size(message)
        messages[origin.name, to.name] += times
    return sent, messages


def said(plan: SessionPlan, expected: Expected) -> Iterator[Said]:
    """Every message of a session that meets no trouble; the order between links is free."""
    yield from _keys(plan)
    yield from _sums(plan, sums_before(plan))
    if plan.task is not Task.PREDICT:
        yield from _upload(plan)
        yield from _answer(plan, expected)
    yield from _sums(plan, sums_after(plan, expected))
    for party in plan.users:
        yield party, CSP, Finished(plan.digest), 1


def _keys(plan: SessionPlan) -> Iterator[Said]:
    """Step 1 and 2: keys, the group seed, row ids."""
    digest, holders = plan.digest, [party for party in plan.parties if party != CSP]
    dealer = TA if plan.trust is Trust.AUTHORITY else user(1)
    offers = {party: (bytes(_KEY), bytes(_SEED if party == dealer else 0), bytes(_SIGNATURE)) for party in holders}
    for party in holders:
        yield party, CSP, KeyOffer(digest, *offers[party]), 1
        if party != TA:
            yield CSP, party, KeyBook(digest, tuple((other, *offers[other]) for other in holders)), 1
    for party in plan.users:
        if party != dealer:
            slices = _slices(plan, party.index - 1) if plan.published else []
            whole = 8 * plan.masked_rows**2 if plan.dense_masks else 0
            yield from _letter(plan, dealer, party, _SEED + sum(8 * rows * own for rows, own in slices) + whole)
    if plan.check_ids:
        for party in plan.users:
            yield party, CSP, RowIds(digest, _words(plan.m)), 1
            yield CSP, party, RowsAgree(digest), 1


def _letter(plan: SessionPlan, origin: Party, to: Party, length: int) -> Iterator[Said]:
    # As long as a letter, and no longer in memory: the slices of a wide Q are gigabytes.
    sealed = cast(bytes, np.broadcast_to(np.uint8(0), _SEALED + length))
    yield origin, CSP, Relay(plan.digest, to, sealed), 1
    yield CSP, to, Relayed(plan.digest, origin, sealed), 1


def _slices(plan: SessionPlan, i: int) -> list[tuple[int, int]]:
    """The shapes of user i's slices of Q, as the CSP meets them transposed: window width, own columns."""
    return [(window.width, _width(window.columns[i])) for window in plan.right_windows]


def _width(own: slice) -> int:
    return int(own.stop - own.start)


def sums_before(plan: SessionPlan) -> Iterator[tuple[str, int]]:
    """Users-only sums before the upload: name, and words of a share (a number without a bound costs many)."""
    rows = plan.m if plan.by_rows else plan.M
    if plan.task is Task.PREDICT:
        return
    if plan.task is Task.PCA or (plan.task is Task.LR and not plan.by_rows):
        if plan.centre:
            if plan.compress:
                yield "shift", WORDS * (rows + 1)
            yield "mean", WORDS * rows
        if plan.unit_variance or plan.task is Task.LR:
            yield "energy", WORDS * rows
    yield "norm", WORDS * (2 + plan.targets if plan.stacks_labels else 1)


def sums_after(plan: SessionPlan, expected: Expected) -> Iterator[tuple[str, int]]:
    """Users-only sums after the answer."""
    r, t = expected.rank, plan.targets
    own_vectors = plan.task in (Task.SVD, Task.LSA) and plan.releases(Item.OWN_PART) and not plan.published
    words = kept(plan, expected) * (kept(plan, expected) + 1) // 2
    if own_vectors and expected.corrected and words and (plan.by_rows or plan.check is not Check.SAMPLE):
        yield "orthogonality", words
    if own_vectors and plan.check is Check.ALL:
        yield "verified", words
    if plan.stacks_labels:
        lost = plan.N - r
        if lost:
            yield "null space", WORDS * lost * (2 * lost + t)
        if plan.centre:
            yield "intercept", WORDS * t
    if plan.task is Task.PREDICT or (plan.stacks_labels and plan.releases(Item.SCORE) and not plan.biased):
        yield "score norm", WORDS
        yield "scores", plan.m * t


def _sums(plan: SessionPlan, sums: Iterator[tuple[str, int]]) -> Iterator[Said]:
    for name, words in sums:
        for party in plan.users:
            yield party, CSP, SumShare(plan.digest, name, _words(words)), 1
            if name != "scores" or party.index == plan.label_user:
                yield CSP, party, SumReply(plan.digest, name, _words(words)), 1


def _upload(plan: SessionPlan) -> Iterator[Said]:
    """Step 4: requests and batches, those of one shape together."""
    digest = plan.digest
    shapes = Counter((batch.shape, 0 if plan.by_rows else batch.panel) for batch in batches(plan))
    for i, party in enumerate(plan.users):
        yield party, CSP, Ready(digest, (0, 0)), 1
        for ((rows, width), panel), times in shapes.items():
            yield CSP, party, BatchRequest(digest, 0), times
            if plan.scheme is Scheme.ALIGNED:
                own = plan.widths[i] + plan.targets if plan.by_rows else _slices(plan, i)[panel][1]
                yield party, CSP, MaskedBatch(digest, 0, _numbers(rows, own)), times
            else:
                yield party, CSP, PaddedBatch(digest, 0, _words(rows, width)), times


def kept(plan: SessionPlan, expected: Expected) -> int:
    """The columns of U that are released."""
    return expected.rank if plan.components is None else min(expected.rank, plan.components)


def _answer(plan: SessionPlan, expected: Expected) -> Iterator[Said]:
    """Steps 5 and 6: what the CSP tells the users, signs, and eq. 6 in the paper's scheme."""
    digest, r = plan.digest, kept(plan, expected)
    if plan.task is Task.LR:
        features = plan.N if plan.by_rows else plan.m
        null = _numbers(features, features - expected.rank)
        for party in plan.users:
            yield CSP, party, Solution(digest, _numbers(features, plan.targets), null, expected.rank, 0.0), 1
        return
    columns, rows = (plan.M, plan.N) if plan.full_matrices else (r, r)
    sigma = _numbers(min(plan.M, plan.N) if plan.full_matrices else r) if plan.releases(Item.SPECTRUM) else None
    for i, party in enumerate(plan.users):
        yield CSP, party, Factors(digest, _numbers(0 if plan.tall else plan.M, columns), sigma, 0.0, 0.0), 1
        if plan.tall:
            yield from _rows(plan, party, columns)
        if i:
            yield from _letter(plan, user(1), party, -(-columns // 8))
        if plan.published and plan.task is not Task.PCA and plan.releases(Item.OWN_PART):
            blinded = tuple(_numbers(*shape) for shape in _slices(plan, i))
            yield party, CSP, BlindedRightMask(digest, blinded), 1
            yield CSP, party, BlindedRightFactor(digest, (_numbers(rows, plan.widths[i]),)), 1


def _rows(plan: SessionPlan, party: Party, r: int) -> Iterator[Said]:
    """U' window by window, where it is too long to be told at once."""
    heights = Counter(window.stop - window.start for window in plan.left_windows)
    for height, times in heights.items():
        yield party, CSP, RowsRequest(plan.digest, 0), times
        yield CSP, party, FactorRows(plan.digest, 0, _numbers(height, r)), times


def _words(*shape: int) -> Ring:
    """An array of this shape that takes no memory."""
    return np.broadcast_to(np.uint64(0), shape)


def _numbers(*shape: int) -> Float:
    return np.broadcast_to(np.float64(0), shape)
