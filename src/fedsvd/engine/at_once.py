"""Several computations at once, a thread each, that all end before the caller goes on, interrupted or not.

A thread that is left behind goes on burning a core, and crashes the interpreter when it comes back from BLAS after the
interpreter has ended. So an exception in the calling thread, Ctrl-C above all, is passed on to the other threads: each
stops at its next step of Python, which is after the BLAS call it is in, and only then does the exception leave.
"""

import ctypes
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

_LOOK = 0.2  # seconds: a signal that the system gives to another thread does not wake one that waits for a lock
_AGAIN = 1.0  # seconds after which a thread that did not stop is asked again: a destructor may swallow an exception


class _NotWanted(BaseException):
    """What stops a thread; no handler of errors takes it for one."""


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
        except _NotWanted:
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
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident), ctypes.py_object(_NotWanted))


def at_once(works: Sequence[Callable[[], None]]) -> None:
    """All of these, side by side, the first of them in this thread; the first error when all have ended."""
    workers = [_Worker(work) for work in works[1:]]
    try:
        with uninterrupted():  # a thread whose start is interrupted is neither there nor not there
            for worker in workers:
                worker.start()
        works[0]()
        for worker in workers:
            while not worker.ended.wait(_LOOK):
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
