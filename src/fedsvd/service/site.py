"""An owner's site: the kit, what it allows, where its data is, what it approved, where results go.

    KIT/site.toml              [csp] address or listen; [data] default, or a path to each job's name; results
    KIT/policy.toml            the release guard, enforced here
    KIT/approvals/JOB.json     what the owner agreed to, with a digest of the job as it was then
    KIT/state/                 ledger, audit log, checkpoints

An approval is for one job as it was submitted, and is spent by it (``approvals.py``).
"""

import shutil
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsvd.data.open import located
from fedsvd.engine.memory import peak_memory
from fedsvd.errors import ConfigError, FedSVDError, NotAuthenticated, ReleaseRefused
from fedsvd.identity.certificates import expect_here
from fedsvd.identity.kit import Kit, check_peer
from fedsvd.identity.names import Identity, KitRole
from fedsvd.identity.pins import read_pins
from fedsvd.policy.learned import full_outputs
from fedsvd.policy.policy_file import read_policy
from fedsvd.policy.rules import Policy, organisation_findings
from fedsvd.protocol.parties import CSP, user
from fedsvd.protocol.plan import SessionPlan
from fedsvd.results.folder import MANIFEST, mark_unfinished
from fedsvd.results.stored import Draw, with_accounts
from fedsvd.service.approvals import Approval, Approvals
from fedsvd.service.earlier_studies import Asked, Brought, EarlierStudies, organisation
from fedsvd.service.enlist import OwnPart, job_of, party_caller, plain_id
from fedsvd.service.failures import not_finished, read_failure, write_failure
from fedsvd.service.jobs import JobRecord
from fedsvd.service.site_file import SITE as SITE
from fedsvd.service.site_file import expect_room, read_site
from fedsvd.storage import private
from fedsvd.studies.job_data import Prepared, study_of
from fedsvd.studies.job_file import Job
from fedsvd.studies.planning import guard
from fedsvd.transport.grpc_client import Dialling
from fedsvd.transport.grpc_server import Listening

if TYPE_CHECKING:
    from fedsvd.engine.device import Engine
    from fedsvd.engine.player import Played
    from fedsvd.roles.user.right_vectors import Keep
    from fedsvd.service.owner import Finished

POLICY = "policy.toml"
_CALLERS = (KitRole.PARTY, KitRole.AUTHORITY, KitRole.RESEARCHER)


@dataclass(frozen=True, repr=False)
class Site:
    """One kit's folder, read as its owner's wishes."""

    kit: Kit
    yes: bool = False  # approve every job the policy allows, for automation
    draw: Draw | None = None  # draws the report of a result

    @classmethod
    def at(cls, directory: Path, yes: bool = False, draw: Draw | None = None) -> "Site":
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

    def settings(self) -> dict[str, Any]:
        """``site.toml``; empty where there is none."""
        return read_site(self.kit.directory)

    def engine(self) -> "Engine":
        """What this role computes with, opened."""
        # Imported here and below: who asks how a job stands does not compute, and need not wait for the roles.
        from fedsvd.engine.device import Engine

        settings = self.settings()
        return Engine.of(settings.get("device"), settings.get("engine"))

    def address(self, given: str | None = None) -> str:
        """Where the CSP is."""
        address = given or self.settings().get("csp", {}).get("address")
        if not address:
            raise ConfigError("the CSP's address is not known", f'{SITE}: [csp] address = "host:7443"')
        expect_here(self.kit.ca, str(address))
        return str(address)

    def listen(self, default: str) -> str:
        """Where this kit, a CSP's, listens."""
        return str(self.settings().get("csp", {}).get("listen", default))

    def dialling(self, address: str | None = None, patience: float = 120.0) -> Dialling:
        """How this kit dials the CSP."""
        kit = self.kit
        where = self.address(address)
        return Dialling(where, kit.tls_key_pem(), kit.certificate_pem, kit.ca_pem, self.expect_csp, patience=patience)

    def expect_csp(self, certificate: bytes) -> Identity:
        """Who the CSP is, as of now: of our federation, not revoked, and the pinned one.

        A kit that has pinned nobody yet takes the operator's word; approving pins the CSP with the others. A kit that
        has pins takes no CSP beside them, or the operator could sign one of another name.
        """
        identity = check_peer(self.kit, certificate, (KitRole.CSP,), datetime.now(UTC))
        if read_pins(self.kit.directory):
            self.kit.expect_pinned(identity.party_id, identity)
        return identity

    def expect_countersigner(self, certificate: bytes, csp_identity: str) -> None:
        """The key that a plan names for the CSP is that of the CSP we are connected to, who has passed our pins."""
        if self.expect_csp(certificate).signing_public.hex() != csp_identity:
            raise NotAuthenticated("the plan names another signing key than the CSP's own", "stop and ask the CSP")

    def listening(self, address: str) -> Listening:
        """How this kit, a CSP's, listens."""
        if self.kit.identity.role is not KitRole.CSP:
            raise NotAuthenticated(f"{self.kit.identity} is not a CSP", "use the CSP's kit")
        expect_here(self.kit.ca, address)
        return Listening(address, self.kit.tls_key_pem(), self.kit.certificate_pem, self.kit.ca_pem)

    def authenticate(self, certificate: bytes) -> str:
        """The caller behind a certificate, checked as of now."""
        return str(check_peer(self.kit, certificate, _CALLERS, datetime.now(UTC)))

    def facts(self) -> dict[str, str]:
        """What this member says of itself when it enlists."""
        identity = self.kit.identity
        return {"certificate": self.kit.certificate_pem.decode(), "signing": identity.signing_public.hex()}

    def approved(self, record: Mapping[str, Any]) -> bool:
        """Whether the owner agreed to this job as it stands."""
        if self.kit.identity.role is KitRole.AUTHORITY:
            # It brings no data, so there is nothing to agree to; but it deals seeds to keys it knows, or not at all.
            return all(member.partition("/")[2] in self.kit.pins() for member in record["members"])
        return self._approval(record) is not None

    def approve(self, record: Mapping[str, Any], source: str = "", unlike: tuple[int, ...] = ()) -> None:
        """The owner agrees to this job as it stands, with the data as it is."""
        self._approvals().give(record, source, unlike)

    def history(self, record: Mapping[str, Any]) -> str:
        """What became of an earlier approval of this job, in words."""
        approval = self._approvals().of(record)
        return "" if approval is None else approval.history

    def expect_unspent(self, record: Mapping[str, Any]) -> None:
        """The approval of this job is not used up."""
        if self.kit.identity.role is KitRole.PARTY and (approval := self._approval(record)) is not None:
            approval.expect_unspent(self.policy().failed_attempts)

    def data(self, job: Job) -> Path | str:
        """Where this site keeps the data for a job; a text for data that is made, not read."""
        data = self.settings().get("data", {})
        path = data.get(job.study.name, data.get("default")) if isinstance(data, Mapping) else data
        if not path:
            fix = f'{SITE}: [data] default = "FILE"'
            raise ConfigError(f"this site names no data for the job {job.study.name}", fix)
        return located(str(path), self.kit.directory)

    def rename(self) -> dict[str, str]:
        """What columns are called in studies, by the names they have here."""
        return dict(self.settings().get("rename", {}))

    def expect_known(self, member: str, facts: Mapping[str, Any]) -> None:
        """A member's certificate is of our federation and in its role, and its signing key is the pinned one."""
        roles = (KitRole.PARTY, KitRole.AUTHORITY)
        identity = check_peer(self.kit, str(facts["certificate"]).encode(), roles, datetime.now(UTC))
        if str(identity) != member or identity.signing_public.hex() != facts["signing"]:
            raise NotAuthenticated(f"{member} enlisted with the certificate of {identity}", "stop and ask the CSP")
        self.kit.expect_pinned(identity.party_id, identity)

    def policy(self) -> Policy:
        """``policy.toml``, enforced; the default policy where there is none."""
        path = self.kit.directory / POLICY
        return replace(read_policy(path) if path.exists() else Policy(), enforce=True)

    def compare(self, record: Mapping[str, Any], own: OwnPart, plan: SessionPlan | None = None) -> Brought:
        """This data, read and compared with that of all earlier studies."""
        job, policy = job_of(record["file"]), self.policy()
        roster = frozenset(organisation(record, party.name) for party in job.parties)
        full = plan is not None and full_outputs(plan)
        complete = all(party_caller(party.name) in record["enlisted"] for party in job.parties)
        asked = Asked(plain_id(record["id"]), job.study.split, roster, full, complete)
        brought = self._studies().compare(asked, own.data, policy)
        found = () if plan is None or not complete else organisation_findings(plan, len(roster), policy)
        return replace(brought, found=(*found, *brought.found))

    def expect_fresh(self, record: Mapping[str, Any], own: OwnPart) -> None:
        """This data is what was approved, and gives nothing away beside that of an earlier study."""
        self._fresh(record, own, None)

    def bring(self, record: Mapping[str, Any], own: OwnPart, plan: SessionPlan) -> None:
        """The same, and from now on it is an earlier study; no other study of this site is compared meanwhile, or two
        at once would each not know of the other."""
        studies = self._studies()
        with studies.alone():
            studies.begin(self._fresh(record, own, plan))

    def _fresh(self, record: Mapping[str, Any], own: OwnPart, plan: SessionPlan | None) -> Brought:
        """This data is what was approved, and gives no record and no party away beside that of an earlier study."""
        brought, approval = self.compare(record, own, plan), self._approval(record)
        if brought.found:
            records, rule = "bring the records of the earlier study, or many new ones, or ", brought.found[0].rule
            raise ReleaseRefused(
                f"this study is below your policy: {brought.found[0]}",
                f"{records if rule == 're-run' else ''}change policy.toml if you agree to it",
            )
        if approval is not None:
            if set(brought.unlike) - set(approval.unlike):
                raise ReleaseRefused(
                    "re-run: all columns of this data have other values than an earlier study's of the same names, so "
                    "that its records cannot be compared",
                    "approve it yourself if these are other records: fedsvd job approve",
                )
            self._approvals().bring(approval, brought.source)
        return brought

    def begin(self, record: Mapping[str, Any]) -> None:
        """This attempt counts."""
        if self.kit.identity.role is KitRole.PARTY:
            self._approvals().begin(record)

    def expect_allowed(self, plan: SessionPlan) -> None:
        """The plan asks for no more memory than this site has for it, and is not below its owner's policy."""
        expect_room(self.settings(), plan.memory)
        if self.kit.identity.role is KitRole.PARTY:
            guard(plan, self.policy())

    def results_of(self, record: Mapping[str, Any]) -> Path:
        """The newest results of a job; where the first will go, while there are none."""
        first, *more = self._result_folders(record)
        return more[-1] if more else first

    def _result_folders(self, record: Mapping[str, Any]) -> list[Path]:
        """The first folder for a job's results, and those that a job approved again has made since."""
        folder = self.kit.directory / str(self.settings().get("results", "results"))
        found = [folder / f"{job_of(record['file']).study.name}-{plain_id(record['id'])[:8]}"]
        while (following := found[0].with_name(f"{found[0].name}-{len(found) + 1}")).exists():
            found.append(following)
        return found

    def _new_results(self, record: Mapping[str, Any]) -> Path:
        """A folder for the results of a job that holds none yet: results are never overwritten."""
        first, *more = self._result_folders(record)
        return first.with_name(f"{first.name}-{len(more) + 2}") if first.exists() else first

    def checkpoint(self, record: Mapping[str, Any]) -> Path:
        """Where a compression pass is kept: in the state folder, by the job's id, or in the file that is named."""
        given = self.settings().get("checkpoint")
        if given:
            return self.kit.directory / str(given)
        return private.private_folder(self.state / "checkpoints") / f"{plain_id(record['id'])}.factor"

    def keeper(self, record: Mapping[str, Any], plan: SessionPlan, i: int) -> "Keep | None":
        """Where this party's own part goes while it is made; what an earlier attempt left there is gone."""
        from fedsvd.results.own_part import keeper

        folder = self._unfinished(record)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700, parents=True)
        return keeper(plan, i, job_of(record["file"]).study.write, folder)

    def _unfinished(self, record: Mapping[str, Any]) -> Path:
        return self.state / "own" / plain_id(record["id"])

    def keep(self, finished: "Finished") -> None:
        """Write what this party holds, and nothing else."""
        from fedsvd.engine.player import accounts
        from fedsvd.engine.simulate import Run
        from fedsvd.results.write import write_own_results
        from fedsvd.studies.run import Outcome, certificate_of

        job, plan, own = finished.job, finished.plan, finished.own
        names = tuple(party.name for party in job.parties)
        i, k = names.index(self.kit.identity.party_id), len(names)
        study = study_of(job, plan.label_user)
        # Only our own place is ever read; nobody else's data is here to stand in the others.
        prepared = Prepared(
            job.study.name, study, names, (own.data,) * k, (own.features,) * k, job.study.label, job.study.id
        )
        result = finished.played.result
        told = accounts(user(i + 1), finished.meter, finished.played)
        seconds = defaultdict(float, told["seconds_by_stage"])
        run = Run({CSP: result}, finished.meter, seconds, told["began_by_stage"])
        certificate = replace(certificate_of(plan, run), peak_memory={user(i + 1).name: peak_memory()})
        outcome = Outcome(plan, "as planned with the others", (result,) * k, certificate, agreement=finished.agreement)
        target = self._new_results(finished.record)
        write_own_results(target, prepared, outcome, i, self.draw)
        # Opened to an auditor, it shows what we brought; to anybody else it would let guesses be tried.
        salts = private.private_folder(self.state / "commitments")
        private.replace(salts / f"{plan.session}.salt", finished.salt.hex().encode() + b"\n")
        self._approvals().spend(finished.record)
        shutil.rmtree(self._unfinished(finished.record), ignore_errors=True)

    def keep_account(
        self, job: JobRecord, plan: SessionPlan, played: "Played", told: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Write what this site, a CSP's, saw of a job: no result of it."""
        from fedsvd.engine.simulate import Run
        from fedsvd.results.role_accounts import write_own_account
        from fedsvd.studies.run import certificate_of

        names = tuple(party.name for party in job_of(job.file).parties)
        verified = certificate_of(plan, Run({CSP: played.result}))
        target = self.results_of({"id": job.id, "file": job.file})
        write_own_account(target, job.name, names, plan, with_accounts(verified, told), self.draw)

    def mark_unfinished(self, record: Mapping[str, Any]) -> bool:
        """Say beside our results of this job that it did not end well; False where that was said before."""
        return mark_unfinished(self.results_of(record), not_finished(record))

    def has_results(self, record: Mapping[str, Any]) -> bool:
        """Whether there are results of this job."""
        return (self.results_of(record) / MANIFEST).is_file()

    def keep_failure(self, record: Mapping[str, Any], error: FedSVDError, stage: str) -> None:
        """Write why a try failed here, for the owner's eyes."""
        write_failure(self._failure(record["id"]), int(record["attempt"]), error, stage)
        if self.kit.identity.role is KitRole.PARTY:
            self._approvals().fail(record, stage)

    def failure(self, record: Mapping[str, Any]) -> dict[str, Any] | None:
        """Why this attempt of a job failed here, if it did."""
        return read_failure(self._failure(record["id"]), int(record["attempt"]))

    def _studies(self) -> EarlierStudies:
        return EarlierStudies(self.state / "records")

    def _approvals(self) -> Approvals:
        return Approvals(self.kit.directory / "approvals")

    def _approval(self, record: Mapping[str, Any]) -> Approval | None:
        """What the owner agreed to; where every job is approved, this one is from now on, once."""
        return self._approvals().of_or_given(record, self.yes)

    def _failure(self, id: str) -> Path:
        return self.state / "failures" / f"{plain_id(id)}.json"
