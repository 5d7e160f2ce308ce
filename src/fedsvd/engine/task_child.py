"""The child process of a foreign task: it runs the task's script, and nothing of fedsvd.

This file is run by itself (``python -I task_child.py``), with an empty environment, no inherited file and no argument.
Through its standard input it gets the sources that were hashed, the options and the columns of one table; through its
standard output it sends the sums that the script asks for, and gets each total back. There is no kit, key, seed or
plan in it. It is not a sandbox: the script is Python under its owner's account (docs/howto/write-a-statistic.md).

A frame is a header in JSON, which has the lengths of the float64 arrays behind it.
"""

import json
import os
import struct
import sys
import threading
import time
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import CodeType
from typing import IO, Any

HEAD = struct.Struct("<IQ")  # bytes of the header, bytes of the arrays
LONGEST_HEADER = 1 << 26  # sources and names of columns


def write_frame(file: IO[bytes], header: dict[str, Any], arrays: list[Any]) -> None:
    """Send a header and one-dimensional float64 arrays, whose lengths go into the header."""
    text = json.dumps({**header, "lengths": [len(array) for array in arrays]}).encode()
    file.write(HEAD.pack(len(text), sum(8 * len(array) for array in arrays)) + text)
    for array in arrays:
        file.write(array.data if len(array) else b"")
    file.flush()


def read_frame(file: IO[bytes], most_header: int, most_bytes: int) -> tuple[dict[str, Any], list[Any]]:
    """The next frame, no longer than this; ``EOFError`` at the end, ``ValueError`` where it is not a frame."""
    long, size = HEAD.unpack(_exactly(file, HEAD.size))
    if long > most_header or size > most_bytes:
        raise ValueError("a frame that is too long")
    header = json.loads(_exactly(file, long))
    if not isinstance(header, dict) or not isinstance(header.get("lengths"), list):
        raise ValueError("a frame without lengths")
    lengths = [int(length) for length in header["lengths"]]
    if any(length < 0 for length in lengths) or 8 * sum(lengths) != size:
        raise ValueError("a frame of another length")
    return header, [_numbers(file, length) for length in lengths]


def _numbers(file: IO[bytes], length: int) -> Any:
    import numpy as np  # not before the number of its threads is set

    array = np.empty(length, "<f8")
    view, done = array.view(np.uint8).data, 0
    while done < len(view):
        count = file.readinto(view[done:])  # type: ignore[attr-defined]
        if not count:
            raise EOFError
        done += count
    return array


def _exactly(file: IO[bytes], count: int) -> bytes:
    content = file.read(count)
    if len(content) < count:
        raise EOFError
    return content


class _Sources(MetaPathFinder, InspectLoader):
    """Modules from sources in memory: what runs is what was hashed, whatever lies on the disk by now."""

    def __init__(self, sources: dict[str, str]) -> None:
        self._sources = sources  # by path, as in RECORD

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        stem = name.replace(".", "/")
        for place, package in ((f"{stem}/__init__.py", True), (f"{stem}.py", False)):
            if place in self._sources:
                return spec_from_loader(name, self, origin=place, is_package=package)
        return None

    def is_package(self, fullname: str) -> bool:
        return f"{fullname.replace('.', '/')}/__init__.py" in self._sources

    def get_source(self, fullname: str) -> str:
        stem = fullname.replace(".", "/")
        return self._sources[f"{stem}/__init__.py" if self.is_package(fullname) else f"{stem}.py"]

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_source(fullname), f"<{fullname}>")


def _script(work: dict[str, Any]) -> Any:
    sys.meta_path.insert(0, _Sources(work["sources"]))
    module = __import__(work["module"], fromlist=["*"])
    return getattr(module, work["function"])


def _play(reading: IO[bytes], writing: IO[bytes]) -> None:
    """Run the script to its end; every sum it asks for is one frame out and one frame in."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = str(_threads())
    import numpy as np

    work, columns = read_frame(reading, LONGEST_HEADER, 1 << 62)
    playing = _script(work)(work["options"], dict(zip(work["columns"], columns, strict=True)))
    answer = None
    while True:
        try:
            step, vector = playing.send(answer)
        except StopIteration as end:
            outputs = {str(name): np.asarray(value, dtype=np.float64) for name, value in end.value.items()}
            shapes = {name: list(value.shape) for name, value in outputs.items()}
            arrays = [np.ascontiguousarray(value, "<f8").ravel() for value in outputs.values()]
            write_frame(writing, {"outputs": shapes}, arrays)
            return
        numbers = np.ascontiguousarray(np.asarray(vector, dtype=np.float64), "<f8").ravel()
        write_frame(writing, {"step": str(step)}, [numbers])
        _, (answer,) = read_frame(reading, 1 << 16, 1 << 40)


def _threads() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _end_with(parent: int) -> None:
    """End when the party's process is gone: a script that hangs would outlive it."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _place(error: BaseException) -> int:
    """The line of the script on which it ended: a place, and nothing of what was computed there."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        line, trace = trace.tb_lineno, trace.tb_next
    return line


def main() -> None:
    """Play one script, with the pipes out of reach of ``print`` and ``input``."""
    reading, writing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    try:
        _play(reading, writing)
    except EOFError:
        return  # the session ended without us
    except Exception as error:
        # Neither its text nor its values: they may hold data, and go into a log.
        write_frame(writing, {"failed": type(error).__name__, "line": _place(error)}, [])


if __name__ == "__main__":
    main()
