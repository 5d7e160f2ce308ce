"""The ``local`` rung: one process per role, throw-away certificates, mutual TLS on 127.0.0.1.

The same processes, messages and checks as between institutions; what is given up is that one person holds all keys and
all data. Everything lies in one private temporary folder that is gone at the end, with every process. The release guard
is enforced by each party's own policy, before anything of its data leaves its process.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from fedsvd.engine.simulate import uninterrupted
from fedsvd.errors import FedSVDError
from fedsvd.identity.temporary import LOOPBACK, temporary_federation
from fedsvd.policy.policy_file import POLICY, spelt_policy
from fedsvd.policy.rules import ALL, ANY, Policy
from fedsvd.prepare.dictionary import FILE as DICTIONARY
from fedsvd.prepare.dictionary import spelt_dictionary
from fedsvd.results.result import PartyResult
from fedsvd.results.write import Draw, collect
from fedsvd.service.client import CspClient
from fedsvd.service.enlist import authority_caller, authority_deals, party_caller
from fedsvd.service.failures import first_cause
from fedsvd.service.jobs import accounts_sent
from fedsvd.service.processes import STOP_WITHIN, Loopback, RoleProcess, Wiring, environment_for, stop_all
from fedsvd.service.records import JobRecord, JobState, WatchedJob
from fedsvd.service.result_folders import newest_results
from fedsvd.service.site import Site
from fedsvd.service.site_file import RESULTS, SITE
from fedsvd.storage import private
from fedsvd.storage.toml import spelt_toml
from fedsvd.studies.job_file import Job
from fedsvd.studies.resume import Resumable
from fedsvd.studies.submitted import submitted_file
from fedsvd.transport.grpc_client import PinnedConnection

_PATIENCE = 60.0
_INTERRUPTED_WITHIN = 1.0  # seconds: nothing that the processes hold is wanted any more
_LAST_REPORTS = 5.0  # seconds in which the roles report what they have left to report

Seen = Callable[[WatchedJob], None]  # called with the job whenever it has changed


@dataclass(frozen=True, repr=False)
class LocalRun:
    """What came of one job: its last record at the CSP, and each party's own results folder."""

    record: WatchedJob
    folders: Mapping[str, Path]
    seconds: float  # on the clock, from submitting to the last result

    def write(self, target: Path, overwrite: bool = False, draw: Draw | None = None) -> tuple[PartyResult, ...]:
        """``results/JOB`` as on the sim rung: what all share, and below it each party's folder; what was written."""
        return collect(target, self.folders, accounts_sent(self.record.progress), overwrite, draw)


class LocalFederation:
    """The processes of one throw-away federation; ``run`` as many jobs as you like."""

    def __init__(
        self, root: Path, job: Job, policy: Policy, wiring: Wiring, resumable: Resumable | None = None
    ) -> None:
        parties = [party.name for party in job.parties]
        authority = authority_caller(job).partition("/")[2] if authority_deals(job) else None
        taken = [*parties, *filter(None, (authority,))]
        csp, self._researcher = _free("csp", taken), _free("researcher", taken)
        self._kits = temporary_federation(
            root / "kits",
            parties,
            (*LOOPBACK, wiring.host),
            with_authority=authority is not None,
            authority=authority or "ta",
            csp=csp,
            researcher=self._researcher,
            now=datetime.now(UTC),
        )
        self._csp = f"csp/{csp}"
        self._members = [name for name in self._kits if name.startswith(("party/", "authority/"))]
        self._computing = _computing(job)  # the lines of site.toml that say what every role computes with
        self._resumable = resumable
        self._written: dict[str, str] = {}  # each party's site.toml
        private.replace(self._kits[self._csp] / SITE, self._computing.encode())
        self._write_settings(job)
        # One person plays all parties and has all tables, so that no owner is there to be asked, nor to protect.
        here = spelt_policy(replace(policy, answered=(ALL,), openings=ANY)).encode()
        for name in parties:
            private.replace(self._kits[party_caller(name)] / POLICY, here)
        self._logs = private.private_folder(root / "logs")
        self._wiring = wiring
        self.processes: list[RoleProcess] = []
        self._client: CspClient | None = None

    def start(self) -> None:
        """Start all roles; all are ready when this returns."""
        patience = ["--patience", str(_PATIENCE)]
        # All at once: members are given the CSP's address when it has one, and have imported what they need by then.
        csp = self._start(self._csp, ["--address", f"{self._wiring.host}:0", *patience])
        started = []
        for member in self._members:
            yes = ["--yes"] if member.startswith("party/") else []
            started.append(self._start(member, ["--csp", "-", *yes, *patience]))
        listening = csp.ready()
        assert listening.port is not None
        for process in started:
            process.reach(self._wiring.from_members(listening.port))
        for process in started:
            process.ready()
        site = Site.at(self._kits[f"researcher/{self._researcher}"])
        dialling = site.dialling(self._wiring.from_here(listening.port), patience=15.0)
        self._client = CspClient(PinnedConnection(dialling), site.kit)

    def stop(self, within: float = STOP_WITHIN) -> None:
        """Nothing is left running after ``within`` seconds."""
        if self._client is not None:
            self._client.close()
        stop_all(self.processes, within)

    def run(self, job: Job, seen: Seen = lambda record: None) -> LocalRun:
        """Run a job to its end; the error of the role that failed first, if one did."""
        assert self._client is not None, "start first"
        self._write_settings(job)
        started = monotonic()
        record = self._watched(job, self._client.submit(submitted_file(job)), seen)
        if record.state is not JobState.DONE:
            raise self._cause(record)
        folders = {
            party.name: newest_results(self._kits[party_caller(party.name)] / RESULTS, record) for party in job.parties
        }
        return LocalRun(record, folders, monotonic() - started)

    def _write_settings(self, job: Job) -> None:
        """Each party's ``site.toml``, with its data for this job; a file that says so already is left as it is."""
        for party in job.parties:
            name = json.dumps(job.study.name)
            text = f"{self._computing}[data]\n{name} = {_spelt(job.data_of(party))}\n"
            link = job.link_of(party)
            if link is not None:
                text += f"[link]\n{name} = {_spelt(link)}\n"
            words = job.map_of(party)
            if not words.asks_nothing:
                text += spelt_toml({"table": words.record()})
            if job.dictionary is not None:
                kit = self._kits[party_caller(party.name)]
                private.replace(kit / DICTIONARY, spelt_dictionary(job.dictionary).encode())
            if self._resumable is not None:
                text = f"checkpoint = {_spelt(str(self._resumable.path(job, party)))}\n{text}"
            if self._written.get(party.name) != text:
                private.replace(self._kits[party_caller(party.name)] / SITE, text.encode())
                self._written[party.name] = text

    def _start(self, role: str, words: Sequence[str]) -> RoleProcess:
        kind, _, _ = role.partition("/")
        log = self._logs / f"{role.replace('/', '-')}.log"
        words = [kind, "start", "--kit", str(self._kits[role]), *words]
        environment = environment_for(role, self._members, self._wiring.host)
        with uninterrupted():  # or it would be started, and nothing here would know of it
            self.processes.append(RoleProcess(role, words, log, environment, self._wiring.before(role)))
        return self.processes[-1]

    def _watched(self, job: Job, submitted: JobRecord, seen: Seen) -> WatchedJob:
        """The job's last record: all roles have reported all there is to report, or had the time for it."""
        assert self._client is not None
        last_reports, version = None, ""
        while True:
            for process in self.processes:
                if not process.running:
                    raise process.ended()
            record = self._client.wait(submitted.id, 1.0, version).parsed_as(job)
            version = record.seen
            seen(record)
            if record.under_way:
                last_reports = None
                continue
            last_reports = last_reports or monotonic() + _LAST_REPORTS
            if _reported_all(record) or monotonic() > last_reports:
                return record

    def _cause(self, record: WatchedJob) -> FedSVDError:
        """Why a job failed: in the words of the party where it did, for all parties here are ours."""
        who, error = first_cause(record)
        if who in self._kits:
            why = Site.at(self._kits[who]).failure(record)
            if why is not None and why.code == error.code:
                error.fault, error.fix = why.fault, why.fix
        return error


@contextmanager
def local_federation(
    job: Job,
    *,
    policy: Policy | None = None,
    scratch: Path | None = None,
    wiring: Wiring | None = None,
    resumable: Resumable | None = None,
) -> Iterator[LocalFederation]:
    """A throw-away federation of a job's members, running while the block lasts.

    With ``resumable`` compression is stored where the next federation finds it, not in this one's folder.
    """
    with tempfile.TemporaryDirectory(prefix="fedsvd-", dir=scratch) as root:  # made with mode 0700
        federation = LocalFederation(Path(root), job, policy or Policy(), wiring or Loopback(), resumable)
        try:
            federation.start()
            yield federation
        except (KeyboardInterrupt, SystemExit):
            with uninterrupted():
                federation.stop(_INTERRUPTED_WITHIN)
            raise
        finally:
            with uninterrupted():
                federation.stop()


def _computing(job: Job) -> str:
    chosen = {"device": job.study.device, "engine": job.study.engine}
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in chosen.items() if value is not None)


def _spelt(place: Path | str) -> str:
    """A path, or the text of data that is made, as TOML has it."""
    return json.dumps(str(place.absolute() if isinstance(place, Path) else place), ensure_ascii=False)


def _reported_all(record: WatchedJob) -> bool:
    if record.state is JobState.DONE:
        return all(record.progress_of(role).accounts() for role in ("csp", *record.members))
    ended = {failure.who for failure in record.failures} | set(record.finished)
    return set(record.members) <= ended


def _free(name: str, taken: Sequence[str]) -> str:
    """The name, numbered where a member has it."""
    number, lower = 1, [other.lower() for other in taken]
    while (numbered := name if number == 1 else f"{name}-{number}") in lower:
        number += 1
    return numbered
