"""The study of a job before its first session has begun: its plan from what members have said so far.

Where records are matched, or tables prepared together, a session comes before the study, and members enlist for that
one first. What they enlist with says how large the study will be: where rows are split, each party's records; where
records are matched, each party's columns, and no more common records than the smallest set has. So the whole job is
judged by every owner's policy before anything of its first session is sent, and by the verdict that the study would
get. A member that has sent nothing yet is taken to be as large as ourselves, and an approval says so.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fedsvd.errors import FedSVDError
from fedsvd.policy.rules import Finding, Policy, findings
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Split
from fedsvd.service.enlist import member_callers, open_data, plan_of
from fedsvd.service.records import EnlistedFacts, JobRecord
from fedsvd.studies.job_file import Job
from fedsvd.studies.job_stages import Stage
from fedsvd.types import SessionId

if TYPE_CHECKING:
    from fedsvd.service.member import Member

_NO_SESSION = SessionId("0" * 32)


def study_plan(record: JobRecord, caller: str, own: EnlistedFacts, common: int | None = None) -> SessionPlan:
    """The plan of the study as far as it can be known; with ``common`` that of this number of common records."""
    facts = _study_facts(record, caller, own)
    if record.job.match.align is not None:
        rows = min(fact.rows for member, fact in facts.items() if member.startswith("party/"))
        rows = rows if common is None else min(rows, common)
        facts = {member: fact.model_copy(update={"rows": rows}) for member, fact in facts.items()}
    return plan_of(record.job, facts, _NO_SESSION, record.certain_bound)


def plan_alone(job: Job, caller: str, own: EnlistedFacts) -> SessionPlan:
    """The plan of the study if all others were as large as ourselves."""
    return plan_of(job, {**_assumed(job, caller, own), caller: own}, _NO_SESSION)


def stage_plan(record: JobRecord, caller: str, own: EnlistedFacts, stage: Stage) -> SessionPlan:
    """The plan of a session before the study, from our own shapes and those that are known."""
    known = record.enlisted if record.stage is stage else {}
    facts = {**_assumed(record.job, caller, own), **known, caller: own}
    return plan_of(record.job, facts, _NO_SESSION, stage=stage)


def bounds(record: JobRecord) -> str:
    """What of the study's size is not certain yet, in a sentence; empty where all of it is."""
    if record.stage is Stage.MATCH:
        return "How many records are common is found in the first session; the study has no more than are said here."
    if record.stage is Stage.PREPARE and record.job.prepare.joint is not None:
        return (
            "Columns that follow from joint levels or gaps are counted by your own table here; the joint tables may "
            "have more, and the plan of the study is judged once more when they are known."
        )
    return ""


def at_the_least(record: JobRecord, caller: str, own: EnlistedFacts, policy: Policy) -> tuple[Finding, ...]:
    """What would be below the policy if no more records were common than the matching wants at least."""
    least = max(1, record.job.match.least_overlap)
    if record.stage is not Stage.MATCH:
        return ()
    try:
        few = study_plan(record, caller, own, least)
        below = [str(finding) for finding in findings(few, policy) if finding.below]
    except FedSVDError as error:
        below = [error.fault]
    most = {str(finding) for finding in findings(study_plan(record, caller, own), policy) if finding.below}
    few_common = f"with {least} common records, the fewest that a matching goes on with, the study would be refused"
    return tuple(
        Finding("overlap", f"{few_common} after it: {text}", below=False) for text in below if text not in most
    )


def expect_rest_allowed(member: "Member", record: JobRecord) -> None:
    """Before the first session of several: the study, as large as it can be, is not below our policy either."""
    if len(record.stages) == 1 or record.stage is not record.stages[0] or not member.caller.startswith("party/"):
        return
    owner, job = member.owner, record.job
    name = member.caller.partition("/")[2]
    where = owner.data(job), member.scratch(), owner.tables()
    own = open_data(job, name, *where, alone=True, link=owner.link(job), recognise=owner.recognise())
    said = record.enlisted[member.caller]
    plan = study_plan(record, member.caller, own.facts.also(EnlistedFacts(signing=said.signing)))
    owner.expect_allowed(plan)
    if not own.unmatched:  # of which records the study is, a matching says first
        owner.expect_rows(record, own, plan)


def _study_facts(record: JobRecord, caller: str, own: EnlistedFacts) -> dict[str, EnlistedFacts]:
    """What every member would enlist with for the study, from what it enlisted with for the stage the job is at."""
    job, known = record.job, {member: fact for member, fact in record.enlisted.items() if member != caller}
    found = {**_assumed(job, caller, own), caller: own}
    if record.stage is not Stage.PREPARE:
        found |= known
    else:  # records are what they were; columns are made of those of the first session, alike at all
        taken = ("certificate", "signing", "rows", "label")
        found |= {
            member: found[member].model_copy(update={name: getattr(fact, name) for name in taken})
            for member, fact in known.items()
        }
    if record.stage is Stage.STUDY and Stage.PREPARE in record.stages and known:
        of = next(fact for member, fact in known.items() if member.startswith("party/"))
        columns = {name: getattr(of, name) for name in ("columns", "features", "names")}
        found = {member: fact.model_copy(update=columns) for member, fact in found.items()}
    return found


def _assumed(job: Job, caller: str, own: EnlistedFacts) -> Mapping[str, EnlistedFacts]:
    """Facts for members who have sent none: as large as ours, and the label with one of them."""
    facts: dict[str, EnlistedFacts] = {}
    labelled = own.label or job.study.split is Split.HORIZONTAL
    for number, member in enumerate(member_callers(job)):
        name = member.partition("/")[2]
        label = job.study.split is Split.HORIZONTAL or name == job.study.label_party
        if not labelled and job.study.label_party is None and member != caller:
            label = labelled = True
        facts[member] = own.also(EnlistedFacts(label=label, signing=f"{number:064x}"))
    return facts
