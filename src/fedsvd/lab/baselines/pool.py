"""Work on big numbers spread over processes: gmpy2 holds the interpreter's lock, so threads would not help."""

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

Task = TypeVar("Task")
Answer = TypeVar("Answer")


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def spread(work: Callable[[Task], Answer], tasks: Sequence[Task], processes: int) -> list[Answer]:
    """``work`` on every task, in order; ``work`` and its data travel to the processes, so it is a plain function."""
    if processes <= 1 or len(tasks) <= 1:
        return [work(task) for task in tasks]
    # Spawned, not forked: a fork of a process with BLAS threads may hang.
    with ProcessPoolExecutor(min(processes, len(tasks)), multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(work, tasks))
