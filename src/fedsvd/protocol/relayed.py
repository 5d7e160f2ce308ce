"""Sealed messages as the CSP sees them: from whom, to whom, how many bytes; and the seeds that open a session.

What users say to each other goes through the CSP, which reads none of it. Who sends how much is a function of the plan,
so that the CSP can hold every user to it, and both ends and the cost model count the same.
"""

from fedsvd.protocol.matching import cut, pairs_of
from fedsvd.protocol.parties import TA, Party, user
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.played import Exchanges, Pair
from fedsvd.protocol.steps import COMPARED, PlannedStep, StepKind, listed
from fedsvd.protocol.tasks import Trust

SEED_BYTES, DIGEST_BYTES, SIGNATURE_BYTES = 32, 32, 64

SEAL_BYTES = 25
"""Bytes that a seal adds to its content (``sealing/seal.py``, which the CSP does not import)."""

PART = 1 << 26
"""Bytes of a group-sealed message at most; longer content goes in parts."""

LENGTH_BYTES = 8
"""In front of the content of a group-sealed message: its length."""

GATHERED_FROM = 18
"""From so many users on the CSP hands out a round of messages to all in one: k^2 messages took longer than sums."""

SEEDS, DIGESTS, SIGNATURES = "seeds", "digests", "signatures"
"""The frame of every session, around the steps of its plan: step 2, then the two rounds of step 9.

The first of these has the digest of what a user saw, and commitments to its own and to its shared files.
"""

BEFORE = (PlannedStep(SEEDS, StepKind.EXCHANGE),)
AFTER = (
    PlannedStep(DIGESTS, StepKind.FROM_EACH, 3 * DIGEST_BYTES),
    PlannedStep(SIGNATURES, StepKind.FROM_EACH, SIGNATURE_BYTES),
)


def dealer(plan: SessionPlan) -> Party:
    """Who deals the mask seed; the users' seed is always user 1's."""
    return TA if plan.trust is Trust.AUTHORITY else user(1)


def dealers(plan: SessionPlan) -> dict[str, Party | None]:
    """Who deals each seed.

    ``users`` is behind tags, group pads and group-sealed messages, ``masks`` behind P, Q and c; ``tags`` is behind the
    tags of sums that one user alone opens, and is dealt by that user.
    """
    receivers = {step.to for step in listed(plan.steps)} - {0}
    return {"users": user(1), "masks": dealer(plan), "tags": user(max(receivers)) if receivers else None}


def deals(plan: SessionPlan, party: Party) -> tuple[str, ...]:
    """The seeds that this party deals, in the order of its commitments."""
    return tuple(name for name, dealt_by in dealers(plan).items() if dealt_by == party)


def framed(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    """The steps of the plan in the frame of a session."""
    return (*BEFORE, *plan.steps, *AFTER)


def passed_on(plan: SessionPlan, party: Party) -> Exchanges:
    """The sealed messages to single users that the CSP passes on for this one, by step, in order."""
    seeds = SEED_BYTES * len(deals(plan, party))
    dealt = tuple(Pair(other.index - 1, SEAL_BYTES + seeds, True) for other in plan.users if seeds and other != party)
    given = {
        name: tuple(
            Pair(pair.other, SEAL_BYTES + part.stop - part.start, True)
            for pair in gives
            for part in cut(plan, pair.size)
        )
        for name, (gives, _) in pairs_of(plan, party.index - 1).items()
    }
    return {name: (gives, ()) for name, gives in {SEEDS: dealt, **given}.items()}


def parts_to_all(size: int) -> tuple[int, ...]:
    """Bytes of each message that together carry ``size`` bytes to all other users, seals included."""
    whole = size + LENGTH_BYTES
    return tuple(SEAL_BYTES + min(PART, whole - start) for start in range(0, whole, PART))


def gathers(plan: SessionPlan) -> bool:
    """Whether messages that each user seals to all others reach them together, when the last is here."""
    return plan.k >= GATHERED_FROM


def comparisons(plan: SessionPlan) -> int:
    """How many answers of the CSP all users compare before any of them computes from one (step 7)."""
    return sum(step == COMPARED for step in listed(plan.steps))


def most_parts(plan: SessionPlan) -> int:
    """Messages that carry the longest content of this plan to all users."""
    sizes = [step.size for step in listed(plan.steps) if step.kind in (StepKind.FROM_USER_1, StepKind.FROM_EACH)]
    return len(parts_to_all(max(sizes, default=0)))
