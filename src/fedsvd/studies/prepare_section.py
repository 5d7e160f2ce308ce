"""``[prepare]`` of a job file: what every party does to its own table before the study, and its description.

All of it is done at home (``prepare/at_home.py``) and no message carries any of it. What would take a sum over all
parties' tables has a word here already and is refused with that reason: it is never left out silently.
"""

from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from fedsvd.errors import ConfigError
from fedsvd.prepare.at_home import NEEDS_SUMS, HomeRule
from fedsvd.prepare.columns import listed
from fedsvd.prepare.missing import INDICATOR, Missing
from fedsvd.protocol.tasks import Split
from fedsvd.studies.job_faults import one_of

_MOST_NAMES = 10_000
_MOST_LEVELS = 1000
_AT_HOME = (Missing.ERROR, Missing.DROP, Missing.CONSTANT)
_NOT_YET = ("categories", "formula", "combat", "preserve", "covariates", "centre", "scale", "align", "soft_impute")

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


def _how(value: object) -> object:
    if value == Missing.MEAN:
        raise ValueError(f'"mean": {NEEDS_SUMS}; missing = "constant" or "drop" is done at home')
    return one_of(value, _AT_HOME)


class PrepareSection(BaseModel):
    """``[prepare]``: columns by name, missing values, ordinal maps; done by every party at home."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, hide_input_in_errors=True)

    columns: _Names = ()
    drop: _Names = ()
    rename: Annotated[dict[_Name, _Name], Field(max_length=_MOST_NAMES)] = {}
    missing: Annotated[
        Missing, BeforeValidator(_how), WithJsonSchema({"enum": [str(each) for each in _AT_HOME], "type": "string"})
    ] = Missing.ERROR
    constant: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    indicators: StrictBool | _Names = False
    ordinal: Annotated[dict[_Name, _Levels], Field(max_length=_MOST_NAMES)] = {}

    @model_validator(mode="before")
    @classmethod
    def _at_home(cls, given: Any) -> Any:
        asked = [word for word in _NOT_YET if isinstance(given, dict) and word in given]
        if asked:
            raise ValueError(f"{asked[0]}: {NEEDS_SUMS}")
        return given

    @model_validator(mode="after")
    def _heeded(self) -> Self:
        """A key that would have no effect is refused: its author relies on it."""
        if self.missing is not Missing.CONSTANT:
            idle = [key for key in ("constant", "indicators") if getattr(self, key) not in (0.0, False, ())]
            if idle:
                raise ValueError(f'{idle[0]} is for missing = "constant"')
        repeated = [name for name, levels in self.ordinal.items() if len(set(levels)) < len(levels)]
        if repeated:
            raise ValueError(f"ordinal: a level of column {repeated[0]!r} is named twice")
        return self

    @property
    def asks_nothing(self) -> bool:
        """Whether tables are taken as they are."""
        return self == type(self)()

    @property
    def rule(self) -> HomeRule:
        return HomeRule(
            self.columns, self.drop, self.missing, self.constant, self.indicators or False, tuple(self.ordinal.items())
        )

    @property
    def texts(self) -> tuple[str, ...]:
        """Every text in the section, as every member's owner will read it."""
        marked = () if isinstance(self.indicators, bool) else self.indicators
        levels = (text for name, each in self.ordinal.items() for text in (name, *each))
        return (*self.columns, *self.drop, *self.rename, *self.rename.values(), *marked, *levels)

    def expect_fits(self, split: Split) -> None:
        """Raise where a party that prepares its table alone would break the rows apart."""
        if self.missing is Missing.DROP and split is Split.VERTICAL:
            raise ConfigError(
                'missing = "drop" where columns are split: each party would leave out other rows',
                'missing = "constant", or leave the rows out at every party before the study',
            )

    def description(self) -> list[str]:
        """What is done, in sentences for those who approve it."""
        lines = []
        if self.rename:
            lines.append("renamed: " + _shortened([f"{old!r} to {new!r}" for old, new in self.rename.items()]))
        if self.columns:
            lines.append(f"columns, in this order: {listed(self.columns)}")
        if self.drop:
            lines.append(f"left out: {listed(self.drop)}")
        for name, levels in self.ordinal.items():
            numbers = _shortened([f"{level!r} is {place}" for place, level in enumerate(levels)])
            lines.append(f"column {name!r} becomes numbers: {numbers}")
        if self.missing is Missing.DROP:
            lines.append("rows with a missing entry are left out")
        if self.missing is Missing.CONSTANT:
            lines.append(f"missing entries become {self.constant:g}")
        marked = self.indicators
        if marked:
            of = "every column" if isinstance(marked, bool) else listed(marked)
            lines.append(f"{INDICATOR.format('NAME')} says where an entry was missing, for {of}")
        return lines


def _shortened(parts: list[str], most: int = 10) -> str:
    more = f" and {len(parts) - most} more" if len(parts) > most else ""
    return ", ".join(parts[:most]) + more
