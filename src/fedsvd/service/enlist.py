"""From a job file and the shape of each member's data to the plan: the same at every member, or no one takes part.

A member enlists with shapes, never with values: rows, columns, whether the label is here, a digest of column names
where they must agree, the certificate that binds its signing key, and a prekey where an authority deals. The CSP makes
the plan from these facts; every member makes it again from the same facts and compares digests, so a CSP that changes
anything is found out before a byte of data is touched.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedsvd.data.open import open_source
from fedsvd.data.source import MatrixSource
from fedsvd.errors import ConfigError, PlanMismatch
from fedsvd.identity.certificates import organisation_of
from fedsvd.policy.rosters import ORGANISATION
from fedsvd.policy.source_digest import Reading
from fedsvd.policy.table_memory import Recognised, RowSet
from fedsvd.prepare.columns import arranged
from fedsvd.prepare.mapped import not_there
from fedsvd.prepare.recipe import Recipe
from fedsvd.protocol.parties import TA, Party, user
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Split, Trust
from fedsvd.service.records import MOST_EARLIER, EnlistedFacts, JobRecord
from fedsvd.storage.file_stamp import Stamp, file_stamp
from fedsvd.studies.job_data import in_order, job_party_data
from fedsvd.studies.job_dictionary import expect_own
from fedsvd.studies.job_file import Job, study_of
from fedsvd.studies.job_stages import Stage
from fedsvd.studies.matching import after_matching, matched_party, matching_of
from fedsvd.studies.own_columns import OwnColumn, own_columns
from fedsvd.studies.own_table import OwnTable, OwnTables, named_table, own_table
from fedsvd.studies.parties import Extent, PartyData, brings_labels, expect_distinct, expect_fitting, label_user
from fedsvd.studies.planning import plan_study
from fedsvd.studies.problems import party_named
from fedsvd.studies.stages import home_data, preparation_of
from fedsvd.studies.study import Study
from fedsvd.studies.submitted import authority_caller as authority_caller
from fedsvd.studies.submitted import member_callers as member_callers
from fedsvd.studies.submitted import party_caller as party_caller
from fedsvd.studies.table_columns import feature_names
from fedsvd.types import SessionId

if TYPE_CHECKING:
    from fedsvd.roles.user.matching import MatchResult


@dataclass(frozen=True, repr=False)
class OpenedData:
    """One party's data for a job, opened and checked, and the facts it enlists with."""

    data: PartyData
    features: Sequence[str]
    facts: EnlistedFacts
    before_matching: PartyData | None = None  # all records, where only those that are common are brought
    unmatched: bool = False  # records are matched first, and which are common is not known yet
    reading: Reading | None = field(default=None, compare=False)  # what it gave when it was read last
    columns: tuple[OwnColumn, ...] = ()  # those that are taken, under their own names; none where they have no names
    table: MatrixSource | None = None  # the columns that are taken, before anything is done to them
    remembered: Recognised | None = None  # the table next to what its site remembers of it; None where nothing is
    row_set: RowSet | None = None  # its rows in this study, where its site may leave some out
    astray: tuple[str, ...] = ()  # what the site's map says of columns that this table does not have

    @property
    def waiting(self) -> list[str]:
        """What the map does not change, and which records go in otherwise than the file has them, for their owner."""
        lines, known, rows = [*self.astray], self.remembered, self.row_set
        if known is not None and known.waiting:
            few = f"fewer than {known.least} records were corrected together since an earlier study"
            lines.append(f"{known.waiting} record(s) go in with their earlier values: {few}")
        if known is not None and rows is not None and rows.left_out:
            few = f"fewer than {known.least} came or went since an earlier study"
            lines.append(f"{rows.left_out} record(s) are left out of this study, new ones or drawn by lot: {few}")
        return lines


Recognise = Callable[[Job, MatrixSource], Recognised]
"""What a site remembers of a table, which is as it calls and codes it itself."""


def open_data(
    job: Job,
    name: str,
    path: Path | str,
    scratch: Path | None = None,
    tables: OwnTables | None = None,
    stage: Stage = Stage.STUDY,
    recipe: Recipe | None = None,
    alone: bool = False,
    link: Path | str | None = None,
    common: "MatchResult | None" = None,
    recognise: Recognise | None = None,
) -> OpenedData:
    """This party's table as a stage of the job wants it: prepared, labels and ids taken out, rows sorted by id.

    ``tables`` is what this site says of its tables: how they are mapped, which dictionary it has. ``recipe`` is what
    the parties came to together before, where tables are prepared so; ``alone`` takes our own numbers for theirs, to be
    looked at. ``link`` is this site's linkage map, ``common`` which of its records all parties have, where they are
    matched. ``recognise`` finds the table in the site's memory: rows that must wait are left out where rows are split.
    """
    reading = _reading(path, link)  # before anything of them is read
    with party_named(name):
        tables = tables or OwnTables()
        expect_own(job.dictionary, tables.dictionary)  # before anything is read, or sent
        own = own_table(job, name, path, tables.map, scratch)
        study = job.study
        present = bool(set(study.label) & set(own.source.names or ()))
        here = brings_labels(study.task, study.split, name, present, study.label_party)
        labels = study.label_columns if here else ()
        linkage = None if link is None else open_source(link, scratch=scratch)

        def brought(own: OwnTable) -> PartyData:
            if stage is Stage.PREPARE:
                return home_data(job, own.source)
            return job_party_data(job, own.source, labels, recipe, alone, linkage)

        known = None if recognise is None or own.file.made_up else recognise(job, own.file)
        if known is not None:
            own = replace(named_table(job, name, known.table), file=own.file)
        data, row_set = brought(own), None
        if known is not None and study.split is Split.HORIZONTAL:
            wanted = data.table.places()
            row_set = known.rows(wanted)
            if row_set.left_out:
                some = np.setdiff1d(np.arange(known.table.shape[0]), np.setdiff1d(wanted, row_set.rows))
                own = replace(named_table(job, name, known.table.reordered(some)), file=own.file)
                data = brought(own)
        matches, whole = job.match.align is not None, data
        if common is not None:
            data = matched_party(data, common)
        if data.ids is not None and (study_of(job).check_ids or matches):
            expect_distinct(data.ids, str(len(data.ids)))
        features = feature_names(data.table)
        taken = own_columns(job, own.file.names or (), tables.map, labels)
        names = [column.study for column in taken if column.study in (own.source.names or ())]
        data = replace(data, mapped=tables.map)
        rows, columns = data.table.shape
        facts = EnlistedFacts(rows=rows, columns=columns, label=here)
        if known is not None and known.jobs:
            facts = facts.also(EnlistedFacts(earlier=tuple(sorted(known.jobs[-MOST_EARLIER:]))))
        if job.study.split is Split.HORIZONTAL:
            facts = facts.also(EnlistedFacts(features=_digest(features), names=_digest(sorted(features))))
    table = arranged(own.source, names) if names else own.source
    found = OpenedData(data, features, facts, reading=reading, columns=taken)
    astray = tuple(not_there(own.file, tables.map))
    found = replace(found, table=table, remembered=known, row_set=row_set, astray=astray)
    if not matches:
        return found
    return replace(found, before_matching=None if common is None else whole, unmatched=common is None)


def _reading(*places: Path | str | None) -> Reading:
    """A pass over tables at these places that need not be repeated while their files are the same."""

    def stamps() -> list[Stamp | None]:
        # An .h5ad may have its numbers in other files.
        paths = [Path(place) for place in places if place is not None]
        return [None if path.suffix.lower() == ".h5ad" else file_stamp(path) for path in paths]

    before = stamps()
    return Reading(lambda: None not in before and stamps() == before)


def authority_deals(job: Job) -> bool:
    """Whether a Trusted Authority takes part, to whom every party leaves a prekey."""
    return len(member_callers(job)) > len(job.parties)


def organisation(record: JobRecord, caller: str) -> str:
    """Who a party is for the release guard: its organisation where the operator named one, else itself."""
    certificate = record.enlisted.get(caller, EnlistedFacts()).certificate
    named = organisation_of(certificate.encode()) if certificate else None
    return caller if named is None else f"{ORGANISATION}{named}"


def plain_id(id: str) -> str:
    """The id of a job, which the CSP chose, as a part of a file's name."""
    if not re.fullmatch(r"[0-9a-f]{1,64}", id):
        raise ConfigError("a job whose id is not hexadecimal digits", "stop and ask the operator of the CSP")
    return id


def ticket_of(id: str, attempt: int, stage: Stage = Stage.STUDY) -> str:
    """What a prekey is signed for: one session, a stage of an attempt at one job."""
    return f"{plain_id(id)}/{attempt}" if stage is Stage.STUDY else f"{plain_id(id)}/{attempt}/{stage}"


def plan_of(
    job: Job,
    enlisted: Mapping[str, EnlistedFacts],
    session: SessionId,
    certain_bound: bool = False,
    ticket: str = "",
    csp_identity: str = "",
    stage: Stage = Stage.STUDY,
    asked: str = "",
) -> SessionPlan:
    """The plan that follows from a job file and all members' facts; one without a ticket is for looking at.

    ``asked`` is the digest of the job as its submitter signed it, and of its sessions before this one."""
    names = [party.name for party in job.parties]
    needed = [member for member in member_callers(job) if stage is not Stage.MATCH or member.startswith("party/")]
    absent = [member for member in needed if member not in enlisted]
    if absent:
        raise ConfigError(f"{absent[0]} has not enlisted", "stop and ask the operator of the CSP")
    facts = [enlisted[party_caller(name)] for name in names]
    digests = [fact.names if by_name(facts) else fact.features for fact in facts]
    sizes = zip(names, facts, digests, strict=True)
    if stage is not Stage.MATCH:
        expect_fitting(job.study.split, {name: Extent(fact.rows, fact.columns, digest) for name, fact, digest in sizes})
    rows, columns = [fact.rows for fact in facts], [fact.columns for fact in facts]
    vertical = job.study.split is Split.VERTICAL
    shared, counts = (rows, columns) if vertical else (columns, rows)
    if stage is Stage.MATCH:
        shared, counts = [1], rows  # sets of records, with one id each
    identities = tuple(enlisted[member].signing for member in needed)
    if len(set(identities)) < len(identities):
        raise ConfigError("two members enlisted with one signing key", "stop and ask both owners: one kit was copied")
    study = replace(_study_of(job, stage, facts), certain_bound=certain_bound)
    plan = plan_study(study, shared[0], tuple(counts), session, identities).plan
    names_digest = "" if vertical else digests[0]
    earlier = tuple(sorted({job for fact in facts for job in fact.earlier}))
    plan = replace(plan, csp_identity=csp_identity, column_names=names_digest, job=asked, earlier=earlier)
    if plan.trust is Trust.PEERS or not ticket:
        return plan
    return replace(plan, ticket=ticket, prekeys=tuple(fact.prekey for fact in facts))


def _study_of(job: Job, stage: Stage, facts: Sequence[EnlistedFacts]) -> Study:
    """What is computed at a stage."""
    if stage is Stage.PREPARE:
        found = preparation_of(job)
        if found is None:
            raise ConfigError("nothing of this job is prepared together", "stop and ask the operator of the CSP")
        return found
    names, holding = [party.name for party in job.parties], [fact.label for fact in facts]
    holder = label_user(job.study.task, job.study.split, names, holding, job.study.label_party)
    study = study_of(job, holder)
    matching = matching_of(study)
    if stage is Stage.STUDY:
        return study if matching is None else after_matching(study)
    if matching is None:
        raise ConfigError("no records are matched in this job", "stop and ask the operator of the CSP")
    return matching


def roster_of(job: JobRecord, plan: SessionPlan) -> dict[str, Party]:
    """Who the members of a session are, by the names they call under."""
    roster = {party_caller(party.name): user(i + 1) for i, party in enumerate(job.job.parties)}
    if plan.trust is Trust.AUTHORITY:
        roster[authority_caller(job.job)] = TA
    return roster


def by_name(facts: Iterable[EnlistedFacts]) -> bool:
    """Whether tables have the same columns in different orders, as far as digests say: then all go by their names."""
    known = list(facts)
    return len({fact.features for fact in known}) > 1 and all(fact.names for fact in known)


def in_joint_order(record: JobRecord, own: OpenedData) -> OpenedData:
    """Our table with its columns in the order that the plan is for."""
    parties = [fact for caller, fact in record.enlisted.items() if caller.startswith("party/")]
    if record.job.study.split is not Split.HORIZONTAL or not by_name(parties):
        return own
    order = sorted(own.features)
    return replace(own, data=in_order(own.data, order), features=order)


def expect_same_plan(record: JobRecord) -> SessionPlan:
    """Our own plan from the facts in the CSP's record, whose digest must be the CSP's."""
    proposed = record.plan
    if proposed is None:
        raise PlanMismatch("the CSP shows no plan for this job", "stop and ask the operator of the CSP")
    session, ticket = SessionId(proposed.session), ticket_of(*record.session_key)
    # Whose key ``csp_identity`` is, the caller compares with what it pinned.
    said = proposed.certain_bound, ticket, proposed.csp_identity
    ours = plan_of(record.job, record.enlisted, session, *said, record.stage, record.bound)
    if ours.digest != record.plan_digest:
        raise PlanMismatch(
            "the CSP's plan is not the one that follows from the job", "stop and ask the operator of the CSP"
        )
    return ours


def _digest(names: Sequence[str]) -> str:
    return hashlib.sha256("\x00".join(names).encode()).hexdigest()
