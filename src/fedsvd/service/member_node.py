"""A party or the Trusted Authority as a service: dials the CSP, enlists for approved jobs, takes part in them.

Nothing happens without the owner: a job is enlisted for, and taken part in, once ``approved`` says so. Several jobs run
at the same time, each in a thread. A party may have enlisted in another process, and be started when the authority has
left its letters and gone.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

from fedsvd.engine.device import ON_CPU, Engine
from fedsvd.errors import FedSVDError, TransportError
from fedsvd.sealing.sign import SigningKey
from fedsvd.service.api import CspClient
from fedsvd.service.jobs import JobState
from fedsvd.service.member import Member
from fedsvd.service.member_session import take_part
from fedsvd.service.owner import Owner
from fedsvd.transport.grpc_client import Dialling, PinnedConnection

_log = logging.getLogger(__name__)
_LOOK = 0.3  # seconds between looks at the CSP's book
_LOOK_AFTER_TROUBLE = 2.0
_PATIENCE = 10.0
_LONGEST_GOODBYE = 10.0  # a pass over the data that takes longer is left: the CSP finds the line dead
_NO_THREAD = threading.Thread()  # never started: stands for an attempt that we took no part in


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
        engine: Engine = ON_CPU,
    ) -> None:
        self.caller = caller
        self._member = Member(caller, dialling, identity, facts, owner, Path(state), engine)
        self._stopping = threading.Event()
        self._desk: CspClient | None = None
        self._busy: dict[tuple[str, int], threading.Thread] = {}
        self._marked: set[tuple[str, int]] = set()  # attempts that ended badly, and whose results say so
        self._reported: dict[str, str] = {}  # jobs that we cannot deal with, and why

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Look at the book again and again, until stopped; a CSP that is away for a while is waited for."""
        # Little patience here: the service goes on whatever happens, and its log says soon that the CSP is away.
        dialling = self._member.dialling
        desk = self._desk = CspClient(PinnedConnection(replace(dialling, patience=min(dialling.patience, _PATIENCE))))
        self._member.note("started")
        try:
            while not self._stopping.is_set() and not until():
                try:
                    self._look(desk)
                    self._stopping.wait(_LOOK)
                except FedSVDError as error:  # an answer that is no answer is trouble, not the end of the service
                    if not self._stopping.is_set():
                        _log.warning("role=%s %s", self.caller, error)
                    self._stopping.wait(_LOOK_AFTER_TROUBLE)
        finally:
            deadline = monotonic() + _LONGEST_GOODBYE
            for thread in self._busy.values():
                if thread.is_alive():
                    thread.join(max(deadline - monotonic(), 0.0))
            desk.close()
            self._member.note("stopped")

    def stop(self) -> None:
        """End every session that is under way, tell the CSP, and hang up."""
        self._stopping.set()
        if self._desk is not None:
            self._desk.close()  # it may be waiting for a CSP that is away

    def _look(self, desk: CspClient) -> None:
        records = desk.jobs(under_way=True)
        under_way = [record for record in records if record["state"] in (JobState.RECRUITING, JobState.RUNNING)]
        self._member.prekeys.keep_only([(record["id"], int(record["attempt"])) for record in under_way])
        for record in records:
            try:
                self._consider(desk, record)
            except TransportError:
                raise
            except Exception as error:  # one job that makes no sense must not keep us from the others
                why = str(error) if isinstance(error, FedSVDError) else f"unexpected {type(error).__name__}"
                if self._reported.get(record["id"]) != why:
                    self._reported[record["id"]] = why
                    _log.warning("role=%s job=%s is left alone: %s", self.caller, record["id"], why)

    def _consider(self, desk: CspClient, record: Mapping[str, Any]) -> None:
        key = record["id"], int(record["attempt"])
        if self.caller not in record["members"]:
            return
        if record["state"] in (JobState.BROKEN, JobState.STOPPED):
            if key not in self._marked and not self._at_work(key[0]):
                self._member.mark(desk, record)
                self._marked.add(key)
            return
        if key in self._busy:
            if not self._busy[key].is_alive():
                self._member.tell_again(desk, record)
            return
        if self._at_work(key[0]):
            return  # an earlier attempt is still going down, and shares our checkpoint
        enlisted = self.caller in record["enlisted"]
        if enlisted is not (record["state"] == JobState.RUNNING) or not self._member.owner.approved(record):
            return  # enlisted, and others have not; or the CSP enlisted us for what nobody here agreed to
        if not enlisted:
            self._enlist(desk, record)
            return
        whole = desk.ask("job", id=record["id"])  # the list has it in short
        if (whole["id"], whole["attempt"], whole["state"]) != (*key, JobState.RUNNING):
            return
        words = (self._member, whole, self._stopping)
        thread = self._busy[key] = threading.Thread(target=take_part, args=words, daemon=True)
        thread.start()

    def _at_work(self, id: str) -> bool:
        """Whether any attempt at this job is under way here."""
        return any(of == id and thread.is_alive() for (of, _), thread in self._busy.items())

    def _enlist(self, desk: CspClient, record: Mapping[str, Any]) -> None:
        try:
            self._member.enlist(desk, record)
        except TransportError:
            raise
        except FedSVDError as error:
            self._busy[record["id"], int(record["attempt"])] = _NO_THREAD
            self._member.tell_failure(desk, record, error, "enlisting")
