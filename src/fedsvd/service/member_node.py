"""A party or the Trusted Authority as a service: dials the CSP, enlists for approved jobs, takes part in them.

Nothing happens without the owner: a job is enlisted for, and taken part in, once ``approved`` says so. Several jobs run
at the same time, each in a thread. What has ended here is reported until the CSP shows it. A party may have enlisted
in another process, and be started when the authority has left its sealed messages and gone.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from time import monotonic

from fedsvd.errors import ApprovalSpent, FedSVDError, TransportError
from fedsvd.randomness.entropy import fresh_bytes
from fedsvd.service.client import CspClient, Refused
from fedsvd.service.failures import unexpected
from fedsvd.service.member import Member
from fedsvd.service.member_session import take_part
from fedsvd.service.progress import ProgressReporter
from fedsvd.service.records import AWAITS_APPROVAL, JobRecord, JobState, ListedJob
from fedsvd.storage.faults import of_machine
from fedsvd.studies.job_stages import Stage
from fedsvd.transport.calls import LONGEST_STAY, STAY, Staying
from fedsvd.transport.grpc_client import PinnedConnection

_log = logging.getLogger(__name__)
LOOK = 0.3  # seconds between looks at the CSP's jobs while none changes: owners approve, and sessions end, here
SOON = 0.02  # seconds between looks however often they change
LOOK_AFTER_TROUBLE = 2.0
_PATIENCE = 10.0
_LONGEST_STOP = 10.0  # a pass over the data that takes longer is left: the CSP finds the connection dead
Listed = ListedJob | JobRecord
_NO_THREAD = threading.Thread()  # never started: stands for an attempt that we took no part in


class MemberNode:
    """One running party or authority; with ``only``, for the job of this id and no other."""

    def __init__(self, member: Member, only: str | None = None) -> None:
        self.caller = member.caller
        self._member, self._only = member, only
        self._stopping = threading.Event()
        self._client: CspClient | None = None
        self._busy: dict[tuple[str, int, Stage], threading.Thread] = {}  # by session
        self._marked: set[tuple[str, int]] = set()  # attempts that ended badly, and whose results say so
        self._reported: dict[str, str] = {}  # jobs that we cannot deal with, and why
        self._files: dict[str, JobRecord] = {}  # jobs that wait for our owner, as the CSP first showed them
        self._awaited: dict[str, tuple[str, int, Stage]] = {}  # for which of their sessions that was reported
        self._asked: set[str] = set()
        self._instance = fresh_bytes(8).hex()

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Look at the CSP's jobs again and again, until stopped; a CSP that is away for a while is waited for."""
        # Little patience here: the service goes on whatever happens, and its log says soon that the CSP is away.
        dialling = self._member.dialling
        client = self._client = CspClient(
            PinnedConnection(replace(dialling, patience=min(dialling.patience, _PATIENCE))), instance=self._instance
        )
        self._member.note("started")
        here = PinnedConnection(replace(dialling, channels=1, patience=_PATIENCE))
        threading.Thread(target=self._stay, args=(here,), daemon=True, name=f"{self.caller} is here").start()
        try:
            while not self._stopping.is_set() and not until():
                try:
                    self.look(client)
                    self._await_change(client)
                except FedSVDError as error:  # an answer that is no answer is trouble, not the end of the service
                    if not self._stopping.is_set():
                        _log.warning("role=%s %s", self.caller, error)
                    self._stopping.wait(LOOK_AFTER_TROUBLE)
        finally:
            self.await_sessions(_LONGEST_STOP)
            self._stopping.set()
            here.close()
            client.close()
            self._member.note("stopped")

    def _stay(self, connection: PinnedConnection) -> None:
        """Show the CSP that we are here: by one call that it holds open, whatever we do meanwhile."""
        while not self._stopping.is_set():
            try:
                connection.call(STAY, Staying(round(1000 * LONGEST_STAY)).encode())
            except FedSVDError:  # the log has it from those who look at the jobs
                self._stopping.wait(LOOK_AFTER_TROUBLE)

    def _await_change(self, client: CspClient) -> None:
        """Wait until a job has changed at the CSP, or until the next look is due."""
        asked = monotonic()
        pause = SOON if client.changed(True, LOOK) else LOOK
        self._stopping.wait(max(asked + pause - monotonic(), 0.0))

    def stop(self) -> None:
        """End every session that is under way, inform the CSP, and disconnect."""
        self._stopping.set()
        if self._client is not None:
            self._client.close()  # it may be waiting for a CSP that is away

    def await_sessions(self, seconds: float) -> None:
        """Wait until no session is under way here, or for so long."""
        deadline = monotonic() + seconds
        for thread in self._busy.values():
            if thread.is_alive():
                thread.join(max(deadline - monotonic(), 0.0))

    def look(self, client: CspClient) -> None:
        """Look at the CSP's jobs once, and do what is to be done for each."""
        jobs: list[Listed] = list(client.jobs(under_way=True))
        # What a broken attempt learnt together is still of use if all have ended its stage, and some report it late.
        attempts = [job.attempt_key for job in jobs if not job.over]
        self._member.prekeys.erase_but([job.session_key for job in jobs if job.under_way])
        self._member.answers.erase_but(attempts)
        for job in [*jobs, *self._ended_elsewhere(client, jobs)]:
            try:
                self._consider(client, job)
            except TransportError:
                raise
            except Exception as error:  # one job that makes no sense must not stop the others
                why = str(of_machine(error) or f"unexpected {type(error).__name__}")
                if self._reported.get(job.id) != why:
                    self._reported[job.id] = why
                    _log.warning("role=%s job=%s is left alone: %s", self.caller, job.id, why)
        self._release(jobs)

    def _ended_elsewhere(self, client: CspClient, jobs: list[Listed]) -> list[Listed]:
        """Jobs that ended here in an earlier process and are listed no more; each is asked for once."""
        ids = self._member.ends.jobs - {job.id for job in jobs} - self._asked
        self._asked |= ids
        found: list[Listed] = []
        for id in sorted(ids):
            with suppress(Refused):  # a CSP that knows nothing of it
                found.append(client.job(id))
        return found

    def _release(self, jobs: list[Listed]) -> None:
        """Close the tables of jobs that are over or wait; one that may begin next stays open, and is read once."""
        running = {id for (id, _, _), thread in self._busy.items() if thread.is_alive()}
        running |= {job.id for job in jobs if job.state is JobState.RUNNING}
        waiting = [job.id for job in jobs if job.state in (JobState.RECRUITING, JobState.QUEUED)]
        self._member.release({*running, *waiting[:1]})

    def _consider(self, client: CspClient, job: Listed) -> None:
        key = job.session_key
        if self.caller not in job.needed or self._only not in (None, job.id):
            return
        if job.state is JobState.DONE:
            if not self._at_work(job.id):
                self._member.settle(client, job)
                self._forget(client, job)
            return
        if key in self._member.ends and self.caller not in job.finished and job.state is not JobState.STOPPED:
            # Our report was lost, or the CSP was killed before it was on disk. A session that is still reporting is not
            # overtaken: of two sendings to the researcher at once, half of each would stay.
            if not self._at_work(job.id):
                self._member.report_end(client, client.job(job.id))
            return
        if job.state in (JobState.BROKEN, JobState.STOPPED):
            self._ended_badly(client, job)
            return
        if key in self._busy:
            if not self._busy[key].is_alive() and key not in self._member.ends:
                self._member.report_again(client, job)
            return
        if self._at_work(job.id):
            return  # an earlier session is still going down, and shares our checkpoint
        enlisted = self.caller in job.enlisted
        if enlisted is not (job.state is JobState.RUNNING) or not self._approved(client, job):
            return  # enlisted, and others have not; or the CSP enlisted us for what our owner did not approve
        full = client.job(job.id)  # the list has it in short
        if (full.session_key, full.state) != (key, job.state):
            return
        if not enlisted:
            self._enlist(client, full)
            return
        arguments = (self._member, full, self._stopping)
        thread = self._busy[key] = threading.Thread(target=take_part, args=arguments, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no more threads: the others must not wait for us
            fault = unexpected(error)
            self._member.report_failure(client, full, fault, "session")

    def _approved(self, client: CspClient, job: Listed) -> bool:
        """Whether our owner agreed to this job; one that did not, or whose approval is spent, is waited for."""
        if job.id not in self._files:
            self._files[job.id] = client.job(job.id)
        record = self._files[job.id].changed(attempt=job.attempt, stage=job.stage)
        owner = self._member.owner
        try:
            if owner.approved(record):
                owner.expect_unspent(record)
                return True
        except ApprovalSpent as spent:
            if self._awaited.get(job.id) != job.session_key:
                _log.warning("role=%s job=%s %s", self.caller, job.id, spent)
        if self._awaited.get(job.id) != job.session_key:
            self._awaited[job.id] = job.session_key
            ProgressReporter(client, job.id).stage(AWAITS_APPROVAL)
        return False

    def _ended_badly(self, client: CspClient, job: Listed) -> None:
        """A broken job, whose results are marked; a stopped one, of which besides them nothing stays."""
        if self._at_work(job.id):
            return
        if job.attempt_key not in self._marked:
            self._member.mark(client, job)
            self._marked.add(job.attempt_key)
        if job.state is JobState.STOPPED and not any(thread.is_alive() for thread in self._busy.values()):
            # A site may name one checkpoint for all its jobs: it is not removed while another job writes it.
            self._member.close(job)
            self._member.ends.close(job.id)
            self._forget(client, job)

    def _forget(self, client: CspClient, job: Listed) -> None:
        """A job is over, and nothing is to be done for it any more."""
        client.forget(job.id)
        self._busy = {key: thread for key, thread in self._busy.items() if key[0] != job.id}
        self._marked = {key for key in self._marked if key[0] != job.id}
        for of_jobs in (self._reported, self._files, self._awaited):
            of_jobs.pop(job.id, None)

    def _at_work(self, id: str) -> bool:
        """Whether any session of this job is under way here."""
        return any(of == id and thread.is_alive() for (of, _, _), thread in self._busy.items())

    def _enlist(self, client: CspClient, record: JobRecord) -> None:
        record = client.job(record.id)  # the list has it in short
        try:
            self._member.take_up(record)
        except FedSVDError as error:  # of this job alone: others go on, and the connection is as good as before
            self._busy[record.session_key] = _NO_THREAD
            self._member.report_failure(client, record, error, "enlisting")
            return
        try:
            self._member.enlist(client, record)
        except TransportError:
            raise
        except (FedSVDError, MemoryError, RuntimeError, OSError) as error:
            if (ours := of_machine(error)) is None:
                raise
            self._busy[record.session_key] = _NO_THREAD
            self._member.report_failure(client, record, ours, "enlisting")
