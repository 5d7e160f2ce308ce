"""``[prepare]`` of a job file: what is done to every party's table before the study, and its description.

Some of it a party does alone (``rule``; ``prepare/at_home.py``), and no message carries any of it. The rest takes sums
over all parties' tables (``joint``; ``prepare/rule.py``): a session of its own before that of the study. Where columns
are split, a column is one party's, and its joint numbers are that party's own: all of it is done at home then, and what
would take another party's columns is refused.
"""

from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from fedsvd.errors import ConfigError
from fedsvd.prepare.at_home import HomeRule
from fedsvd.prepare.categories import MOST_LEVELS
from fedsvd.prepare.columns import listed
from fedsvd.prepare.missing import INDICATOR, Missing
from fedsvd.prepare.rule import CategoryRule, LowRank, Rule
from fedsvd.prepare.sites import Over
from fedsvd.protocol.tasks import LABELLED, Split, Task
from fedsvd.studies.job_faults import one_of

LEAST_COUNT = 5
"""Fewest occurrences of a level, and fewest entries behind a joint mean, unless a job says otherwise."""

_MOST_NAMES = 10_000
_MOST_LEVELS = 1000
_MOST_CATEGORIES = 100
_LATER = {"align": "it belongs to [match]", "soft_impute": 'missing = "low-rank"'}

_Name = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
_ONE = {"type": "string", "minLength": 1, "maxLength": 1000}
_LIST = {"type": "array", "items": _ONE, "maxItems": _MOST_NAMES}
_Names = Annotated[
    tuple[_Name, ...],
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
    Field(max_length=_MOST_NAMES),
    WithJsonSchema({"anyOf": [_ONE, _LIST]}),
]
_Levels = Annotated[tuple[_Name, ...], Field(min_length=1, max_length=_MOST_LEVELS)]


_Over = Annotated[Over, BeforeValidator(lambda value: one_of(value, Over))]


class CategorySection(BaseModel):
    """``[prepare.categories.NAME]``: how a text column becomes numbers."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, hide_input_in_errors=True)

    drop_first: StrictBool = False
    reference: _Name | None = None
    order: _Levels | tuple[()] = ()
    missing: _Name | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.order and (self.drop_first or self.reference is not None or self.missing is not None):
            raise ValueError("an order makes one column of numbers, and the other keys are for indicators")
        if self.drop_first and self.reference is not None:
            raise ValueError("drop_first and reference both leave a level out: use one of them")
        return self


def _by_name(value: object) -> object:
    """``categories = "sex"`` and ``categories = ["sex", "stage"]`` ask for indicators of all levels."""
    names = [value] if isinstance(value, str) else value
    return {name: {} for name in names} if isinstance(names, list | tuple) else value


class PrepareSection(BaseModel):
    """``[prepare]``: columns by name, missing values, categories, a formula, site effects."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, hide_input_in_errors=True)

    columns: _Names = ()
    drop: _Names = ()
    rename: Annotated[dict[_Name, _Name], Field(max_length=_MOST_NAMES)] = {}
    missing: Annotated[Missing, BeforeValidator(lambda value: one_of(value, Missing))] = Missing.ERROR
    constant: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    penalty: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = LowRank().penalty
    rounds: Annotated[StrictInt, Field(ge=1, le=500)] = LowRank().rounds
    indicators: StrictBool | _Names = False
    ordinal: Annotated[dict[_Name, _Levels], Field(max_length=_MOST_NAMES)] = {}
    categories: Annotated[
        dict[_Name, CategorySection], BeforeValidator(_by_name), Field(max_length=_MOST_CATEGORIES)
    ] = {}
    formula: Annotated[str, StringConstraints(max_length=10_000)] = ""
    combat: StrictBool = False
    preserve: _Names = ()
    covariates: _Names = ()
    centre: _Over = Over.NONE
    scale: _Over = Over.NONE
    minimum: Annotated[StrictInt, Field(ge=1, le=1_000_000)] = LEAST_COUNT
    most_levels: Annotated[StrictInt, Field(ge=2, le=4096)] = MOST_LEVELS

    @model_validator(mode="before")
    @classmethod
    def _known(cls, given: Any) -> Any:
        for word, fix in _LATER.items():
            if isinstance(given, dict) and word in given:
                raise ValueError(f"{word} is no word of [prepare]: {fix}")
        return given

    @model_validator(mode="after")
    def _heeded(self) -> Self:
        """A key that would have no effect is refused: its author relies on it."""
        if self.constant and self.missing is not Missing.CONSTANT:
            raise ValueError('constant is for missing = "constant"')
        idle = [word for word in ("penalty", "rounds") if getattr(self, word) != getattr(LowRank(), word)]
        if idle and self.missing is not Missing.LOW_RANK:
            raise ValueError(f'{idle[0]} is for missing = "low-rank"')
        if self.indicators and self.missing not in (Missing.CONSTANT, Missing.MEAN):
            raise ValueError('indicators is for missing = "constant" or "mean"')
        repeated = [name for name, levels in self._orders.items() if len(set(levels)) < len(levels)]
        if repeated:
            raise ValueError(f"ordinal: a level of column {repeated[0]!r} is named twice")
        both = sorted(set(self.ordinal) & set(self.categories))
        if both:
            raise ValueError(f"column {both[0]!r} is named under ordinal and under categories")
        if self.formula and (self.columns or self._orders):
            word = "columns" if self.columns else "ordinal"
            raise ValueError(f"a formula names its columns: leave {word} out")
        if set(self.preserve) & set(self.covariates):
            raise ValueError("a covariate is preserved by combat and then partialled out: name it once")
        try:
            self._joint_rule.parsed  # noqa: B018  # what cannot be read is refused here, not at a party
        except ConfigError as fault:
            raise ValueError(f"{fault.fault}; {fault.fix}") from None
        return self

    @property
    def asks_nothing(self) -> bool:
        """Whether tables are taken as they are."""
        return self == type(self)()

    @property
    def _orders(self) -> dict[str, tuple[str, ...]]:
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
            tuple(self._orders.items()),
        )

    @property
    def joint(self) -> Rule | None:
        """What takes sums over all parties' tables; None where nothing does."""
        rule = self._joint_rule
        return None if rule.asks_nothing else rule

    @property
    def _joint_rule(self) -> Rule:
        mean = self.missing is Missing.MEAN
        return Rule(
            mean=mean,
            low_rank=LowRank(self.penalty, self.rounds) if self.missing is Missing.LOW_RANK else None,
            indicators=self.indicators if mean and self.indicators else False,
            categories=tuple(
                CategoryRule(name, each.drop_first, each.reference, each.missing)
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
        )

    @property
    def texts(self) -> tuple[str, ...]:
        """Every text in the section, as every member's owner will read it."""
        marked = () if isinstance(self.indicators, bool) else self.indicators
        levels = (text for name, each in self._orders.items() for text in (name, *each))
        said = (text for name, each in self.categories.items() for text in (name, each.reference, each.missing) if text)
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
        if self.formula:
            self._expect_outcome(task, label, intercept)
        if split is Split.VERTICAL:
            self._expect_apart(aligned)

    def _expect_outcome(self, task: Task, label: tuple[str, ...], intercept: bool) -> None:
        """A formula says what is predicted, where anything is."""
        parsed = self._joint_rule.parsed
        assert parsed is not None
        if label:
            raise ConfigError("label and formula both say what is predicted", "leave label out: it stands left of ~")
        regression = task in LABELLED
        if bool(parsed.outcome) is not regression:
            fault = "the formula has no outcome" if regression else f"task {str(task)!r} has no outcome"
            raise ConfigError(fault, "write y ~ age + C(sex)" if regression else "write ~ age + C(sex)")
        if any(name in parsed.categorical or name in self.categories for name in parsed.outcome):
            fix = "write the bare column; a model of classes names them in [job] classes"
            raise ConfigError("the outcome of the formula is a category", fix)
        if regression and intercept is not parsed.intercept:
            fix = "leave intercept = false out" if parsed.intercept else "intercept = false (--no-intercept)"
            raise ConfigError("the formula and the key intercept do not agree", f"{fix}, or change the formula")

    def _expect_apart(self, aligned: bool) -> None:
        """Raise where split columns cannot be prepared so: each party has its own columns, and the rows of all."""
        if self.missing is Missing.DROP and not aligned:
            raise ConfigError(
                'missing = "drop" where columns are split: each party would leave out other rows',
                'missing = "constant", or match records by id ([match] align): what one party leaves out, all do',
            )
        asked = {"formula": self.formula, "combat": self.combat, "covariates": self.covariates}
        for word in (word for word, value in asked.items() if value):
            fix = "prepare the columns of each party by themselves: missing, categories, centre, scale"
            raise ConfigError(f"{word} reads columns of several parties, and columns are split over them", fix)

    def description(self) -> list[str]:
        """What is done, in sentences for those who approve it."""
        lines = []
        if self.rename:
            lines.append("renamed: " + _shortened([f"{old!r} to {new!r}" for old, new in self.rename.items()]))
        if self.columns:
            lines.append(f"columns, in this order: {listed(self.columns)}")
        if self.drop:
            lines.append(f"left out: {listed(self.drop)}")
        for name, levels in self._orders.items():
            numbers = _shortened([f"{level!r} is {place}" for place, level in enumerate(levels)])
            lines.append(f"column {name!r} becomes numbers: {numbers}")
        if self.missing is Missing.DROP:
            lines.append("rows with a missing entry are left out")
        if self.missing is Missing.CONSTANT:
            lines.append(f"missing entries become {self.constant:g}")
        if self.missing is Missing.MEAN:
            lines.append("missing entries become the joint mean of their column")
        if self.missing is Missing.LOW_RANK:
            lowered = f"singular values lowered by {self.penalty:g} of the largest, {self.rounds} rounds"
            lines.append(f"missing entries are completed by low-rank imputation (soft-impute: {lowered})")
        marked = self.indicators
        if marked:
            every = "every column" if self.missing is Missing.CONSTANT else "every column with a gap at some party"
            of = every if isinstance(marked, bool) else listed(marked)
            lines.append(f"{INDICATOR.format('NAME')} says where an entry was missing, for {of}")
        lines += [_indicators(name, each) for name, each in self.categories.items() if not each.order]
        if self.formula:
            lines.append(f"the columns are those of the formula {self.formula}")
        if self._joint_rule.by_site:
            lines.append(
                "site in the formula is which party a row is of: its coefficients show the level of each party, and "
                "where the joint Gram matrix is opened (generalised linear models, inference) all parties read each "
                "other's totals of every column in it"
            )
        if self.categories or "C(" in self.formula:
            lines.append(f"levels with fewer than {self.minimum} records, or at one party alone, become 'other'")
        if self.combat:
            without = f", preserving {listed(self.preserve)}" if self.preserve else ""
            lines.append(f"site effects are removed by ComBat{without}")
        if self.covariates:
            lines.append(f"partialled out of all other columns: {listed(self.covariates)}")
        said = {Over.JOINT: "of all parties together", Over.SITE: "of each party by itself"}
        if self.centre is not Over.NONE:
            lines.append(f"columns are centred at the means {said[self.centre]}")
        if self.scale is not Over.NONE:
            lines.append(f"columns are divided by the deviations {said[self.scale]}")
        return lines


def _shortened(parts: list[str], most: int = 10) -> str:
    more = f" and {len(parts) - most} more" if len(parts) > most else ""
    return ", ".join(parts[:most]) + more


def _indicators(name: str, each: CategorySection) -> str:
    less = " less the first" if each.drop_first else "" if each.reference is None else f" less {each.reference!r}"
    gaps = "" if each.missing is None else f"; a missing entry is the level {each.missing!r}"
    return f"column {name!r} becomes indicators of its levels{less}{gaps}"
