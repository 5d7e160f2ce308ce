"""What a site brought to earlier studies and matchings, and whether one more may begin (``policy/table_memory.py``).

A table is recognised when it is opened, as the site itself calls and codes it, and the same at every session of a job.
Where records are matched first, which of them a study is about is known after the matching: until then the table is
only held against what was approved, and the records that are common are compared when the study begins.
"""

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from fedsvd.data.source import MatrixSource
from fedsvd.data.views import underlying
from fedsvd.errors import DataChanged, ReleaseRefused
from fedsvd.policy.earlier_matchings import EarlierMatchings
from fedsvd.policy.earlier_rules import BY_COLUMNS, Asked, OwnRows, organisation_findings, record_findings
from fedsvd.policy.rosters import ORGANISATION, others_findings, roster_findings
from fedsvd.policy.rules import Finding, Policy, settled
from fedsvd.policy.source_digest import source_digest
from fedsvd.policy.table_memory import Recognised, TableMemory
from fedsvd.prepare.derived import table_digest
from fedsvd.prepare.dictionary import Dictionary, Role
from fedsvd.prepare.joint_counts import Counted
from fedsvd.prepare.missing import Missing
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Split
from fedsvd.service.approvals import Approval, Approvals, expect_covered
from fedsvd.service.enlist import OpenedData, organisation, party_caller, plain_id
from fedsvd.service.records import JobRecord
from fedsvd.studies.job_file import Job
from fedsvd.studies.opened_before import Before, study_columns
from fedsvd.studies.own_bits import imputation_bits
from fedsvd.studies.own_columns import own_columns
from fedsvd.studies.persons import how_many, persons_of

Judge = Callable[[OpenedData, SessionPlan], None]
"""What raises where no session may begin with this data by this plan."""

_MOST_COLUMNS = 10_000  # of a party that are remembered by name, where columns are split


@dataclass(frozen=True, repr=False)
class Brought:
    """A party's data for a study, compared with all that it brought before."""

    asked: Asked
    source: str  # digest of the data, under the party's own key
    found: tuple[Finding, ...] = ()


@dataclass(frozen=True, repr=False)
class SiteMemory:
    """The memory of one party, with its policy."""

    folder: Path
    me: str  # the party's name
    policy: Policy
    approvals: Approvals
    dictionary: Dictionary | None = None  # the consortium's, which says what names a record

    def recognise(self, job: Job, table: MatrixSource) -> Recognised:
        """A table of this site for a job, next to what is remembered of it."""
        ids, own = self._ids(job, table), {new: old for old, new in job.prepare.rename.items()}
        taken = [
            own.get(each.study, each.study) for each in own_columns(job, table.names or (), labels=job.study.label)
        ]
        return TableMemory(self.folder).recognised(table, ids, self.policy.least_count, taken)

    def _ids(self, job: Job, table: MatrixSource) -> Sequence[str]:
        """The columns that name records: those of the dictionary, or else of the job."""
        described = {} if self.dictionary is None else self.dictionary.described
        ids = [name for name, column in described.items() if column.role is Role.ID]
        own = {new: old for old, new in job.prepare.rename.items()}
        ids = ids or [own.get(name, name) for name in job.study.id_columns]
        return ids if set(ids) <= set(table.names or ()) else ()

    def compare(self, record: JobRecord, own: OpenedData, plan: SessionPlan | None = None) -> Brought:
        """This data, read and compared with that of all earlier studies."""
        memory, job = TableMemory(self.folder), record.job
        roster = frozenset(organisation(record, party_caller(party.name)) for party in job.parties)
        complete = all(party_caller(party.name) in record.enlisted for party in job.parties)
        asked = Asked(
            plain_id(record.id),
            roster,
            record.asked.digest,
            _chooser(job),
            _filled(job, own, self.policy.least_count),
            _by_columns(job) if job.prepare.missing is Missing.LOW_RANK else "",
            job.study.weights or "",
        )
        if job.study.split is Split.VERTICAL and own.data.table.shape[1] <= _MOST_COLUMNS:
            asked = _with_columns(asked, own)
        found = () if plan is None or not complete else organisation_findings(plan, len(roster), self.policy)
        if own.remembered is not None and not own.unmatched:
            found += self._compared(memory, asked, own, complete, organisation(record, party_caller(self.me)))
            found += others_findings(self._without_us(record, own.remembered))
        return Brought(asked, _source(memory, job, own), settled(found, self.policy))

    def _without_us(self, record: JobRecord, known: Recognised) -> int:
        """To how many jobs the others brought their tables that this site neither took part in nor approved."""
        named = {job for facts in record.enlisted.values() for job in facts.earlier}
        return len(named - {*known.jobs, record.asked.digest, *self.approvals.digests()})

    def _compared(
        self, memory: TableMemory, asked: Asked, own: OpenedData, complete: bool, me: str
    ) -> tuple[Finding, ...]:
        known = own.remembered
        assert known is not None
        earlier = [Asked.of(each) for each in memory.studies(known.number) if each["run"] != asked.run]
        rows = OwnRows(
            known.smallest_part(own.data.table.places()) if own.row_set is None else 0,
            known.changed,
            _weighted_apart(known, asked, earlier, own),
            len(known.unlike),
        )
        # Before all have shown their certificates no one knows who is of which organisation.
        rosters = [each.roster for each in earlier if complete or not any(map(_is_organisation, each.roster))]
        return (
            *record_findings(asked, earlier, rows, self.policy),
            *roster_findings(rosters, asked.roster, me),
        )

    def fresh(self, record: JobRecord, own: OpenedData, plan: SessionPlan | None, approval: Approval | None) -> Brought:
        """This data is what was approved, and gives no record or party away with that of an earlier study."""
        brought = self.compare(record, own, plan)
        expect_covered(approval, brought.found)
        if approval is not None:
            self.approvals.bring(approval, brought.source)
        return brought

    def before(self, record: JobRecord, own: OpenedData) -> Before | None:
        """What other studies opened of this table, next to its rows in this one."""
        known = own.remembered
        if known is None or own.unmatched:
            return None
        columns, run = TableMemory(self.folder).opened(known), plain_id(record.id)
        others = {other: each for other, each in columns.studies.items() if other != run}
        rows = known.record[own.data.table.places()]
        return Before(replace(columns, studies=others), np.where(rows >= 0, rows, -1))

    def bring(
        self, record: JobRecord, own: OpenedData, plan: SessionPlan, approval: Approval | None, judge: Judge
    ) -> None:
        """The same, and from now on it is an earlier study; no other study of this site is judged meanwhile, or two at
        once would each not know of the other."""
        memory = TableMemory(self.folder)
        with memory.alone():
            known = own.remembered
            if known is not None and not memory.current(known):
                known = self._again(record.job, own, known)
                own = replace(own, remembered=known)
            judge(own, plan)
            brought = self.fresh(record, own, plan, approval)
            if plan.matches:
                self._begin_matching(record, plan)
            if known is not None and not own.unmatched:
                opens = study_columns(plan, own.data)
                if opens is not None:
                    opens = replace(opens, bits=opens.bits + imputation_bits(record.job, own.data))
                number = memory.begin(brought.asked.record(), known, np.sort(own.data.table.places()), opens)
                if (table := underlying(own.data.table, Counted)) is not None:
                    table.counts = memory.counted(number, table.now, datetime.now(UTC))

    def _again(self, job: Job, own: OpenedData, known: Recognised) -> Recognised:
        """The same table next to what another study of this site, which began meanwhile, has taken."""
        found = self.recognise(job, known.opened)
        taken = found.rows(own.data.table.places())
        if known.waiting or found.waiting or (own.row_set is not None and taken.left_out):
            fault = "another study of this site began meanwhile, and other records wait for the next one"
            raise DataChanged(fault, "resume the job")
        return found

    def current(self, own: OpenedData) -> bool:
        """Whether no other study of this site began since this data was opened."""
        return own.remembered is None or TableMemory(self.folder).current(own.remembered)

    def _begin_matching(self, record: JobRecord, plan: SessionPlan) -> None:
        names, matchings = tuple(party.name for party in record.job.parties), EarlierMatchings(self.folder)
        sizes = dict(zip(names, plan.counts, strict=True))
        found = matchings.findings(self.me, sizes, self.policy)
        if found:
            raise ReleaseRefused(
                f"this matching is below your policy: {found[0]}", "ask why, or change policy.toml if you agree to it"
            )
        matchings.begin(plain_id(record.id), plan, names)

    def matched(self, record: JobRecord, common: int) -> None:
        """A matching came to its end."""
        EarlierMatchings(self.folder).end(plain_id(record.id), common)


def _is_organisation(name: str) -> bool:
    return name.startswith(ORGANISATION)


def _chooser(job: Job) -> str:
    """What chooses the rows of a study: a view of the dictionary, or the gaps of the job's own columns."""
    words = job.prepare
    if words.missing is not Missing.DROP:
        return ""
    return f"view {words.view}" if words.view else f"{BY_COLUMNS}{_by_columns(job)}"


def _by_columns(job: Job) -> str:
    """A word for the columns of a job whose gaps choose rows."""
    words = job.prepare
    named = "\x00".join(sorted({*words.rule.columns, *words.drop, *job.study.label_columns}))
    return hashlib.sha256(named.encode()).hexdigest()[:16]


def _filled(job: Job, own: OpenedData, least: int) -> dict[str, str]:
    """With what gaps of few records are filled, by the columns of the party's own table.

    Low-rank imputation fills gaps that few records have in a column with the mean, as means do.
    """
    words, prepared = job.prepare, own.data.prepared
    if prepared is None or not words.missing.fills:
        return {}
    decimals = {} if words.joint is None else dict(words.joint.decimals)
    own_names = {column.study: column.own for column in own.columns}
    few = [name for name, n in zip(prepared.gaps.names, prepared.gaps.counts.tolist(), strict=True) if 0 < n < least]
    constant = f"{words.constant!r}" if words.missing is Missing.CONSTANT else ""
    return {own_names.get(name, name): constant or f"mean {decimals.get(name, 'of all digits')}" for name in few}


def _with_columns(asked: Asked, own: OpenedData) -> Asked:
    names = own.data.table.names
    own_names = {column.study: column.own for column in own.columns}
    named = range(own.data.table.shape[1]) if names is None else [own_names.get(name, name) for name in names]
    return replace(asked, columns=tuple(map(str, named)))


def _weighted_apart(known: Recognised, asked: Asked, earlier: Sequence[Asked], own: OpenedData) -> int:
    """The fewest records, or persons, whose weight differs from that in an earlier study, where they are too few."""
    rows, names, whose = own.data.table.places(), set(known.table.names or ()), persons_of(own.data)

    def weights(column: str) -> np.ndarray:
        return np.asarray(known.table.column(column)[rows], np.float64) if column else np.ones(len(rows))

    others = {each.weights for each in earlier if each.weights != asked.weights}
    if not ({asked.weights, *others} - {""}) <= names:
        return 0  # a column of an earlier version, or called otherwise by this job
    counts = [how_many(weights(asked.weights) != weights(other), whose) for other in others]
    return min((count for count in counts if 0 < count < known.least), default=0)


def _source(memory: TableMemory, job: Job, own: OpenedData) -> str:
    """The digest of the data: as the session reads it, or as it is at home where joint numbers prepare it."""
    key, table = memory.key(), own.table
    if job.prepare.asks_nothing or table is None or table.made_up:
        return source_digest(own.before_matching or own.data, key, own.reading)
    content = table_digest(table) if own.reading is None else own.reading.once(table, table_digest)
    return hmac.new(key.derive("source").reveal(), content, hashlib.sha256).hexdigest()
