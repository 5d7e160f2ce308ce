"""What a plan says of a generalised linear model: family, link, what parties bring, and when the session ends.

One evaluation is one request of ``statistics.glm.fit``: two sums, of totals and of a Gram matrix. How many a session
needs is found during it; a plan has as many as it may need at most.
"""

from dataclasses import dataclass

from fedsvd.errors import ConfigError
from fedsvd.protocol.tasks import LINKS, Family

MOST_EVALUATIONS = 1 << 15
"""Evaluations that a plan lists, at most."""

_HALVINGS = 24
"""Evaluations of a model beyond two to each iteration, for steps that are halved and for what is asked at the end."""


@dataclass(frozen=True)
class ModelPlan:
    """A generalised linear model on split rows, and when its session ends."""

    family: Family
    link: str
    classes: int = 0  # of the target; 0 where it is a number
    offset: bool = False  # every party brings a column that is added to the linear predictor
    weighted: bool = False  # and one of prior weights
    tolerance: float = 1e-9  # of a step, in standard errors, below which the iteration ends
    max_iterations: int = 25
    least_class: int = 0  # rows of the smallest class, below which the session ends before a Gram matrix is opened
    least_events: int = 0  # events for each coefficient, likewise

    def __post_init__(self) -> None:
        if self.family not in tuple(Family) or self.link not in LINKS[Family(self.family)]:
            known = "; ".join(f"{family}: {', '.join(links)}" for family, links in LINKS.items())
            raise ConfigError(f"family is {self.family!r} with link {self.link!r}", f"one of {known}")
        object.__setattr__(self, "family", Family(self.family))
        if self.classes and (self.family not in (Family.BINOMIAL, Family.MULTINOMIAL) or self.classes < 2):
            raise ConfigError(f"{self.classes} classes of a {self.family} model", "two classes or more of a binomial")
        if self.family is Family.MULTINOMIAL and self.classes < 3:
            raise ConfigError("a multinomial model needs the names of three classes or more", 'family = "binomial"')
        if self.family is Family.MULTINOMIAL and self.offset:
            raise ConfigError("an offset has no meaning for several classes", "leave offset out")
        if not (0.0 < self.tolerance < 1.0 and 1 <= self.max_iterations <= 1000):
            raise ConfigError(
                "tolerance is above 0 and below 1, max_iterations between 1 and 1000", "leave them out for the usual"
            )
        if self.evaluations > MOST_EVALUATIONS:
            fault = f"{self.fits} models of {self.max_iterations} iterations take {self.evaluations:,} evaluations"
            raise ConfigError(fault, f"at most {MOST_EVALUATIONS:,}: fewer classes, or max_iterations = 25")
        if self.least_class < 0 or self.least_events < 0:
            raise ConfigError("least_class and least_events are 0 or more", "leave them out for the usual")

    @property
    def labels(self) -> int:
        """Columns that a party brings next to its features: the target, an offset, weights."""
        return 1 + int(self.offset) + int(self.weighted)

    @property
    def fits(self) -> int:
        """Models that are fitted one after the other: one, or one for each class against the rest."""
        return self.classes if self.family is Family.BINOMIAL and self.classes > 2 else 1

    @property
    def equations(self) -> int:
        """Linear predictors of one model: one, or one for each class but the first."""
        return self.classes - 1 if self.family is Family.MULTINOMIAL else 1

    @property
    def counts_outcomes(self) -> bool:
        """Whether the target has classes or events, whose number limits what may be fitted."""
        return self.family in (Family.BINOMIAL, Family.MULTINOMIAL, Family.POISSON)

    @property
    def totals(self) -> int:
        """Numbers of an evaluation that are summed next to the energies of the columns."""
        return max(3, 2 + (self.classes if self.family is Family.MULTINOMIAL else 0))

    @property
    def evaluations(self) -> int:
        """How often the models are evaluated at most: the number of sums of totals, and of Gram matrices, in a plan."""
        return self.fits * (2 * self.max_iterations + _HALVINGS) * (2 if self.offset else 1)
