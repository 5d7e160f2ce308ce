"""Threads that answer calls: all started at once, and the one that was busy last takes the next task.

Python's own pool wakes the thread that has been idle longest. Every thread has a cache in the C library, and hundreds
of them would fill up one after the other: a server's memory grows for days. Here few threads do most of the work.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

T = TypeVar("T")
_Task = tuple[Future[Any], Callable[[], Any]]


class _Worker:
    """An idle thread, and what it is woken for."""

    def __init__(self) -> None:
        self.task: _Task | None = None
        self.wake = threading.Semaphore(0)


class Workers(Executor):
    """So many threads, from ``start`` on; tasks wait where all are busy."""

    def __init__(self, count: int, name: str) -> None:
        self._count, self._name = count, name
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []  # the one that was busy last is the last
        self._waiting: deque[_Task] = deque()
        self._over = False

    def start(self) -> None:
        """Start all threads, or raise ``RuntimeError`` with none of them left."""
        try:
            for place in range(self._count):
                threading.Thread(target=self._work, name=f"{self._name}_{place}", daemon=True).start()
        except RuntimeError:
            self.shutdown(wait=False)
            raise

    @property
    def idle(self) -> int:
        """How many threads have nothing to do."""
        return len(self._idle)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        task = future, lambda: fn(*args, **kwargs)
        with self._lock:
            if self._over:
                raise RuntimeError("these threads were stopped")
            if not self._idle:
                self._waiting.append(task)
                return future
            worker = self._idle.pop()
            worker.task = task
        worker.wake.release()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads once they are idle; not waited for, whatever ``wait`` says: a task may sit in a slow disk."""
        with self._lock:
            self._over = True
            idle, self._idle = self._idle, []
            dropped = list(self._waiting) if cancel_futures else []
            if cancel_futures:
                self._waiting.clear()
        for worker in idle:
            worker.wake.release()
        for future, _ in dropped:
            future.cancel()

    def _work(self) -> None:
        worker = _Worker()
        while True:
            with self._lock:
                task = self._waiting.popleft() if self._waiting else None
                if task is None:
                    if self._over:
                        return
                    self._idle.append(worker)
            if task is None:
                worker.wake.acquire()
                task, worker.task = worker.task, None
            if task is None:  # woken to end
                return
            _run(*task)
            del task  # or an idle thread would hold the last call, and its answer


def _run(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(call())
    except BaseException as error:
        future.set_exception(error)
