"""The messages of a matching (specification, section 9): how many there are and how long, all known from the plan.

Sets of ids and answers are cut into parts of bounded length. An answer always has as many places as the smallest set
has records, the rest of it empty, so that its length says nothing of the overlap; both ends and the cost model know it.
With ``align = "ecdh"`` sets go around the users, counted from 0 here, before the CSP compares them: ``exchanges`` lists
every sealed message.
"""

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import ConfigError, TooFewCommon
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.played import Exchanges, Pair
from fedsvd.protocol.shared import INVERSE, VECTORS, shared_exchanges
from fedsvd.protocol.tasks import Align
from fedsvd.types import Ring

HASH_WORDS = 2
"""Words of the keyed hash of one id."""

POINT_BYTES = 32
"""Bytes of a blinded id: a point of Curve25519."""

DIGEST_BYTES = 32
"""Of the common points, which users compare before any of them hears where its own records are."""

BLINDED_SETS, PLACES = "blinded sets", "places"
"""The exchanges of a matching by blinded points, before and after the CSP compares them."""

EMPTY = 2**64 - 1
"""Fills the places of an answer that no record takes."""

_MOST_ROWS = 1 << 20  # of a message: 16 MiB of hashes, 32 MiB of points
_MOST_PARTS = 1 << 14
_OF_MEMORY = 256  # bytes of the budget to each row of a message


def part_rows(plan: SessionPlan) -> int:
    """Rows of a message at most."""
    return max(1, min(_MOST_ROWS, plan.memory // _OF_MEMORY))


def parts_of(plan: SessionPlan, rows: int) -> tuple[slice, ...]:
    """Rows of each message that together carry ``rows``."""
    each = part_rows(plan)
    _expect_few(rows, each)
    return tuple(slice(start, min(start + each, rows)) for start in range(0, rows, each))


def compared_set(plan: SessionPlan, i: int) -> tuple[int, int]:
    """Rows and words of the set that user i, counted from 0, gives the CSP to compare.

    By points it is the set of user i + 1, which user i was the last to blind.
    """
    if plan.align is Align.ECDH:
        return plan.counts[(i + 1) % plan.k], POINT_BYTES // 8
    return plan.counts[i], HASH_WORDS


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
    """Bytes of each sealed message that together carry ``size``."""
    each = POINT_BYTES * part_rows(plan)
    _expect_few(size, each)
    return tuple(slice(start, min(start + each, size)) for start in range(0, size, each))


def _expect_few(size: int, each: int) -> None:
    """Raise where too many messages would carry so much; counted before any is listed."""
    if -(-size // each) > _MOST_PARTS:
        raise ConfigError(f"{-(-size // each):,} parts of one message", f"at most {_MOST_PARTS:,}: allow more memory")


def exchanges(plan: SessionPlan) -> list[tuple[int, int, int]]:
    """Every content that one user seals to another in a matching: from, to, bytes; users count from 0."""
    return [*_blinded_sets(plan), *_places(plan)]


def _blinded_sets(plan: SessionPlan) -> list[tuple[int, int, int]]:
    """Sets of points, k - 1 times around."""
    if not plan.matches or plan.align is not Align.ECDH:
        return []
    k = plan.k
    return [(i, (i + 1) % k, POINT_BYTES * plan.counts[(i - step) % k]) for step in range(k - 1) for i in range(k)]


def _places(plan: SessionPlan) -> list[tuple[int, int, int]]:
    """Digests of the common points, then the places of the common records."""
    if not plan.matches or plan.align is not Align.ECDH:
        return []
    k, answer = plan.k, 8 * answer_rows(plan)
    found = [(i, j, DIGEST_BYTES) for i in range(k) for j in range(k) if j != i]
    return found + [(i, (i + 1) % k, answer) for i in range(k)]


def pairs_of(plan: SessionPlan, i: int) -> Exchanges:
    """What user i, counted from 0, gives and takes in every exchange of the plan, by the name of the step."""
    named = {BLINDED_SETS: _blinded_sets(plan), PLACES: _places(plan)}
    named |= {name: shared_exchanges(plan) for name in (INVERSE, VECTORS)}
    return {
        name: (
            tuple(Pair(to, size, True) for origin, to, size in listed if origin == i),
            tuple(Pair(origin, size, False) for origin, to, size in listed if to == i),
        )
        for name, listed in named.items()
    }
