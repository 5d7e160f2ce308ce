"""The CSP as a service: listens, opens the links of each session, plays the CSP's role in it.

The other roles dial out, and ask about jobs (``handlers.py``). A job runs when all its members have enlisted: the plan
follows from the job file and the shapes they gave, and every member makes the same plan from the same facts before it
takes part. Several jobs run at the same time, each in a thread and a session of its own; beyond a number that fits the
machine, they wait in order.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from time import monotonic

from fedsvd.cost.traffic import longest_message
from fedsvd.engine.device import ON_CPU, Engine, each_over
from fedsvd.engine.player import Played, Player
from fedsvd.errors import ConfigError, FedSVDError, FixedPointOverflow, PeerLost, StorageError
from fedsvd.linalg.pools import available, one_pool
from fedsvd.protocol.messages import Aborted
from fedsvd.protocol.parties import CSP, TA, Party
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Trust
from fedsvd.randomness.entropy import fresh_bytes
from fedsvd.roles.service_provider.role import ServiceProvider
from fedsvd.roles.user.agreement import PURPOSE as CERTIFICATE
from fedsvd.sealing.sign import SigningKey, sign
from fedsvd.service.callers import Callers
from fedsvd.service.capacity import OPEN_JOBS, most_sessions
from fedsvd.service.enlist import plan_of, roster_of, ticket_of
from fedsvd.service.failures import failure_at_csp, for_others, unexpected, without_paths
from fedsvd.service.handlers import CspHandlers
from fedsvd.service.jobs import Jobs
from fedsvd.service.progress import CspProgress
from fedsvd.service.records import Failure, JobRecord, JobState, Progress, ProposedPlan
from fedsvd.storage import private
from fedsvd.storage.block_store import Access, BlockStore
from fedsvd.storage.journal import Sessions, ledger
from fedsvd.studies.job_stages import Stage
from fedsvd.transport.grpc_server import Exchange, Listening, SessionLinks
from fedsvd.transport.metered import Meter, Metered
from fedsvd.transport.session import GRACE
from fedsvd.types import SessionId

_log = logging.getLogger(__name__)
# Writes what the CSP saw of a job that is done: its record, plan, what was played, and every role's last progress.
WriteAccount = Callable[[JobRecord, SessionPlan, Played, Mapping[str, Progress]], None]
_closed = partial(_log.warning, "role=csp connections of %s were closed, which had too many or made no call: %d")
_LOOK = 0.5  # seconds between looks at the members of a session
_DRAIN = 3.0  # seconds in which a member fetches something, or is not there any more
_LONGEST_STOP = 15.0  # a factorisation that takes longer is left: the others find the connection dead


class CspNode(CspHandlers):
    """One running CSP; ``state`` is the folder of its journal and audit log."""

    def __init__(
        self,
        listening: Listening,
        authenticate: Callable[[bytes], str],
        state: Path,
        *,
        patience: float = 120.0,
        grace: float = GRACE,
        held: int = 256 << 20,
        write_account: WriteAccount | None = None,
        engine: Engine = ON_CPU,
        allow: Callable[[SessionPlan], None] = lambda plan: None,
        identity: SigningKey | None = None,
        sessions: int | None = None,
        open_jobs: int = OPEN_JOBS,
        callers: Callers | None = None,
    ) -> None:
        self._state = Path(state)
        self._patience = patience
        self._grace = min(grace, patience / 2)
        self._write_account = write_account
        self._engine = engine
        self._allow = allow
        self.identity = identity  # countersigns certificates
        self._verified: dict[str, tuple[SessionPlan, Played]] = {}
        journal = ledger(self._state)
        self._sessions = Sessions(journal)
        super().__init__(Jobs(journal), open_jobs, self._state, callers)
        self._most = sessions or most_sessions()
        self._running: set[tuple[str, int, Stage]] = set()  # sessions that have a place; guarded by ``jobs.changed``
        self._threads: list[threading.Thread] = []

        def remembered(certificate: bytes) -> str:
            try:
                caller = authenticate(certificate)
            except FedSVDError as error:
                raise for_others(error, self._folder) from None
            self.saw(caller, certificate.decode())
            return caller

        self._exchange = Exchange(listening, remembered, self.answer, held, _closed)
        self.port, self.answers = self._exchange.port, self._exchange.answers
        self.presence = self._exchange.presence

    def start(self) -> None:
        """Listen."""
        self._exchange.start()
        threading.Thread(target=self._watch_enlisting, daemon=True, name="enlisting").start()
        self._note("started", port=self.port)
        if self.jobs.interrupted:
            threading.Thread(target=self._await_ends, daemon=True, name="interrupted").start()
        self.jobs.queue_enlisted()
        self._fill()

    def stop(self) -> None:
        """End every session that is under way, inform its members, and disconnect."""
        self._stopping.set()
        with self.jobs.changed:
            self.jobs.changed.notify_all()
        deadline = monotonic() + min(self._patience, _LONGEST_STOP)  # for all of them together
        for thread in self._threads:
            thread.join(max(deadline - monotonic(), 0.0))
        self._exchange.stop()
        self._note("stopped")

    def _await_ends(self) -> None:
        """Members whose job was done when we were killed report that again; a job of which they do not is broken."""
        deadline = monotonic() + self._grace
        with self.jobs.changed:
            while self.jobs.interrupted and not self._stopping.is_set() and monotonic() < deadline:
                self.jobs.changed.wait(_LOOK)
            if self._stopping.is_set():
                return
            broken = self.jobs.break_interrupted()
        for job in broken:
            with suppress(StorageError):
                self._note("broken", job=job.id, who="csp", code=PeerLost.code, stage="")

    # --- the queue ------------------------------------------------------------------------------------------------

    def _admit(self, job: JobRecord) -> bool:
        """Whether a session for this job is opened now: this call has a place for it. Else it waits in the queue."""
        with self.jobs.changed:
            if job.session_key in self._running:
                return False  # another call is opening it
            if len(self._running) < self._most and not self.jobs.queued():
                self._running.add(job.session_key)
                return True
            self.jobs.change(job.id, state=JobState.QUEUED)
            return False

    def _fill(self) -> None:
        """Open sessions for the jobs that have waited longest, as long as there is a place for one."""
        while not self._stopping.is_set():
            with self.jobs.changed:
                waiting = [job for job in self.jobs.queued() if job.session_key not in self._running]
                if len(self._running) >= self._most or not waiting:
                    return
                job = waiting[0]
                self._running.add(job.session_key)
            try:
                self._open(job)
            except StorageError as error:  # a full disk: this job must not stand in the way of the others
                self._broken(job, failure_at_csp(error, "planning"))

    def _vacate(self, job: JobRecord) -> None:
        """The session of this job needs its place no more; the next job in the queue takes it."""
        with self.jobs.changed:
            self._running.discard(job.session_key)
        self._fill()

    def _open(self, job: JobRecord) -> JobRecord:
        """All members are here: make the plan, while others are answered; then open a session, play our role in it."""
        begun = False
        try:
            session = SessionId(fresh_bytes(16).hex())
            machine = self._planned(job, session)
            plan = machine.plan
            longest, proposed = longest_message(plan), ProposedPlan.model_validate(asdict(plan))
            with self.jobs.changed:
                now = self.jobs.get(job.id)
                if now.session_key != job.session_key or now.state not in (JobState.RECRUITING, JobState.QUEUED):
                    return now  # stopped meanwhile
                self._sessions.claim(session)
                links = self._exchange.open(session, roster_of(job, plan), longest)
                job = self.jobs.change(job.id, state=JobState.RUNNING, plan=proposed, plan_digest=plan.digest)
                begun = True
        except StorageError:
            raise
        except FedSVDError as error:
            return self._broken(job, failure_at_csp(error, "planning"))
        except Exception as error:  # a defect of ours must not leave a job recruiting for ever
            _log.exception("job=%s", job.id)
            return self._broken(job, failure_at_csp(unexpected(error), "planning"))
        finally:
            if not begun:
                with self.jobs.changed:
                    self._running.discard(job.session_key)
        thread = threading.Thread(target=self._play, args=(job, machine, links), daemon=True, name=f"job-{job.id}")
        self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]
        try:
            thread.start()
        except RuntimeError as error:  # no thread is left
            self._threads.remove(thread)
            links.close()
            with self.jobs.changed:
                self._running.discard(job.session_key)
            return self._broken(job, failure_at_csp(unexpected(error), "planning"))
        return job

    def _planned(self, job: JobRecord, session: SessionId) -> ServiceProvider:
        key = self.identity
        csp, signer = ("", None) if key is None else (key.public.hex(), partial(sign, key, CERTIFICATE))
        said = job.certain_bound, ticket_of(*job.session_key), csp, job.stage, job.bound
        plan = plan_of(job.job, job.enlisted, session, *said)
        self._allow(plan)
        each = self._engine.each or each_over(available())
        return ServiceProvider(plan, self._store, self._engine.device, signer, each)

    def _play(self, job: JobRecord, machine: ServiceProvider, links: SessionLinks) -> None:
        meter, roster = Meter(), roster_of(job, machine.plan)
        callers = {party: caller for caller, party in roster.items()}
        progress = CspProgress(self.jobs, job.id, meter, links, callers)
        machine.progress = progress.progress

        def alive() -> None:
            links.expect_any_member()
            now = self.jobs.get(job.id)
            if self._stopping.is_set() or now.state is JobState.STOPPED:
                raise ConfigError("the job was stopped", "resume it, or submit it again")
            if now.state is JobState.BROKEN or now.session_key != job.session_key:
                raise _BrokenOff("this attempt was broken off by a member", "see the job's failures")
            progress.look()

        over, broken = threading.Event(), threading.Event()
        guard = threading.Thread(target=self._guard, args=(job, machine, links, roster, over, broken), daemon=True)
        try:
            guard.start()
            with one_pool():
                played = Player(machine, Metered(links, CSP, meter), watch=progress.stage, alive=alive).play()
            progress.done(played)
            self._verified[job.id] = machine.plan, played
            self._note("finished", job=job.id, session=machine.plan.session)
            self._await_members(job, links)
        except _BrokenOff:
            self._note("broken off", job=job.id, session=machine.plan.session)
        except FedSVDError as error:
            if not broken.is_set():  # what follows from a lost member is no failure of its own
                self._broken(job, failure_at_csp(error, machine.stage.lower()))
        except Exception as error:  # a defect of ours must not leave a job running for ever
            _log.exception("job=%s", job.id)
            self._broken(job, failure_at_csp(unexpected(error)))
        finally:
            over.set()
            links.drain(_DRAIN)
            links.close()
            self._vacate(job)

    def _await_members(self, job: JobRecord, links: SessionLinks) -> None:
        """Our part is done; the members still write their results, and are guarded while they do."""
        with self.jobs.changed:
            while not self._stopping.is_set() and not links.all_left:
                now = self.jobs.get(job.id)
                if now.state is not JobState.RUNNING or now.session_key != job.session_key:
                    return
                self.jobs.changed.wait(_LOOK)

    def _guard(
        self,
        job: JobRecord,
        machine: ServiceProvider,
        links: SessionLinks,
        roster: Mapping[str, Party],
        over: threading.Event,
        broken: threading.Event,
    ) -> None:
        """Break a job off when a member is lost, also while this CSP computes; the others are informed at once."""
        plan = machine.plan
        while not over.wait(_LOOK):
            # A member that is done has disconnected and is not missed: the TA leaves first of all. What it dealt stays
            # valid, so a party that has not come yet is waited for, like one that has not enlisted.
            late = links.absent - {TA} if plan.trust is Trust.AUTHORITY else set()
            now = self.jobs.get(job.id)
            if now.session_key != job.session_key:
                return  # all members have ended this stage
            done = {roster[caller] for caller in now.finished}
            lost, still = self.presence.lost(roster), self.presence.still(roster)
            if late and TA in done:
                self._vacate(job)  # it may wait for its parties for days, and computes nothing meanwhile
            try:
                links.expect_signs_of_life(self._patience, but=late | done, grace=self._grace, lost=lost, still=still)
            except FedSVDError as error:
                stage = "" if machine.over else machine.state.name.lower()
                broken.set()
                self._broken(job, failure_at_csp(error, stage))
                for party in roster.values():
                    with suppress(FedSVDError):  # the lost one, and those that have left
                        links.send(party, Aborted(plan.digest, error.code, stage))
                return

    def _watch_enlisting(self) -> None:
        """Break a job off at which a member is lost while it enlists: the others would wait for ever."""
        while not self._stopping.wait(_LOOK):
            for job, caller in self.jobs.enlisting():
                since = self.presence.lost_at(caller)
                if since is not None and monotonic() - since > self._grace:
                    error = PeerLost(f"{caller} began to enlist, and has been gone for {monotonic() - since:.0f} s")
                    self._broken(job, failure_at_csp(error, "enlisting"))

    def _account(self, job: JobRecord) -> None:
        """All members are done: what we saw of this job is written, in a thread of its own, for our own operator."""
        seen = self._verified.pop(job.id, None)
        if job.state is not JobState.DONE or seen is None or self._write_account is None:
            return
        # A report takes seconds to draw, and a handler that draws answers no one meanwhile.
        thread = threading.Thread(target=self._account_of, args=(job, *seen), daemon=True, name=f"account-{job.id}")
        self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]
        thread.start()

    def _account_of(self, job: JobRecord, plan: SessionPlan, played: Played) -> None:
        if self._write_account is None:
            return
        try:
            self._write_account(job, plan, played, self.jobs.progress(job.id))
        except FedSVDError as error:  # the job is done all the same
            _log.warning("job=%s the account of it was not written: %s", job.id, error)

    def _broken(self, job: JobRecord, failure: Failure) -> JobRecord:
        """This attempt failed; a session that another one has followed already changes nothing any more."""
        failure = failure.model_copy(update={"text": without_paths(failure.text, self._folder)})
        with suppress(StorageError):  # a full disk must not make the others wait
            self._note("broken", job=job.id, who=failure.who, code=failure.code, stage=failure.stage)
        with self.jobs.changed:
            now = self.jobs.get(job.id)
            if now.session_key != job.session_key:
                return now
            overflow = failure.code == FixedPointOverflow.code
            again = overflow and not now.certain_bound and not now.over
            state = now.state if now.over else JobState.BROKEN
            certain = now.certain_bound or overflow
            now = self.jobs.breaks(job.id, state=state, failures=(*now.failures, failure), certain_bound=certain)
            # Step 5: an entry beyond the usual bound starts again under the certain one, without a person.
            return self.jobs.resume(job.id) if again else now

    def _store(self, shape: tuple[int, int], access: Access, budget: int) -> BlockStore:
        scratch = private.private_folder(self._state / "scratch")
        return self._engine.storage(scratch)(shape, access, budget)


class _BrokenOff(ConfigError):
    """A member's failure ended this attempt, and is in the job's record already."""
