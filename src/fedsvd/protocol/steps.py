"""The steps of a session as data in its plan: what is summed, who sends what to whom, in which order (section 3).

A plan lists them, hashed with the rest, so that every party holds every other one to the same list: a user asks for
nothing that is not next in it (``played.py``), the CSP adds up and passes on nothing else, and a peer whose version
declares other steps has another plan before the first key is sent. Batches, panels and the pairs of an exchange are
derived from the plan and not listed.

What only the data decides is declared as such: ``maybe`` may be left out, ``repeat`` ends when the script has what it
needs, and a size with ``upto`` is the most that a step can have.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

from fedsvd.errors import ConfigError

CLASSES = 133
"""Powers of two among which ``bound`` finds the common unit (specification, section 2)."""

GRAM_STEP, FINE_STEP, SHORT_STEP = 126, 100, 61
"""A last digit counts 2^-126 of F^2 in the Gram matrix, 2^-100 of its unit in most totals, 2^-61 in short words."""


CAPPED_AT = 5
"""Joint counts of levels and gaps are cut at this number at each party before they are added up (section 8)."""


class StepKind(StrEnum):
    """What a step is; ``size`` counts numbers of a sum, bytes of a sealed message."""

    WIDE = "wide"  # a sum of numbers of any magnitude, with noise in the sender's last digit
    WHOLE = "whole"  # a sum of whole numbers, exactly and without noise
    TOTAL = "total"  # a sum of numbers in a public unit
    SHORT = "short"  # the same in words of 64 bits, of a matrix that is opened a few columns at a time
    GRAM = "gram"  # the same of the upper triangle of a matrix, whose side is the size
    DIGITS = "digits"  # a sum of rounded numbers in units found on the way; ``step``: bits that it opens of each
    BOUND = "bound"  # an OR over all users for each number
    SHARED = "shared"  # masks of the users, to which the CSP adds what it splits among them
    FROM_USER_1 = "from user 1"  # a message that user 1 seals to all others
    FROM_EACH = "from each"  # a message that each user seals to all others
    EXCHANGE = "exchange"  # messages that users seal to single others; pairs and lengths follow from the plan
    UPLOAD = "upload"  # shares of a matrix that the CSP opens, and its answer, which gives the name; size: its columns
    FETCH = "fetch"  # an answer too long for one message, panel by panel; size: its columns
    CHALLENGE = "challenge"  # vectors under P that check an answer, and their products for one user
    COMPARE = "compare"  # sets of hashed or blinded ids, and the places of the common ones
    MAYBE = "maybe"  # the body, or nothing, as the name says
    REPEAT = "repeat"  # the body at most ``times`` times; names in it carry the number of the round


class What(StrEnum):
    """What a step opens, to the users or to one of them: a sentence of the ledger is written for each, once."""

    NOTHING = ""  # seeds, masks, digests, words that are uniform
    UNIT = "unit"  # the power of two above all numbers
    COUNT = "count"  # how many there are: clusters
    MEAN = "mean"  # of each feature
    ENERGY = "energy"  # the sum of squares of each feature
    NORM = "norm"  # the sum of squares of all numbers
    WEIGHTS = "weights"  # their sum
    LABELS = "labels"  # their magnitude, mean or squares, on split columns
    GRAM = "gram"  # the joint Gram matrix
    PRODUCTS = "products"  # the joint Gram matrix times directions that are found on the way
    REFINED = "refined"  # the same in more digits
    PERMUTED = "permuted"  # Gram matrices of permuted tables
    VECTORS = "vectors"  # U, and S where it is released
    CANONICAL = "canonical"  # U and S of orthonormal tables
    COEFFICIENTS = "coefficients"  # of all features, to all users
    INTERCEPT = "intercept"  # where all columns have one
    OWN_COEFFICIENTS = "own coefficients"  # of each user's own columns
    COMPONENTS = "components"  # and the coefficients on them
    ITERATES = "iterates"  # coefficients that are not the result yet
    DEVIANCE = "deviance"  # of coefficients, and counts of the outcome
    SIZES = "sizes"  # powers of two above single numbers
    MOMENTS = "moments"  # means of the columns, and the outcome's, in few digits
    SCORE = "score"  # the gradient of a likelihood, in few digits
    INFORMATION = "information"  # its curvature, in few digits
    RESIDUALS = "residuals"  # the squares of a linear model's, in few digits
    TABLE = "table"  # how many records have each level in each group, and miss each column
    RANKS = "ranks"  # sums of ranks of records of each group, among each party's own
    BALANCE = "balance"  # sums of propensity weights, and of covariates of the treated and of others, by them
    QUALITY = "quality"  # pairs of a case and a control in their order, and squared errors of probabilities
    ROC = "roc"  # how many cases and controls are at or below edges of the linear predictor; ``step`` as of fives
    LEFT_OUT = "left out"  # errors of rows that were left out
    SQUARED_SCORES = "squared scores"
    NULL_SPACE = "null space"
    INVERSE = "inverse"  # of a Gram matrix on split columns, each user's own block
    PATH = "path"  # singular values, and labels along singular vectors, to the label holder
    ORDER = "order"  # the Gram matrix outside of U
    SCORES = "scores"  # of single records
    RECORDS = "records"  # which of its own records all users have
    PREPARED = "prepared"  # numbers that tables are prepared with
    WITHIN = "within"  # comparisons that each party makes among its own records alone
    TIMED = "timed"  # scores and information of a Cox model by a clock
    EXPOSURE = "exposure"  # time at risk between public times, weighed by hazards
    FIVES = "fives"  # how many records are at or below public edges, rounded at each party to multiples of ``step``
    CELLS = "cells"  # the same as they are
    CAPPED = "capped"  # how many records have each level or gap, cut at five at each party; which are too few
    DECLARED = "declared"  # what a foreign task says of its step
    CHECK = "check"  # inner products that are zero but for rounding
    SPECTRUM = "spectrum"  # S
    RATIOS = "ratios"  # of singular values


SUMS = (
    StepKind.WIDE,
    StepKind.WHOLE,
    StepKind.TOTAL,
    StepKind.SHORT,
    StepKind.GRAM,
    StepKind.DIGITS,
    StepKind.BOUND,
    StepKind.SHARED,
)

SIZE_CLASSES = range(-64, 64)
"""Powers of two among which the size of a single number is found (specification, section 3)."""


@dataclass(frozen=True)
class PlannedStep:
    """One step: its name, its kind, its size, and for a sum what its last digit counts and which user opens it."""

    name: str
    kind: StepKind
    size: int = 1
    step: int = 0  # a last digit counts 2^-step of the unit
    to: int = 0  # the one user that opens it; 0: all
    upto: bool = False  # whether the size is the most that it can be
    times: int = 1
    body: tuple["PlannedStep", ...] = ()
    what: What = What.NOTHING  # it opens (``openings.py``)
    grows: int = 0  # by so much the size is larger in each round of a repetition than in the one before
    resumes: bool = False  # whether a repetition may begin with any of its rounds
    full: int = 0  # the round after which it goes ``back`` by some rounds, and grows again; 0: it does not
    back: int = 0

    def __post_init__(self) -> None:
        if not self.name or self.size < 1 or self.times < 1:
            raise ConfigError("a step needs a name and at least one number")
        if bool(self.body) != (self.kind in (StepKind.MAYBE, StepKind.REPEAT)):
            raise ConfigError(f"the step {self.name!r} cannot be a {self.kind}")


def step_of(record: Mapping[str, Any]) -> PlannedStep:
    """A step from its fields, as a plan is stored."""
    values = {**record, "kind": StepKind(record["kind"]), "what": What(record.get("what", ""))}
    values["body"] = tuple(step_of(each) for each in record.get("body", ()))
    return PlannedStep(**values)


def listed(steps: tuple[PlannedStep, ...]) -> Iterator[PlannedStep]:
    """Every step that may be played, in order, those of all rounds too; names of a round end in its number."""
    return iter(_listed(steps))


@lru_cache(maxsize=16)
def _listed(steps: tuple[PlannedStep, ...]) -> tuple[PlannedStep, ...]:
    """All of them at once: hundreds of rounds have thousands of steps, and every role asks for them many times."""
    return tuple(_each(steps, ""))


def _each(steps: tuple[PlannedStep, ...], round: str) -> Iterator[PlannedStep]:
    for each in steps:
        if each.kind is StepKind.REPEAT:
            for number in range(1, each.times + 1):
                yield from _each(each.body, f" {number}")
        elif each.kind is StepKind.MAYBE:
            yield from _each(each.body, round)
        else:
            yield in_round(each, round)


@lru_cache(maxsize=1 << 13)
def in_round(step: PlannedStep, round: str) -> PlannedStep:
    """A step of a body under the name and with the size that it has in one round."""
    if not round:
        return step
    return replace(step, name=step.name + round, size=step.size + step.grows * _grown(step, int(round)))


def _grown(step: PlannedStep, round: int) -> int:
    """How often a size has grown in this round since it was smallest."""
    if not step.full or round <= step.full:
        return round - 1
    return step.full - step.back + (round - 1 - step.full) % step.back


# --- steps by name ----------------------------------------------------------------------------------------------------


def wide(name: str, numbers: int, what: What = What.NOTHING) -> PlannedStep:
    """A sum of numbers without a public unit."""
    return PlannedStep(name, StepKind.WIDE, numbers, 1074, what=what)


def total(name: str, numbers: int, what: What = What.NOTHING, step: int = FINE_STEP, to: int = 0) -> PlannedStep:
    """A sum of numbers in a public unit, opened by all users or by one."""
    return PlannedStep(name, StepKind.TOTAL, numbers, step, to, what=what)


def short(name: str, numbers: int, what: What, step: int = SHORT_STEP) -> PlannedStep:
    """A sum of a long matrix, in a unit that bounds its total."""
    return PlannedStep(name, StepKind.SHORT, numbers, step, what=what)


def triangle(name: str, side: int) -> PlannedStep:
    """A sum of Gram matrices, in the finest unit."""
    return PlannedStep(name, StepKind.GRAM, side, GRAM_STEP, what=What.GRAM)


def bound(name: str) -> PlannedStep:
    """An OR that finds the common unit."""
    return PlannedStep(name, StepKind.BOUND, CLASSES, what=What.UNIT)


def flags(name: str, count: int, what: What) -> PlannedStep:
    """An OR over all users for each of ``count`` flags."""
    return PlannedStep(name, StepKind.BOUND, count, what=what)


def sizes(name: str, count: int) -> PlannedStep:
    """The power of two above every user's own number, for each of ``count`` numbers."""
    return PlannedStep(name, StepKind.BOUND, len(SIZE_CLASSES) * count, what=What.SIZES)


def digits(name: str, count: int, bits: int, what: What) -> PlannedStep:
    """A sum of ``count`` numbers that opens ``bits`` of each."""
    return PlannedStep(name, StepKind.DIGITS, count, bits, what=what)


def sized(name: str, count: int, bits: int, what: What, runs: int = 0) -> tuple[PlannedStep, PlannedStep]:
    """Such a sum of numbers whose size is not known before: the power of two above each of them, or above those of each
    of ``runs`` runs of them, then the sum."""
    return sizes(f"{name} sizes", runs or count), digits(name, count, bits, what)


def counted(name: str, count: int, least: int, what: What) -> PlannedStep:
    """A sum of ``count`` counts, each of them rounded at home to a multiple of ``least``."""
    return PlannedStep(name, StepKind.WHOLE, count, least, what=what)


def fives(name: str, count: int, least: int) -> PlannedStep:
    """The same, of records at or below public edges; counts as they are where ``least`` is 1."""
    if least == 1:
        return PlannedStep(name, StepKind.WHOLE, count, what=What.CELLS)
    return counted(name, count, least, What.FIVES)


def folded(name: str, count: int) -> PlannedStep:
    """So many numbers of a check, of which the last digits alone are opened."""
    return PlannedStep(name, StepKind.BOUND, count, what=What.CHECK)


def from_user_1(name: str, length: int, upto: bool = False, what: What = What.NOTHING) -> PlannedStep:
    """What user 1 decides for all."""
    return PlannedStep(name, StepKind.FROM_USER_1, max(length, 1), upto=upto, what=what)


FACTORS, SOLUTION = "factors", "solution"
"""What the CSP answers to an upload: U and S, or coefficients."""


SIGNS = "signs"
"""What user 1 decides of U: a bit to each column."""


def upload(answer: str, columns: int, what: What, upto: bool = False) -> PlannedStep:
    """Shares of a matrix, to which the CSP answers with columns of U, or with coefficients of features."""
    return PlannedStep(answer, StepKind.UPLOAD, columns, upto=upto, what=what)


COMPARED = PlannedStep("comparing", StepKind.FROM_EACH, 32)
"""Digests of an answer of the CSP, which all users compare before any of them computes from it (step 7)."""


def maybe(why: str, *body: PlannedStep) -> PlannedStep:
    """Steps that the data may leave out."""
    return PlannedStep(why, StepKind.MAYBE, body=body)


def repeat(name: str, most: int, *body: PlannedStep) -> PlannedStep:
    """Steps that are played as often as the data needs, and at most so often."""
    return PlannedStep(name, StepKind.REPEAT, times=most, body=body)
