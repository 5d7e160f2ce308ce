"""A party or the Trusted Authority as a service: dials the CSP, enlists for approved jobs, plays its role in them.

Nothing happens without the owner: a job is enlisted for once ``approved`` says so, and its plan is made again here and
compared before the session starts. Several jobs run at the same time. What a member must not forget (sessions it took
part in, compression passes half done) is in its state folder.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

from fedsvd.compress.checkpoint import Checkpoint
from fedsvd.errors import FedSVDError, PeerLost, TransportError
from fedsvd.protocol.machine import Machine
from fedsvd.protocol.parties import user
from fedsvd.protocol.plan import SessionPlan
from fedsvd.randomness.seed import Seed
from fedsvd.roles.trusted_authority import TrustedAuthority
from fedsvd.roles.user.role import Inputs, User
from fedsvd.runtime.driver import aloud
from fedsvd.runtime.enlisting import OwnPart, expect_same_plan, job_of, open_own, party_caller
from fedsvd.runtime.job import Job
from fedsvd.runtime.jobbook import JobState
from fedsvd.runtime.ledger import AuditLog, Ledger, Sessions
from fedsvd.runtime.party_data import expect_readable, oriented
from fedsvd.runtime.questions import Desk
from fedsvd.runtime.session import Played, Player, accounts
from fedsvd.runtime.telling import Teller
from fedsvd.sealing.sign import SigningKey
from fedsvd.transport.grpc_client import Dialled, Dialling, Line
from fedsvd.transport.metered import Meter, Metered

_log = logging.getLogger(__name__)
_LOOK = 0.3  # seconds between looks at the CSP's book
_LOOK_AFTER_TROUBLE = 2.0
_LONGEST_GOODBYE = 10.0  # a pass over the data that takes longer is left: the CSP finds the line dead


_NO_THREAD = threading.Thread()  # never started: stands for an attempt that we took no part in


@dataclass(frozen=True, repr=False)
class Finished:
    """What a party holds after a job: its result, what it metered, and what it brought."""

    job: Job
    record: Mapping[str, Any]
    plan: SessionPlan
    own: OwnPart
    played: Played
    meter: Meter


class Owner(Protocol):
    """What a member asks of the person, and the folder, behind it."""

    def approved(self, record: Mapping[str, Any]) -> bool:
        """Whether the owner agreed to this job."""

    def data(self, job: Job) -> Path | str:
        """Where this site keeps the data for a job."""

    def expect_known(self, member: str, facts: Mapping[str, Any]) -> None:
        """Raise unless a member's certificate and signing key are the ones pinned for it."""

    def expect_fresh(self, record: Mapping[str, Any], own: OwnPart) -> None:
        """Raise where this data, beside that of an earlier run, would give single records away."""

    def expect_allowed(self, plan: SessionPlan) -> None:
        """Raise where the plan is below the owner's policy."""

    def begin(self, record: Mapping[str, Any]) -> None:
        """A session begins: what is brought to it counts as brought."""

    def keep(self, finished: Finished) -> None:
        """Write the result."""

    def keep_failure(self, record: Mapping[str, Any], error: FedSVDError, stage: str) -> None:
        """Write why a try failed here: the others are told no more than concerns them."""


class MemberNode:
    """One running party or authority."""

    def __init__(
        self,
        caller: str,
        dialling: Dialling,
        identity: SigningKey,
        facts: Mapping[str, Any],
        owner: Owner,
        state: Path,
    ) -> None:
        self.caller = caller
        self._dialling = dialling
        self._identity = identity
        self._facts = dict(facts)  # certificate and signing key, said at every enlisting
        self._owner = owner
        self._state = Path(state)
        ledger = Ledger(self._state / "ledger.jsonl")
        self._sessions = Sessions(ledger)
        self._audit = AuditLog(self._state / "audit.jsonl")
        self._stopping = threading.Event()
        self._desk: Desk | None = None
        self._busy: dict[tuple[str, int], threading.Thread] = {}
        self._opened: dict[str, OwnPart | None] = {}

    @property
    def _is_party(self) -> bool:
        return self.caller.startswith("party/")

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Look at the book again and again, until stopped; a CSP that is away for a while is waited for."""
        desk = self._desk = Desk(Line(self._dialling))
        self._note("started")
        try:
            while not self._stopping.is_set() and not until():
                try:
                    for record in desk.ask("jobs", under_way=True):
                        self._consider(desk, record)
                    self._stopping.wait(_LOOK)
                except TransportError as error:
                    if not self._stopping.is_set():
                        _log.warning("role=%s %s", self.caller, error)
                    self._stopping.wait(_LOOK_AFTER_TROUBLE)
        finally:
            deadline = monotonic() + _LONGEST_GOODBYE
            for thread in self._busy.values():
                if thread.is_alive():
                    thread.join(max(deadline - monotonic(), 0.0))
            desk.close()
            self._note("stopped")

    def stop(self) -> None:
        """End every session that is under way, tell the CSP, and hang up."""
        self._stopping.set()
        if self._desk is not None:
            self._desk.close()  # it may be waiting for a CSP that is away

    def _consider(self, desk: Desk, record: Mapping[str, Any]) -> None:
        key = record["id"], int(record["attempt"])
        if self.caller not in record["members"] or key in self._busy:
            return
        if any(id == key[0] and thread.is_alive() for (id, _), thread in self._busy.items()):
            return  # an earlier attempt is still going down, and shares our checkpoint
        if record["state"] == JobState.RECRUITING and self.caller not in record["enlisted"]:
            if self._owner.approved(record):
                self._enlist(desk, record)
        elif record["state"] == JobState.RUNNING and self.caller in record["enlisted"]:
            thread = threading.Thread(target=self._take_part, args=(dict(record),), daemon=True)
            self._busy[key] = thread
            thread.start()

    def _enlist(self, desk: Desk, record: Mapping[str, Any]) -> None:
        try:
            own = self._open(record)
            facts = {**self._facts, **(own.facts if own else {})}
            desk.ask("enlist", id=record["id"], attempt=record["attempt"], facts=facts)
            self._note("enlisted", job=record["id"], attempt=record["attempt"])
        except TransportError:
            raise
        except FedSVDError as error:
            self._busy[record["id"], int(record["attempt"])] = _NO_THREAD
            self._tell_failure(desk, record, error, "enlisting")

    def _open(self, record: Mapping[str, Any]) -> OwnPart | None:
        if not self._is_party:
            return None
        if record["id"] not in self._opened:
            job = job_of(record["file"])
            own = open_own(job, self.caller.partition("/")[2], self._owner.data(job), self._scratch())
            expect_readable([own.data])
            self._owner.expect_fresh(record, own)
            self._opened[record["id"]] = own
        return self._opened[record["id"]]

    def _take_part(self, record: dict[str, Any]) -> None:
        desk = Desk(Line(self._dialling))
        transport: Dialled | None = None
        machine: Machine | None = None
        teller = Teller(desk, record["id"])

        def alive() -> None:
            if self._stopping.is_set():
                raise PeerLost(f"{self.caller} was shut down", "start it again, then resume the job")
            teller.look()

        try:
            plan = self._checked_plan(record)
            machine = self._machine(record, plan, teller)
            self._sessions.claim(plan.session)
            self._owner.begin(record)
            transport = Dialled(self._dialling, plan.session)
            metered = Metered(transport, machine.me, teller.meter)
            played = Player(machine, metered, watch=teller.stage, alive=alive).play()
            transport.flush()
            own = self._opened.pop(record["id"], None)
            if own is not None:
                self._owner.keep(Finished(job_of(record["file"]), record, plan, own, played, teller.meter))
            teller.done(accounts(machine.me, teller.meter, played))
            desk.ask("ended", id=record["id"], attempt=record["attempt"])
            self._note("finished", job=record["id"], session=plan.session)
            self._checkpoint(record).remove()
        except FedSVDError as error:
            if transport is not None:
                with suppress(FedSVDError):
                    transport.flush()
            failed = machine is not None and machine.failure is not None
            self._tell_failure(desk, record, error, machine.stage.lower() if machine and failed else "session")
        except Exception as error:  # a defect of ours must not leave a job running for ever
            _log.exception("role=%s job=%s", self.caller, record["id"])
            self._tell_failure(desk, record, FedSVDError(f"unexpected {type(error).__name__}"), "session")
        finally:
            if transport is not None:
                transport.close()
            desk.close()

    def _checked_plan(self, record: Mapping[str, Any]) -> SessionPlan:
        """Our own plan from the facts in the book, once everybody in it is who we pinned."""
        job = job_of(record["file"])
        for member in record["members"]:
            self._owner.expect_known(member, record["enlisted"][member])
        plan = expect_same_plan(record["plan"], job, record["enlisted"], record["plan_digest"])
        self._owner.expect_allowed(plan)
        return plan

    def _machine(self, record: Mapping[str, Any], plan: SessionPlan, teller: Teller) -> Machine:
        if not self._is_party:
            return TrustedAuthority(plan, Seed.fresh(), self._identity)
        own, job = self._open(record), job_of(record["file"])
        assert own is not None  # a party has opened its data before it enlisted
        index = [party_caller(party.name) for party in job.parties].index(self.caller) + 1
        extras: dict[str, Any] = {"progress": teller.progress}
        if plan.compress:
            extras["checkpoint"] = self._checkpoint(record)
        labels = own.data.labels if plan.by_rows else None
        source = oriented(plan, own.data)
        inputs = Inputs(source, self._identity, Seed.fresh(), labels, own.data.ids, None, extras)
        return User(user(index), plan, inputs)

    def _checkpoint(self, record: Mapping[str, Any]) -> Checkpoint:
        folder = self._state / "checkpoints"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Checkpoint(folder / f"{record['id']}.factor")

    def _scratch(self) -> Path:
        folder = self._state / "scratch"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def _tell_failure(self, desk: Desk, record: Mapping[str, Any], error: FedSVDError, stage: str) -> None:
        _log.error("role=%s job=%s stage=%s %s", self.caller, record["id"], stage, error)
        self._note("failed", job=record["id"], code=error.code, stage=stage)
        failure = {"code": error.code, "stage": stage, "text": aloud(error)}
        try:
            self._owner.keep_failure(record, error, stage)
            desk.ask("ended", id=record["id"], attempt=record["attempt"], failure=failure)
        except FedSVDError as lost:
            _log.warning("role=%s cannot tell the CSP: %s", self.caller, lost)

    def _note(self, event: str, **facts: str | int) -> None:
        self._audit.write(datetime.now(UTC).isoformat(timespec="seconds"), event, **facts)
