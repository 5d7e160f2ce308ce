"""What a plan says of a generalised linear model: family, link, what parties bring, and when the session ends.

One evaluation is one request of ``statistics.glm.fit``: two sums, of totals and of a Gram matrix. How many a session
needs is found during it; a plan has as many as it may need at most.
"""

from dataclasses import dataclass
from enum import StrEnum

from fedsvd.errors import ConfigError
from fedsvd.protocol.tasks import LINKS, Family, Ties

MOST_EVALUATIONS = 1 << 15
"""Evaluations that a plan lists, at most."""

_HALVINGS = 24
"""Evaluations of a model beyond two to each iteration, for steps that are halved and for what is asked at the end."""


MOST_STEPS = 40
"""Evaluations of a model whose sums have few digits, at most."""


class Digits(StrEnum):
    """How many digits the sums of a model have (specification, section 3)."""

    AUTO = "auto"  # decided in the plan, from public numbers
    TABLE = "table"  # as few as coefficients to 1e-10 and standard errors to 1e-4 need
    MORE = "more"  # standard errors to 1e-7
    ALL = "all"  # Gram matrices in all digits of float64


FEW = (Digits.TABLE, Digits.MORE)
"""Those whose sums open a few digits at a time."""

SCORE_BITS, PIECE_BITS, MOMENT_BITS, ENDING_BITS = 14, 12, 24, {Digits.TABLE: 24, Digits.MORE: 34}
PIECES, HOME_TESTS, START_SIZES, MEAN_BITS, MOST_SCORES = 5, 2, 3, 16, 10
"""Bits of each number of a score, of a piece of information, of the moments and the end; and how many there are."""

QUALITY, QUALITY_NUMBERS, QUALITY_BITS = "quality", 4, 24
"""The sum of ordered pairs, pairs, their variance and squared errors of all parties, at the end (specification)."""

BEGINS, STARTS, CURVED = "a model begins", "a null model", "a long or slow step"
ENDS, CONSTANT, ESTIMATED = "the end", "the null model's deviance", "the likelihood"
"""What an evaluation by few digits may leave out."""


def more_digits(piece: int) -> str:
    """The same of a matrix in pieces: those after the given number."""
    return f"more than {piece * PIECE_BITS} bits"


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
    digits: Digits = Digits.ALL  # of the sums
    ties: str = ""  # of a Cox model; empty for all others
    entry: bool = False  # of a Cox model: every party brings the time at which each record came under observation
    strata: bool = False  # likewise: and a column whose values part its own records into strata

    def __post_init__(self) -> None:
        if self.family not in tuple(Family) or self.link not in LINKS[Family(self.family)]:
            known = "; ".join(f"{family}: {', '.join(links)}" for family, links in LINKS.items())
            raise ConfigError(f"family is {self.family!r} with link {self.link!r}", f"one of {known}")
        object.__setattr__(self, "family", Family(self.family))
        if self.digits not in tuple(Digits):
            raise ConfigError(f"digits is {self.digits!r}", f"one of {', '.join(Digits)}")
        object.__setattr__(self, "digits", Digits(self.digits))
        self._expect_cox()
        if self.classes and (self.family not in (Family.BINOMIAL, Family.MULTINOMIAL) or self.classes < 2):
            count = "one class" if self.classes == 1 else f"{self.classes} classes"
            fix = "name two or more of a binomial or multinomial model, the reference first: classes = [...], --class"
            raise ConfigError(f"{count} of a {self.family} model", fix)
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

    def _expect_cox(self) -> None:
        if (self.family is Family.COX) != (self.ties in tuple(Ties)):
            raise ConfigError(f"ties is {self.ties!r}", f"one of {', '.join(Ties)}, of a Cox model alone")
        if self.family is not Family.COX and (self.entry or self.strata):
            raise ConfigError("entry and strata are of a Cox model", "leave them out")
        if self.family is Family.COX and self.digits is Digits.ALL:
            raise ConfigError(
                "a Cox model opens a few digits of its score and information, and no Gram matrix in all of them",
                'digits = "more" has standard errors to 1e-7',
            )

    @property
    def most_digits(self) -> Digits:
        """The most that its sums have: all, but for models that have no Gram matrix."""
        return Digits.MORE if self.family is Family.COX else Digits.ALL

    @property
    def labels(self) -> int:
        """Columns that a party brings next to its features: the target, an offset, weights.

        Of a Cox model time, event, entry, stratum, then offset and weights.
        """
        return self.offset_at + int(self.offset) + int(self.weighted)

    @property
    def offset_at(self) -> int:
        """The place of an offset among these."""
        return 1 + int(self.family is Family.COX) + int(self.entry) + int(self.strata)

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
        return self.family in (Family.BINOMIAL, Family.MULTINOMIAL, Family.POISSON, Family.COX)

    @property
    def few_digits(self) -> bool:
        """Whether sums open a few digits at a time, and no Gram matrix in all of its own."""
        return self.digits in FEW

    @property
    def moments(self) -> int:
        """Numbers that are opened before the first step, next to the means of the columns."""
        return 2 + (self.classes if self.family is Family.MULTINOMIAL else 1)

    @property
    def totals(self) -> int:
        """Numbers of an evaluation that are summed next to the energies of the columns."""
        return max(3, 2 + (self.classes if self.family is Family.MULTINOMIAL else 0))

    @property
    def evaluations(self) -> int:
        """How often the models are evaluated at most: a plan has as many rounds of sums."""
        if self.few_digits:
            return self.fits * MOST_STEPS * (2 if self.offset and self.family is not Family.COX else 1)
        return self.fits * (2 * self.max_iterations + _HALVINGS) * (2 if self.offset else 1)
