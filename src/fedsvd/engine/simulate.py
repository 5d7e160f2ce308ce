"""All roles of one session in one process: a schedule of players over the loopback hub.

The simulation decides whose turn it is, and nothing else: a player (``player.py``) does with a message what it would do
between institutions. It takes the next message from the hub, gives it to the player it is for, and goes on until no
message is left.

With ``parallel`` above 1, that many parties with a message waiting take their turns at the same time, a thread each,
as on machines of their own: nothing but messages passes between them, and what they send waits until all of them have
ended their turn. A thread then has one BLAS thread; a party alone has them all. Where messages are recorded, or the
hub picks among them, turns are taken one at a time. With ``deferred`` the value of a computation goes through the hub
like a message, so that other parties' messages may overtake it.

The second half of this file runs several computations at the same time, such that all have ended before the caller
goes on, interrupted or not. A thread that is left behind goes on burning a core, and crashes the interpreter when it
comes back from BLAS after the interpreter has ended. So an exception in the calling thread, Ctrl-C above all, is passed
on to the other threads: each stops at its next step of Python, which is after the BLAS call it is in, and only then
does the exception leave.
"""

import ctypes
import signal
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from fedsvd.engine.player import Player
from fedsvd.errors import DataError, LocalProtocolError, PeerAborted
from fedsvd.linalg import backend
from fedsvd.protocol.certificate import Accounts, Stage
from fedsvd.protocol.machine import Machine
from fedsvd.protocol.messages import Message, Views
from fedsvd.protocol.parties import CSP, Party
from fedsvd.transport.loopback import Hub
from fedsvd.transport.metered import Meter, Metered, Transport

_CHECK = 0.2  # seconds: a signal that the system gives to another thread does not wake one that waits for a lock
_AGAIN = 1.0  # seconds after which a thread that did not stop is asked again: a destructor may swallow an exception

_Turn = tuple[Party, Callable[[], None]]


@dataclass(frozen=True, repr=False, eq=False)
class _Value(Message):
    """The value of a computation on its way through the hub; it is handed over as a value (``Player.computed``)."""

    value: Any


@dataclass
class Run:
    """What came of a session: results by party, what was counted, what each party received."""

    results: dict[Party, Any] = field(default_factory=dict)
    meter: Meter = field(default_factory=Meter)
    seconds: defaultdict[Stage, float] = field(default_factory=lambda: defaultdict(float))
    began: dict[Stage, float] = field(default_factory=dict)  # when a stage was first entered, from the beginning
    views: Views | None = None

    def accounts(self) -> Accounts:
        """What all roles sent, and how long their stages took."""
        return replace(self.meter.accounts(), seconds_by_stage=dict(self.seconds), began_by_stage=dict(self.began))


class Simulation:
    """The players of one session, and whose turn it is."""

    def __init__(
        self,
        machines: Sequence[Machine],
        hub: Hub,
        *,
        record: bool = False,
        parallel: int = 1,
        deferred: bool = False,
        before: Mapping[Party, Mapping[str, float]] | None = None,
    ) -> None:
        self._hub = hub
        self._parallel = 1 if record else parallel
        self._meter = Meter()
        self._views = Views() if record else None
        self._outboxes: dict[Party, _Outbox] = {}
        self._players: dict[Party, Player] = {}
        for machine in machines:
            me = machine.me
            outbox = self._outboxes[me] = _Outbox(Metered(hub.end(me), me, self._meter))
            self._players[me] = Player(
                machine, outbox, deliver=self._deferring(machine) if deferred else None, before=(before or {}).get(me)
            )

    def _deferring(self, machine: Machine) -> Callable[[Any], None]:
        """Sends values of a machine's computations to itself."""
        return lambda value: self._hub.push(machine.me, machine.me, _Value(machine.plan.digest, value))

    @property
    def so_far(self) -> Run:
        """What has come of the session until now."""
        run = Run(meter=self._meter, views=self._views)
        for party, player in self._players.items():
            played = player.played
            if played.finished:
                run.results[party] = played.result
            run.seconds.update(((party, stage), spent) for stage, spent in played.seconds.items())
            run.began.update(((party, stage), began) for stage, began in played.began.items())
        return run

    def run(self) -> Run:
        """Play until every role is done; raises the error that stopped the session, if one did."""
        self.begin(party for party in self._players if party != CSP)
        self.deliver()
        self._raise_failure()
        return self.so_far

    def begin(self, parties: Iterable[Party]) -> None:
        """Start the session at these parties."""
        turns = [(party, self._players[party].begin) for party in parties]
        for start in range(0, len(turns), self._parallel):
            self._take(turns[start : start + self._parallel])

    def deliver(self) -> None:
        """Deliver until no message is left."""
        while turns := self._next():
            self._take(turns)

    def _next(self) -> list[_Turn]:
        """A turn for the next message, or one each for as many parties as may work at the same time."""
        waiting: Sequence[Party | None] = [None]
        if self._parallel > 1:
            waiting = [party for party in self._players if self._hub.waiting(party)][: self._parallel]
        return [self._turn(*delivery) for party in waiting if (delivery := self._hub.pop(party)) is not None]

    def _turn(self, origin: Party, to: Party, message: Message) -> _Turn:
        if isinstance(message, _Value):
            return to, partial(self._players[to].computed, message.value)
        if self._views is not None:
            self._views.record(to, origin, message)
        return to, partial(self._players[to].receive, origin, message)

    def _take(self, turns: Sequence[_Turn]) -> None:
        if len(turns) == 1:
            turns[0][1]()
            return
        outboxes = [self._outboxes[party] for party, _ in turns]
        for outbox in outboxes:
            outbox.hold()
        with backend.one_thread():
            run_concurrently([work for _, work in turns])
        for outbox in outboxes:
            outbox.release()

    def _raise_failure(self) -> None:
        players = self._players.values()
        failures = [player.failure for player in players if player.failure is not None]
        for party, player in self._players.items():
            if isinstance(player.failure, DataError):
                player.failure.of = party.index
        if failures:
            # The first cause, not its echo at the other parties.
            raise next((error for error in failures if not isinstance(error, PeerAborted)), failures[0])
        waiting = [str(player.machine) for player in players if not player.machine.over]
        if waiting:
            raise LocalProtocolError(f"no message is left, and {', '.join(waiting)} still wait for one")


class _Outbox:
    """A transport whose messages can be held back while several parties work at the same time."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._held: list[tuple[Party, Message]] | None = None

    def hold(self) -> None:
        self._held = []

    def release(self) -> None:
        """Send what was held back, in order."""
        held, self._held = self._held or [], None
        for to, message in held:
            self._inner.send(to, message)

    def send(self, to: Party, message: Message) -> None:
        if self._held is None:
            self._inner.send(to, message)
        else:
            self._held.append((to, message))

    def receive(self, wait: float = 0.0) -> tuple[Party, Message] | None:
        return self._inner.receive(wait)

    def close(self) -> None:
        self._inner.close()


# --- several computations at the same time ----------------------------------------------------------------------------


class _Stop(BaseException):
    """Stops a thread; no handler of errors takes it for one."""


class _Worker(threading.Thread):
    """One computation, which may be stopped between two steps of Python: of its own, never of the thread around it."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(name="fedsvd-party")
        self._work = work
        self._lock = threading.Lock()
        self._begun = self._over = False  # an exception may be raised in between
        self.error: BaseException | None = None
        # Not join(): up to Python 3.12 one that is interrupted takes the thread for ended (bpo-45274).
        self.ended = threading.Event()

    def run(self) -> None:
        try:
            with self._lock:
                self._begun = True
            if not self._over:
                self._guarded()
            with self._lock:
                self._over = True
            for _ in range(2):  # what was sent before that is raised here, and nothing later
                pass
        except _Stop:
            self._over = True
        finally:
            self.ended.set()

    def _guarded(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self.error = error

    def interrupt(self) -> None:
        """Raise in this thread, unless its work is over; work that has not begun does not begin."""
        with self._lock:
            if not self._begun:
                self._over = True
            elif not self._over and self.ident is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident), ctypes.py_object(_Stop))


def run_concurrently(works: Sequence[Callable[[], None]]) -> None:
    """All of these at the same time, the first of them in this thread; raises the first error when all have ended."""
    workers = [_Worker(work) for work in works[1:]]
    try:
        with uninterrupted():  # a thread whose start is interrupted is neither running nor not running
            for worker in workers:
                worker.start()
        works[0]()
        for worker in workers:
            while not worker.ended.wait(_CHECK):
                pass
    except BaseException:
        _stop(workers)
        raise
    finally:
        with uninterrupted():
            for worker in workers:
                if worker.ended.is_set():
                    worker.join()
    for worker in workers:
        if worker.error is not None:
            raise worker.error


def _stop(workers: Sequence[_Worker]) -> None:
    """Return when no worker is left; a second interruption leaves at once, and the interpreter waits at its exit."""
    while left := [worker for worker in workers if worker.ident is not None and not worker.ended.is_set()]:
        for worker in left:
            worker.interrupt()
        left[0].ended.wait(_AGAIN)
    for worker in workers:
        worker.error = None  # its traceback holds the arrays that it worked with


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait until the block is through; elsewhere than in the main thread they do not come."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    found = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    before = {number: handler for number, handler in found.items() if handler is not None}  # None: not Python's to set
    try:
        for number in before:
            signal.signal(number, lambda signum, frame: came.append(signum))
        yield
    finally:
        for number, handler in before.items():  # SIGINT last: its handler may raise, and then all is as it was
            signal.signal(number, handler)
        for signum in came:
            signal.raise_signal(signum)
