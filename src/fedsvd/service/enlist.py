"""From a job file and the shape of each member's data to the plan: the same at every member, or no one takes part.

A member enlists with shapes, never with values: rows, columns, whether the label is here, a digest of column names
where they must agree, the certificate that binds its signing key, and a prekey where an authority deals. The CSP makes
the plan from these facts; every member makes it again from the same facts and compares digests, so a CSP that changes
anything is found out before a byte of data is touched.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError, PlanMismatch
from fedsvd.identity.certificates import organisation_of
from fedsvd.policy.earlier_studies import ORGANISATION
from fedsvd.prepare.at_home import renamed
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Split, Trust
from fedsvd.service.records import EnlistedFacts, JobRecord
from fedsvd.studies.job_data import feature_names, job_party_data, party_named
from fedsvd.studies.job_file import Job, study_of
from fedsvd.studies.parties import Extent, PartyData, brings_labels, expect_distinct, expect_fitting, label_user
from fedsvd.studies.planning import plan_study
from fedsvd.types import SessionId


def party_caller(name: str) -> str:
    return f"party/{name}"


def authority_caller(job: Job) -> str:
    if job.authority is None:
        raise ConfigError("the paper's scheme needs a Trusted Authority", '[authority] name = "..."')
    return f"authority/{job.authority.name}"


def member_callers(job: Job) -> tuple[str, ...]:
    """All members who must enlist: the parties in order, then the authority where there is one."""
    parties = tuple(party_caller(party.name) for party in job.parties)
    needs = job.authority is not None or job.masks.scheme == "paper"
    return (*parties, *((authority_caller(job),) if needs else ()))


@dataclass(frozen=True, repr=False)
class OpenedData:
    """One party's data for a job, opened and checked, and the facts it enlists with."""

    data: PartyData
    features: Sequence[str]
    facts: EnlistedFacts


def open_data(
    job: Job, name: str, path: Path | str, scratch: Path | None = None, rename: Mapping[str, str] | None = None
) -> OpenedData:
    """This party's table as the job wants it: prepared, labels and ids taken out, rows sorted by id where asked.

    ``rename`` is this site's own: what its columns are called in studies.
    """
    with party_named(name):
        ours = renamed(open_source(path, scratch=scratch), rename or {})
        source = renamed(ours, job.prepare.rename)
        study = job.study
        present = bool(set(study.label) & set(source.names or ()))
        here = brings_labels(study.task, study.split, name, present, study.label_party)
        data = job_party_data(job, source, study.label_columns if here else (), feature_names(ours))
        if data.ids is not None and study_of(job).check_ids:
            expect_distinct(data.ids, str(len(data.ids)))
        features = feature_names(data.table)
        rows, columns = data.table.shape
        digest = _digest(features) if job.study.split is Split.HORIZONTAL else ""
        facts = EnlistedFacts(rows=rows, columns=columns, label=here, features=digest)
    return OpenedData(data, features, facts)


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
        raise ConfigError("a job whose id is not hexadecimal digits", "stop and ask the CSP")
    return id


def ticket_of(id: str, attempt: int) -> str:
    """What a prekey is signed for: one attempt at one job."""
    return f"{plain_id(id)}/{attempt}"


def plan_of(
    job: Job,
    enlisted: Mapping[str, EnlistedFacts],
    session: SessionId,
    certain_bound: bool = False,
    ticket: str = "",
    csp_identity: str = "",
) -> SessionPlan:
    """The plan that follows from a job file and all members' facts; one without a ticket is for looking at."""
    names = [party.name for party in job.parties]
    absent = [member for member in member_callers(job) if member not in enlisted]
    if absent:
        raise ConfigError(f"{absent[0]} has not enlisted", "stop and ask the CSP")
    facts = [enlisted[party_caller(name)] for name in names]
    extents = {name: Extent(fact.rows, fact.columns, fact.features) for name, fact in zip(names, facts, strict=True)}
    expect_fitting(job.study.split, extents)
    rows, columns = [fact.rows for fact in facts], [fact.columns for fact in facts]
    vertical = job.study.split is Split.VERTICAL
    shared, counts = (rows, columns) if vertical else (columns, rows)
    identities = tuple(enlisted[member].signing for member in member_callers(job))
    if len(set(identities)) < len(identities):
        raise ConfigError("two members enlisted with one signing key", "one certificate serves one member")
    holding = [fact.label for fact in facts]
    holder = label_user(job.study.task, job.study.split, names, holding, job.study.label_party)
    study = replace(study_of(job, holder), certain_bound=certain_bound)
    plan = plan_study(study, shared[0], tuple(counts), session, identities).plan
    names_digest = "" if vertical else facts[0].features
    plan = replace(plan, csp_identity=csp_identity, column_names=names_digest)
    if plan.trust is Trust.PEERS or not ticket:
        return plan
    return replace(plan, ticket=ticket, prekeys=tuple(fact.prekey for fact in facts))


def expect_same_plan(record: JobRecord) -> SessionPlan:
    """Our own plan from the facts in the CSP's record, whose digest must be the CSP's."""
    proposed = record.plan
    if proposed is None:
        raise PlanMismatch("the CSP shows no plan for this job", "stop and ask the CSP")
    session, ticket = SessionId(proposed.session), ticket_of(*record.attempt_key)
    # Whose key ``csp_identity`` is, the caller compares with what it pinned.
    ours = plan_of(record.job, record.enlisted, session, proposed.certain_bound, ticket, proposed.csp_identity)
    if ours.digest != record.plan_digest:
        raise PlanMismatch("the CSP's plan is not the one that follows from the job", "stop and ask the CSP")
    return ours


def _digest(names: Sequence[str]) -> str:
    return hashlib.sha256("\x00".join(names).encode()).hexdigest()
