"""``[prepare]`` of a job file: what is done to every party's table before the study, and its description.

Some of it a party does alone (``rule``; ``prepare/at_home.py``), and no message carries any of it. The rest takes sums
over all parties' tables (``joint``; ``prepare/rule.py``): a session of its own before that of the study. Where columns
are split, a column is one party's, and its joint numbers are that party's own: all of it is done at home then, and what
would take another party's columns is refused.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from pydantic import PrivateAttr, model_validator

from fedsvd.errors import ConfigError
from fedsvd.prepare.at_home import HomeRule
from fedsvd.prepare.columns import every
from fedsvd.prepare.dictionary import Dictionary
from fedsvd.prepare.formula import parse
from fedsvd.prepare.joint_counts import CountRule
from fedsvd.prepare.missing import INDICATOR, Missing
from fedsvd.prepare.rule import CategoryRule, LowRank, Rule
from fedsvd.prepare.sites import Over
from fedsvd.protocol.steps import CAPPED_AT
from fedsvd.protocol.tasks import Split, Task
from fedsvd.studies.sections import Section, with_keys
from fedsvd.tasks.job_rules import CATEGORY_RULES, PREPARE_RULES, PREPARE_WORDS, PREPARED_RULES, Prepared
from fedsvd.tasks.option import broken, expect
from fedsvd.tasks.options import option_of

LEAST_COUNT: int = option_of("prepare", "minimum").default
"""Fewest occurrences of a level, and fewest entries behind a joint mean, unless a job says otherwise."""


@with_keys("prepare.categories")
class CategorySection(Section):
    """``[prepare.categories.NAME]``: how a text column becomes numbers."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        self.heeded(CATEGORY_RULES)
        return self


@with_keys("prepare", {"missing": Missing, "categories": CategorySection, "centre": Over, "scale": Over})
class PrepareSection(Section):
    """``[prepare]``: columns by name, missing values, categories, a formula, site effects."""

    _viewed: tuple[str, ...] = PrivateAttr(())  # the columns of the view, which the dictionary of the job names
    _dictionary: Dictionary | None = PrivateAttr(None)
    _less_one: bool = PrivateAttr(False)  # whether categories have no column for one level, since there is a constant
    _counts: CountRule | None = PrivateAttr(None)  # joint counts are taken of what a dictionary describes
    _gaps_counted: bool = PrivateAttr(False)  # whether gaps are counted, and what stands in them is not

    @model_validator(mode="before")
    @classmethod
    def _known(cls, given: Any) -> Any:
        unknown = broken(PREPARE_WORDS, given)
        if unknown is not None:
            raise ValueError(unknown.texts(given)[0])
        return given

    @model_validator(mode="after")
    def _heeded(self) -> Self:
        self.heeded(PREPARE_RULES)
        try:
            self._joint_rule.parsed  # noqa: B018  # what cannot be read is refused here, not at a party
        except ConfigError as fault:
            raise ValueError(f"{fault.fault}; {fault.fix}") from None
        return self

    def described_by(
        self,
        dictionary: Dictionary,
        levels: Mapping[str, tuple[str, ...]],
        viewed: Sequence[str],
        columns: Sequence[str],
    ) -> Self:
        """The section with what a dictionary says: levels of categories, columns of its view, columns of the study."""
        given = {name: self.categories.get(name, CategorySection()) for name in levels}
        other = [name for name, each in given.items() if each.levels and each.levels != levels[name]]
        if other:
            fault = f"[prepare.categories] lists other levels of {other[0]!r} than the dictionary"
            raise ConfigError(fault, "leave levels out: those of the dictionary are taken")
        known = {name: given[name].model_copy(update={"levels": levels[name]}) for name in given}
        taken = self.columns or (() if self.formula else tuple(columns))
        found = self.model_copy(update={"categories": {**self.categories, **known}, "columns": taken})
        found._viewed, found._dictionary = tuple(viewed), dictionary
        return found

    def counted_by(self, counts: CountRule | None) -> Self:
        """The section with joint counts of the columns, and what becomes of what is rare."""
        found = self.model_copy()
        found._counts = counts
        return found

    def with_gaps_counted(self) -> Self:
        """The section of a study that counts gaps."""
        found = self.model_copy()
        found._gaps_counted = True
        return found

    def beside_constant(self) -> Self:
        """The section of a model with a constant or a baseline hazard, whose indicators of all levels would depend."""
        found = self.model_copy()
        found._less_one = not self.formula and any(not each.order for each in self.categories.values())
        return found

    @property
    def asks_nothing(self) -> bool:
        """Whether tables are taken as they are."""
        return self == type(self)()

    @property
    def orders(self) -> dict[str, tuple[str, ...]]:
        """Levels in order, of the columns that become one column of numbers."""
        ordered = {name: each.order for name, each in self.categories.items() if each.order}
        return {**self.ordinal, **ordered}

    @property
    def rule(self) -> HomeRule:
        """What a party does alone."""
        marked, parsed = self.indicators if self.missing is Missing.CONSTANT else False, self._joint_rule.parsed
        return HomeRule(
            self.columns if parsed is None else parsed.variables,
            self.drop,
            self.missing,
            self.constant,
            marked or False,
            tuple(self.orders.items()),
            parsed is not None,
            self._viewed,
            () if parsed is None else parsed.outcome,
        )

    @property
    def joint(self) -> Rule | None:
        """What takes sums over all parties' tables; None where nothing does."""
        rule = self._joint_rule
        return None if rule.asks_nothing else rule

    @property
    def _joint_rule(self) -> Rule:
        mean = self.missing is Missing.MEAN
        described = {} if self._dictionary is None else self._dictionary.described
        splines = parse(self.formula).splines if self.formula else ()
        return Rule(
            mean=mean,
            low_rank=LowRank(self.penalty, self.rounds, self.rank or 0) if self.missing is Missing.LOW_RANK else None,
            indicators=self.indicators if mean and self.indicators else False,
            categories=tuple(
                CategoryRule(name, each.drop_first, each.reference, each.missing, each.levels)
                for name, each in self.categories.items()
                if not each.order
            ),
            formula=self.formula,
            combat=self.combat,
            preserve=self.preserve,
            covariates=self.covariates,
            centre=self.centre,
            scale=self.scale,
            minimum=self.minimum,
            most_levels=self.most_levels,
            counts=self._counts,
            less_one=self._less_one,
            knots=tuple((name, each.knots) for name, each in described.items() if name in splines and each.knots),
            decimals=self._decimals,
        )

    @property
    def _decimals(self) -> tuple[tuple[str, int], ...]:
        """Of the dictionary's columns, levels in order being whole numbers: means to fill gaps with have as many."""
        if self._dictionary is None:
            return ()
        described = self._dictionary.described
        held = {name: each.decimals for name, each in described.items() if each.decimals is not None}
        return tuple({**held, **dict.fromkeys(self.orders, 0)}.items())

    @property
    def texts(self) -> tuple[str, ...]:
        """Every text in the section, as every member's owner will read it."""
        marked = () if isinstance(self.indicators, bool) else self.indicators
        levels = (text for name, each in self.orders.items() for text in (name, *each))
        said = [text for name, each in self.categories.items() for text in (name, each.reference, each.missing) if text]
        said += [text for each in self.categories.values() for text in each.levels]
        names = (*self.columns, *self.drop, *self.rename, *self.rename.values(), *self.preserve, *self.covariates)
        return (*names, *marked, *levels, *said, self.formula)

    @property
    def targets(self) -> tuple[str, ...]:
        """What stands left of ~ in the formula."""
        parsed = self._joint_rule.parsed
        return () if parsed is None else parsed.targets

    def expect_fits(
        self, split: Split, task: Task, label: tuple[str, ...], intercept: bool, aligned: bool = False
    ) -> None:
        """Raise where the study's tables cannot be prepared so; ``aligned`` where records are matched afterwards."""
        expect(PREPARED_RULES, Prepared(self, self._joint_rule.parsed, split, task, label, intercept, aligned))

    def description(self) -> list[str]:
        """What is done, in sentences for those who approve it."""
        lines = []
        if self._dictionary is not None:
            lines.append(f"columns, levels, groups and knots are those of the dictionary {self._dictionary.shown}")
        if self._counts is not None:
            lines.append(_of_counts(self._counts))
        if self.rename:
            lines.append("renamed: " + ", ".join([f"{old!r} to {new!r}" for old, new in self.rename.items()]))
        if self.columns:
            lines.append(f"columns, in this order: {every(self.columns)}")
        if self.drop:
            lines.append(f"left out: {every(self.drop)}")
        for name, levels in self.orders.items():
            numbers = ", ".join([f"{level!r} is {place}" for place, level in enumerate(levels)])
            lines.append(f"column {name!r} becomes numbers: {numbers}")
        if self.missing is Missing.DROP:
            of = f" of the view {self.view!r} of the dictionary" if self.view else ""
            lines.append(f"rows with a missing entry{of} are left out")
        if self._gaps_counted:
            lines.append("missing entries are counted, and nothing is filled in")
        elif self.missing is Missing.CONSTANT:
            lines.append(f"missing entries become {self.constant:g}")
        if self.missing is Missing.MEAN:
            lines.append("missing entries become the joint mean of their column")
        if self.missing is Missing.LOW_RANK:
            lowered = f"singular values lowered by {self.penalty:g} of the largest, {self.rounds} rounds"
            lowered += f", at most {self.rank} above it" if self.rank else ""
            lines.append(f"missing entries are completed by low-rank imputation (soft-impute: {lowered})")
        marked = self.indicators
        if marked and not self._gaps_counted:
            all_of = "every column" if self.missing is Missing.CONSTANT else "every column with a gap at some party"
            of = all_of if isinstance(marked, bool) else every(marked)
            lines.append(f"{INDICATOR.format('NAME')} says where an entry was missing, for {of}")
        lines += [_indicators(name, each, self._less_one) for name, each in self.categories.items() if not each.order]
        if self.formula:
            lines.append(f"the columns are those of the formula {self.formula}")
        if self._joint_rule.by_site:
            lines.append(
                "site in the formula is which party a row is of: its coefficients show the level of each party, and "
                "where the joint Gram matrix is opened (generalised linear models, inference) all parties read each "
                "other's totals of every column in it"
            )
        named = self._joint_rule
        if any(not named.category(name).levels for name in named.text):
            lines.append(f"levels with fewer than {self.minimum} records, or at one party alone, become 'other'")
        if self.combat:
            without = f", preserving {every(self.preserve)}" if self.preserve else ""
            lines.append(f"site effects are removed by ComBat{without}")
        if self.covariates:
            lines.append(f"partialled out of all other columns: {every(self.covariates)}")
        said = {Over.JOINT: "of all parties together", Over.SITE: "of each party by itself"}
        if self.centre is not Over.NONE:
            lines.append(f"columns are centred at the means {said[self.centre]}")
        if self.scale is not Over.NONE:
            lines.append(f"columns are divided by the deviations {said[self.scale]}")
        return lines


def _of_counts(counts: CountRule) -> str:
    """What becomes of levels and columns that too few records have."""
    pooled = f"joined as 'other' ({every(counts.pooled)})" if counts.pooled else ""
    rest = "left out" if counts.drop else "ends the study"
    return (
        f"levels, gaps and values off the commonest are counted, up to {CAPPED_AT} at each party; what has 1 to "
        f"{CAPPED_AT - 1} records outside of some party is {f'{pooled}, else {rest}' if pooled else rest}"
    )


def _indicators(name: str, each: CategorySection, less_one: bool) -> str:
    less = " less the first" if each.drop_first else "" if each.reference is None else f" less {each.reference!r}"
    if less_one and not less:
        less = " less the first" if each.levels else " less the commonest, which others are compared with"
    if each.levels:
        less = f" ({', '.join(map(repr, each.levels))}){less}"
    gaps = "" if each.missing is None else f"; a missing entry is the level {each.missing!r}"
    return f"column {name!r} becomes indicators of its levels{less}{gaps}"
