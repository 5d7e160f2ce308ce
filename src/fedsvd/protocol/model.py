"""What a plan says of a model fitted by iterations: family, link, what parties bring, and when the session ends.

One evaluation is one request of ``statistics.glm.fit``: two sums, of totals and of a Gram matrix. How many a session
needs is found during it; a plan has as many as it may need at most.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from fedsvd.errors import ConfigError
from fedsvd.protocol.families import EFFECTS, FACTS, IN_BINS, SCORE, ModelFacts, Outcome
from fedsvd.protocol.tasks import LINKS, Family, Task, Ties

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

SCORE_BITS, PIECE_BITS, MOMENT_BITS, ENDING_BITS = 14, 12, 24, {Digits.TABLE: 24, Digits.MORE: 36}
PIECES, HOME_TESTS, START_SIZES, MEAN_BITS, MOST_SCORES = 5, 2, 3, 16, 10
"""Bits of each number of a score, of a piece of information, of the moments and the end; and how many there are."""

DEGREE_BITS = {Digits.TABLE: 16, Digits.MORE: 30}
"""Of what the degrees of freedom of a mixed model need: to 1e-3 of them, or to 1e-7."""

WITHIN_BITS = {Digits.TABLE: 24, Digits.MORE: 44}
"""Bits of a total of what parties compare among their own records."""

FEWEST_MOMENTS, MORE_BITS = 10, 44
"""Records of a group below which its sums are not opened; bits of these sums where digits are more than a table's."""


def moment_bits(records: float, digits: Digits) -> int:
    """Of the sums of a number over a group, by how many records it has or its weights are worth; 0 for none."""
    if records < FEWEST_MOMENTS:
        return 0
    return MORE_BITS if digits is not Digits.TABLE else 10 if records < 50 else 16 if records < 500 else 24


ROBUST, UNPENALISED = "robust errors", "no penalty"
BEGINS, STARTS, CURVED = "a model begins", "a null model", "a long or slow step"
ENDS, CONSTANT, ESTIMATED = "the end", "the null model's deviance", "the likelihood"
"""What an evaluation by few digits may leave out."""


def more_digits(piece: int) -> str:
    """The same of a matrix in pieces: those after the given number."""
    return f"more than {piece * PIECE_BITS} bits"


@dataclass(frozen=True)
class ModelPlan:
    """A model on split rows, and when its session ends; ``facts`` say how its family differs from others."""

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
    bins: int = 0  # of times, in which a Cox model has one baseline of all parties; 0: each party has its own
    reml: bool = True  # of a mixed model: by the restricted likelihood, else by the likelihood
    correlated: bool = True  # of a mixed model: a random slope and intercept of one group may be
    effect: str = ""  # of a propensity study: the family of the outcome (``EFFECTS``)
    beside: tuple[str, ...] = ()  # columns between target and offset, in the order of ``facts``; needed ones are added

    def __post_init__(self) -> None:
        if self.family not in tuple(Family) or self.link not in LINKS[Family(self.family)]:
            known = "; ".join(f"{family}: {', '.join(links)}" for family, links in LINKS.items())
            raise ConfigError(f"family is {self.family!r} with link {self.link!r}", f"one of {known}")
        object.__setattr__(self, "family", Family(self.family))
        if self.digits not in tuple(Digits):
            raise ConfigError(f"digits is {self.digits!r}", f"one of {', '.join(Digits)}")
        object.__setattr__(self, "digits", Digits(self.digits))
        self._expect_facts()
        self._expect_classes()
        if not (0.0 < self.tolerance < 1.0 and 1 <= self.max_iterations <= 1000):
            raise ConfigError(
                "tolerance is above 0 and below 1, max_iterations between 1 and 1000", "leave them out for the usual"
            )
        if self.evaluations > MOST_EVALUATIONS:
            fault = f"{self.fits} models of {self.max_iterations} iterations take {self.evaluations:,} evaluations"
            raise ConfigError(fault, f"at most {MOST_EVALUATIONS:,}: fewer classes, or max_iterations = 25")
        if self.least_class < 0 or self.least_events < 0:
            raise ConfigError("least_class and least_events are 0 or more", "leave them out for the usual")

    def _expect_facts(self) -> None:
        facts = self.facts
        grouped = self.bins > 0 and self.ties != Ties.BRESLOW
        if FACTS[self.family].outcome is Outcome.TIMES and (self.link == "cloglog") != grouped:
            fix = 'baseline = "bins" has link cloglog, and with ties = "breslow" link log; any other link log'
            raise ConfigError(f"link is {self.link!r} of a Cox model of {self.bins} bins", fix)
        if (facts.outcome is Outcome.TIMES) != (self.ties in tuple(Ties)):
            raise ConfigError(f"ties is {self.ties!r}", f"one of {', '.join(Ties)}, of a Cox model alone")
        if not set(self.beside) <= set(facts.beside):
            known = ", ".join(facts.beside) or "no column there"
            raise ConfigError(f"next to the target: {', '.join(self.beside)}", f"this model has {known}")
        given = [*self.beside, *(name for name in facts.needs if name not in self.beside)]
        twice = [name for name in facts.beside if given.count(name) > 1 and name not in facts.several]
        if twice:
            raise ConfigError(f"two columns of {twice[0]} next to the target", "name one")
        object.__setattr__(self, "beside", tuple(name for name in facts.beside for _ in range(given.count(name))))
        if facts.only_few_digits and self.digits is Digits.ALL:
            raise ConfigError(
                f"a {facts.name} model opens a few digits of its score and information, and no Gram matrix in all of "
                "them",
                'digits = "more" has standard errors to 1e-7',
            )
        effect, of_times = self.effect_facts, facts.weighs and "event" in self.beside
        if facts.weighs != (effect is not None) or (effect is not None and effect.outcome is Outcome.TIMES) != of_times:
            known = f"{', '.join(EFFECTS)}, the last of them with a column of events"
            raise ConfigError(f"the effect of a treatment on a {self.effect or 'missing'} outcome", f"one of {known}")
        if self.offset and not facts.offsets:
            several = "an offset has no meaning for several classes"
            raise ConfigError(f"a {facts.name} model has no offset" if self.bins else several, "leave offset out")

    def _expect_classes(self) -> None:
        of_classes, least = self.facts.outcome is Outcome.CLASSES, self.facts.least_classes
        if self.classes and (not of_classes or self.classes < 2):
            count = "one class" if self.classes == 1 else f"{self.classes} classes"
            fix = "name two or more of a binomial or multinomial model, the reference first: classes = [...]"
            raise ConfigError(f"{count} of a {self.family} model", fix)
        if of_classes and least > 2 and self.classes < least:
            a, of_two = "an" if self.family[0] in "aeiou" else "a", 'family = "binomial"'
            fix = of_two if self.facts.task is Task.GLM else f"two are a logistic regression: task glm, {of_two}"
            raise ConfigError(f"{a} {self.family} model needs the names of three classes or more", fix)

    @property
    def facts(self) -> ModelFacts:
        """How its family differs from others."""
        return IN_BINS if self.bins else FACTS[self.family]

    @property
    def most_digits(self) -> Digits:
        """The most that its sums have: all, but for models that have no Gram matrix."""
        return Digits.MORE if self.facts.only_few_digits else Digits.ALL

    def coefficients(self, features: int, intercept: bool) -> int:
        """P: of all equations, and the parameters that are of no column."""
        return self.equations * (features + int(intercept)) + self.facts.extra(self)

    def scored(self, features: int, intercept: bool) -> int:
        """Those of them whose scores are squared for robust errors."""
        if self.facts.weighs:
            return self.stages[1].scored(1, "event" not in self.beside)  # a treatment alone
        return self.coefficients(features, intercept) - self.facts.known

    @property
    def effect_facts(self) -> ModelFacts | None:
        """Of the outcome of a propensity study."""
        return FACTS[EFFECTS[self.effect]] if self.effect in EFFECTS else None

    @property
    def stages(self) -> "tuple[ModelPlan, ModelPlan]":
        """Of a propensity study: the model of who was treated, and the weighted one of the outcome on the treatment."""
        treated = replace(self, family=SCORE, effect="", beside=())
        family, of_times = EFFECTS[self.effect], "event" in self.beside
        return treated, ModelPlan(
            family,
            LINKS[family][0],
            weighted=True,
            tolerance=self.tolerance,
            max_iterations=self.max_iterations,
            digits=self.digits,
            ties=str(Ties.EFRON) if of_times else "",
        )

    def column(self, name: str) -> int | None:
        """The place of a column of ``beside`` among the labels; None where parties bring none."""
        return 1 + self.beside.index(name) if name in self.beside else None

    def columns(self, name: str) -> list[int]:
        """The places of all columns of this name, likewise."""
        return [1 + place for place, each in enumerate(self.beside) if each == name]

    @property
    def labels(self) -> int:
        """Columns that a party brings next to its features: the target, those of ``beside``, an offset, weights."""
        return self.offset_at + int(self.offset) + int(self.weighted)

    @property
    def offset_at(self) -> int:
        """The place of an offset among these."""
        return 1 + len(self.beside)

    @property
    def fits(self) -> int:
        """Models that are fitted one after the other: one, or one for each class against the rest."""
        return self.classes if self.facts.against_rest and self.classes > 2 else 1

    @property
    def equations(self) -> int:
        """Linear predictors of one model: one, or one for each class but the first."""
        return self.classes - 1 if self.facts.each_class else 1

    @property
    def counts_outcomes(self) -> bool:
        """Whether the target has classes or events, whose number limits what may be fitted."""
        return self.facts.outcome is not Outcome.NUMBER

    @property
    def few_digits(self) -> bool:
        """Whether sums open a few digits at a time, and no Gram matrix in all of its own."""
        return self.digits in FEW

    @property
    def degree_bits(self) -> int:
        """Of each number that degrees of freedom of a mixed model are made of."""
        return DEGREE_BITS.get(self.digits, DEGREE_BITS[Digits.TABLE])

    @property
    def moments(self) -> int:
        """Numbers that are opened before the first step, next to the means of the columns."""
        return 2 + self.targets

    @property
    def targets(self) -> int:
        """Those of them that are of the outcome: its sum, or one for each class."""
        return (self.classes if self.facts.class_counts else 1) + self.facts.more_sums(self)

    @property
    def counted(self) -> bool:
        """Whether these are whole numbers."""
        return self.facts.whole_counts or (self.classes + self.bins > 0 and not self.weighted)

    @property
    def sums_weights(self) -> bool:
        """Whether the sum of prior weights is opened."""
        return self.weighted and self.facts.sums_weights

    @property
    def null_fits(self) -> int:
        """How many iterations a model has: another one for a null model with an offset."""
        return 2 if self.offset and self.facts.null_fit else 1

    @property
    def totals(self) -> int:
        """Numbers of an evaluation that are summed next to the energies of the columns."""
        return max(3, 2 + (self.classes if self.facts.each_class else 0))

    @property
    def evaluations(self) -> int:
        """How often the models are evaluated at most: a plan has as many rounds of sums."""
        if self.few_digits:
            return self.fits * MOST_STEPS * self.null_fits
        return self.fits * (2 * self.max_iterations + _HALVINGS) * (2 if self.offset else 1)
