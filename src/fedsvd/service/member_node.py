"""A party or the Trusted Authority as a service: dials the CSP, enlists for approved jobs, takes part in them.

Nothing happens without the owner: a job is enlisted for, and taken part in, once ``approved`` says so. Several jobs run
at the same time, each in a thread. A party may have enlisted in another process, and be started when the authority has
left its sealed messages and gone.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from time import monotonic

from fedsvd.errors import FedSVDError, TransportError
from fedsvd.service.client import CspClient
from fedsvd.service.member import Member
from fedsvd.service.member_session import take_part
from fedsvd.service.records import JobRecord, JobState
from fedsvd.studies.job_stages import Stage
from fedsvd.transport.grpc_client import PinnedConnection

_log = logging.getLogger(__name__)
LOOK = 0.3  # seconds between looks at the CSP's jobs while none changes: owners approve, and sessions end, here
SOON = 0.02  # seconds between looks however often they change
LOOK_AFTER_TROUBLE = 2.0
_PATIENCE = 10.0
_LONGEST_STOP = 10.0  # a pass over the data that takes longer is left: the CSP finds the connection dead
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

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Look at the CSP's jobs again and again, until stopped; a CSP that is away for a while is waited for."""
        # Little patience here: the service goes on whatever happens, and its log says soon that the CSP is away.
        dialling = self._member.dialling
        client = self._client = CspClient(
            PinnedConnection(replace(dialling, patience=min(dialling.patience, _PATIENCE)))
        )
        self._member.note("started")
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
            client.close()
            self._member.note("stopped")

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
        records = client.jobs(under_way=True)
        under_way = [record for record in records if record.state in (JobState.RECRUITING, JobState.RUNNING)]
        self._member.prekeys.erase_but([record.session_key for record in under_way])
        self._member.answers.erase_but([record.attempt_key for record in under_way])
        for record in records:
            try:
                self._consider(client, record)
            except TransportError:
                raise
            except Exception as error:  # one job that makes no sense must not stop the others
                why = str(error) if isinstance(error, FedSVDError) else f"unexpected {type(error).__name__}"
                if self._reported.get(record.id) != why:
                    self._reported[record.id] = why
                    _log.warning("role=%s job=%s is left alone: %s", self.caller, record.id, why)

    def _consider(self, client: CspClient, record: JobRecord) -> None:
        key = record.session_key
        if self.caller not in record.needed or self._only not in (None, record.id):
            return
        if record.state in (JobState.BROKEN, JobState.STOPPED):
            if record.attempt_key not in self._marked and not self._at_work(key[0]):
                self._member.mark(client, record)
                self._marked.add(record.attempt_key)
            return
        if key in self._busy:
            if not self._busy[key].is_alive():
                self._member.report_again(client, record)
            return
        if self._at_work(key[0]):
            return  # an earlier session is still going down, and shares our checkpoint
        enlisted = self.caller in record.enlisted
        if enlisted is not (record.state is JobState.RUNNING) or not self._member.owner.approved(record):
            return  # enlisted, and others have not; or the CSP enlisted us for what our owner did not approve
        if not enlisted:
            self._enlist(client, record)
            return
        full = client.job(record.id)  # the list has it in short
        if (full.session_key, full.state) != (key, JobState.RUNNING):
            return
        arguments = (self._member, full, self._stopping)
        thread = self._busy[key] = threading.Thread(target=take_part, args=arguments, daemon=True)
        thread.start()

    def _at_work(self, id: str) -> bool:
        """Whether any session of this job is under way here."""
        return any(of == id and thread.is_alive() for (of, _, _), thread in self._busy.items())

    def _enlist(self, client: CspClient, record: JobRecord) -> None:
        try:
            self._member.enlist(client, record)
        except TransportError:
            raise
        except FedSVDError as error:
            self._busy[record.session_key] = _NO_THREAD
            self._member.report_failure(client, record, error, "enlisting")
