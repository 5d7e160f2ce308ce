"""The paper's scheme over TCP: the CSP is a process at the far end of a line, users and the TA are here, a thread each.

Everything passes the CSP's line, as in the product: what the TA sends a user goes to the CSP, which hands it on. A
frame is a line of JSON (sender, receiver, kind, types and shapes of arrays) and the arrays behind it.

``python -m fedsvd_lab.published.wired HOST SETTING`` is the CSP: it says its port, waits for all roles, and plays.
"""

import json
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from time import monotonic
from typing import IO, Any

import numpy as np

from fedsvd.data.open import open_source
from fedsvd.randomness.seed import Seed
from fedsvd.types import Float
from fedsvd_lab.network.link import Link
from fedsvd_lab.published.play import setting_of
from fedsvd_lab.published.provider import stored_in
from fedsvd_lab.published.roles import (
    CSP,
    TA,
    Arrays,
    Own,
    Receive,
    Script,
    Send,
    service_provider,
    trusted_authority,
    user,
    user_name,
)
from fedsvd_lab.published.setting import Setting

_LONGEST = 3600.0


@dataclass(frozen=True)
class Timed:
    """Seconds from the first message to the last result, bytes of all messages, and what users hold."""

    seconds: float
    bytes_total: int
    users: tuple[Any, ...]


def play_over(link: Link, tables: Sequence[Float], y: Float | None = None, **asked: Any) -> Timed:
    """A study whose CSP is behind this link; y is the last user's."""
    sources = [open_source(table) for table in tables]
    setting = setting_of(sources, y, **asked)
    command = [*link.before("csp"), sys.executable, "-m", __name__, link.host, json.dumps(asdict(setting))]
    far = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert far.stdout is not None
        address = link.from_here(int(far.stdout.readline()))
        root = Seed.fresh()
        scripts: dict[str, Script] = {TA: trusted_authority(setting, root.derive("ta"))}
        for i, source in enumerate(sources, start=1):
            own = Own(setting, i, source, y if i == setting.k else None)
            scripts[user_name(i)] = user(setting, own, root.derive("user", i))
        ends = {name: _Line.to(address, name) for name in scripts}
        started = monotonic()
        with ThreadPoolExecutor(len(scripts)) as pool:
            playing = {name: pool.submit(_played, script, ends[name], name) for name, script in scripts.items()}
            results = {name: each.result() for name, each in playing.items()}
        seconds = monotonic() - started
        for line in ends.values():
            line.close()
        sent = sum(line.sent for line in ends.values()) + int(far.stdout.readline())
        return Timed(seconds, sent, tuple(results[user_name(i)] for i in range(1, setting.k + 1)))
    finally:
        far.kill()
        far.communicate()


def _played(script: Script, line: "_Line | _Ends", name: str) -> Any:
    """One script to its end, over its own connection to the CSP."""
    waiting: dict[Receive, list[Arrays]] = {}
    arrays: Arrays | None = None
    while True:
        try:
            step = script.send(arrays)  # type: ignore[arg-type]
        except StopIteration as done:
            return done.value
        arrays = None
        if isinstance(step, Send):
            line.send(name, step)
            continue
        while not waiting.get(step):
            sender, message = line.receive()
            waiting.setdefault(Receive(sender, message.kind), []).append(message.arrays)
        arrays = waiting[step].pop(0)


class _Line:
    """One connection, on which frames go both ways; bytes of arrays that were sent on it are counted."""

    def __init__(self, end: socket.socket) -> None:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._end, self._read = end, end.makefile("rb")
        self._writing = threading.Lock()
        self.sent = 0

    @classmethod
    def to(cls, address: str, name: str) -> "_Line":
        """A connection to the CSP, which is told whose it is."""
        host, _, port = address.rpartition(":")
        line = cls(socket.create_connection((host, int(port)), timeout=_LONGEST))
        line.send(name, Send(CSP, "hello"))
        return line

    def send(self, sender: str, message: Send) -> None:
        arrays = [np.ascontiguousarray(array) for array in message.arrays]
        head = [sender, message.to, message.kind, [(array.dtype.str, array.shape) for array in arrays]]
        with self._writing:
            self._end.sendall(json.dumps(head).encode() + b"\n")
            for array in arrays:
                self._end.sendall(array.data.cast("B") if array.size else b"")
        self.sent += sum(array.nbytes for array in arrays)

    def close(self) -> None:
        self._read.close()
        self._end.close()

    def receive(self) -> tuple[str, Send]:
        """The next frame, and who sent it."""
        line = self._read.readline()
        if not line:
            raise ConnectionError("a role of the paper's scheme is gone")
        sender, to, kind, described = json.loads(line)
        return sender, Send(to, kind, tuple(_array(self._read, *each) for each in described))


def _array(read: IO[bytes], dtype: str, shape: list[int]) -> np.ndarray[Any, Any]:
    found = np.empty(shape, np.dtype(dtype))
    filled, view = 0, found.reshape(-1).view(np.uint8).data
    while filled < len(view):
        came = read.readinto(view[filled:])  # type: ignore[attr-defined]
        if not came:
            raise ConnectionError("a role of the paper's scheme is gone")
        filled += came
    return found


# --- the process of the CSP -------------------------------------------------------------------------------------------


def serve(host: str, setting: Setting) -> None:
    """Play the CSP for the users and the TA of one study, and hand on what they send each other."""
    with socket.create_server((host, 0)) as server:
        _say(server.getsockname()[1])
        lines: dict[str, _Line] = {}
        while len(lines) < setting.k + 1:
            line = _Line(server.accept()[0])
            lines[line.receive()[0]] = line
    came: queue.Queue[tuple[str, Send]] = queue.Queue()
    for line in lines.values():
        threading.Thread(target=partial(_read_all, line, lines, came), daemon=True).start()
    _played(service_provider(setting, stored_in(None)), _Ends(lines, came), CSP)
    _say(sum(line.sent for line in lines.values()))
    sys.stdin.read()  # until our parent has all results


def _read_all(line: _Line, lines: dict[str, _Line], came: "queue.Queue[tuple[str, Send]]") -> None:
    """What one role sends: to the CSP's script, or on to another role."""
    try:
        while True:
            sender, message = line.receive()
            if message.to == CSP:
                came.put((sender, message))
            else:
                lines[message.to].send(sender, message)
    except (ConnectionError, OSError):
        return


class _Ends:
    """The CSP's end of all lines."""

    def __init__(self, lines: dict[str, _Line], came: "queue.Queue[tuple[str, Send]]") -> None:
        self._lines, self._came = lines, came

    def send(self, sender: str, message: Send) -> None:
        self._lines[message.to].send(sender, message)

    def receive(self) -> tuple[str, Send]:
        return self._came.get(timeout=_LONGEST)


def _say(number: int) -> None:
    print(number, flush=True)  # noqa: T201


if __name__ == "__main__":
    asked = json.loads(sys.argv[2])
    serve(sys.argv[1], Setting(**{**asked, "counts": tuple(asked["counts"])}))
