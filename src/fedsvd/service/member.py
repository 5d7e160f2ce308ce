"""A party or the authority between its sessions: what it brings to a job, and what it must not forget.

Data is opened and checked before anything is said of it. The state folder holds the sessions it took part in, prekeys
that wait for theirs, compression passes half done, and the audit log.
"""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedsvd.compress.checkpoint import Checkpoint
from fedsvd.engine.device import ON_CPU, Engine
from fedsvd.errors import DataChanged, FedSVDError
from fedsvd.protocol.parties import Party, user
from fedsvd.protocol.prekeys import spelt_prekey
from fedsvd.sealing.sign import SigningKey
from fedsvd.service.api import Desk
from fedsvd.service.enlist import OwnPart, authority_deals, job_of, open_own, party_caller, ticket_of
from fedsvd.service.failures import not_finished
from fedsvd.service.owner import Owner
from fedsvd.service.prekeys import Prekeys
from fedsvd.storage.journal import AuditLog, Ledger, Sessions
from fedsvd.studies.doubts import of_own
from fedsvd.transport.grpc_client import Dialling

_log = logging.getLogger(__name__)


class Member:
    """One party or authority; ``facts`` are its certificate and signing key, said at every enlisting."""

    def __init__(
        self,
        caller: str,
        dialling: Dialling,
        identity: SigningKey,
        facts: Mapping[str, Any],
        owner: Owner,
        state: Path,
        engine: Engine = ON_CPU,
    ) -> None:
        self.caller = caller
        self.dialling = dialling
        self.identity = identity
        self.owner = owner
        self.engine = engine
        self.sessions = Sessions(Ledger(state / "ledger.jsonl"))
        self.prekeys = Prekeys(state / "prekeys")
        self._facts = dict(facts)
        self._state = state
        self._audit = AuditLog(state / "audit.jsonl")
        self._opened: dict[str, OwnPart] = {}
        self._failed: dict[tuple[str, int], dict[str, str]] = {}  # attempts, and what was told of their end

    # --- enlisting ------------------------------------------------------------------------------------------------

    def enlist(self, desk: Desk, record: Mapping[str, Any]) -> dict[str, Any]:
        """Join this attempt: shapes and, where an authority deals, a prekey are said; the job as it stands then."""
        self.owner.expect_unspent(record)
        facts, own = dict(self._facts), self.open(record)
        if own is not None:
            self.owner.expect_fresh(record, own)
            facts |= own.facts
            if authority_deals(job_of(record["file"])):
                facts["prekey"] = self._prekey(record)
        answer = desk.ask("enlist", id=record["id"], attempt=record["attempt"], facts=facts)
        self.note("enlisted", job=record["id"], attempt=record["attempt"])
        return dict(answer)

    def open(self, record: Mapping[str, Any]) -> OwnPart | None:
        """This party's data for a job, opened; nothing at an authority."""
        if not self.caller.startswith("party/"):
            return None
        if record["id"] not in self._opened:
            job = job_of(record["file"])
            name = self.caller.partition("/")[2]
            own = open_own(job, name, self.owner.data(job), self.scratch(), self.owner.rename())
            for doubt in of_own(job.study.task, own.data, job.study.label):
                _log.warning("role=%s job=%s %s", self.caller, record["id"], doubt)
            self._opened[record["id"]] = own
        return self._opened[record["id"]]

    def open_as_enlisted(self, record: Mapping[str, Any]) -> OwnPart | None:
        """The same, when the session begins; another process may have enlisted, days ago."""
        own = self.open(record)
        said = record["enlisted"][self.caller]
        if own is not None and any(said.get(name) != value for name, value in own.facts.items()):
            self._opened.pop(record["id"])
            raise DataChanged("the data here has another shape than when this site enlisted", "resume the job")
        return own

    def close(self, record: Mapping[str, Any]) -> None:
        """A job is done: nothing of it is needed any more."""
        self._opened.pop(record["id"], None)
        self.checkpoint(record).remove()

    def place(self, record: Mapping[str, Any]) -> Party:
        """Which user this party is."""
        names = [party_caller(party.name) for party in job_of(record["file"]).parties]
        return user(names.index(self.caller) + 1)

    def _prekey(self, record: Mapping[str, Any]) -> str:
        id, attempt = record["id"], int(record["attempt"])
        key = self.prekeys.make(id, attempt)
        return spelt_prekey(key, self.place(record), ticket_of(id, attempt), self.identity)

    # --- what is kept and told ------------------------------------------------------------------------------------

    def checkpoint(self, record: Mapping[str, Any]) -> Checkpoint:
        """Where a compression pass for this job is kept while it lasts."""
        return Checkpoint(self.owner.checkpoint(record))

    def scratch(self) -> Path:
        """Where what does not fit in memory lies."""
        return self._folder("scratch")

    def _folder(self, name: str) -> Path:
        folder = self._state / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def tell_failure(self, desk: Desk, record: Mapping[str, Any], error: FedSVDError, stage: str) -> None:
        """Write down why this attempt failed here; the others hear as much as concerns them."""
        _log.error("role=%s job=%s stage=%s %s", self.caller, record["id"], stage, error)
        try:
            self.note("failed", job=record["id"], code=error.code, stage=stage)
            self.owner.keep_failure(record, error, stage)
        except FedSVDError as lost:  # a full disk must not keep the others waiting
            _log.warning("role=%s cannot write down why: %s", self.caller, lost)
        failure = {"code": error.code, "stage": stage, "text": ""}
        self._failed[record["id"], int(record["attempt"])] = failure
        try:
            self.tell_again(desk, record)
        except FedSVDError as lost:
            _log.warning("role=%s cannot tell the CSP: %s", self.caller, lost)

    def tell_again(self, desk: Desk, record: Mapping[str, Any]) -> None:
        """An attempt that failed here is under way in the CSP's book: it has not heard us, or has forgotten."""
        failure = self._failed.get((record["id"], int(record["attempt"])))
        if failure is not None:
            desk.ask("ended", id=record["id"], attempt=record["attempt"], failure=failure)

    def mark(self, desk: Desk, record: Mapping[str, Any]) -> None:
        """A job that ended badly: if we have results of it, they say so from now on."""
        if not self.owner.has_results(record):
            return
        whole = desk.ask("job", id=record["id"])
        if self.owner.mark_unfinished(whole):
            _log.warning("role=%s job=%s %s", self.caller, record["id"], not_finished(whole))
            self.note("results marked", job=record["id"], state=str(record["state"]))

    def note(self, event: str, **facts: str | int) -> None:
        """A line in the audit log."""
        self._audit.write(datetime.now(UTC).isoformat(timespec="seconds"), event, **facts)
