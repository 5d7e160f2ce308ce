"""A foreign task's script in a process of its own, as a generator of the sums it asks for (``task_child.py``).

The child has an empty environment, no inherited file but its pipes, the root folder as its place, and a time limit for
every answer. What comes back is checked here for form and length; whether it may be asked for, the role decides. A
script that ends badly, hangs, or sends what is no answer is ``ScriptFailed``, with a place and nothing of the data.
"""

import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from fedsvd.engine import task_child
from fedsvd.engine.installed_tasks import Installed
from fedsvd.engine.task_child import read_frame, write_frame
from fedsvd.errors import ConfigError, ScriptFailed, printable
from fedsvd.protocol.plan import SessionPlan
from fedsvd.types import Float

LIMIT = 600.0
"""Seconds that a script may take from one sum to the next."""

_LONGEST_ANSWER = 1 << 16

Asked = tuple[str, Float]
Playing = Generator[Asked, Float, dict[str, Float]]
Statistic = Callable[[Float], Playing]


def statistic_of(task: Installed, plan: SessionPlan, names: Sequence[str], limit: float = LIMIT) -> Statistic:
    """What plays a foreign task on a party's table, whose columns have these names, as the plan has it."""
    about = plan.foreign
    if about is None:
        raise ConfigError("this plan is of no foreign task", "plan it again")
    missing = [name for name in about.aside if name not in names]
    if missing:
        fault = f"the options of {about.name} name a column {missing[0]!r} that is not here"
        raise ConfigError(fault, "every party needs it; rename what is called otherwise ([prepare] rename)")
    outputs = sum(math.prod(output.shape) for output in about.outputs)
    most = max([outputs, *(inner.size for step in plan.steps for inner in (step.body or (step,)))])
    return lambda X_i: played(task, about.chosen, most, limit, dict(zip(names, X_i, strict=True)))


def played(
    task: Installed, options: Mapping[str, Any], most: int, limit: float, columns: Mapping[str, Float]
) -> Playing:
    """Play a script on these columns; each answer has at most ``most`` numbers."""
    process = _started()
    try:
        work = {"sources": task.sources, "module": task.module, "function": task.function, "options": dict(options)}
        work["columns"] = list(columns)
        sent: tuple[dict[str, Any], list[Any]] = work, [np.ascontiguousarray(each, "<f8") for each in columns.values()]
        while True:
            header, arrays = _answered(process, task.name, sent, most, limit)
            if "outputs" in header:
                return _outputs(task.name, header["outputs"], arrays)
            total = yield header["step"], arrays[0]
            sent = {}, [np.ascontiguousarray(total, "<f8")]
    finally:
        _end(process)


def _started() -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-I", "-B", str(Path(task_child.__file__).absolute())]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(words, env={}, cwd="/", close_fds=True, start_new_session=True, **pipes)  # type: ignore[call-overload]
    return process  # type: ignore[no-any-return]


def _answered(
    process: "subprocess.Popen[bytes]", task: str, sent: tuple[dict[str, Any], list[Any]], most: int, limit: float
) -> tuple[dict[str, Any], list[Any]]:
    """Send a frame, and read the script's next; ``ScriptFailed`` where none comes in time, or none that is one."""
    late = threading.Event()
    try:
        with _within(process, limit, late):
            write_frame(_pipe(process.stdin), *sent)
            header, arrays = read_frame(_pipe(process.stdout), _LONGEST_ANSWER, 8 * most + 8)
    except (EOFError, BrokenPipeError):
        if late.is_set():
            fault = f"the script of {task} gave no answer within {limit:g} seconds, and was ended"
            raise ScriptFailed(fault, "ask its author, or give it fewer rows") from None
        raise ScriptFailed(f"the process of the script of {task} died", "ask its author; look at its memory") from None
    except (ValueError, TypeError, ArithmeticError, RecursionError):
        raise ScriptFailed(f"the script of {task} sent what is no answer", "ask its author") from None
    if "failed" in header:
        what, line = printable(header["failed"], 60), printable(header.get("line"), 12)
        raise ScriptFailed(f"the script of {task} ended with {what}, line {line}", "ask its author")
    named = isinstance(header.get("step"), str) and len(arrays) == 1
    if not named and not isinstance(header.get("outputs"), dict):
        raise ScriptFailed(f"the script of {task} sent what is no answer", "ask its author")
    return header, arrays


@contextmanager
def _within(process: "subprocess.Popen[bytes]", limit: float, late: threading.Event) -> Iterator[None]:
    """End the process after this number of seconds: reading from it then comes to an end."""

    def end() -> None:
        late.set()
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(limit, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _outputs(task: str, shapes: Mapping[str, Any], arrays: list[Any]) -> dict[str, Float]:
    try:
        pairs = zip(shapes.items(), arrays, strict=True)
        return {name: array.reshape([int(side) for side in shape]) for (name, shape), array in pairs}
    except (ValueError, TypeError):
        fault = f"the script of {task} returned outputs of other shapes than it names"
        raise ScriptFailed(fault, "ask its author") from None


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Nothing of the script runs any more; its process is ours until it is waited for, and so is its group."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):
            _pipe(pipe).close()
    process.wait()
