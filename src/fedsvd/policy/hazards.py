"""What parties are shown of times to an event: comparisons within sites, and what a Cox model opens after its fit."""

from collections.abc import Iterator

from fedsvd.protocol.hazards import EXPOSURE_BITS, SCHOENFELD_BITS, HazardsPlan, baseline_times, schoenfeld_numbers
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import What, listed
from fedsvd.protocol.tasks import Clock

_CLOCKS = {
    Clock.KM: "the share of each site's own records that is left",
    Clock.RANK: "the place among each site's own event times",
    Clock.IDENTITY: "the time",
    Clock.LOG: "the logarithm of time",
}


def within(plan: SessionPlan) -> Iterator[str]:
    """Groups that are compared within sites."""
    steps = [step for step in listed(plan.steps) if step.what is What.WITHIN]
    yield (
        f"Parties open {sum(step.size for step in steps)} totals of {max(step.step for step in steps)} bits, by which "
        "groups are compared within sites: each party compares its own records with each other alone, and no time, "
        "rank or order of records leaves it."
    )


def timed(plan: SessionPlan) -> Iterator[str]:
    """The test of proportional hazards."""
    about = HazardsPlan.of(plan)
    assert about is not None
    yield (
        f"Parties open {schoenfeld_numbers(plan)} totals of {SCHOENFELD_BITS} bits, by which effects are tested for "
        f"change with time ({_CLOCKS[about.clock]}): scores and information within sites, and first their mean time in "
        "12 bits; no time of an event."
    )


def exposure(plan: SessionPlan) -> Iterator[str]:
    """A common baseline hazard."""
    yield (
        "Parties open a baseline hazard of all of them: how many events there are up to each of "
        f"{baseline_times(plan)} times, and how long records were at risk between them, weighed by their hazards, in "
        f"{EXPOSURE_BITS} bits each."
    )
