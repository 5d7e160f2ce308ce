"""A federation inside a test: tables in, results and views out, every secret a function of a fixed seed.

    federation = Federation([X_1, X_2])
    for X_i, found in zip((X_1, X_2), federation.run()):
        assert_allclose(found.U * found.sigma @ found.Vt_i, X_i)
    assert Factors not in federation.views.kinds(CSP)

The roles, messages and checks are those of a real session; only the random bits are fixed, so nothing is protected.

Its links misbehave as far as a network may, and no further: order is preserved on each link, and free between links.

A ``Pick`` chooses which link delivers next. Here are picks for tests: shuffled by a seed, drawn by hypothesis, and
every order there is. ``MeddledHub`` lets a test alter, drop, repeat or invent messages in flight, as a broken or
dishonest CSP could.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st

from fedsvd.data.open import open_source
from fedsvd.engine.simulate import Simulation
from fedsvd.errors import LocalProtocolError
from fedsvd.protocol.certificate import Certificate
from fedsvd.protocol.machine import Machine
from fedsvd.protocol.messages import Message, Views
from fedsvd.protocol.parties import CSP, Party
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Split, Task
from fedsvd.randomness.seed import Seed
from fedsvd.results.result import certificate_of
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import Files, Plays, Revise, Session, assemble, verified_in
from fedsvd.studies.study import Study
from fedsvd.transport.loopback import Hub, Link, Pick, first_sent

T = TypeVar("T")
M = TypeVar("M", bound=Message)
Meddle = Callable[[Party, Party, Message], Iterable[Message]]  # from, to, message: what is delivered instead


def shuffled(seed: int) -> Pick:
    """Any waiting link, at random."""
    rng = np.random.default_rng(seed)
    return lambda links: int(rng.integers(len(links)))


def drawn(data: st.DataObject) -> Pick:
    """Any waiting link, as hypothesis likes; it shrinks towards the order in which messages were sent."""
    return lambda links: int(data.draw(st.integers(0, len(links) - 1), label="link"))


def newest_first(links: Sequence[Link]) -> int:
    """The link whose oldest message is youngest."""
    return len(links) - 1


def starving(party: Party) -> Pick:
    """Whatever comes from or goes to ``party`` waits until nothing else can be delivered."""
    return lambda links: next((place for place, link in enumerate(links) if party not in link), 0)


def every_order(run: Callable[[Pick], T], most: int | None = None) -> Iterator[T]:
    """``run`` under every order of deliveries that a role could distinguish from the others.

    With ``most``, under those that differ from the order of sending in at most that many choices: a session waits for
    all users at every sum, so that all orders together multiply with each of them, and one choice covers each on its
    own.

    All links end at the CSP, so a user or the TA has one incoming link and one sequence to receive: what goes to
    them may be delivered at once. Deliveries to different parties commute. What remains is the order in which the CSP
    reads its links, and all such orders are played, depth first.
    """
    choices: list[int] = []
    while True:
        options: list[int] = []

        def pick(links: Sequence[Link], options: list[int] = options) -> int:
            for place, (_, to) in enumerate(links):
                if to != CSP:
                    return place
            if len(links) == 1:
                return 0
            depth = len(options)
            options.append(len(links))
            if depth == len(choices):
                choices.append(0)
            return choices[depth]

        yield run(pick)
        while choices and (choices[-1] + 1 == options[len(choices) - 1] or _used_up(choices, most)):
            choices.pop()
        if not choices:
            return
        choices[-1] += 1


def _used_up(choices: list[int], most: int | None) -> bool:
    """Whether another choice at the last place would differ in more places than are allowed."""
    return most is not None and choices[-1] == 0 and sum(map(bool, choices)) >= most


class MeddledHub(Hub):
    """A hub that remembers what was sent and lets ``meddle`` decide what is delivered."""

    def __init__(self, pick: Pick = first_sent, meddle: Meddle | None = None) -> None:
        super().__init__(pick)
        self._meddle = meddle
        self.sent: list[tuple[Party, Party, Message]] = []

    def push(self, origin: Party, to: Party, message: Message) -> None:
        self.sent.append((origin, to, message))
        for altered in (message,) if self._meddle is None else self._meddle(origin, to, message):
            super().push(origin, to, altered)


def altering(
    kind: type[M], change: Callable[[M], Iterable[Message]], origin: Party | None = None, to: Party | None = None
) -> Meddle:
    """Every message of a kind on a link (or on all) becomes what ``change`` makes of it; the others pass."""

    def meddle(sender: Party, receiver: Party, message: Message) -> Iterable[Message]:
        if not isinstance(message, kind) or origin not in (None, sender) or to not in (None, receiver):
            return (message,)
        return change(message)

    return meddle


INSECURE_SEED = bytes(range(32))


class Federation:
    """Parties with tables, samples in rows; by default columns are split, so that table i is X_i itself.

    ``labels``, ``ids`` and ``weights`` are lists with one item for each party, or None. The number of targets and who
    holds the labels of a vertical regression follow from the labels; everything else of a ``Study`` is a keyword.
    ``revise`` changes the plan that follows from the study before any role has it. ``statistic`` plays a foreign task;
    ``files`` says where each user writes.
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
        files: Files | None = None,
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
        self._files = files
        self._session: Session | None = None
        self._simulation: Simulation | None = None

    def with_seed(self, insecure_seed: bytes) -> "Federation":
        """The same study of the same tables, whose secrets follow from another seed."""
        other = copy(self)
        other._seed = Seed(insecure_seed)
        return other

    def assemble(self) -> Session:
        """Fresh roles for one session."""
        how: dict[str, Any] = {"revise": self._revise, "statistic": self._statistic, "files": self._files}
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
        return certificate_of(self.plan, verified_in(run), run.accounts())

    def _begun(self) -> Session:
        if self._session is None:
            raise LocalProtocolError("no session was run", "call run() first")
        return self._session


def _columns(y: Any) -> Any:
    array = np.asarray(y, dtype=np.float64)
    return array.reshape(-1, 1) if array.ndim == 1 else array
