"""A federation inside a test: tables in, results and views out, every secret a function of a fixed seed.

    federation = Federation([X_1, X_2])
    for X_i, found in zip((X_1, X_2), federation.run()):
        assert_allclose(found.U * found.sigma @ found.Vt_i, X_i)
    assert Factors not in federation.views.kinds(CSP)

The roles, messages and checks are those of a real session; only the random bits are fixed, so nothing is protected.
"""

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np

from fedsvd.data.open import open_source
from fedsvd.engine.simulate import Simulation
from fedsvd.errors import LocalProtocolError
from fedsvd.protocol.certificate import Certificate
from fedsvd.protocol.machine import Machine
from fedsvd.protocol.messages import Message, Views
from fedsvd.protocol.parties import Party
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Split, Task
from fedsvd.randomness.seed import Seed
from fedsvd.results.result import certificate_of
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import Plays, Revise, Session, assemble, verified_in
from fedsvd.studies.study import Study
from fedsvd.testing.links import Meddle, MeddledHub
from fedsvd.transport.loopback import Pick, first_sent

INSECURE_SEED = bytes(range(32))


class Federation:
    """Parties with tables, samples in rows; by default columns are split, so that table i is X_i itself.

    ``labels``, ``ids`` and ``weights`` are lists with one item to each party, or None. The number of targets and who
    holds the labels of a vertical regression follow from the labels; everything else of a ``Study`` is a keyword.
    ``revise`` changes the plan that follows from the study before any role has it. ``statistic`` plays a foreign task.
    """

    def __init__(
        self,
        tables: Sequence[Any],
        task: Task = Task.SVD,
        split: Split = Split.VERTICAL,
        *,
        labels: Sequence[Any] | None = None,
        ids: Sequence[Any] | None = None,
        weights: Sequence[Any] | None = None,
        row_weights: Sequence[Any] | None = None,
        clusters: Sequence[Any] | None = None,
        insecure_seed: bytes = INSECURE_SEED,
        scratch: Path | None = None,
        revise: Revise | None = None,
        statistic: Plays = lambda plan, i: None,
        **asked: Any,
    ) -> None:
        k = len(tables)
        y = [None if own is None else _columns(own) for own in labels or [None] * k]
        held = [(place, own) for place, own in enumerate(y, start=1) if own is not None]
        if held:
            holder, own = held[0]
            asked.setdefault("targets", own.shape[1])
            if split is Split.VERTICAL:
                asked.setdefault("label_user", holder)
        self.study = Study(task, split, **asked)
        rows = [None if own is None else np.asarray(own) for own in ids or [None] * k]
        self.parties = tuple(
            PartyData(open_source(table), *own)
            for table, *own in zip(
                tables, y, rows, *(each or [None] * k for each in (weights, row_weights, clusters)), strict=True
            )
        )
        self.sent: list[tuple[Party, Party, Message]] = []
        self._seed = Seed(insecure_seed)
        self._scratch = scratch
        self._revise = revise
        self._statistic = statistic
        self._session: Session | None = None
        self._simulation: Simulation | None = None

    def with_seed(self, insecure_seed: bytes) -> "Federation":
        """The same study of the same tables, whose secrets follow from another seed."""
        other = copy(self)
        other._seed = Seed(insecure_seed)
        return other

    def assemble(self) -> Session:
        """Fresh roles for one session."""
        how: dict[str, Any] = {"revise": self._revise, "statistic": self._statistic}
        return assemble(self.study, self.parties, self._seed, self._scratch, **how)

    def run(self, pick: Pick = first_sent, meddle: Meddle | None = None) -> tuple[Any, ...]:
        """What the users end with, user by user; or the error that stopped the session."""
        self._simulation, self._session = None, None
        hub = MeddledHub(pick, meddle)
        self.sent = hub.sent
        self._session = self.assemble()
        self._simulation = Simulation(self._session.machines, hub, record=True)
        run = self._simulation.run()
        return tuple(run.results[party] for party in self.plan.users)

    @property
    def plan(self) -> SessionPlan:
        return self._begun().plan

    @property
    def machines(self) -> dict[Party, Machine]:
        """The roles of the last session, by party."""
        return {machine.me: machine for machine in self._begun().machines}

    @property
    def views(self) -> Views:
        """What each party received in the last session, whether it ended well or not."""
        views = None if self._simulation is None else self._simulation.so_far.views
        return Views() if views is None else views

    @property
    def results(self) -> dict[Party, Any]:
        """What roles of the last session ended with, the CSP included; no role that did not come to its end."""
        return {} if self._simulation is None else self._simulation.so_far.results

    @property
    def released(self) -> dict[Party, Any]:
        """What users of the last session were given, whether it ended well or not."""
        return {party: result for party, result in self.results.items() if party in self.plan.users}

    @property
    def certificate(self) -> Certificate:
        if self._simulation is None:
            raise LocalProtocolError("no session was run")
        run = self._simulation.so_far
        return certificate_of(self.plan, verified_in(self.plan, run), run.accounts())

    def _begun(self) -> Session:
        if self._session is None:
            raise LocalProtocolError("no session was run", "call run() first")
        return self._session


def _columns(y: Any) -> Any:
    array = np.asarray(y, dtype=np.float64)
    return array.reshape(-1, 1) if array.ndim == 1 else array
