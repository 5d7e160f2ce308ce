"""The person, and the folder, behind a member: what a running party or authority asks of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fedsvd.engine.player import Played
from fedsvd.engine.task_process import Statistic
from fedsvd.errors import FedSVDError
from fedsvd.prepare.units import UnitFinding
from fedsvd.protocol.plan import SessionPlan
from fedsvd.roles.user.agreement import Agreement
from fedsvd.roles.user.work import Sink
from fedsvd.service.enlist import OpenedData, Recognise
from fedsvd.service.handover import Handover
from fedsvd.service.records import EnlistedFacts, JobHeading, JobRecord
from fedsvd.service.sealed_result import SealedResult
from fedsvd.studies.job_file import Job
from fedsvd.studies.own_table import OwnTables
from fedsvd.transport.metered import Meter


@dataclass(frozen=True, repr=False)
class Finished:
    """What a party holds after a job: its result, what it metered, and what it brought."""

    record: JobRecord
    plan: SessionPlan
    own: OpenedData
    played: Played
    meter: Meter
    sealed: SealedResult  # the result whose files were signed
    agreement: Agreement | None = None  # the signed certificate
    salt: bytes = b""  # of our own data commitment in it


class Owner(Protocol):
    """What a member asks before it does anything, and reports afterwards."""

    def approved(self, record: JobRecord) -> bool:
        """Whether the owner agreed to this job."""

    def expect_submitted(self, record: JobRecord) -> None:
        """Raise unless a researcher whose key is pinned signed this job as it stands."""

    def data(self, job: Job) -> Path | str:
        """Where the data of this site for a job is."""

    def link(self, job: Job) -> Path | str | None:
        """Where the linkage map of this site for a job is; None where there is none."""

    def tables(self) -> OwnTables:
        """How tables of this site are mapped, and which dictionary it has."""

    def recognise(self) -> Recognise | None:
        """How a table is found in the memory of this site; None where it remembers nothing."""

    def current(self, own: OpenedData) -> bool:
        """Whether no other study of this site began since this data was opened."""

    def expect_known(self, member: str, facts: EnlistedFacts) -> None:
        """Raise unless a member's certificate and signing key are the ones pinned for it."""

    def expect_countersigner(self, certificate: bytes, csp_identity: str) -> None:
        """Raise unless a plan names the signing key of the CSP that this certificate is of."""

    def expect_unspent(self, record: JobRecord) -> None:
        """Raise ``ApprovalSpent`` where the approval of this job is used up."""

    def expect_fresh(self, record: JobRecord, own: OpenedData) -> None:
        """Read the data; raise where it is not what was approved, or gives records or parties away with an earlier
        study's."""

    def bring(self, record: JobRecord, own: OpenedData, plan: SessionPlan) -> float:
        """The same when a session begins, for which the file may have changed; from now on it is an earlier study. How
        many bits we let it open, where its sums are of few digits."""

    def expect_rows(self, record: JobRecord, own: OpenedData, plan: SessionPlan) -> None:
        """Raise where a row of the data stands out in what the plan opens, and the owner did not answer for it."""

    def matched(self, record: JobRecord, common: int) -> None:
        """So many of our records are common to all parties: from now on this is an earlier matching."""

    def expect_allowed(self, plan: SessionPlan) -> None:
        """Raise where the plan is below the owner's policy."""

    def expect_units(self, findings: Sequence[UnitFinding]) -> None:
        """Raise where a column of ours may be in another unit, and the owner's policy ends a study there."""

    def statistic(self, plan: SessionPlan, names: Sequence[str]) -> Statistic | None:
        """What plays the plan's foreign task on our table, once its source is the one that our policy names."""

    def begin(self, record: JobRecord) -> None:
        """A session begins: the attempt counts."""

    def checkpoint(self, record: JobHeading) -> Path:
        """Where a compression pass for this job is stored while it lasts."""

    def own_part_sink(self, record: JobRecord, plan: SessionPlan, i: int) -> Sink | None:
        """Where our own part of the result (we are user i, from 0) goes as it is made."""

    def write_salt(self, session: str, salt: bytes) -> None:
        """What opens our data commitment of a session to an auditor."""

    def write_result(self, finished: Finished) -> tuple[str, ...]:
        """Write the result; the approval is spent. What the owner should look at is returned."""

    def handover(self, record: JobRecord) -> Handover:
        """What the researcher gets of a job that has ended here: what all share, or that the owner did not agree."""

    def mark_unfinished(self, record: JobRecord) -> bool:
        """Mark the results of a job that did not end well; False where they were marked before."""

    def mark_finished(self, record: JobRecord) -> bool:
        """Take that mark away: the job is done after all; False where there is none."""

    def forget(self, record: JobHeading) -> None:
        """A job is over: remove what was written of its failures and of a result half made."""

    def has_results(self, record: JobRecord) -> bool:
        """Whether there are results of this job."""

    def write_failure(self, record: JobRecord, error: FedSVDError, stage: str) -> None:
        """Write why an attempt failed here; the others learn no more than concerns them."""
