"""The mini-batches of the upload (section 3.2 of the paper): rows of a panel, sized by the memory budget."""

from dataclasses import dataclass

from fedsvd.protocol.plan import SessionPlan
from fedsvd.secagg.batches import batch_rows


@dataclass(frozen=True)
class Batch:
    """Rows ``rows`` of panel ``panel``; ``last`` when the panel ends with it."""

    panel: int
    rows: slice
    width: int
    last: bool

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.stop - self.rows.start, self.width


def batches(plan: SessionPlan) -> tuple[Batch, ...]:
    """Every batch of the upload, in the order in which the CSP asks for them."""
    cut = []
    for panel, (rows, width) in enumerate(plan.panels):
        # A quarter of the budget: a panel, its masked copy and the CSP's store want room as well.
        slices = batch_rows(rows, width, max(plan.memory // 4, 1))
        cut += [Batch(panel, rows_, width, rows_ is slices[-1]) for rows_ in slices]
    return tuple(cut)
