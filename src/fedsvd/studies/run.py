"""A whole federation in one process: the ``sim`` rung.

Same roles and messages as between institutions; only the links are function calls. Each role gets entropy of its own
and an identity of its own, and the plan pins the identities.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsvd.compress.checkpoint import Checkpoint
from fedsvd.data.hashed import hashed
from fedsvd.data.source import MatrixSource
from fedsvd.engine.cluster import Cluster
from fedsvd.engine.device import ON_CPU, Engine, cores, each_over
from fedsvd.engine.memory import main_memory
from fedsvd.engine.parts import each_in_processes
from fedsvd.engine.progress import Progress as Progress
from fedsvd.engine.simulate import Run, Simulation
from fedsvd.engine.task_process import Statistic
from fedsvd.errors import (
    BegunAgain,
    ConfigError,
    FixedPointOverflow,
    NotConverged,
    ReleaseRefused,
    StorageError,
    warn_caller,
)
from fedsvd.linalg.device import Device
from fedsvd.linalg.pools import available, one_pool
from fedsvd.policy.rules import Policy
from fedsvd.prepare.derived import names_of
from fedsvd.protocol.certificate import READING, Certificate
from fedsvd.protocol.keys import spelt_prekey
from fedsvd.protocol.machine import Machine
from fedsvd.protocol.messages import Views
from fedsvd.protocol.parties import CSP, TA, Party, user
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Answer, Labels, Scheme, Trust
from fedsvd.protocol.upload import Retention, retention
from fedsvd.randomness.entropy import fresh_bytes
from fedsvd.randomness.seed import Seed
from fedsvd.results.result import certificate_of
from fedsvd.sealing.agree import AgreementKey
from fedsvd.sealing.sign import SigningKey, sign
from fedsvd.storage.mapped_array import scratch_array
from fedsvd.storage.record_file import RecordFile
from fedsvd.storage.scratch import expect_space, usual_scratch
from fedsvd.studies.foreign import expect_installed, statistic_for
from fedsvd.studies.own_rows import guard_rows
from fedsvd.studies.parties import PartyData, expect_readable, expect_shapes, oriented
from fedsvd.studies.persons import persons_in_session
from fedsvd.studies.planning import Planned, expect_machine, guard, plan_study
from fedsvd.studies.study import Study, with_all_digits
from fedsvd.tasks.declared import with_steps
from fedsvd.transport.loopback import Hub, Pick, first_sent
from fedsvd.types import Float, SessionId

if TYPE_CHECKING:
    from fedsvd.roles.user.agreement import Agreement
    from fedsvd.roles.user.work import Sink
    from fedsvd.studies.matching import Matched


@dataclass(frozen=True, repr=False)
class Outcome:
    """What a study came to: what each party would hold, user by user, and the certificate."""

    plan: SessionPlan
    why: str
    parties: tuple[Any, ...]
    certificate: Certificate
    views: Views | None = None
    agreement: "Agreement | None" = None  # what all users and the CSP signed
    matched: "Matched | None" = None  # the session before it, in which records were matched


@dataclass(frozen=True, kw_only=True)
class UserFiles:
    """Where one user writes its own part of the result (None: memory), and the checkpoint of its long work."""

    sink: "Sink | None" = None
    checkpoint: Checkpoint | None = None  # of its compression
    search: RecordFile | None = None  # of a search by steps


Files = Callable[[SessionPlan, int], UserFiles]  # of user i, from 0

Plays = Callable[[SessionPlan, int], Statistic | None]  # what plays a foreign task at user i, from 0

Revise = Callable[[SessionPlan], SessionPlan]  # what an experiment makes of the plan of its study


def run_study(
    study: Study,
    parties: Sequence[PartyData],
    *,
    random_state: int | None = None,
    pick: Pick = first_sent,
    record: bool = False,
    scratch: Path | None = None,
    progress: Progress | None = None,
    policy: Policy | None = None,
    device: str | Device | None = None,
    engine: str | Cluster | None = None,
    files: Files | None = None,
    stage: str = "",
    asked: str = "",
) -> Outcome:
    """Run a study among these parties, in this process, every role on this ``device`` or with this ``engine``.

    ``random_state`` makes every secret a function of a number: for tests, never for data. Without a ``policy`` the
    default one warns (``PrivacyWarning``); one with ``enforce`` set refuses a study below it before anything is sent.
    ``files`` says where each user writes; ``stage`` names a session of several, which have no secret in common;
    ``asked`` is the digest of the job file, where there is one. What
    the memory budget does not hold goes to private files in ``scratch``, or where none is named in the system's folder
    for large temporary files; that they fit there is known before the start.
    """
    scratch = usual_scratch() if scratch is None else scratch
    secret = _secrets(random_state, stage)
    expect_shapes(study, parties)
    policy = policy or Policy()
    study = study if policy.enforce else with_all_digits(study)  # one person has all tables
    plan = plan_for(study, parties, secret("first"), asked)[0].plan
    guard(plan, policy)
    guard_rows(plan, parties, policy)
    task, with_what = expect_installed(plan, policy), Engine.of(device, engine)

    def statistic(plan: SessionPlan, i: int) -> Statistic | None:
        return None if task is None else statistic_for(task, plan, names_of(parties[i].table))

    try:
        how = pick, record, scratch, progress, with_what, files, asked, statistic
        return run_once(study, parties, secret("first"), *how)
    except FixedPointOverflow:
        # An entry beyond the usual bound: step 5 starts again, in a new session, under the certain one.
        if study.certain_bound:
            raise
        study = replace(study, certain_bound=True)
        return run_once(study, parties, secret("second"), *how)
    except NotConverged as error:
        # Shapes cannot say that the spectrum falls: what was chosen for the user goes on in the other family.
        if plan.scheme is not Scheme.STEPS or study.scheme != "auto":
            raise
        study = replace(study, scheme=str(Scheme.SUM), steps_ended=True)
        try:
            plan = plan_for(study, parties, secret("second"), asked)[0].plan
            guard(plan, policy)
            guard_rows(plan, parties, policy)
        except (ConfigError, StorageError, ReleaseRefused):
            raise error from None
        warn_caller(
            f"{error.fault}. Steps were chosen by shape: the study begins again by sums, and its result is whole; "
            "where sums are asked for no time goes to a search",
            BegunAgain,
        )
        return run_once(study, parties, secret("second"), *how)
    finally:
        if not isinstance(engine, Cluster):
            with_what.close()


def plan_for(
    study: Study, parties: Sequence[PartyData], secret: Seed, asked: str = ""
) -> tuple[Planned, dict[Party, SigningKey]]:
    """The plan of one session among these parties, and the identities it pins; ``asked`` is the job file's digest."""
    matrices = [oriented(study, party) for party in parties]
    m, counts = _shapes(study, matrices)
    keys = {user(i + 1): SigningKey(secret.derive("identity", i + 1)) for i in range(len(parties))}
    keys[TA] = SigningKey(secret.derive("identity", "ta"))
    keys[CSP] = SigningKey(secret.derive("identity", "csp"))
    identities = tuple(keys[party].public.hex() for party in [*map(user, range(1, len(parties) + 1)), TA])
    session = SessionId(secret.derive("session").reveal()[:16].hex())
    planned = plan_study(study, m, counts, session, identities)
    expect_machine(study, planned.plan, main_memory())
    planned = replace(planned, plan=replace(planned.plan, csp_identity=keys[CSP].public.hex(), job=asked))
    if planned.plan.trust is Trust.PEERS:
        return planned, keys
    # There is no job here to write on the ticket: the session itself will do.
    spelt = tuple(spelt_prekey(_prekey(secret, me), me, session, keys[me]) for me in planned.plan.users)
    return replace(planned, plan=replace(planned.plan, ticket=session, prekeys=spelt)), keys


def _prekey(secret: Seed, me: Party) -> AgreementKey:
    return AgreementKey(secret.derive("prekey", me.index))


def _shapes(study: Study, matrices: Sequence[MatrixSource]) -> tuple[int, tuple[int, ...]]:
    if study.about.answer is Answer.RECORDS:
        return 1, tuple(matrix.shape[0] for matrix in matrices)  # sets of records, with one id each
    m = matrices[0].shape[0]
    if study.labels_at is Labels.JOINED:
        m -= study.targets  # labels stand below the features
    return m, tuple(matrix.shape[1] for matrix in matrices)


@dataclass(frozen=True, repr=False)
class Session:
    """The roles of one session, none of which has begun."""

    plan: SessionPlan
    why: str
    machines: tuple[Machine, ...]  # the CSP first
    read: Mapping[Party, float]  # seconds in which every user's table was read


def assemble(
    study: Study,
    parties: Sequence[PartyData],
    secret: Seed,
    scratch: Path | None = None,
    progress: Progress | None = None,
    engine: Engine = ON_CPU,
    files: Files | None = None,
    revise: Revise | None = None,
    asked: str = "",
    statistic: Plays = lambda plan, i: None,
) -> Session:
    """The roles of one session among these parties, whose inputs have passed every check; nothing has been sent.

    An experiment may ``revise`` the plan before any role has it: every role then works by the plan as revised.
    ``statistic`` is what plays a foreign task at user i, from 0.
    """
    # Imported here: a plan is made, and shown, without any role.
    from fedsvd.roles.service_provider.role import ServiceProvider
    from fedsvd.roles.trusted_authority import TrustedAuthority
    from fedsvd.roles.user.agreement import PURPOSE as CERTIFICATE
    from fedsvd.roles.user.role import User
    from fedsvd.roles.user.seeding import Inputs

    expect_shapes(study, parties)
    planned, keys = plan_for(study, parties, secret, asked)
    plan = planned.plan if revise is None else with_steps(revise(planned.plan))
    if scratch is not None and engine.device is None and (needed := scratch_bytes(plan)):
        expect_space(scratch, needed)
    signer = partial(sign, keys[CSP], CERTIFICATE)
    each = engine.each or each_over(available())
    csp = ServiceProvider(plan, engine.storage(scratch), engine.device, signer, each)
    if progress is not None:
        csp.progress = _report(progress, CSP)
    machines: list[Machine] = [csp]
    each_part = each_in_processes(cores()) if plan.matches else None
    memo: dict[Hashable, Any] = {}  # a factorisation of the same numbers is done once in one process
    if plan.trust is Trust.AUTHORITY:
        machines.append(TrustedAuthority(plan, secret.derive("secret", "ta"), keys[TA]))
    for i, party in enumerate(parties):
        me = user(i + 1)
        own = UserFiles() if files is None else files(plan, i)
        inputs = Inputs(
            source=_guarded(plan, oriented(plan, party)),
            identity=keys[me],
            secret=secret.derive("secret", i + 1),
            labels=party.labels if plan.labels_apart else None,
            ids=party.ids,
            weights=party.weights,
            row_weights=party.row_weights,
            clusters=party.clusters,
            persons=persons_in_session(party, plan),
            prekey=_prekey(secret, me) if plan.trust is Trust.AUTHORITY else None,
            sink=own.sink,
            checkpoint=own.checkpoint,
            search=own.search,
            allocate=allocation(plan, scratch),
            progress=None if progress is None else _report(progress, me),
            device=engine.device,
            each=each,
            each_part=each_part,
            spread=engine.cluster,
            memo=memo,
            rule=study.rule,
            statistic=statistic(plan, i),
        )
        machines.append(User(me, plan, inputs))
    read: dict[Party, float] = {}
    if study.rule is None:
        expect_readable(parties, partial(_report_reading, progress, read))  # last, because it reads all there is
    return Session(plan, planned.why, tuple(machines), read)


def _guarded(plan: SessionPlan, source: MatrixSource) -> MatrixSource:
    """A table in files that others may change is hashed whenever it is read; what is in memory is its owner's."""
    prepares = plan.answer is Answer.SUMS and plan.foreign is None and plan.table is None
    return hashed(source, 0 if plan.by_rows else 1) if source.has_files and not (plan.matches or prepares) else source


def run_once(
    study: Study,
    parties: Sequence[PartyData],
    secret: Seed,
    pick: Pick,
    record: bool,
    scratch: Path | None,
    progress: Progress | None,
    engine: Engine,
    files: Files | None,
    asked: str = "",
    statistic: Plays = lambda plan, i: None,
) -> Outcome:
    session = assemble(study, parties, secret, scratch, progress, engine, files, asked=asked, statistic=statistic)
    plan = session.plan
    parallel = 1 if pick is not first_sent else _parallel(plan, engine)
    with one_pool():
        before = {party: {READING: seconds} for party, seconds in session.read.items()}
        run = Simulation(session.machines, Hub(pick), record=record, parallel=parallel, before=before).run()
    results = tuple(run.results[party] for party in plan.users)
    agreement = next(found for machine in session.machines if (found := getattr(machine, "agreement", None)))
    certificate = certificate_of(plan, verified_in(run), run.accounts())
    return Outcome(plan, session.why, results, certificate, run.views, agreement)


def verified_in(run: Run) -> Any:
    """What the role that checked the result ended with: user 1."""
    return run.results.get(user(1))


def _parallel(plan: SessionPlan, engine: Engine) -> int:
    """How many parties compute at the same time: one, with all cores; two on a device where one waits for the other.

    Parties of one process that compute side by side have a BLAS thread each and the memory bandwidth of one machine:
    one after the other they were 2 to 3.5 times as fast on 16 cores, and no slower on 2 (docs/explanation/speed.md).
    Where rows go up to a device in panels, one party's pads are made while another's panel is computed with.
    """
    return 2 if engine.device is not None and plan.by_rows else 1


def _report_reading(progress: Progress | None, read: dict[Party, float], index: int, seconds: float | None) -> None:
    """User ``index``, from 1, begins to read its table, or has read it in ``seconds``."""
    if seconds is not None:
        read[user(index)] = seconds
    if progress is not None:
        progress(user(index).name, READING, int(seconds is not None), 1)


def _report(progress: Progress, me: Party) -> Callable[[str, int, int], None]:
    return lambda stage, done, total: progress(me.name, stage, done, total)


def allocation(plan: SessionPlan, scratch: Path | None) -> Callable[[tuple[int, int]], Float]:
    """Where a user puts a result as long as its data: on disk, where half of its budget does not hold it."""
    return lambda shape: scratch_array(shape, plan.memory // 2, scratch)


def scratch_bytes(plan: SessionPlan) -> int:
    """Bytes that all roles of a session write to scratch at most: what half of a role's budget does not hold.

    The CSP stores X' where a second pass needs it, every user its columns under P, and later U in the same lines.
    """
    if plan.scheme is not Scheme.MASK or plan.opens_nothing:
        return 0
    stored = plan.N if retention(plan) in (Retention.STORED, Retention.BOTH) else 0
    lines = (max(width + plan.targets, plan.planned_rank if plan.tall else 0) for width in plan.widths)
    sizes = [8 * plan.M * columns for columns in (stored, *lines)]
    return sum(size for size in sizes if size > plan.memory // 2)


def _secrets(random_state: int | None, stage: str = "") -> Callable[[str], Seed]:
    if random_state is None:
        return lambda label: Seed(fresh_bytes(32))
    root = Seed(sha256(f"INSECURE fedsvd random_state {random_state}".encode()).digest())
    return lambda label: root.derive("INSECURE", f"{stage}{label}")
