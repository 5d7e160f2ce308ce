"""A member's part in one attempt at a job: the plan made again and compared, the role played, the result written.

The session id is spent, on disk, before anything is sent in it, and so is the prekey; a process that is killed later
does not come back to the same session. Any failure ends the attempt with a code that all members receive.
"""

import logging
import math
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from time import perf_counter

from fedsvd.cost.traffic import longest_message
from fedsvd.data.hashed import Known, hashed
from fedsvd.data.source import MatrixSource
from fedsvd.engine.device import cores, each_over
from fedsvd.engine.parts import each_in_processes
from fedsvd.engine.player import Played, Player
from fedsvd.engine.read_ahead import read_ahead
from fedsvd.errors import FedSVDError, PeerLost, for_log
from fedsvd.linalg.pools import available, one_pool
from fedsvd.prepare.derived import Committed, names_of
from fedsvd.prepare.recipe import Recipe
from fedsvd.prepare.units import Spread, unit_findings_of_means
from fedsvd.protocol.certificate import READING, WRITING
from fedsvd.protocol.machine import Machine
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Scheme, Split, Trust
from fedsvd.randomness.seed import Seed
from fedsvd.roles.trusted_authority import TrustedAuthority
from fedsvd.roles.user.matching import MatchResult
from fedsvd.roles.user.role import User
from fedsvd.roles.user.seeding import Inputs
from fedsvd.service.client import CspClient
from fedsvd.service.enlist import OpenedData, expect_same_plan, in_joint_order
from fedsvd.service.failures import unexpected
from fedsvd.service.foreseen import expect_rest_allowed
from fedsvd.service.member import Member
from fedsvd.service.owner import Finished
from fedsvd.service.progress import ProgressReporter
from fedsvd.service.records import EnlistedFacts, JobRecord, JsonObject
from fedsvd.service.sealed_result import SealedResult
from fedsvd.storage.faults import of_machine
from fedsvd.studies.job_stages import Stage
from fedsvd.studies.parties import oriented
from fedsvd.studies.persons import persons_in_session
from fedsvd.studies.problems import at_a_site
from fedsvd.studies.run import allocation
from fedsvd.studies.stages import preparation_facts
from fedsvd.transport.grpc_client import Dialled, PinnedConnection
from fedsvd.transport.metered import Metered
from fedsvd.types import Float

_log = logging.getLogger(__name__)


def take_part(member: Member, record: JobRecord, stopping: threading.Event) -> None:
    """Play this attempt to its end, well or badly; nothing is raised."""
    client = CspClient(PinnedConnection(member.dialling))
    try:
        Attempt(member, record, stopping, client).play()
    finally:
        client.close()


class Attempt:
    """One member in one attempt at a job."""

    def __init__(self, member: Member, record: JobRecord, stopping: threading.Event, client: CspClient) -> None:
        self._member = member
        self._record = record
        self._stopping = stopping
        self._client = client
        self._reporter = ProgressReporter(client, record.id)
        self._machine: Machine | None = None
        self._sealed: SealedResult | None = None
        self._transport: Dialled | None = None
        self._pointed_out: set[str] = set()

    def play(self) -> None:
        """To the end; a failure is reported, and a defect of ours too: it must not leave a job running for ever."""
        try:
            self._play()
        except FedSVDError as error:
            if self._transport is not None:
                with suppress(FedSVDError):
                    self._transport.flush()
            self._member.report_failure(self._client, self._record, error, self._stage())
        except Exception as error:
            if of_machine(error) is None:
                _log.exception("role=%s job=%s", self._member.caller, self._record.id)
            self._member.report_failure(self._client, self._record, unexpected(error), "session")
        finally:
            if self._transport is not None:
                self._transport.close()

    def _play(self) -> None:
        member, record, reporter = self._member, self._record, self._reporter
        member.take_up(record)
        member.owner.expect_unspent(record)
        plan = self._checked_plan()
        own = member.open_as_enlisted(record)
        member.sessions.claim(plan.session)
        # Joined first: reading takes as long as the data is large, and the CSP would take us for lost.
        self._transport = Dialled(member.dialling, plan.session, longest_message(plan))
        before, granted = {}, math.inf
        if own is not None:
            reporter.stage(READING)
            started = perf_counter()
            granted = member.owner.bring(record, own, plan)
            own = in_joint_order(record, own)
            before[READING] = perf_counter() - started + member.seconds_of_reading(record)
        machine = self._machine = self._role(plan, own, granted)
        member.owner.begin(record)
        member.note("began", job=record.id, attempt=record.attempt, session=plan.session)
        metered = Metered(self._transport, machine.me, reporter.meter)
        with one_pool():
            played = Player(machine, metered, watch=reporter.stage, alive=self._alive, before=before).play()
        self._transport.flush()
        if own is not None:
            assert isinstance(machine, User)
            reporter.stage(WRITING)
            self._write(plan, own, played, machine)
        reporter.done(reporter.meter.accounts().accounts_record())
        member.end(self._client, record)
        member.note("finished", job=record.id, session=plan.session)
        if own is None:
            _log.info("role=%s job=%s all sealed messages are left with the CSP", member.caller, record.id)
        if record.stage is record.stages[-1]:
            member.close(record)

    def _write(self, plan: SessionPlan, own: OpenedData, played: Played, machine: User) -> None:
        """What this stage gave, on disk: the result of the study, or what the next stage needs."""
        member, record = self._member, self._record
        if record.stage is Stage.PREPARE:
            recipe: Recipe = played.result.recipe
            facts = preparation_facts(record.job.prepare, plan)
            member.answers.write(record, {"recipe": recipe.record(), "facts": facts}, machine.agreement)
            member.owner.write_salt(plan.session, machine.salt)
            member.forget_passes(record)  # of a table that was prepared by other numbers
            self._point_out(recipe.findings)
            return
        if record.stage is Stage.MATCH:
            found: MatchResult = played.result
            positions: JsonObject = {"positions": found.positions.tolist(), "records": found.records}
            member.answers.write(record, positions, machine.agreement)
            member.owner.write_salt(plan.session, machine.salt)
            member.forget_passes(record)  # of other records, or of these in another order
            member.owner.matched(record, len(found.positions))
            return
        assert self._sealed is not None
        signed = self._sealed, machine.agreement, machine.salt
        done = Finished(record, plan, own, played, self._reporter.meter, *signed)
        self._point_out(member.owner.write_result(done))

    def _compared_units(self, plan: SessionPlan, own: OpenedData) -> Callable[[Float], None] | None:
        """What compares own columns with the joint means when they are opened, before the study goes on."""
        table = own.data.table
        if plan.split is not Split.HORIZONTAL or table.names is None or self._record.stage is not Stage.STUDY:
            return None
        names, me = table.names, self._member.place(self._record).index - 1

        def compare(joint: Float) -> None:
            found = unit_findings_of_means(names, Spread.of(table), plan.counts, me, joint)
            self._point_out(each.text for each in found)
            self._member.owner.expect_units(found)

        return compare

    def _point_out(self, findings: Iterable[str]) -> None:
        """Log each finding for the owner, once."""
        for finding in dict.fromkeys(findings):
            if finding in self._pointed_out:
                continue
            self._pointed_out.add(finding)
            said = at_a_site(for_log(finding))
            _log.warning("role=%s job=%s %s", self._member.caller, self._record.id, said)

    def _checked_plan(self) -> SessionPlan:
        """Our own plan from the facts in the record, once every member in it is who we pinned."""
        for other in self._record.needed:
            self._member.owner.expect_known(other, self._record.enlisted.get(other, EnlistedFacts()))
        if self._member.caller.startswith("party/"):
            self._member.answers.expect_passed(self._record)
        plan = expect_same_plan(self._record)
        self._client.now()  # so that we have the certificate of the CSP that answers
        self._member.owner.expect_countersigner(self._client.csp, plan.csp_identity)
        self._member.owner.expect_allowed(plan)
        expect_rest_allowed(self._member, self._record)
        return plan

    def _role(self, plan: SessionPlan, own: OpenedData | None, granted: float) -> Machine:
        member, record = self._member, self._record
        if own is None:
            return TrustedAuthority(plan, Seed.fresh(), member.identity)
        place = member.place(record)
        dealt, engine = plan.trust is Trust.AUTHORITY, member.engine
        rule = record.job.prepare.joint if record.stage is Stage.PREPARE else None
        source, last = oriented(plan, own.data), record.stage is Stage.STUDY
        if record.stage is Stage.PREPARE:  # it reads text and gaps too, in several passes
            source = Committed(own.data.table)
        if last:  # a matching reads ids alone
            source = hashed(source, 0 if plan.by_rows else 1, _known(plan, own, source))
            source = read_ahead(source) if engine.cluster is None else source
        inputs = Inputs(
            source=source,
            identity=member.identity,
            secret=Seed.fresh(),
            labels=own.data.labels if plan.labels_apart else None,
            ids=own.data.ids,
            row_weights=own.data.row_weights,
            clusters=own.data.clusters,
            persons=persons_in_session(own.data, plan) if last else None,
            prekey=member.prekeys.take(*record.session_key) if dealt else None,
            sink=member.owner.own_part_sink(record, plan, place.index - 1) if last else None,
            checkpoint=member.checkpoint(record) if plan.compress and last else None,
            search=member.search(record) if plan.scheme is Scheme.STEPS and last else None,
            allocate=allocation(plan, member.scratch()),
            progress=self._reporter.progress,
            device=engine.device,
            each=engine.each or each_over(available()),
            each_part=each_in_processes(cores()) if plan.matches else None,
            spread=engine.cluster,
            rule=rule,
            granted=granted,
            statistic=member.owner.statistic(plan, names_of(own.data.table)),
            on_means=self._compared_units(plan, own),
            results=self._sealed_result(plan, own) if last else None,
        )
        return User(place, plan, inputs)

    def _sealed_result(self, plan: SessionPlan, own: OpenedData) -> SealedResult:
        """What hashes our result before it is signed, and is written after it."""
        record, answers = self._record, self._member.answers
        known = dict(answers.facts(record)), answers.signed(record)
        self._sealed = SealedResult(record.job, plan, self._member.place(record), own, *known)
        return self._sealed

    def _alive(self) -> None:
        if self._stopping.is_set():
            raise PeerLost(f"{self._member.caller} was shut down", "start it again, then resume the job")
        self._reporter.look()

    def _stage(self) -> str:
        machine = self._machine
        return "session" if machine is None or machine.failure is None else machine.stage.lower()


def _known(plan: SessionPlan, own: OpenedData, source: MatrixSource) -> Known:
    """The digest of our rows that reading gave when we enlisted, where the session reads the same in that order."""
    if own.reading is None or plan.by_rows or source.T is not own.data.table:
        return lambda: None
    return partial(own.reading.content, own.data.table)
