"""A whole federation in one process: the ``sim`` rung.

Same roles and messages as between institutions; only the links are function calls. Each role gets entropy of its own
and an identity of its own, and the plan pins the identities.
"""

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from fedsvd import __version__
from fedsvd.data.beside import Beside
from fedsvd.data.source import MatrixSource
from fedsvd.errors import ConfigError, FixedPointOverflow, ShapeError
from fedsvd.offload.access import Access
from fedsvd.offload.block_store import BlockStore
from fedsvd.offload.choose import choose_store
from fedsvd.protocol.certificate import Certificate
from fedsvd.protocol.machine import Machine
from fedsvd.protocol.parties import CSP, TA, Party, user
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Split, Task, Trust
from fedsvd.protocol.views import Views
from fedsvd.randomness.entropy import fresh_bytes
from fedsvd.randomness.seed import Seed
from fedsvd.roles.service_provider.role import ServiceProvider
from fedsvd.roles.trusted_authority import TrustedAuthority
from fedsvd.roles.user.role import Inputs, User
from fedsvd.runtime.driver import Driver, Run
from fedsvd.runtime.planning import Planned, Study, plan_study
from fedsvd.sealing.sign import SigningKey
from fedsvd.transport.loopback import Hub, Pick, first_sent
from fedsvd.types import Float, SessionId


@dataclass(frozen=True, repr=False)
class PartyData:
    """What one party brings: its table D_i, samples in rows, and what goes with it."""

    table: MatrixSource
    labels: Float | None = None  # (samples, targets)
    ids: NDArray[Any] | None = None
    weights: tuple[Float, Float] | None = None  # to predict with


@dataclass(frozen=True, repr=False)
class Outcome:
    """What a study came to: what each party would hold, user by user, and the certificate."""

    plan: SessionPlan
    why: str
    parties: tuple[Any, ...]
    certificate: Certificate
    views: Views | None = None


Progress = Callable[[str, str, int, int], None]  # party, stage, done, total


def run_study(
    study: Study,
    parties: Sequence[PartyData],
    *,
    random_state: int | None = None,
    pick: Pick = first_sent,
    record: bool = False,
    scratch: Path | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Run a study among these parties, in this process.

    ``random_state`` makes every secret a function of a number: for tests, never for data.
    """
    secret = _secrets(random_state)
    try:
        return _run_once(study, parties, secret("first"), pick, record, scratch, progress)
    except FixedPointOverflow:
        # An entry beyond the usual bound: step 4 starts again, in a new session, under the certain one.
        if study.certain_bound:
            raise
        study = replace(study, certain_bound=True)
        return _run_once(study, parties, secret("second"), pick, record, scratch, progress)


def plan_for(study: Study, parties: Sequence[PartyData], secret: Seed) -> tuple[Planned, dict[Party, SigningKey]]:
    """The plan of one session among these parties, and the identities it pins."""
    matrices = [oriented(study, party) for party in parties]
    m, counts = _shapes(study, matrices)
    keys = {user(i + 1): SigningKey(secret.derive("identity", i + 1)) for i in range(len(parties))}
    keys[TA] = SigningKey(secret.derive("identity", "ta"))
    identities = tuple(keys[party].public.hex() for party in [*map(user, range(1, len(parties) + 1)), TA])
    session = SessionId(secret.derive("session").reveal()[:16].hex())
    return plan_study(study, m, counts, session, identities), keys


def oriented(study: Study, party: PartyData) -> MatrixSource:
    """X_i, (m, n_i): the table as it is when columns are split, transposed when rows are."""
    if study.split is Split.VERTICAL:
        return party.table
    if study.task is Task.LR:
        if party.labels is None:
            raise ConfigError("every party of a horizontal regression needs its labels", "name the label column")
        return Beside(party.table, party.labels).T
    return party.table.T


def _shapes(study: Study, matrices: Sequence[MatrixSource]) -> tuple[int, tuple[int, ...]]:
    rows = {matrix.shape[0] for matrix in matrices}
    if len(matrices) < 2:
        raise ConfigError("a federation needs at least two parties", "add another party")
    if len(rows) > 1:
        what = "rows" if study.split is Split.VERTICAL else "columns"
        raise ShapeError(f"parties have different numbers of {what}: {sorted(rows)}", f"give all the same {what}")
    m = rows.pop()
    if study.task is Task.LR and study.split is Split.HORIZONTAL:
        m -= study.targets
    return m, tuple(matrix.shape[1] for matrix in matrices)


def _run_once(
    study: Study,
    parties: Sequence[PartyData],
    secret: Seed,
    pick: Pick,
    record: bool,
    scratch: Path | None,
    progress: Progress | None,
) -> Outcome:
    planned, keys = plan_for(study, parties, secret)
    plan = planned.plan
    machines: list[Machine] = [ServiceProvider(plan, _storage(scratch))]
    if plan.trust is Trust.AUTHORITY:
        machines.append(TrustedAuthority(plan, secret.derive("secret", "ta"), keys[TA]))
    for i, party in enumerate(parties):
        me = user(i + 1)
        labels = party.labels if plan.by_rows else None
        inputs = Inputs(
            oriented(study, party),
            keys[me],
            secret.derive("secret", i + 1),
            labels,
            party.ids,
            party.weights,
            {"progress": _report(progress, me)} if progress else None,
        )
        machines.append(User(me, plan, inputs))
    run = Driver(machines, Hub(pick), record).run()
    results = tuple(run.results[party] for party in plan.users)
    return Outcome(plan, planned.why, results, _certificate(plan, run), run.views)


def _report(progress: Progress, me: Party) -> Callable[[str, int, int], None]:
    return lambda stage, done, total: progress(me.name, stage, done, total)


def _storage(scratch: Path | None) -> Callable[[tuple[int, int], Access, int], BlockStore]:
    return lambda shape, access, budget: choose_store(shape, access, budget, scratch)


def _secrets(random_state: int | None) -> Callable[[str], Seed]:
    if random_state is None:
        return lambda label: Seed(fresh_bytes(32))
    root = Seed(sha256(f"INSECURE fedsvd random_state {random_state}".encode()).digest())
    return lambda label: root.derive("INSECURE", label)


def _certificate(plan: SessionPlan, run: Run) -> Certificate:
    verified = run.results[CSP]
    return Certificate(
        plan_digest=plan.digest,
        residual=getattr(verified, "residual", 0.0),
        orthogonality=getattr(verified, "orthogonality", 0.0),
        rank=getattr(verified, "rank", 0),
        versions={
            "fedsvd": __version__,
            "protocol": str(plan.protocol),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
        },
        bytes_by_link={" -> ".join(link): count for link, count in sorted(run.meter.sent_bytes.items())},
        messages_by_link={" -> ".join(link): count for link, count in sorted(run.meter.messages.items())},
        seconds_by_stage=dict(run.seconds),
    )
