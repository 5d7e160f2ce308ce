"""``[match]`` of a job file: how records of split columns are matched before the study, and its description.

What an id is made of stands in ``[job] id``; here is whether records are matched, by whom, and how ids are normalised,
so that two spellings of one id are one. All parties follow the same words.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Protocol, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StringConstraints,
    model_validator,
)

from fedsvd.errors import ConfigError
from fedsvd.prepare.identifiers import IdRule
from fedsvd.prepare.record_ids import RecordIds
from fedsvd.protocol.tasks import Align, Ids, Split
from fedsvd.studies.job_faults import one_of

LEAST_OVERLAP = 10
"""Fewest common records where a job does not say."""

MOST_ID_COLUMNS = 16
_BLANKS = {"trim": "trim", "remove": "remove", "exact": "as they are"}
_Name = Annotated[str, StringConstraints(min_length=1, max_length=1000)]


class Named(Protocol):
    """What ``[job]`` says of rows."""

    @property
    def split(self) -> Split: ...
    @property
    def ids(self) -> Ids: ...
    @property
    def sort_by_id(self) -> bool: ...
    @property
    def id_columns(self) -> tuple[str, ...]: ...


class MatchSection(BaseModel):
    """``[match]``: how records are matched, where columns are split and parties hold different records."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, hide_input_in_errors=True)

    align: Annotated[Align, BeforeValidator(lambda value: one_of(value, Align))] | None = None
    case: Annotated[Literal["fold", "exact"], BeforeValidator(lambda value: one_of(value, ("fold", "exact")))] = "fold"
    spaces: Annotated[
        Literal["trim", "remove", "exact"], BeforeValidator(lambda value: one_of(value, tuple(_BLANKS)))
    ] = "trim"
    dates: Annotated[
        tuple[_Name, ...],
        BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
        Field(max_length=MOST_ID_COLUMNS),
    ] = ()
    month_first: StrictBool = False
    least_overlap: Annotated[StrictInt, Field(ge=1, le=2**48)] = LEAST_OVERLAP

    @model_validator(mode="after")
    def _heeded(self) -> Self:
        """A key that would have no effect is refused: its author relies on it."""
        if self.month_first and not self.dates:
            raise ValueError("month_first is for the columns in dates")
        idle = [key for key in type(self).model_fields if key != "align" and key in self.model_fields_set]
        if self.align is None and idle:
            raise ValueError(f"{idle[0]} is for records that are matched: set align")
        return self

    @property
    def rule(self) -> IdRule:
        return IdRule(self.case == "fold", _BLANKS[self.spaces], self.dates, self.month_first)

    @staticmethod
    def words_of(rule: IdRule) -> dict[str, Any]:
        """The words that ask for this rule."""
        spaces = next(word for word, blanks in _BLANKS.items() if blanks == rule.blanks)
        words: dict[str, Any] = {"case": "fold" if rule.fold_case else "exact", "spaces": spaces}
        return words | ({"dates": list(rule.dates), "month_first": rule.month_first} if rule.dates else {})

    @property
    def asks_nothing(self) -> bool:
        return self.align is None

    def record_ids(self, columns: tuple[str, ...]) -> RecordIds:
        """What ids are made of in this job."""
        return RecordIds(columns, self.rule)

    def expect_fits(self, study: Named, linked: Sequence[str]) -> None:
        """Raise where records cannot be matched as this section says; ``linked`` are parties with a linkage map."""
        if self.align is None:
            if linked:
                raise ConfigError(f"party {linked[0]} has a linkage map, and no records are matched", "[match] align")
            return
        if study.split is not Split.VERTICAL:
            raise ConfigError("[match] is for columns split over the parties", 'set split = "vertical", or leave it')
        if not study.id_columns:
            raise ConfigError("records are matched by ids, and no id is named", 'id = "patient" under [job], say')
        if study.ids is Ids.TRUST or study.sort_by_id:
            word = 'ids = "trust"' if study.ids is Ids.TRUST else "sort_by_id"
            raise ConfigError(f"{word} is for records that are not matched", f"leave {word} out, or [match]")
        self.record_ids(study.id_columns)

    def description(self, columns: tuple[str, ...]) -> list[str]:
        """What is done, in sentences for those who approve it."""
        if self.align is None:
            return []
        how = {
            Align.SERVER: "by keyed hashes that the CSP compares: it learns how large the sets and their overlaps are",
            Align.ECDH: "by points that the parties blind in turn: the CSP learns how large the sets are",
        }[self.align]
        return [
            f"records are matched {how}",
            f"ids: {self.record_ids(columns)}",
            f"fewer than {self.least_overlap} common records end the study",
        ]
