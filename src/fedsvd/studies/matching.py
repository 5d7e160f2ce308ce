"""A study on split columns whose records are matched first: two sessions, one after the other (specification, 9).

For every rung the parts are these, in this order:

1. ``matching_of(study)`` is the study of the first session (``Task.MATCH``), or None where no records are matched.
2. ``job_party_data`` (``job_data.py``) gives the ``PartyData`` that goes into both sessions, with one id per record
   by the rule of the job (``with_record_ids``). Its number of rows is what the party enlists with: the sizes of the
   sets stand in the plan of the matching.
3. A user's result of the first session is a ``MatchResult``; ``matched_party`` puts the party's common records in the
   common order. With ``after_matching(study)`` that is what the second session runs on.

``run_stages`` is both sessions of the ``sim`` rung, all parties in this process.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedsvd.data.source import MatrixSource
from fedsvd.policy.rules import Policy
from fedsvd.prepare.identifiers import IdentifiedTable, IdRule, RecordIds, identified, read_link
from fedsvd.prepare.matching import MatchReport
from fedsvd.protocol.tasks import Answer, Split, Task
from fedsvd.randomness.seed import Seed
from fedsvd.studies.job_file import Job
from fedsvd.studies.parties import PartyData, expect_shapes
from fedsvd.studies.party_rows import some_rows
from fedsvd.studies.planning import guard
from fedsvd.studies.run import Files, Outcome, plan_for, run_study
from fedsvd.studies.study import Study, expect_legal

if TYPE_CHECKING:
    from fedsvd.roles.user.matching import MatchResult

AS_WRITTEN = IdRule(fold_case=False, blanks="exact")
"""How several id columns become one id where records are compared and not matched."""


@dataclass(frozen=True, repr=False)
class Matched:
    """What came of a matching: the session, and every party's common records in the common order."""

    outcome: Outcome
    parties: tuple[PartyData, ...]

    @property
    def reports(self) -> tuple[MatchReport | None, ...]:
        """How many records of each party were matched; each is that party's own."""
        return tuple(party.matched for party in self.parties)


def matching_of(study: Study) -> Study | None:
    """The study of the session that matches the records of this one; None where none are matched."""
    if study.align is None or study.about.answer is Answer.RECORDS:
        return None
    return Study(
        Task.MATCH,
        Split.VERTICAL,
        align=study.align,
        id_rule=study.id_rule,
        least_overlap=study.least_overlap,
        memory=study.memory,
    )


def after_matching(study: Study) -> Study:
    """The study on matched records: their ids are compared once more, so that no record is in a wrong place."""
    return replace(study, check_ids=True)


def with_record_ids(job: Job, source: MatrixSource, link: MatrixSource | None = None) -> IdentifiedTable:
    """A party's table with one id per record, as this job makes ids; one id column is read as it is, unmatched.

    ``link`` is the party's linkage map: two columns, its own id and the entity.
    """
    columns = job.study.id_columns
    if job.match.align is None:
        return IdentifiedTable(source) if len(columns) < 2 else identified(source, RecordIds(columns, AS_WRITTEN))
    ids = job.match.record_ids(columns)
    return identified(source, ids, None if link is None else read_link(link, ids.rule))


def matched_party(party: PartyData, found: "MatchResult") -> PartyData:
    """A party's common records in the common order, with its report; all that belongs to its records goes along."""
    positions = found.positions.astype(np.intp)
    report = MatchReport(found.records + party.without_link, party.without_link, len(positions))
    return replace(some_rows(party, positions), matched=report)


def at_most_common(parties: Sequence[PartyData]) -> tuple[PartyData, ...]:
    """The parties with as many records as can be common at most: what a plan is made of before they are matched."""
    rows = np.arange(min(party.table.shape[0] for party in parties))
    return tuple(some_rows(party, rows) for party in parties)


def match(study: Study, parties: Sequence[PartyData], **how: Any) -> Matched:
    """Match the records of these parties, in this process; ``how`` is what ``run_study`` takes."""
    outcome = run_study(study, parties, stage="match", **how)
    found = zip(parties, outcome.parties, strict=True)
    return Matched(outcome, tuple(matched_party(party, result) for party, result in found))


def run_stages(
    study: Study,
    parties: Sequence[PartyData],
    *,
    files: Files | None = None,
    policy: Policy | None = None,
    **how: Any,
) -> Outcome:
    """Run a study among these parties, in this process, after a matching of their records where it asks for one.

    What would be refused of the study itself, as far as it is known before, is refused before records are matched.
    """
    asked = matching_of(study)
    if asked is None:
        return run_study(study, parties, files=files, policy=policy, **how)
    expect_legal(study)
    expect_shapes(asked, parties)
    after, most = after_matching(study), at_most_common(parties)
    expect_shapes(after, most)
    guard(plan_for(after, most, Seed.fresh())[0].plan, replace(policy or Policy(), warn=False))
    matched = match(asked, parties, policy=policy, **how)
    outcome = run_study(after, matched.parties, files=files, policy=policy, **how)
    return replace(outcome, matched=matched)
