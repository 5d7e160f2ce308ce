"""The person, and the folder, behind a member: what a running party or authority asks of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fedsvd.engine.player import Played
from fedsvd.errors import FedSVDError
from fedsvd.protocol.plan import SessionPlan
from fedsvd.roles.user.agreement import Agreement
from fedsvd.roles.user.right_vectors import Keep
from fedsvd.service.enlist import OwnPart
from fedsvd.studies.job_file import Job
from fedsvd.transport.metered import Meter


@dataclass(frozen=True, repr=False)
class Finished:
    """What a party holds after a job: its result, what it metered, and what it brought."""

    job: Job
    record: Mapping[str, Any]
    plan: SessionPlan
    own: OwnPart
    played: Played
    meter: Meter
    agreement: Agreement | None = None  # the signed certificate
    salt: bytes = b""  # of our own data commitment in it


class Owner(Protocol):
    """What a member asks before it does anything, and tells afterwards."""

    def approved(self, record: Mapping[str, Any]) -> bool:
        """Whether the owner agreed to this job."""

    def data(self, job: Job) -> Path | str:
        """Where this site keeps the data for a job."""

    def rename(self) -> Mapping[str, str]:
        """What this site's columns are called in studies, by the names they have here."""

    def expect_known(self, member: str, facts: Mapping[str, Any]) -> None:
        """Raise unless a member's certificate and signing key are the ones pinned for it."""

    def expect_countersigner(self, certificate: bytes, csp_identity: str) -> None:
        """Raise unless a plan names the signing key of the CSP that this certificate is of."""

    def expect_unspent(self, record: Mapping[str, Any]) -> None:
        """Raise ``ApprovalSpent`` where the approval of this job is used up."""

    def expect_fresh(self, record: Mapping[str, Any], own: OwnPart) -> None:
        """Read the data; raise where it is not what was approved, or gives records or parties away beside an earlier
        study's."""

    def bring(self, record: Mapping[str, Any], own: OwnPart, plan: SessionPlan) -> None:
        """The same when a session begins, for which the file may have changed; from now on it is an earlier study."""

    def expect_allowed(self, plan: SessionPlan) -> None:
        """Raise where the plan is below the owner's policy."""

    def begin(self, record: Mapping[str, Any]) -> None:
        """A session begins: the attempt counts."""

    def checkpoint(self, record: Mapping[str, Any]) -> Path:
        """Where a compression pass for this job is kept while it lasts."""

    def keeper(self, record: Mapping[str, Any], plan: SessionPlan, i: int) -> Keep | None:
        """Where our own part of the result (we are user i, from 0) goes as it is made."""

    def keep(self, finished: Finished) -> None:
        """Write the result; the approval is spent."""

    def mark_unfinished(self, record: Mapping[str, Any]) -> bool:
        """Say beside the results of a job that it did not end well; False where that was said before."""

    def has_results(self, record: Mapping[str, Any]) -> bool:
        """Whether there are results of this job."""

    def keep_failure(self, record: Mapping[str, Any], error: FedSVDError, stage: str) -> None:
        """Write why a try failed here: the others are told no more than concerns them."""
