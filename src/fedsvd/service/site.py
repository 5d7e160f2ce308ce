"""An owner's site: the kit, what it allows, where its data is, what it approved, where results go.

    KIT/site.toml              [csp] address or listen; [data] default, or a path to each job's name; results
    KIT/policy.toml            the release guard, enforced here
    KIT/dictionary.toml        the consortium's dictionary, as this site registered a table by it
    KIT/approvals/JOB.json     what the owner agreed to, with a digest of the job as it was then
    KIT/state/                 journal, audit log, checkpoints

An approval is for one job as it was submitted, and is spent by it (``approvals.py``). ``site.toml`` and ``policy.toml``
are parsed once in a process, and again where a running service finds them changed when it asks: the data of a job is
often named, and the policy relaxed, while the service runs.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from fedsvd.data.open import located
from fedsvd.errors import ConfigError, DataError, FedSVDError, NotAuthenticated, for_log
from fedsvd.identity.certificates import expect_here
from fedsvd.identity.kit import Kit, check_peer
from fedsvd.identity.names import Identity, KitRole
from fedsvd.identity.pins import read_pins
from fedsvd.policy.policy_file import POLICY, read_policy
from fedsvd.policy.rules import NOTHING, REFUSE, SHARED, Finding, Policy, settled
from fedsvd.prepare.units import Side, UnitFinding
from fedsvd.protocol.plan import SessionPlan
from fedsvd.results.folder import MANIFEST, mark_finished, mark_unfinished
from fedsvd.service.approvals import Approval, Approvals, researcher_gets
from fedsvd.service.enlist import OpenedData, Recognise, plain_id
from fedsvd.service.failures import OwnFailure, not_finished, read_failure, write_failure
from fedsvd.service.records import EnlistedFacts, JobHeading, JobRecord, ListedJob
from fedsvd.service.result_folders import new_results, newest_results
from fedsvd.service.site_file import SITE, SiteFile, read_site
from fedsvd.service.site_memory import Brought, SiteMemory
from fedsvd.service.submitter import submitter_of
from fedsvd.storage import private
from fedsvd.storage.toml import Reread
from fedsvd.studies.foreign import expect_installed, statistic_for
from fedsvd.studies.job_dictionary import by_none
from fedsvd.studies.job_file import Job
from fedsvd.studies.own_bits import imputation_bits
from fedsvd.studies.own_rows import home_findings, home_grant
from fedsvd.studies.own_table import OwnTables
from fedsvd.studies.planning import guard
from fedsvd.transport.grpc_client import Dialling
from fedsvd.transport.grpc_server import Listening

if TYPE_CHECKING:
    from fedsvd.engine.device import Engine
    from fedsvd.engine.task_process import Statistic
    from fedsvd.results.write import Draw
    from fedsvd.roles.user.work import Sink
    from fedsvd.service.handover import Handover
    from fedsvd.service.owner import Finished

_CALLERS = (KitRole.PARTY, KitRole.AUTHORITY, KitRole.RESEARCHER)

_UNIT_FIXES = {
    Side.HERE: "map the column to the unit of the others in site.toml",
    Side.ELSEWHERE: "ask the others for their unit",
    Side.EITHER: "agree on its unit",
}


@dataclass(frozen=True, repr=False)
class Site:
    """One kit's folder, read as its owner's wishes."""

    kit: Kit
    yes: bool = False  # approve every job the policy allows, for automation
    draw: "Draw | None" = None  # draws the report of a result
    _settings: Reread[SiteFile] = field(init=False, compare=False)
    _policy: Reread[Policy] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        folder = self.kit.directory
        object.__setattr__(self, "_settings", Reread(folder / SITE, lambda: read_site(folder)))
        object.__setattr__(self, "_policy", Reread(folder / POLICY, self._read_policy))

    @classmethod
    def at(cls, directory: Path, yes: bool = False, draw: "Draw | None" = None) -> "Site":
        return cls(Kit.read(Path(directory)), yes, draw)

    @property
    def caller(self) -> str:
        return str(self.kit.identity).removeprefix("fedsvd://")

    @property
    def state(self) -> Path:
        return self.kit.directory / "state"

    def scratch(self) -> Path:
        """A private folder for temporary files."""
        return private.private_folder(self.state / "scratch")

    def settings(self) -> SiteFile:
        """``site.toml`` as it is now; the default settings where there is none."""
        return self._settings.get()

    def engine(self) -> "Engine":
        """What this role computes with, opened."""
        # Imported here and below: who asks how a job stands does not compute, and need not wait for the roles.
        from fedsvd.engine.device import Engine

        settings = self.settings()
        return Engine.of(settings.device, settings.engine)

    def address(self, given: str | None = None) -> str:
        """Where the CSP is."""
        address = given or self.settings().csp.address
        if not address:
            raise ConfigError(
                "the CSP's address is not known", f'--csp HOST:7443, or {SITE}: [csp] address = "host:7443"'
            )
        expect_here(self.kit.ca, address)
        return address

    def listen(self, default: str) -> str:
        """Where this kit, a CSP's, listens."""
        return self.settings().csp.listen or default

    def dialling(self, address: str | None = None, patience: float = 120.0) -> Dialling:
        """How this kit dials the CSP."""
        kit, where = self.kit, self.address(address)
        return Dialling(where, kit.tls_key_pem(), kit.certificate_pem, kit.ca_pem, self.expect_csp, patience=patience)

    def expect_csp(self, certificate: bytes) -> Identity:
        """Who the CSP is, as of now: of our federation, not revoked, and the pinned one.

        A kit that has pinned no one yet takes the operator's word; approving pins the CSP with the others. A kit that
        has pins takes no other CSP, or the operator could sign one of another name.
        """
        identity = check_peer(self.kit, certificate, (KitRole.CSP,), datetime.now(UTC))
        if read_pins(self.kit.directory):
            self.kit.expect_pinned(str(identity), identity)
        return identity

    def expect_countersigner(self, certificate: bytes, csp_identity: str) -> None:
        """The key that a plan names for the CSP is that of the CSP we are connected to, who has passed our pins."""
        if self.expect_csp(certificate).signing_public.hex() != csp_identity:
            raise NotAuthenticated(
                "the plan names another signing key than the CSP's own", "stop and ask the operator of the CSP"
            )

    def listening(self, address: str) -> Listening:
        """How this kit, a CSP's, listens."""
        if self.kit.identity.role is not KitRole.CSP:
            raise NotAuthenticated(f"{self.kit.identity} is not a CSP", "use the CSP's kit")
        expect_here(self.kit.ca, address)
        return Listening(address, self.kit.tls_key_pem(), self.kit.certificate_pem, self.kit.ca_pem)

    def authenticate(self, certificate: bytes) -> str:
        """The caller behind a certificate, checked as of now."""
        return str(check_peer(self.kit, certificate, _CALLERS, datetime.now(UTC)))

    def facts(self) -> EnlistedFacts:
        """What this member sends of itself when it enlists."""
        identity = self.kit.identity
        return EnlistedFacts(certificate=self.kit.certificate_pem.decode(), signing=identity.signing_public.hex())

    def approved(self, record: JobRecord) -> bool:
        """Whether the owner agreed to this job as it stands."""
        if self.kit.identity.role is KitRole.AUTHORITY:
            # It brings no data, so there is nothing to agree to; but it deals seeds to keys it knows, or not at all.
            return _deals(self.kit, record)
        approvals = self.approvals()
        # Where every job is approved, this one is given its approval when its signature has been checked; one of a
        # researcher whose key is not pinned waits for its owner, who compares it; so does one who was refused often.
        given = self.yes and record.submitter in self.kit.pins() and not approvals.changed(record)
        table = self._table(record)
        return approvals.of(record) is not None or (given and not approvals.refused_often(record, table))

    def expect_submitted(self, record: JobRecord) -> None:
        """A researcher whose key is pinned here signed this job as it stands."""
        identity = submitter_of(self.kit, record)
        self.kit.expect_pinned(str(identity), identity)

    def history(self, record: JobRecord) -> str:
        """What became of an earlier approval of this job, in words."""
        approval = self.approvals().of(record)
        return "" if approval is None else approval.history

    def expect_unspent(self, record: JobRecord) -> None:
        """The approval of this job is not used up."""
        if self.kit.identity.role is KitRole.PARTY and (approval := self.approvals().of(record)) is not None:
            approval.expect_unspent(self.policy().failed_attempts, record)

    def standing(self, job: ListedJob) -> str:
        """What became of this site's approval of a job in a list, in words."""
        if self.kit.identity.role is KitRole.AUTHORITY:
            return "approved" if _deals(self.kit, job) else "awaits approval"
        return self.approvals().standing(job, self.policy().failed_attempts)

    def data(self, job: Job) -> Path | str:
        """Where the data of this site for a job is; a text for data that is made, not read."""
        path = self.settings().data_for(job.study.name)
        if path is None:
            fix = f'{SITE}: [data] default = "FILE"'
            raise ConfigError(f"this site names no data for the job {job.study.name}", fix)
        return located(path, self.kit.directory)

    def link(self, job: Job) -> Path | str | None:
        """Where the linkage map of this site for a job is; None where there is none, or nothing is matched."""
        path = self.settings().link_for(job.study.name)
        return None if path is None or job.match.align is None else located(path, self.kit.directory)

    def tables(self) -> OwnTables:
        """How tables of this site are mapped, and which dictionary it has."""
        return self.settings().tables_in(self.kit.directory)

    def expect_known(self, member: str, facts: EnlistedFacts) -> None:
        """A member's certificate is of our federation and in its role, and its signing key is the pinned one."""
        roles = (KitRole.PARTY, KitRole.AUTHORITY)
        identity = check_peer(self.kit, facts.certificate.encode(), roles, datetime.now(UTC))
        if str(identity) != member or identity.signing_public.hex() != facts.signing:
            raise NotAuthenticated(
                f"{member} enlisted with the certificate of {identity}", "stop and ask the operator of the CSP"
            )
        self.kit.expect_pinned(member, identity)

    def policy(self) -> Policy:
        """``policy.toml`` as it is now, enforced; the default policy where there is none."""
        return self._policy.get()

    def _read_policy(self) -> Policy:
        path = self.kit.directory / POLICY
        return replace(read_policy(path) if path.exists() else Policy(), enforce=True)

    def recognise(self) -> Recognise | None:
        """How a table is found in the memory of this site; None where its owner wants none."""
        return self._memory().recognise if self.policy().remember else None

    def current(self, own: OpenedData) -> bool:
        """Whether no other study of this site began since this data was opened."""
        return self._memory().current(own)

    def compare(self, record: JobRecord, own: OpenedData, plan: SessionPlan | None = None) -> Brought:
        """This data, read and compared with that of all earlier studies."""
        return self._memory().compare(record, own, plan)

    def expect_fresh(self, record: JobRecord, own: OpenedData) -> None:
        """This data is what was approved, and gives nothing away with that of an earlier study."""
        self._memory().fresh(record, own, None, self._approval(record))

    def bring(self, record: JobRecord, own: OpenedData, plan: SessionPlan) -> float:
        """The same when a session begins; from now on it is an earlier study. Bits at which we end it come back."""
        granted = []

        def judge(own: OpenedData, plan: SessionPlan) -> None:
            self.expect_rows(record, own, plan)
            granted.append(self._granted(record, own, plan))

        self._memory().bring(record, own, plan, self._approval(record), judge)
        return granted[0]

    def expect_rows(self, record: JobRecord, own: OpenedData, plan: SessionPlan) -> None:
        """No row of this data stands out in what the plan opens, or the owner answered for it."""
        found, given = self.home_findings(record, own, plan), self._approval(record)
        self.approvals().expect_answered(record, given, found, self._table(record))

    def home_findings(self, record: JobRecord, own: OpenedData, plan: SessionPlan) -> tuple[Finding, ...]:
        """What our own table says against this plan, after all that earlier jobs opened of it."""
        before, beforehand = self._memory().before(record, own), imputation_bits(record.job, own.data)
        found = home_findings(plan, own.data, self.policy(), before, beforehand)
        return (*self.by_none(record), *found)

    def _granted(self, record: JobRecord, own: OpenedData, plan: SessionPlan) -> float:
        """Bits of a study by few digits at which we end the session."""
        before, beforehand = self._memory().before(record, own), imputation_bits(record.job, own.data)
        return home_grant(plan, own.data, self.policy(), before, beforehand)

    def by_none(self, record: JobRecord) -> tuple[Finding, ...]:
        """What waits for us where a job is by no dictionary."""
        return settled(by_none(record.job.dictionary, self.tables().dictionary), self.policy())

    def matched(self, record: JobRecord, common: int) -> None:
        """A matching ended, with this number of common records."""
        self._memory().matched(record, common)

    def begin(self, record: JobRecord) -> None:
        """This attempt counts."""
        if self.kit.identity.role is KitRole.PARTY:
            self.approvals().begin(record)

    def expect_allowed(self, plan: SessionPlan) -> None:
        """The plan asks for no more memory than this site has for it, and is not below its owner's policy."""
        self.settings().expect_memory(plan.memory)
        if self.kit.identity.role is KitRole.PARTY:
            guard(plan, self.policy())
            expect_installed(plan, self.policy())

    def expect_units(self, findings: Sequence[UnitFinding]) -> None:
        """No column is in another unit than at the other sites, or ``policy.toml`` lets the study go on."""
        if findings and self.policy().units == REFUSE:
            first = findings[0]
            fault = f'{for_log(first.text)}. The rule units = "refuse" in policy.toml ends the study here'
            raise DataError(fault, f'{_UNIT_FIXES[first.side]}, or set units = "warn" if the patients differ')

    def statistic(self, plan: SessionPlan, names: Sequence[str]) -> "Statistic | None":
        """What plays the plan's foreign task on our table; its hash is compared once more, with what is read now."""
        return statistic_for(expect_installed(plan, self.policy()), plan, names)

    def results_of(self, record: JobRecord) -> Path:
        """The newest results of a job; where the first will go, while there are none."""
        return newest_results(self.kit.directory / self.settings().results, record)

    def checkpoint(self, record: JobHeading) -> Path:
        """Where a compression pass is stored: in the state folder, by the job's id, or in the file that is named."""
        given = self.settings().checkpoint
        if given:
            return self.kit.directory / given
        return private.private_folder(self.state / "checkpoints") / f"{plain_id(record.id)}.factor"

    def own_part_sink(self, record: JobRecord, plan: SessionPlan, i: int) -> "Sink | None":
        """Where this party's own part goes while it is made; what an earlier attempt left there is gone."""
        from fedsvd.results.vector_files import file_for

        folder = self._unfinished(record)
        shutil.rmtree(folder, ignore_errors=True)
        private.private_folder(folder)
        return file_for(plan, i, record.job.study.write, folder)

    def _unfinished(self, record: JobHeading) -> Path:
        return self.state / "own" / plain_id(record.id)

    def write_result(self, finished: "Finished") -> tuple[str, ...]:
        """Write the result of this party, and of no other; what its owner should look at."""
        from fedsvd.engine.player import accounts
        from fedsvd.results.write import write_result

        plan, sealed = finished.plan, finished.sealed
        metered = accounts(sealed.me, finished.meter, finished.played)
        result = sealed.finished(finished.played.result, metered, finished.agreement)
        write_result(new_results(self.kit.directory / self.settings().results, finished.record), result, draw=self.draw)
        self.write_salt(plan.session, finished.salt)
        self.approvals().spend(finished.record)
        shutil.rmtree(self._unfinished(finished.record), ignore_errors=True)
        return tuple(result.facts.get("look_at", ()))

    def handover(self, record: JobRecord) -> "Handover":
        """What the researcher gets of a job that has ended here, sealed to the key that is pinned for it."""
        from fedsvd.service.handover import sealed_for

        approval = self.approvals().of(record)
        # The policy may have been changed since.
        agreed = approval is not None and approval.researcher == SHARED and self.policy().researcher != NOTHING
        return sealed_for(self.kit, record, self.results_of(record), agreed)

    def write_salt(self, session: str, salt: bytes) -> None:
        """What opens our data commitment; to others than an auditor it would let guesses be tried."""
        salts = private.private_folder(self.state / "commitments")
        private.replace(salts / f"{session}.salt", salt.hex().encode() + b"\n")

    def mark_unfinished(self, record: JobRecord) -> bool:
        """Mark our results of this job, which did not end well; False where they were marked before."""
        return mark_unfinished(self.results_of(record), not_finished(record))

    def mark_finished(self, record: JobRecord) -> bool:
        """Our results of this job were marked, and it is done after all; False where they were not."""
        return self.has_results(record) and mark_finished(self.results_of(record))

    def has_results(self, record: JobRecord) -> bool:
        """Whether there are results of this job."""
        return (self.results_of(record) / MANIFEST).is_file()

    def forget(self, record: JobHeading) -> None:
        """A job is over: why attempts at it failed, and a result half made, are removed."""
        self._failure(record.id).unlink(missing_ok=True)
        shutil.rmtree(self._unfinished(record), ignore_errors=True)

    def write_failure(self, record: JobRecord, error: FedSVDError, stage: str) -> None:
        """Write why an attempt failed here, for the owner alone."""
        write_failure(self._failure(record.id), record.attempt, error, stage)
        if self.kit.identity.role is KitRole.PARTY:
            self.approvals().fail(record, stage)

    def failure(self, record: JobRecord) -> OwnFailure | None:
        """Why this attempt of a job failed here, if it did."""
        return read_failure(self._failure(record.id), record.attempt)

    def _table(self, record: JobRecord) -> str:
        """The table of a job, as this site names it."""
        return str(self.settings().data_for(record.job.study.name))

    def _memory(self) -> SiteMemory:
        place = self.state / "records", self.kit.identity.party_id
        return SiteMemory(*place, self.policy(), self.approvals(), self.tables().dictionary)

    def approvals(self) -> Approvals:
        """What the owner agreed to, job by job."""
        return Approvals(self.kit.directory / "approvals")

    def _approval(self, record: JobRecord) -> Approval | None:
        """What the owner agreed to; where every job is approved, this one is from now on, once."""
        return self.approvals().of_or_given(record, self.yes, researcher_gets(self.policy()))

    def _failure(self, id: str) -> Path:
        return self.state / "failures" / f"{plain_id(id)}.json"


def _deals(kit: Kit, job: JobHeading) -> bool:
    """Whether an authority has pinned all members of a job, and the researcher."""
    return all(member in kit.pins() for member in (*job.members, job.submitter))
