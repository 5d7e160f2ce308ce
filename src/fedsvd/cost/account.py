"""The account of one role: its stages, with their work and the bytes alive at the peak of each."""

from dataclasses import dataclass

from fedsvd.cost.rates import Work


@dataclass(frozen=True)
class Step:
    """One stage of a role: its name, its work, and the bytes alive at its peak."""

    stage: str
    work: Work
    alive: int


class Account:
    """The steps of one role so far, and the numbers it holds between them."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.held = 0.0

    def step(self, stage: str, work: Work, numbers: float = 0.0, *, keeps: float = 0.0) -> None:
        """A stage that needs these numbers on top of what is held, and leaves some behind."""
        self.steps.append(Step(stage, work, int(8 * (self.held + numbers))))
        self.held += keeps
