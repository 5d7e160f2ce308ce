"""The messages of a matching (specification, section 9): how many there are and how long, all known from the plan.

Sets of ids and answers are cut into parts of so many rows. An answer always has as many places as the smallest set has
records, the rest of it empty, so that its length says nothing of the overlap; both ends and the cost model know it.
With ``align = "ecdh"`` sets go around the users, counted from 0 here: ``exchanges`` lists every sealed message.
"""

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import TooFewCommon
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.shared import shared_exchanges
from fedsvd.protocol.tasks import Align
from fedsvd.types import Ring

HASH_WORDS = 2
"""Words of the keyed hash of one id."""

POINT_BYTES = 32
"""Bytes of a blinded id: a point of Curve25519."""

EMPTY = 2**64 - 1
"""Fills the places of an answer that no record takes."""

_MOST_ROWS = 1 << 20  # of a message: 16 MiB of hashes, 32 MiB of points
_OF_MEMORY = 256  # bytes of the budget to each row of a message


def part_rows(plan: SessionPlan) -> int:
    """Rows of a message at most."""
    return max(1, min(_MOST_ROWS, plan.memory // _OF_MEMORY))


def parts_of(plan: SessionPlan, rows: int) -> tuple[slice, ...]:
    """Rows of each message that together carry so many."""
    each = part_rows(plan)
    return tuple(slice(start, min(start + each, rows)) for start in range(0, rows, each))


def answer_rows(plan: SessionPlan) -> int:
    """Places of an answer: no more records can be common than the smallest set has."""
    return min(plan.counts)


def padded_answer(plan: SessionPlan, positions: NDArray[np.int64]) -> Ring:
    """Positions with empty places behind them."""
    answer = np.full(answer_rows(plan), EMPTY, np.uint64)
    answer[: len(positions)] = positions.astype(np.uint64)
    return answer


def positions_in(answer: Ring) -> NDArray[np.int64]:
    """The positions of an answer; places beyond 2^63 read as negative ones, which no table has."""
    taken = answer != np.uint64(EMPTY)
    count = int(taken.sum())
    # Empty places stand at the end; an answer with one before a position is read as naming that place.
    return answer[:count].astype(np.int64)


def expect_overlap(plan: SessionPlan, common: int) -> None:
    """End a matching of fewer records than the plan wants; that it is fewer is all the text says."""
    if common < plan.least_overlap:
        raise TooFewCommon(
            f"fewer than {plan.least_overlap} records are common to all parties",
            "check the id columns and how they are normalised, or ask for a smaller overlap (least_overlap)",
        )


def sealed_parts(plan: SessionPlan) -> int:
    """Sealed messages that one user sends to single other ones, at most: in a matching, or after a shared sum."""
    sent = [0] * plan.k
    for origin, _, size in (*exchanges(plan), *shared_exchanges(plan)):
        sent[origin] += len(cut(plan, size))
    return max(sent)


def cut(plan: SessionPlan, size: int) -> tuple[slice, ...]:
    """Bytes of each sealed message that together carry so many."""
    each = POINT_BYTES * part_rows(plan)
    return tuple(slice(start, min(start + each, size)) for start in range(0, size, each))


def exchanges(plan: SessionPlan) -> list[tuple[int, int, int]]:
    """Every content that one user seals to another: from, to, bytes; users count from 0. Each sends in this order."""
    if not plan.matches or plan.align is not Align.ECDH:
        return []
    k, answer = plan.k, 8 * answer_rows(plan)
    found = [(i, (i + 1) % k, POINT_BYTES * plan.counts[(i - step) % k]) for step in range(k - 1) for i in range(k)]
    found += [(i, 0, POINT_BYTES * plan.counts[(i + 1) % k]) for i in range(1, k)]
    found += [(0, i, answer) for i in range(1, k)]
    found += [(i, (i + 1) % k, answer) for i in range(k)]
    return found
