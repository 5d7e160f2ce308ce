"""A party or the authority between its sessions: what it brings to a job, and what it must store.

Data is opened and checked before anything of it is sent. The state folder holds the sessions it took part in, prekeys
that wait for theirs, compression passes half done, and the audit log.

A party's prekey is made when it enlists, read once, when its session begins, and gone from then on. The private half
must outlive the process: the authority seals to it and goes, and the party may be started only then. It is a file of
mode 0600, one to each session of a job. A thief who takes it before the session, and has what the CSP relayed, learns
what the authority knows of this session, the masks; pads, and with them single shares, stay hidden.
"""

import logging
from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from fedsvd.compress.checkpoint import Checkpoint
from fedsvd.engine.device import ON_CPU, Engine
from fedsvd.errors import (
    DataChanged,
    DataError,
    FedSVDError,
    LocalProtocolError,
    NotAuthenticated,
    PlanMismatch,
    SourceChanged,
    TransportError,
)
from fedsvd.protocol.certificate import READING
from fedsvd.protocol.keys import spelt_prekey
from fedsvd.protocol.parties import Party, user
from fedsvd.randomness.seed import Seed
from fedsvd.sealing.agree import AgreementKey
from fedsvd.sealing.sign import SigningKey
from fedsvd.service.client import CspClient
from fedsvd.service.ends import Ends
from fedsvd.service.enlist import OpenedData, authority_deals, open_data, party_caller, plain_id, ticket_of
from fedsvd.service.failures import not_finished
from fedsvd.service.owner import Owner
from fedsvd.service.progress import ProgressReporter
from fedsvd.service.records import EnlistedFacts, Failure, JobHeading, JobRecord
from fedsvd.service.stage_answers import StageAnswers
from fedsvd.storage import private
from fedsvd.storage.journal import AuditLog, Nonces, Sessions, ledger
from fedsvd.storage.record_file import RecordFile
from fedsvd.studies.doubts import of_own
from fedsvd.studies.job_stages import Stage
from fedsvd.studies.problems import at_a_site, spell_at_a_site
from fedsvd.studies.resume import SEARCH
from fedsvd.transport.grpc_client import Dialling

if TYPE_CHECKING:
    from fedsvd.service.site import Site

_log = logging.getLogger(__name__)
_SUFFIX = ".prekey"


class Prekeys:
    """The prekeys of one party that wait for their sessions."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make(self, id: str, attempt: int, stage: Stage = Stage.STUDY) -> AgreementKey:
        """The prekey of this session: a new one, or the one made before if the question comes again."""
        path = self._path(id, attempt, stage)
        private.private_folder(self._folder)
        if not path.exists():
            # Replaced in one step: half a key that a kill left behind would be a key of few bits.
            private.replace(path, Seed.fresh().reveal())
        return AgreementKey(Seed(private.read_secret(path)))

    def take(self, id: str, attempt: int, stage: Stage = Stage.STUDY) -> AgreementKey:
        """The prekey of this session, for the last time."""
        path = self._path(id, attempt, stage)
        if not path.exists():
            raise LocalProtocolError("the prekey of this attempt is not here, or was used", "resume the job")
        secret = private.read_secret(path)
        private.erase(path)
        return AgreementKey(Seed(secret))

    def erase_but(self, wanted: Collection[tuple[str, int, Stage]]) -> None:
        """Erase the prekeys of sessions that will never begin."""
        wanted_names = {self._path(*key).name for key in wanted}
        for path in self._folder.glob(f"*{_SUFFIX}"):
            if path.name not in wanted_names:
                private.erase(path)

    def _path(self, id: str, attempt: int, stage: Stage) -> Path:
        stage_words = "" if stage is Stage.STUDY else f"-{stage}"
        return self._folder / f"{plain_id(id)}-{int(attempt)}{stage_words}{_SUFFIX}"


class Member:
    """One party or authority; ``facts`` are its certificate and signing key, sent at every enlisting."""

    def __init__(
        self,
        caller: str,
        dialling: Dialling,
        identity: SigningKey,
        facts: EnlistedFacts,
        owner: Owner,
        state: Path,
        engine: Engine = ON_CPU,
    ) -> None:
        self.caller = caller
        self.dialling = dialling
        self.identity = identity
        self.owner = owner
        self.engine = engine
        journal = ledger(state)
        self.sessions, self.ends, self._nonces = Sessions(journal), Ends(journal), Nonces(journal)
        self.prekeys = Prekeys(state / "prekeys")
        self.answers = StageAnswers(state / "answers")
        self._facts = facts
        self._state = state
        self._audit = AuditLog(state / "audit.jsonl")
        self._opened: dict[str, tuple[object, OpenedData]] = {}
        self._read: dict[str, float] = {}  # seconds in which a job's data was read when we enlisted
        self._failed: dict[tuple[str, int], Failure] = {}  # attempts, and what was reported of their end

    @classmethod
    def of(cls, site: "Site", dialling: Dialling, engine: Engine = ON_CPU) -> "Member":
        """The member whose kit this is; its owner's wishes are what the kit's folder says."""
        return cls(site.caller, dialling, site.kit.signing_key, site.facts(), site, site.state, engine)

    # --- enlisting ------------------------------------------------------------------------------------------------

    def enlist(self, client: CspClient, record: JobRecord) -> JobRecord:
        """Join this attempt: shapes and, where an authority deals, a prekey are sent; the job as it stands then."""
        self.take_up(record)
        self.owner.expect_unspent(record)
        started = perf_counter()
        if self.caller.startswith("party/"):
            ProgressReporter(client, record.id).stage(READING)
        facts, own = self._facts, self.open(record)
        if own is not None:
            self.owner.expect_fresh(record, own)
            self._read[record.id] = perf_counter() - started
            facts = facts.also(own.facts)
            if authority_deals(record.job):
                facts = facts.also(EnlistedFacts(prekey=self._prekey(record)))
        answer = client.enlist(record, facts)
        self.note("enlisted", job=record.id, attempt=record.attempt)
        return answer

    def take_up(self, record: JobRecord) -> None:
        """This job is the one that was approved, its researcher signed it, and its number is spent for it alone."""
        if not self.owner.approved(record):
            raise PlanMismatch(
                "the CSP shows another job than the one that was approved", "stop and ask the operator of the CSP"
            )
        self.owner.expect_submitted(record)
        self._nonces.spend(record.submitter, record.nonce, record.id, record.asked.digest)

    def open(self, record: JobRecord) -> OpenedData | None:
        """This party's data for a job, opened; nothing at an authority."""
        if not self.caller.startswith("party/"):
            return None
        job = record.job
        # What a later stage is opened with was found in this attempt; one stage is the same at every attempt.
        opened_for = record.session_key if len(record.stages) > 1 else record.id
        if not self._is_open(record.id, opened_for):
            name, recipe = self.caller.partition("/")[2], self.answers.recipe(record)
            where = self.owner.data(job), self.scratch(), self.owner.tables()
            link, common = self.owner.link(job), self.answers.common(record)
            remembered = self.owner.recognise()
            own = open_data(job, name, *where, record.stage, recipe, link=link, common=common, recognise=remembered)
            study = record.stage is Stage.STUDY
            doubts = [*of_own(job.study.task, own.data, job.targets), *own.waiting] if study else [*own.astray]
            for doubt in doubts if study or record.stage is record.stages[0] else ():
                _log.warning("role=%s job=%s %s", self.caller, record.id, at_a_site(doubt))
            self._opened[record.id] = opened_for, own
        return self._opened[record.id][1]

    def _is_open(self, id: str, opened_for: object) -> bool:
        """Whether the data of a job is open for this, and its files are the same as then."""
        held_for, own = self._opened.pop(id, (None, None))
        if own is None or held_for != opened_for or not self.owner.current(own):
            return False
        with suppress(SourceChanged):
            own.data.table.expect_unchanged()
            self._opened[id] = held_for, own
        return id in self._opened

    def open_as_enlisted(self, record: JobRecord) -> OpenedData | None:
        """The same, when the session begins; another process may have enlisted, days ago."""
        try:
            own = self.open(record)
        except DataError as error:  # it could be opened when this site enlisted
            changed = f"the data changed since this site enlisted: {error.fault}"
            raise SourceChanged(changed, error.fix, error.at_home) from None
        said = record.enlisted.get(self.caller, EnlistedFacts())
        # Studies that began meanwhile are compared when this one does.
        if own is not None and said.also(own.facts).also(EnlistedFacts(earlier=said.earlier)) != said:
            self._opened.pop(record.id, None)
            raise DataChanged("the data here has another shape than when this site enlisted", "resume the job")
        return own

    def seconds_of_reading(self, record: JobRecord) -> float:
        """How long this process read the data of a job before its session began; asked for once."""
        return self._read.pop(record.id, 0.0)

    def release(self, wanted: Collection[str]) -> None:
        """Close the tables of all jobs but these: memory and scratch files are given back."""
        for id in [id for id in self._opened if id not in wanted]:
            self._opened.pop(id, None)

    def close(self, record: JobHeading) -> None:
        """A job is over here: nothing of it but its results and its approval is needed any more.

        A half compressed table is as confidential as the table, and so is the part of a result that was being written.
        """
        self._opened.pop(record.id, None)
        self._read.pop(record.id, None)
        self._failed = {key: failure for key, failure in self._failed.items() if key[0] != record.id}
        self.answers.erase(record.id)
        self.forget_passes(record)
        self.owner.forget(record)

    def place(self, record: JobRecord) -> Party:
        """Which user this party is."""
        names = [party_caller(party.name) for party in record.job.parties]
        return user(names.index(self.caller) + 1)

    def _prekey(self, record: JobRecord) -> str:
        key = self.prekeys.make(*record.session_key)
        return spelt_prekey(key, self.place(record), ticket_of(*record.session_key), self.identity)

    # --- what is written and reported -----------------------------------------------------------------------------

    def checkpoint(self, record: JobHeading) -> Checkpoint:
        """Where a compression pass for this job is stored while it lasts."""
        return Checkpoint(self.owner.checkpoint(record))

    def search(self, record: JobHeading) -> RecordFile:
        """Where what a search by steps found for this job is stored while it lasts."""
        return RecordFile(self.owner.checkpoint(record).with_suffix(SEARCH))

    def forget_passes(self, record: JobHeading) -> None:
        """Remove both: the job is over, or its table is another one now."""
        self.checkpoint(record).remove()
        self.search(record).remove()

    def scratch(self) -> Path:
        """Where what does not fit in memory lies."""
        return self._folder("scratch")

    def _folder(self, name: str) -> Path:
        folder = self._state / name
        return private.private_folder(folder)

    def end(self, client: CspClient, record: JobRecord) -> None:
        """This session has ended well here: on disk first, then at the CSP; ``MemberNode`` reports it again if lost."""
        for report in (partial(self.ends.add, record), partial(self.report_end, client, record)):
            try:
                report()
            except FedSVDError as lost:  # the results are here, whatever becomes of the report
                _log.warning("role=%s job=%s has finished here; it is reported again: %s", self.caller, record.id, lost)

    def report_end(self, client: CspClient, record: JobRecord) -> None:
        """The CSP is sent that a session has ended here, and before that what the researcher gets of it."""
        # In this order: of a job that is done, all that parties send is there.
        try:
            if self.caller.startswith("party/") and record.stage is record.stages[-1]:
                self._hand_over(client, record)
        except FedSVDError as error:
            if isinstance(error, TransportError) and not isinstance(error, NotAuthenticated):
                raise  # the CSP is away: all of this is repeated
            # A researcher without a result is no reason to break a study.
            _log.warning("role=%s job=%s nothing is sent to the researcher: %s", self.caller, record.id, error)
        client.ended(record)

    def _hand_over(self, client: CspClient, record: JobRecord) -> None:
        """What our owner agrees to give to the researcher, sealed; a line in the audit log comes first."""
        sealed = self.owner.handover(record)
        said: dict[str, str | int] = {"to": record.submitter, "says": sealed.state, "root": sealed.root}
        self.note("sealed for the researcher", job=record.id, **said, bytes=sum(map(len, sealed.messages)))
        for number, message in enumerate(sealed.messages):
            client.hand_over(record, number, message)

    def report_failure(self, client: CspClient, record: JobRecord, error: FedSVDError, stage: str) -> None:
        """Write down why this attempt failed here; the others receive a code and a stage."""
        spell_at_a_site(error)
        _log.error("role=%s job=%s stage=%s %s", self.caller, record.id, stage, error)
        try:
            self.note("failed", job=record.id, code=error.code, stage=stage)
            self.owner.write_failure(record, error, stage)
        except FedSVDError as lost:  # a full disk must not make the others wait
            _log.warning("role=%s cannot write down why: %s", self.caller, lost)
        self._failed[record.attempt_key] = Failure(code=error.code, stage=stage)
        try:
            self.report_again(client, record)
        except FedSVDError as lost:
            _log.warning("role=%s cannot report to the CSP: %s", self.caller, lost)

    def report_again(self, client: CspClient, record: JobHeading) -> None:
        """An attempt that failed here is under way at the CSP: our report was lost, or the CSP was restarted."""
        failure = self._failed.get(record.attempt_key)
        if failure is not None:
            client.ended(record, failure)

    def settle(self, client: CspClient, record: JobHeading) -> None:
        """A job is done at all members: results that were marked when it was thought broken are so no more."""
        if record.id in self.ends.jobs:
            if self.caller.startswith("party/") and self.owner.mark_finished(client.job(record.id)):
                self.note("results unmarked", job=record.id)
            self.ends.close(record.id)

    def mark(self, client: CspClient, record: JobHeading) -> None:
        """A job that ended badly: if we have results of it, they say so from now on."""
        full = client.job(record.id)
        if not self.owner.has_results(full):
            return
        if self.owner.mark_unfinished(full):
            _log.warning("role=%s job=%s %s", self.caller, record.id, not_finished(full))
            self.note("results marked", job=record.id, state=str(record.state))

    def note(self, event: str, **facts: str | int) -> None:
        """A line in the audit log."""
        self._audit.write(datetime.now(UTC).isoformat(timespec="seconds"), event, **facts)
