"""Openings that ask every owner, whatever its data is: what the owner reads, and the rule that asks."""

from collections.abc import Callable, Mapping

from fedsvd.protocol.steps import PlannedStep, What


def _roc(step: PlannedStep) -> str:
    """Counts of a column that the study made."""
    how = f"rounded to multiples of {step.step}" if step.step > 1 else "exactly, also where they are 1 to 4"
    return (
        f"how many of your cases and controls are at or below {step.size // 2 - 1} values of the linear "
        f"predictor is opened, {how}. The study makes this column: two models that differ little can place one "
        "record between two of their counts. Researchers can leave roc out, and take the area under the curve "
        "by pairs within sites (quality = true)"
    )


def _baseline(step: PlannedStep) -> str:
    """Time at risk between times, next to events: of those who left between two of them little else is between."""
    return (
        f"events and time at risk of your records between {step.size} times are opened, for a baseline hazard of all "
        "parties: next to each other they say roughly what hazard those had who left between two times. Researchers "
        'can leave baseline = "common" out, and each party has the hazard of its own records'
    )


ASKED: Mapping[What, tuple[str, Callable[[PlannedStep], str]]] = {
    What.ROC: ("roc", _roc),
    What.EXPOSURE: ("baseline", _baseline),
}
"""By what a step opens."""


def in_bins(bins: int) -> tuple[str, str]:
    """A baseline of all parties in bins: each has an equation, which its coefficients solve to all their digits."""
    return "baseline", (
        f"the study estimates one hazard of all parties in each of {bins} bins of time. Its coefficients say, to all "
        "their digits, the sum of hazards of those who left between two times: where columns have few values, which "
        'combinations of them five leavers have can be computed. Researchers can leave baseline = "bins" out, and '
        "compare records within sites"
    )
