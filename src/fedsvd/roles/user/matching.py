"""Record matching at a user (specification, section 9): which of its records all users have, in one secret order.

Every user first commits to its set of ids, sealed to the group. Then ``align = "server"``: keyed hashes go to the CSP,
which answers with places. ``align = "ecdh"``: sets of points go from user to user, sealed, until all have blinded them,
and then to the CSP (``prepare.blinding`` says why that hides them); users compare a digest of the points that it calls
common, and then the places go back the way the sets came. In the end all users compare a digest of the hashes of the
common ids in their order: a CSP, or a user, that gave two users different records in one place is found.

Ids come normalised (``prepare.identifiers``), each once; they never leave this file but hashed under the users' key.
"""

import hashlib
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import LocalProtocolError, SplitView
from fedsvd.prepare.blinding import Blinding, Points, points_of, shuffled, unshuffled
from fedsvd.prepare.identifiers import expect_distinct, hashed
from fedsvd.prepare.matching import checked_positions
from fedsvd.protocol.matching import (
    DIGEST_BYTES,
    HASH_WORDS,
    POINT_BYTES,
    answer_rows,
    expect_overlap,
    padded_answer,
    positions_in,
)
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Align
from fedsvd.roles.user.requests import Commit, Compare, Give, Local, Script, Take, Witness
from fedsvd.roles.user.work import Work, commitment_salt
from fedsvd.types import Ring


@dataclass(frozen=True, repr=False)
class MatchResult:
    """The positions, among this user's own records, of those that all users have; in an order common to all users."""

    positions: NDArray[np.int64]
    records: int  # of this user's set

    def __repr__(self) -> str:
        return f"MatchResult(common={len(self.positions)}, records={self.records})"


def script(work: Work) -> Script:
    """Which of this user's records are common to all."""
    plan = work.plan
    words, order = yield Local("hashing ids", lambda: own_hashes(work))
    yield Commit(_commitment(work, words))
    if plan.align is Align.SERVER:
        found = positions_in((yield Compare(words)))
    else:
        found = yield from _blinded(work, words)
    positions = checked_positions(found, len(words))
    expect_overlap(plan, len(positions))
    # The same bytes at every user whose places name the same records.
    yield Witness("common records", hashlib.sha256(words[positions].astype("<u8").tobytes()).digest())
    return MatchResult(order[positions].astype(np.int64), len(words))


def own_hashes(work: Work) -> tuple[Ring, NDArray[np.intp]]:
    """The keyed hashes of this user's ids, sorted, so that they say nothing of its table; and the order of the ids."""
    if work.ids is None or len(work.ids) != work.plan.counts[work.i]:
        raise LocalProtocolError("the plan matches records, and this party's ids are not those of the plan")
    expect_distinct(work.ids)
    words = hashed(work.ids, work.checks).view("<u8").astype(np.uint64).reshape(-1, HASH_WORDS)
    order = np.lexsort(words.T)
    return words[order], order


def _commitment(work: Work, words: Ring) -> bytes:
    """A salted commitment to the set of ids."""
    content = hashlib.sha256(words.astype("<u8").tobytes()).digest()
    return hashlib.sha256(commitment_salt(work.own) + len(words).to_bytes(8, "big") + content).digest()


def _blinded(work: Work, words: Ring) -> Script:
    """The positions of the common records, by sets that every user multiplied; i counts from 0, as sets do."""
    plan, i, k = work.plan, work.i, work.plan.k
    factor, each = Blinding(work.own), work.each_part or map
    hashes = words.astype("<u8").view(np.uint8)
    before, after = (i - 1) % k, (i + 1) % k
    points, own_order = yield Local("blinding", lambda: factor.begin(points_of(hashes, each), each))
    for step in range(1, k):
        yield Give(after, points.tobytes())
        content = yield Take(before, POINT_BYTES * plan.counts[(i - step) % k])
        points = yield Local("blinding", partial(factor.apply, _points(content), each))
    # Every other user has multiplied the set of user i + 1, and this one is the last.
    points, last_order = shuffled(points, work.own.derive("order of the last"))
    places = checked_positions(positions_in((yield Compare(points.view("<u8").astype(np.uint64)))), len(points))
    expect_overlap(plan, len(places))
    yield from _same_points(work, points[places])
    yield Give(after, _answer(plan, unshuffled(places, last_order)))
    ours = _positions((yield Take(before, 8 * answer_rows(plan))))
    return unshuffled(checked_positions(ours, len(own_order)), own_order)


def _same_points(work: Work, common: Points) -> Script:
    """Raise ``SplitView`` unless the CSP named the same points to all, before any user hears of its own records."""
    digest = hashlib.sha256(b"fedsvd/common points/1\x00" + common.tobytes()).digest()
    others = [j for j in range(work.plan.k) if j != work.i]
    for j in others:
        yield Give(j, digest)
    for j in others:
        if (yield Take(j, DIGEST_BYTES)) != digest:
            raise SplitView("the CSP named different records to users as common")


def _answer(plan: SessionPlan, positions: NDArray[np.int64]) -> bytes:
    return padded_answer(plan, positions).astype("<u8").tobytes()


def _positions(content: bytes) -> NDArray[np.int64]:
    return positions_in(np.frombuffer(content, "<u8").astype(np.uint64))


def _points(content: bytes) -> Points:
    return np.frombuffer(content, np.uint8).reshape(-1, POINT_BYTES)
