"""``[match]`` of a job file: how records of split columns are matched before the study, and its description.

What an id is made of stands in ``[job] id``; here is whether records are matched, by whom, and how ids are normalised,
so that two spellings of one id are one. All parties follow the same words.
"""

from collections.abc import Sequence
from typing import Any, Self

from pydantic import model_validator

from fedsvd.prepare.identifiers import IdRule, RecordIds
from fedsvd.protocol.tasks import Align
from fedsvd.studies.sections import Section, with_keys
from fedsvd.tasks.job_rules import MATCH_RULES, MATCHED_RULES, Matched
from fedsvd.tasks.option import expect


@with_keys("match")
class MatchSection(Section):
    """``[match]``: how records are matched, where columns are split and parties hold different records."""

    @model_validator(mode="after")
    def _heeded(self) -> Self:
        self.heeded(MATCH_RULES)
        return self

    @property
    def rule(self) -> IdRule:
        return IdRule(self.case == "fold", self.spaces, self.dates, self.month_first)

    @staticmethod
    def words_of(rule: IdRule) -> dict[str, Any]:
        """The words that ask for this rule."""
        words: dict[str, Any] = {"case": "fold" if rule.fold_case else "exact", "spaces": rule.blanks}
        return words | ({"dates": list(rule.dates), "month_first": rule.month_first} if rule.dates else {})

    @property
    def asks_nothing(self) -> bool:
        return self.align is None

    def record_ids(self, columns: tuple[str, ...]) -> RecordIds:
        """What ids are made of in this job."""
        return RecordIds(columns, self.rule)

    def expect_fits(self, study: Section, linked: Sequence[str]) -> None:
        """Raise where records cannot be matched as this section says; ``linked`` are parties with a linkage map."""
        expect(MATCHED_RULES, Matched(self, study, tuple(linked)))
        if self.align is not None:
            self.record_ids(study.id_columns)  # refuses columns that make no id

    def description(self, columns: tuple[str, ...]) -> list[str]:
        """What is done, in sentences for those who approve it."""
        if self.align is None:
            return []
        how = {
            Align.SERVER: "by keyed hashes that the CSP compares: it learns how large the sets and their overlaps are",
            Align.ECDH: "by points all blind and the CSP compares: it learns how large the sets and their overlaps are",
        }[self.align]
        return [
            f"records are matched {how}",
            f"ids: {self.record_ids(columns)}",
            f"fewer than {self.least_overlap} common records end the study",
        ]
