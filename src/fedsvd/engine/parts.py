"""Parts of bytes worked on in several processes, for what holds the interpreter: points of a curve, one by one.

Threads would wait for one another there. Processes are started when a large set comes, work on its parts as they are
given to them over pipes, and end with the session. They run this file and nothing of the caller's: ``multiprocessing``
would import the caller's script once more in each. Where a set is small, or a machine has one core, parts are worked on
here, one after the other.
"""

import os
import struct
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import IO

from fedsvd.errors import LocalProtocolError
from fedsvd.prepare.blinding import WORK, EachPart

WORTH_SHARING = 5  # parts, of some 0.2 s each: a process takes about as long to start as three
_HEAD = struct.Struct("<BQ")  # which work, bytes of the part; an answer has the same form
_NAMES = tuple(WORK)


def each_in_processes(count: int) -> EachPart | None:
    """``map`` of bytes to bytes over some processes, for one session; None, which stands for ``map``, for one."""
    return _Workers(count) if count > 1 and sys.executable else None


class _Workers:
    """Processes that end when nothing refers to this any more."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.running: list[subprocess.Popen[bytes]] = []
        weakref.finalize(self, _end, self.running)

    def __call__(self, work: Callable[[bytes], bytes], parts: Iterable[bytes]) -> Iterator[bytes]:
        listed = list(parts)
        if len(listed) < WORTH_SHARING:
            return iter([work(part) for part in listed])
        number = _NAMES.index(work.__name__)
        self._start()
        free: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        for process in self.running:
            free.put(process)

        def done(part: bytes) -> bytes | None:
            process = free.get()
            try:
                return _asked(process, number, part)
            finally:
                free.put(process)

        with ThreadPoolExecutor(len(self.running)) as threads:
            answers = list(threads.map(done, listed))
        # A part that was refused there is worked on here, where it raises what it raised there.
        return iter([work(part) if answer is None else answer for part, answer in zip(listed, answers, strict=True)])

    def _start(self) -> None:
        folder = str(Path(__file__).parents[2])
        paths = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH", ""))))
        environment = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-c", "from fedsvd.engine.parts import serve; serve()"]
        while len(self.running) < self._count:
            process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.running.append(process)


def _asked(process: "subprocess.Popen[bytes]", number: int, part: bytes) -> bytes | None:
    """What a process made of a part; None where it refused it."""
    if process.stdin is None or process.stdout is None:
        raise LocalProtocolError("a process without pipes")
    try:
        process.stdin.write(_HEAD.pack(number, len(part)) + part)
        process.stdin.flush()
        answer = _read(process.stdout)
    except OSError:
        answer = None
    if answer is None:
        raise LocalProtocolError("a process that works on ids ended before its time", "run again; is memory short?")
    refused, content = answer
    return None if refused else content


def serve() -> None:
    """Work on parts from standard input until it ends; run in a process of its own."""
    given, made = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # nothing else may be written between answers
    while (asked := _read(given)) is not None:
        number, part = asked
        try:
            answer, refused = WORK[_NAMES[number]](part), 0
        except Exception:
            answer, refused = b"", 1
        made.write(_HEAD.pack(refused, len(answer)) + answer)
        made.flush()


def _read(pipe: IO[bytes]) -> tuple[int, bytes] | None:
    """The next part and what is to be done with it; None at the end."""
    head = pipe.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    number, size = _HEAD.unpack(head)
    content = pipe.read(size)
    return (number, content) if len(content) == size else None


def _end(running: list["subprocess.Popen[bytes]"]) -> None:
    for process in running:
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):  # of a process that is gone already
                if pipe is not None:
                    pipe.close()
        process.wait()
    running.clear()
