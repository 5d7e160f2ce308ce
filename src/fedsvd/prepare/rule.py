"""What is done to every party's table by joint steps: the rule of a study, the same at every party, and its sums.

What a party does alone (columns by name, ordinal maps, rows left out, constants filled in) comes before and is
``at_home.py``. ``planned_steps`` says which sums a rule takes and how long each is, before any party's table is known:
they stand in the plan of the session.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from fedsvd.errors import ConfigError
from fedsvd.prepare.categories import MOST_LEVELS
from fedsvd.prepare.columns import listed
from fedsvd.prepare.formula import Parsed, parse
from fedsvd.prepare.formula_factors import SPLINE
from fedsvd.prepare.formula_terms import SITE
from fedsvd.prepare.joint_counts import COUNTS, RARE, CountRule, Item, counted_items
from fedsvd.prepare.level_sketch import sketch_numbers, text_numbers
from fedsvd.prepare.sites import Over
from fedsvd.prepare.soft_impute import first_rounds, numbers_of_a_round
from fedsvd.protocol.steps import PlannedStep, StepKind, What, digits, flags

ROUND_BITS = 16
"""Of each number that a round of low-rank imputation opens."""

_MOST_COLUMNS = 1 << 24  # of a formula whose levels are not known yet


@dataclass(frozen=True)
class CategoryRule:
    """How a text column becomes indicators: of all levels, or of all but the first or a reference level."""

    name: str
    drop_first: bool = False
    reference: str | None = None
    missing: str | None = None  # the level that a missing entry is
    levels: tuple[str, ...] = ()  # all of them, where the job lists them: they need not be agreed on


@dataclass(frozen=True)
class LowRank:
    """Low-rank imputation: what singular values are lowered by, as a share of the largest, and how many rounds."""

    penalty: float = 0.05
    rounds: int = 30
    rank: int = 0  # how many singular values are above the penalty, at most; 0: any number

    def played(self, columns: int) -> int:
        """How many sums it takes, those before any gap is filled included."""
        return self.rounds + first_rounds(columns, self.rank) - 1


@dataclass(frozen=True)
class Rule:
    """The joint steps, each left out where it is not asked for."""

    mean: bool = False  # gaps are filled with the joint mean of their column
    low_rank: LowRank | None = None  # gaps are filled by soft-impute
    indicators: bool | tuple[str, ...] = False  # of columns with gaps at some party, or of these
    categories: tuple[CategoryRule, ...] = ()
    formula: str = ""
    combat: bool = False
    preserve: tuple[str, ...] = ()  # covariates that ComBat leaves in the data
    covariates: tuple[str, ...] = ()  # partialled out
    centre: Over = Over.NONE
    scale: Over = Over.NONE
    minimum: int = 1  # a level that is rarer over all parties is pooled; a column with fewer entries has no mean
    shared_by: int = 2  # a level that fewer parties have is pooled
    most_levels: int = MOST_LEVELS  # of one column, over all parties
    knots: tuple[tuple[str, tuple[float, ...]], ...] = ()  # of columns in splines, as the dictionary has them
    counts: CountRule | None = None  # joint counts, and what becomes of what is rare
    less_one: bool = False  # a category has no column for its commonest level, or the first that is listed
    decimals: tuple[tuple[str, int], ...] = ()  # of columns in the dictionary: means to fill gaps with have as many

    def __post_init__(self) -> None:
        if self.preserve and not self.combat:
            raise ConfigError("covariates are to be preserved, and ComBat is not asked for", "combat = true")
        if self.indicators and not self.mean:
            raise ConfigError("indicators of missing entries, and none are filled in", 'missing = "mean"')
        if self.low_rank is not None and (self.mean or self.formula):
            raise ConfigError("low-rank imputation completes all columns of numbers", "leave the formula out")
        if self.indicators and self.formula:
            raise ConfigError("a formula names its columns, and indicators add others", "leave one of them out")
        twice = sorted(
            {each.name for each in self.categories if [e.name for e in self.categories].count(each.name) > 1}
        )
        if twice:
            raise ConfigError(f"categories: {listed(twice)} is named more than once", "name it once")

    @property
    def asks_nothing(self) -> bool:
        """Whether there is no joint step at all."""
        effects = self.combat or self.covariates or (self.centre, self.scale) != (Over.NONE, Over.NONE)
        return not (self.mean or self.low_rank or self.categories or self.formula or effects or self.counts)

    @property
    def takes_sums(self) -> bool:
        """Whether any step needs the other parties: means and deviations of a site alone do not."""
        return bool(planned_steps(self, len(self.text) + 1))

    @property
    def compares_units(self) -> bool:
        """Whether means of columns are summed, so that each party sees which of its own are far from the others'."""
        joint = Over.JOINT in (self.centre, self.scale)
        return self.mean or self.low_rank is not None or self.combat or bool(self.covariates) or joint

    @property
    def parsed(self) -> Parsed | None:
        return parse(self.formula) if self.formula else None

    @property
    def text(self) -> tuple[str, ...]:
        """The columns that are categories: those of the rule, then those in C(...) of the formula."""
        parsed, named = self.parsed, [each.name for each in self.categories]
        if parsed is None:
            return tuple(named)
        named += [SITE] if self.by_site else []
        return tuple(name for name in parsed.variables if name in parsed.categorical or name in named)

    @property
    def by_site(self) -> bool:
        """Whether the formula has the party itself as a term."""
        parsed = self.parsed
        known = {each.name for each in self.categories} | (parsed.categorical if parsed else frozenset())
        return parsed is not None and parsed.has_site and SITE not in known

    def of_columns(self, names: Collection[str]) -> "Rule":
        """The rule for a party that has these columns alone, where columns are split."""
        categories = tuple(each for each in self.categories if each.name in names)
        marked = self.indicators
        marked = marked if isinstance(marked, bool) else tuple(name for name in marked if name in names)
        return replace(self, categories=categories, indicators=marked or False)

    @property
    def listed_levels(self) -> dict[str, tuple[str, ...]]:
        """The levels of categories that are features, where the job lists them."""
        parsed, text = self.parsed, self.text
        outcome = () if parsed is None else parsed.outcome
        found = {name: self.category(name).levels for name in text if name not in outcome}
        return {name: levels for name, levels in found.items() if levels}

    def counted(self, names: Sequence[str]) -> list[Item]:
        """What is counted of a table of these columns."""
        outcome = () if self.parsed is None else self.parsed.outcome
        return counted_items([name for name in names if name not in outcome], self.listed_levels, self.text)

    def category(self, name: str) -> CategoryRule:
        """The rule of this column."""
        return next((each for each in self.categories if each.name == name), CategoryRule(name))


def planned_steps(rule: Rule, columns: int) -> tuple[PlannedStep, ...]:
    """Every sum of a preparation by this rule, in order, for tables of this number of columns, text among them.

    Where the number of columns depends on levels or gaps, a sum is as long as it can become.
    """
    steps = [*_counted_steps(rule, columns)]
    for name in rule.text:
        if rule.category(name).levels:
            continue
        steps.append(
            PlannedStep(f"levels of {name}", StepKind.WHOLE, sketch_numbers(rule.most_levels), what=What.PREPARED)
        )
        steps.append(
            PlannedStep(f"names of {name}", StepKind.WHOLE, text_numbers(rule.most_levels), what=What.PREPARED)
        )
    parsed = rule.parsed
    numbers = columns - len(rule.text) if parsed is None else len(parsed.variables) - len(rule.text)
    if rule.mean:
        steps.append(_numbers("totals and counts", 2 * numbers + 1))
    if rule.low_rank is not None:
        steps.append(_numbers("totals and counts", 2 * numbers + 1))
        steps.append(_numbers("squares of entries", numbers))
        size = numbers_of_a_round(numbers, rule.low_rank.rank)
        rounds = range(1, rule.low_rank.played(numbers) + 1)
        steps += [digits(f"low rank, round {number}", size, ROUND_BITS, What.GRAM) for number in rounds]
        steps.append(_numbers("low rank, moved", 2))
    width = _widest(rule, parsed, numbers)
    if rule.combat:
        preserved = len(rule.preserve)
        steps.append(_numbers("means for ComBat", 2 * width + 1))
        if preserved:
            steps.append(_numbers("products for ComBat", preserved * width))
        width -= preserved
        steps.append(_numbers("squares for ComBat", width))
    if rule.covariates:
        steps.append(_numbers("means for covariates", 2 * width + 1))
        steps.append(_numbers("products of covariates", len(rule.covariates) * width))
        width -= len(rule.covariates)
    if Over.JOINT in (rule.centre, rule.scale):
        steps.append(_numbers("means for scaling", 2 * width + 1))
        if rule.scale is Over.JOINT:
            steps.append(_numbers("squares for scaling", width))
    return tuple(steps)


def _counted_steps(rule: Rule, columns: int) -> Iterator[PlannedStep]:
    if rule.counts is None:
        return
    parsed, levels = rule.parsed, rule.listed_levels
    numbers = columns - len(rule.text) if parsed is None else len({*parsed.variables} - {*rule.text, *parsed.outcome})
    size = 2 * numbers + sum(1 + len(each) for each in levels.values())
    if rule.counts.summed:
        yield PlannedStep(COUNTS, StepKind.WHOLE, max(size, 1), what=What.CAPPED)
    else:
        size *= 2  # which levels a rare one may join
    yield flags(RARE, max(size, 1), What.CAPPED)


def _numbers(name: str, size: int, what: What = What.PREPARED) -> PlannedStep:
    return PlannedStep(name, StepKind.WIDE, max(size, 1), what=what)


def _widest(rule: Rule, parsed: Parsed | None, numbers: int) -> int:
    """The columns of a prepared table at most."""
    if parsed is not None:
        text, wide, knots = set(rule.text), 0, dict(rule.knots)
        for term in parsed.terms:
            powers = prod(int(factor.number) for factor in term if factor.kind == "poly")
            powers *= prod(len(knots.get(factor.columns[0], ())) for factor in term if factor.kind == SPLINE)
            wide += powers * prod(rule.most_levels for factor in term if text & set(factor.columns))
        if wide > _MOST_COLUMNS:
            fault = f"the formula may have more than {_MOST_COLUMNS:,} columns, with {rule.most_levels} levels each"
            raise ConfigError(fault, "cross fewer categories, or set a smaller most_levels")
        return wide
    marked = numbers if rule.indicators is True else len(rule.indicators or ())
    return numbers + marked + rule.most_levels * len(rule.text)
