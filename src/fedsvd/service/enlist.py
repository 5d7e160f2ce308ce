"""From a job file and what each member says of its data to the plan: the same at every member, or nobody takes part.

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
from typing import Any

from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError, DataError, PlanMismatch, printable
from fedsvd.prepare.at_home import renamed
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Split, Task, Trust
from fedsvd.studies.job_data import feature_names, job_party_data, party_named, study_of
from fedsvd.studies.job_file import Job, job_from
from fedsvd.studies.parties import PartyData, expect_distinct
from fedsvd.studies.planning import plan_study
from fedsvd.types import SessionId


def job_of(file: Mapping[str, Any]) -> Job:
    """The job in a submitted file; paths in it would be somebody else's and are not allowed."""
    for party in file.get("party", ()):
        if isinstance(party, Mapping) and party.get("data") is not None:
            raise ConfigError("a submitted job names no data", "each site's own site.toml names its data")
    job = job_from(file, Path())
    _expect_shown(job)
    return job


def _expect_shown(job: Job) -> None:
    """Raise unless the job's texts can be shown as they are: every member's owner reads them before approving."""
    study = job.study
    for text in (*study.label, study.id or "", study.device or "", study.engine or "", *job.prepare.texts):
        if printable(text) != text:
            fault = f"{printable(text, 80)!r} of the job has control characters, line ends or marks of direction"
            raise ConfigError(fault, "rename the column in every party's data")


def without_data(file: Mapping[str, Any]) -> dict[str, Any]:
    """A job file as it is submitted: who takes part, not where their data is."""
    parties = [{key: value for key, value in party.items() if key != "data"} for party in file.get("party", ())]
    return {**file, "party": parties}


def file_of(job: Job) -> dict[str, Any]:
    """A checked job as the file that is submitted: every key that is not its default, and no data.

    What a role computes with is settled where it runs, and so stays here.
    """
    _expect_shown(job)
    sections: dict[str, Any] = {
        "job": job.study.model_dump(mode="json", exclude_defaults=True, exclude={"device", "engine"}),
        "masks": job.masks.model_dump(mode="json", exclude_defaults=True),
        "party": [{"name": party.name} for party in job.parties],
    }
    if not job.prepare.asks_nothing:
        sections["prepare"] = job.prepare.model_dump(mode="json", exclude_defaults=True)
    return sections if job.authority is None else {**sections, "authority": {"name": job.authority.name}}


def party_caller(name: str) -> str:
    return f"party/{name}"


def authority_caller(job: Job) -> str:
    if job.authority is None:
        raise ConfigError("the paper's scheme needs a Trusted Authority", '[authority] name = "..."')
    return f"authority/{job.authority.name}"


def member_callers(job: Job) -> tuple[str, ...]:
    """Everybody who must enlist: the parties in order, then the authority where there is one."""
    parties = tuple(party_caller(party.name) for party in job.parties)
    needs = job.authority is not None or job.masks.scheme == "paper"
    return (*parties, *((authority_caller(job),) if needs else ()))


@dataclass(frozen=True, repr=False)
class OwnPart:
    """One party's data for a job, opened and checked, and the facts it enlists with."""

    data: PartyData
    features: Sequence[str]
    facts: dict[str, Any]


def open_own(
    job: Job, name: str, path: Path | str, scratch: Path | None = None, rename: Mapping[str, str] | None = None
) -> OwnPart:
    """This party's table as the job wants it: prepared, labels and ids taken out, rows sorted by id where asked.

    ``rename`` is this site's own: what its columns are called in studies.
    """
    with party_named(name):
        source = renamed(open_source(path, scratch=scratch), rename or {}, job.prepare.rename)
        here = _labels_here(job, name, source.names or ())
        data = job_party_data(job, source, job.study.label if here else ())
        if data.ids is not None and study_of(job, 0).check_ids:
            expect_distinct(data.ids, str(len(data.ids)))
        features = feature_names(data.table)
        facts = {
            "rows": data.table.shape[0],
            "columns": data.table.shape[1],
            "label": here,
            "features": _digest(features) if job.study.split is Split.HORIZONTAL else "",
        }
    return OwnPart(data, features, facts)


def authority_deals(job: Job) -> bool:
    """Whether a Trusted Authority takes part, to whom every party leaves a prekey."""
    return len(member_callers(job)) > len(job.parties)


def plain_id(id: str) -> str:
    """The id of a job, which the CSP chose, as a part of a file's name."""
    if not re.fullmatch(r"[0-9a-f]{1,64}", id):
        raise ConfigError("a job whose id is not hexadecimal digits", "stop and ask the CSP")
    return id


def ticket_of(id: str, attempt: int) -> str:
    """What a prekey is signed for: one attempt at one job."""
    return f"{plain_id(id)}/{int(attempt)}"


def plan_of(
    job: Job,
    enlisted: Mapping[str, Mapping[str, Any]],
    session: SessionId,
    certain_bound: bool = False,
    ticket: str = "",
    csp_identity: str = "",
) -> SessionPlan:
    """The plan that follows from a job file and everybody's facts; one without a ticket is for looking at."""
    names = [party.name for party in job.parties]
    facts = [enlisted[party_caller(name)] for name in names]
    rows, columns = [int(fact["rows"]) for fact in facts], [int(fact["columns"]) for fact in facts]
    vertical = job.study.split is Split.VERTICAL
    shared, counts = (rows, columns) if vertical else (columns, rows)
    if len(set(shared)) > 1:
        what = "rows" if vertical else "columns"
        raise DataError(f"parties have different numbers of {what}", f"give every party the same {what}")
    if not vertical and len({fact["features"] for fact in facts}) > 1:
        fix = "agree on the columns first; columns = [...] under [prepare] puts them in one order"
        raise DataError("parties have columns of other names, or in another order", fix)
    identities = tuple(str(enlisted[member]["signing"]) for member in member_callers(job))
    if len(set(identities)) < len(identities):
        raise ConfigError("two members enlisted with one signing key", "one certificate serves one member")
    study = replace(study_of(job, _label_user(job, facts)), certain_bound=certain_bound)
    plan = plan_study(study, shared[0], tuple(counts), session, identities).plan
    names_digest = "" if vertical else str(facts[0]["features"])
    plan = replace(plan, csp_identity=csp_identity, column_names=names_digest)
    if plan.trust is Trust.PEERS or not ticket:
        return plan
    return replace(plan, ticket=ticket, prekeys=tuple(str(fact.get("prekey", "")) for fact in facts))


def expect_same_plan(record: Mapping[str, Any]) -> SessionPlan:
    """Our own plan from the facts in the CSP's book, whose digest must be the CSP's."""
    plan, ticket = record["plan"], ticket_of(record["id"], record["attempt"])
    session, certain = SessionId(str(plan["session"])), bool(plan.get("certain_bound", False))
    csp = str(plan.get("csp_identity", ""))  # whose key it is, the caller compares with what it pinned
    ours = plan_of(job_of(record["file"]), record["enlisted"], session, certain, ticket, csp)
    if ours.digest != record["plan_digest"]:
        raise PlanMismatch("the CSP's plan is not the one that follows from the job", "stop and ask the CSP")
    return ours


def _label_user(job: Job, facts: Sequence[Mapping[str, Any]]) -> int:
    if job.study.task is not Task.LR or job.study.split is not Split.VERTICAL:
        return 0
    holders = [i + 1 for i, fact in enumerate(facts) if fact["label"]]
    if len(holders) != 1:
        raise ConfigError(f"{len(holders)} parties have the label column", 'say who: label_party = "NAME"')
    return holders[0]


def _labels_here(job: Job, name: str, columns: Sequence[str]) -> bool:
    """Whether this party brings the labels: every party where rows are split, else the one that has the column."""
    if job.study.task is not Task.LR:
        return False
    if job.study.split is Split.HORIZONTAL or job.study.label_party == name:
        return True
    present = bool(set(job.study.label) & set(columns))
    if present and job.study.label_party is not None:
        raise ConfigError("a column here has the name of the label, which another party holds", "rename or remove it")
    return present


def _digest(names: Sequence[str]) -> str:
    return hashlib.sha256("\x00".join(names).encode()).hexdigest()
