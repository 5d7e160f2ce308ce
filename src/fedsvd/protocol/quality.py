"""What a plan says of a model's quality: sums of pairs and squared errors, and counts along the linear predictor.

The counts have a grid that two of the sums decide, so these are added up first.
"""

import json
from dataclasses import dataclass

from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Item
from fedsvd.statistics.fives import SCORE_EDGES

QUALITY, PAIRS, QUALITY_BITS = "quality", 4, 24
"""The sum of ordered pairs, pairs, their variance and squared errors of all parties, at the end (specification)."""

SPREAD = 2
"""Further numbers of it where counts follow: the linear predictor, and its square."""

ROC = "roc"
"""The counts."""

ROC_COLUMNS = ("linear_predictor", "probability", "mean_probability", "cases", "controls")
"""Of their table: an edge, its probability, the mean of that up to the edge, and how many are at or below it."""


def quality_numbers(plan: SessionPlan) -> int:
    """Numbers of that sum; 0 where quality is not released."""
    if not plan.releases(Item.QUALITY):
        return 0
    return PAIRS + (SPREAD if plan.releases(Item.ROC) else 0)


@dataclass(frozen=True)
class ROCPlan:
    """How cases and controls are counted."""

    thresholds: tuple[float, ...]  # probabilities at which sensitivity and specificity are asked for
    least: int  # what counts are multiples of; 1 where they are exact

    @classmethod
    def of(cls, plan: SessionPlan) -> "ROCPlan | None":
        """None where no counts are released."""
        if not plan.releases(Item.ROC):
            return None
        return cls(tuple(json.loads(str(plan.option("thresholds")))), int(plan.option("roc")))

    @property
    def numbers(self) -> int:
        """Counts that are summed: cases and controls at or below each edge, and all of them."""
        return 2 * (SCORE_EDGES + len(self.thresholds) + 1)
