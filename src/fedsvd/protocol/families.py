"""What differs between models whose log-likelihood is a sum over records: one record of facts for each family.

Everything outside of a model's own files reads these facts from the plan (``ModelPlan.facts``), and asks for no family
by its name: what its outcome is, which columns stand next to it, how many parameters it has, what it opens. To add a
model, add its facts here and its word to ``tasks.py`` (CONTRIBUTING, "To add a model by Newton steps").
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from fedsvd.protocol.tasks import Family, Robust, Task

if TYPE_CHECKING:
    from fedsvd.protocol.model import ModelPlan


class Outcome(StrEnum):
    """What the target of a model is."""

    NUMBER = "number"
    CLASSES = "classes"  # 0 or 1, the number of a class, or a share of trials
    COUNTS = "counts"
    TIMES = "times"  # of events, which a column next to it has


@dataclass(frozen=True)
class ModelFacts:
    """Everything that roles, policies, costs, studies and results know of a family."""

    task: Task
    outcome: Outcome
    # --- columns next to the target, in their order; options of these names name them
    beside: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()  # those of them that it cannot do without
    several: tuple[str, ...] = ()  # those of which there may be more than one
    counted_at: int = 0  # the label column with the classes or events, of which own numbers of 1 to 4 ask
    # --- parameters
    each_class: bool = False  # a linear predictor for each class but the first
    against_rest: bool = False  # more than two classes are a model for each, against the rest
    least_classes: int = 2
    extra: Callable[["ModelPlan"], int] = lambda about: 0  # beyond one a column: thresholds, log theta, variances
    grouped: str = ""  # the column of ``beside`` with the groups that have random effects
    offsets: bool = True
    centred: bool = False  # columns are centred without an intercept, which the extra parameters take up
    # --- sums
    only_few_digits: bool = False  # there is no Gram matrix of weighted rows, so no sum has all digits
    class_counts: bool = False  # one count for each class is opened at the beginning, else one sum of the outcome
    more_sums: Callable[["ModelPlan"], int] = lambda about: 0  # and further ones: its squares, those of a slope
    sums_weights: bool = True  # and the sum of the prior weights
    whole_counts: bool = False  # whose counts are whole numbers whatever the weights are
    dispersion: bool = False  # estimated
    null_fit: bool = True  # an offset needs an iteration for the null model
    null_sums: bool = True  # the null model's deviance is summed at the end
    likelihood_sum: bool = True  # and the log-likelihood
    score_test: bool = False  # and the score test of all effects
    more_bits: int = 0  # of each number of the information, beyond those of a generalised linear model
    own_bits: Callable[["ModelPlan", int], int] = lambda about, P: 0  # expected beyond these, with P coefficients
    # --- robust errors
    robust: tuple[Robust, ...] = tuple(Robust)  # those it has: HC2 and HC3 divide by the leverage of one predictor
    known: int = 0  # extra parameters that they take as known
    # --- judged at home
    weighs_by_outcome: bool = False  # records weigh about as much as their outcome
    few_events: bool = False  # two parties: fewer than fifty own events ask
    # --- stages
    weighs: bool = False  # records are weighted by their score in a second model, of the treatment's effect
    # --- words
    name: str = ""  # in a sentence
    begins: str = "the mean of each column in 16 bits"  # what is opened first
    learns: tuple[str, ...] = ()  # further sentences on what every party learns
    stays: tuple[str, ...] = ()  # and on what stays with each
    counts: str = ""  # what every party learns of the outcome: ``least_class`` and ``least_events`` are filled in
    draws: tuple[str, ...] = ("residuals", "qq")  # of a party's own rows


def variances(about: "ModelPlan") -> int:
    """Of a mixed model: those of residuals, of an intercept and each slope, and their covariances."""
    q = 1 + about.beside.count("slope")
    return 1 + (q * (q + 1) // 2 if about.correlated else q)


def _mixed_bits(about: "ModelPlan", P: int) -> int:
    """Bits of a mixed model beyond those of others: more steps, and what a restricted likelihood opens."""
    v = variances(about)
    p = P - v
    triangle = p * (p + 1) // 2
    degrees = (about.degree_bits - 16) * v * (p + triangle if about.reml else p)
    return 100 + degrees + (120 * triangle + 30 * v * triangle if about.reml else 0)


EFFECTS: Mapping[str, Family] = MappingProxyType(
    {
        "gaussian": Family.GAUSSIAN,
        "binomial": Family.QUASIBINOMIAL,
        "poisson": Family.QUASIPOISSON,
        "cox": Family.COX,
    }
)
"""Families of an outcome whose weighted model says the effect of a treatment; weights are no numbers of trials."""
SCORE = Family.BINOMIAL
"""That of a propensity score."""


def effect_on(family: str | None, events: bool) -> str:
    """The key of ``EFFECTS`` of an outcome of this family, or of a time with its events."""
    return "cox" if events else str(family or "gaussian")


def _weighted_bits(about: "ModelPlan", P: int) -> int:
    """Of the second model of a treatment's effect, and of the balance of P - 1 covariates."""
    more = about.digits == "more"
    outcome = 2 * 160 + 200 + 6 * (29 if more else 24) + 150  # of counts it takes up to three steps more
    return outcome + 4 * (51 if more else 31) + (P - 1) * (8 * (46 if more else 18) + 1)


_CLASS_COUNTS = (
    "Every party learns how many rows each class has, or how many events there are; the session ends with that "
    "where a class has fewer than {least_class} rows, or fewer than {least_events} for each coefficient."
)
_OF_CLASSES = ("roc", "calibration")
_WITHOUT_LEVERAGE = (Robust.HC0, Robust.HC1, Robust.CLUSTER)

_BINOMIAL = ModelFacts(Task.GLM, Outcome.CLASSES, against_rest=True, counts=_CLASS_COUNTS, draws=_OF_CLASSES)
_POISSON = ModelFacts(Task.GLM, Outcome.COUNTS, weighs_by_outcome=True, counts=_CLASS_COUNTS, draws=("residuals",))

FACTS: Mapping[Family, ModelFacts] = MappingProxyType(
    {
        Family.GAUSSIAN: ModelFacts(Task.GLM, Outcome.NUMBER, dispersion=True),
        Family.BINOMIAL: _BINOMIAL,
        Family.POISSON: _POISSON,
        Family.QUASIBINOMIAL: replace(_BINOMIAL, dispersion=True, likelihood_sum=False),
        Family.QUASIPOISSON: replace(_POISSON, dispersion=True, likelihood_sum=False),
        Family.GAMMA: ModelFacts(Task.GLM, Outcome.NUMBER, dispersion=True, draws=("residuals",)),
        Family.MULTINOMIAL: ModelFacts(
            Task.GLM,
            Outcome.CLASSES,
            each_class=True,
            least_classes=3,
            offsets=False,
            class_counts=True,
            null_sums=False,
            robust=_WITHOUT_LEVERAGE,
            counts=_CLASS_COUNTS,
            draws=_OF_CLASSES,
        ),
        Family.NEGATIVE_BINOMIAL: ModelFacts(
            Task.GLM,
            Outcome.COUNTS,
            extra=lambda about: 1,  # log theta
            known=1,
            only_few_digits=True,
            null_fit=False,
            likelihood_sum=False,
            more_bits=36,  # far from the end the curvature may not be positive, and the information is opened again
            name="negative binomial",
            counts=_CLASS_COUNTS,
            draws=("residuals",),
        ),
        Family.COX: ModelFacts(
            Task.COX,
            Outcome.TIMES,
            beside=("event", "entry", "strata"),
            needs=("event",),
            counted_at=1,
            score_test=True,
            own_bits=lambda about, P: 40 + 12 * P,  # of that test
            only_few_digits=True,
            sums_weights=False,
            whole_counts=True,
            null_fit=False,
            likelihood_sum=False,
            more_bits=12,  # its information mostly needs a second twelve
            robust=_WITHOUT_LEVERAGE,
            few_events=True,
            name="Cox",
            begins="the number of events",
            learns=(
                "Every party learns how many pairs of records can be compared inside sites, and how many of them the "
                "model orders as they left (concordance), in a few digits.",
            ),
            stays=(
                "Each party compares its records with its own alone (strata by site): times, risk sets, ties and its "
                "baseline hazard stay with it, and a party without events cannot be told from the sums.",
            ),
            counts=(
                "Every party learns how many events there are in all; the session ends with that where they are fewer "
                "than {least_class}, or fewer than {least_events} for each coefficient."
            ),
            draws=("residuals",),
        ),
        Family.ORDINAL: ModelFacts(
            Task.ORDINAL,
            Outcome.CLASSES,
            least_classes=3,
            extra=lambda about: about.classes - 1,
            offsets=False,
            centred=True,
            only_few_digits=True,
            class_counts=True,
            null_fit=False,
            null_sums=False,  # it follows from the counts
            more_bits=28,  # by a cloglog link every long step opens it again
            robust=_WITHOUT_LEVERAGE,
            name="ordinal",
            counts=_CLASS_COUNTS,
            draws=_OF_CLASSES,
        ),
        Family.MIXED: ModelFacts(
            Task.MIXED,
            Outcome.NUMBER,
            beside=("subject", "slope"),
            needs=("subject",),
            several=("slope",),
            grouped="subject",
            extra=variances,
            offsets=False,
            only_few_digits=True,
            more_sums=lambda about: 4 + 2 * about.beside.count("slope"),
            sums_weights=False,
            null_fit=False,
            null_sums=False,
            likelihood_sum=False,
            more_bits=36,  # its information mostly needs a second twelve, and several evaluations have it
            own_bits=_mixed_bits,
            robust=(),
            name="mixed",
            begins=(
                "the mean of each column in 16 bits, the spread of the outcome, in all and inside groups, that of "
                "columns with random slopes, and how many groups there are"
            ),
            learns=(
                "Every party learns how many groups there are in all, the variances of their random effects, and "
                "sums of products of the columns inside groups, in a few digits.",
            ),
            stays=(
                "A group, a person or a clinic, lies in one party: which rows it has, their sums and the predictions "
                "of its random effects stay there.",
            ),
            draws=("residuals", "qq"),
        ),
        Family.PROPENSITY: ModelFacts(
            Task.PROPENSITY,
            Outcome.CLASSES,
            beside=("treatment", "event"),
            needs=("treatment",),
            counted_at=1,
            offsets=False,
            only_few_digits=True,
            sums_weights=False,
            own_bits=_weighted_bits,
            weighs=True,
            name="propensity",
            learns=(
                "Every party learns, for the treated and for all others, the sum of the weights and of their squares, "
                "and how covariates are spread in both groups before and after weighting, in a few digits; and the "
                "coefficients of a model of the outcome on the treatment alone, weighted, by the same steps.",
            ),
            stays=(
                "A record's propensity score and weight stay with its party. Before a sum with weights is sent the "
                "party tests that no record has more than a fifth of its group's own weight. Trimming leaves out none "
                "or at least five of its records of a group.",
            ),
            counts=_CLASS_COUNTS,
            draws=(),
        ),
    }
)
"""The facts of every family."""

IN_BINS = replace(
    FACTS[Family.COX],
    beside=("event",),
    extra=lambda about: about.bins,  # log hazards
    offsets=False,
    centred=True,
    more_sums=lambda about: 2 * about.bins,  # events of each bin, and records at risk in it
    sums_weights=True,
    whole_counts=False,
    score_test=False,
    null_sums=False,  # it follows from these
    more_bits=36,  # long steps open it again
    own_bits=lambda about, P: 32 * about.bins - 60 * about.bins * (about.bins - 1),  # none is of two bins
    name="Cox model in bins",
    begins="the number of events, and of records at risk, in each bin of time, and the mean of each column in 16 bits",
    learns=(
        "Every party learns how many records of all parties were at risk in each bin of time, and how many had the "
        "event in it, exactly.",
    ),
    stays=("Which records they were stays with each party, and so does every time inside a bin.",),
)
"""The same of a Cox model with one baseline of all parties, level in bins of time: a generalised linear model."""
