"""Work on big numbers spread over processes: gmpy2 holds the interpreter's lock, so threads would not help."""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from time import process_time, sleep
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Answer = TypeVar("Answer")


class Spread(Protocol):
    """A function applied to every task, in order; it and its data may travel to other processes."""

    processes: int

    def processor(self) -> float:
        """Seconds of the processor that the workers have used so far."""
        ...

    def __call__(self, work: Callable[[Task], Answer], tasks: Sequence[Task]) -> list[Answer]: ...


class Here:
    """All work in this process."""

    processes = 1

    def processor(self) -> float:
        return process_time()

    def __call__(self, work: Callable[[Task], Answer], tasks: Sequence[Task]) -> list[Answer]:
        return [work(task) for task in tasks]


class _Pool:
    def __init__(self, pool: ProcessPoolExecutor, processes: int) -> None:
        self._pool, self.processes = pool, processes

    def processor(self) -> float:
        # Tasks that take a moment go to all workers, so that each reports.
        reported = dict(self._pool.map(_own_time, range(8 * self.processes)))
        return process_time() + sum(reported.values())

    def __call__(self, work: Callable[[Task], Answer], tasks: Sequence[Task]) -> list[Answer]:
        return list(self._pool.map(work, tasks))


def _own_time(task: int) -> tuple[int, float]:
    sleep(0.02)
    return os.getpid(), process_time()


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def workers(processes: int) -> Iterator[Spread]:
    """Processes that are ready when the block begins, so that starting them counts in no measurement."""
    if processes <= 1:
        yield Here()
        return
    # Spawned, not forked: a fork of a process with BLAS threads may hang.
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(abs, range(4 * processes)))
        yield _Pool(pool, processes)
