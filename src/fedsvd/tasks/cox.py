"""Cox regression stratified by site: the steps of a model by few digits, with times and risk sets at home."""

from fedsvd.errors import ConfigError
from fedsvd.protocol.hazards import (
    CLOCK,
    CLOCK_BITS,
    EVENTS,
    EXPOSURE,
    EXPOSURE_BITS,
    HAZARD,
    HAZARD_COLUMNS,
    SCHOENFELD,
    SCHOENFELD_BITS,
    SIZES,
    ZPH_COLUMNS,
    HazardsPlan,
    baseline_times,
    schoenfeld_numbers,
)
from fedsvd.protocol.outputs import CLASS, FEATURE, RECORD, Kind, To, array, column, hidden
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import PlannedStep, What, fives, sized
from fedsvd.protocol.tasks import Baseline, Task
from fedsvd.statistics.fives import expect_grid
from fedsvd.tasks.glm import ERRORS, equations, model, own_rows
from fedsvd.tasks.glm import steps as model_steps

OUTPUTS = (
    *equations(),
    *ERRORS,
    *own_rows(),
    array("deviance_residuals", RECORD, CLASS, to=To.OWN, draws=("residuals",)),
    array("dfbeta", RECORD, FEATURE, to=To.OWN),
    hidden("baseline", "event time", "number", to=To.OWN),
    hidden(SCHOENFELD, FEATURE, "number", attribute="schoenfeld_"),
    *(column(f"zph {name}", "row", "proportional", name, kind=Kind.COLUMN) for name in ZPH_COLUMNS),
    hidden(HAZARD, "time", "number", attribute="common_hazard_"),
    *(column(f"hazard {name}", "time", HAZARD, name, kind=Kind.COLUMN) for name in HAZARD_COLUMNS),
)
"""What a Cox model gives: log hazard ratios; of own records the relative hazard and the martingale residual."""


def steps(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    """Those of a model by few digits, and of what is asked for after the fit."""
    about, numbers, bins = HazardsPlan.of(plan), schoenfeld_numbers(plan), baseline_times(plan)
    found = model_steps(plan)
    if about is not None and about.baseline is Baseline.BINS:
        expect_grid(about.times)
        if plan.glm is None or plan.glm.bins != len(about.times):
            raise ConfigError("a baseline in bins has one hazard for each of its times", "plan it again")
    if numbers:
        if plan.glm is not None and plan.glm.bins:
            raise ConfigError(
                "the test of proportional hazards is within sites, and a baseline in bins is of all of them",
                'leave schoenfeld out, or baseline = "bins"',
            )
        if plan.alpha:
            raise ConfigError("the test of proportional hazards has no ridge", "leave schoenfeld or alpha out")
        found += sized(CLOCK, 1, CLOCK_BITS, What.TIMED)
        found += sized(SCHOENFELD, numbers, SCHOENFELD_BITS, What.TIMED, SIZES)
    if about is not None and bins:
        expect_grid(about.times)
        if plan.glm is not None and plan.glm.weighted:
            raise ConfigError(
                "a common baseline counts events, and records have weights", "leave baseline or weights out"
            )
        found += (fives(EVENTS, bins, about.least),)
        found += sized(EXPOSURE, bins, EXPOSURE_BITS, What.EXPOSURE)
    return found


TASK = model(
    Task.COX,
    steps,
    OUTPUTS,
    first_label="time",
    first_lines=(
        ('event = "event"', "1 where the event was seen at that time, 0 where follow-up ended"),
        ('# entry = "entry"', "the time from which a record was observed"),
        ('# strata = "clinic"', "compare records of one site and one clinic"),
        ('# ties = "breslow"', "efron where left out"),
    ),
)
