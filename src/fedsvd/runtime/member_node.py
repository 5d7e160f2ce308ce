"""A party or the Trusted Authority as a service: dials the CSP, enlists for approved jobs, takes part in them.

Nothing happens without the owner: a job is enlisted for, and taken part in, once ``approved`` says so. Several jobs run
at the same time, each in a thread. A party may have enlisted in another process, and be started when the authority has
left its letters and gone.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from fedsvd.errors import FedSVDError, TransportError
from fedsvd.runtime.engine import ON_CPU, Engine
from fedsvd.runtime.jobbook import JobState
from fedsvd.runtime.member import Member
from fedsvd.runtime.member_session import take_part
from fedsvd.runtime.owner import Owner
from fedsvd.runtime.questions import Desk
from fedsvd.sealing.sign import SigningKey
from fedsvd.transport.grpc_client import Dialling, Line

_log = logging.getLogger(__name__)
_LOOK = 0.3  # seconds between looks at the CSP's book
_LOOK_AFTER_TROUBLE = 2.0
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
        self._desk: Desk | None = None
        self._busy: dict[tuple[str, int], threading.Thread] = {}

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Look at the book again and again, until stopped; a CSP that is away for a while is waited for."""
        desk = self._desk = Desk(Line(self._member.dialling))
        self._member.note("started")
        try:
            while not self._stopping.is_set() and not until():
                try:
                    self._look(desk)
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
            self._member.note("stopped")

    def stop(self) -> None:
        """End every session that is under way, tell the CSP, and hang up."""
        self._stopping.set()
        if self._desk is not None:
            self._desk.close()  # it may be waiting for a CSP that is away

    def _look(self, desk: Desk) -> None:
        records = desk.ask("jobs", under_way=True)
        self._member.prekeys.keep_only([(record["id"], int(record["attempt"])) for record in records])
        for record in records:
            self._consider(desk, record)

    def _consider(self, desk: Desk, record: Mapping[str, Any]) -> None:
        key = record["id"], int(record["attempt"])
        if self.caller not in record["members"]:
            return
        if key in self._busy:
            if not self._busy[key].is_alive():
                self._member.tell_again(desk, record)
            return
        if any(id == key[0] and thread.is_alive() for (id, _), thread in self._busy.items()):
            return  # an earlier attempt is still going down, and shares our checkpoint
        enlisted = self.caller in record["enlisted"]
        if enlisted is not (record["state"] == JobState.RUNNING) or not self._member.owner.approved(record):
            return  # enlisted, and others have not; or the CSP enlisted us for what nobody here agreed to
        if not enlisted:
            self._enlist(desk, record)
            return
        words = (self._member, dict(record), self._stopping)
        thread = self._busy[key] = threading.Thread(target=take_part, args=words, daemon=True)
        thread.start()

    def _enlist(self, desk: Desk, record: Mapping[str, Any]) -> None:
        try:
            self._member.enlist(desk, record)
        except TransportError:
            raise
        except FedSVDError as error:
            self._busy[record["id"], int(record["attempt"])] = _NO_THREAD
            self._member.tell_failure(desk, record, error, "enlisting")
