"""A rate- and delay-limited link between the CSP and all others, by the best means this machine has.

    netem   the kernel's own, on a veth pair between two network namespaces
    tun     a TUN pair between two network namespaces, its packets carried at the rate by a process of ours
    relay   a TCP relay on 127.0.0.1, within this process

``open_link`` tries them in this order and says which it was; ``measure`` says what the link truly does. The link is the
CSP's line: all members share its rate. It is a ``Wiring``, so the local rung runs over it:

    with open_link(rate=100e6, round_trip=0.05) as link:
        print(link.method, measure(link))
        with local_federation(job, wiring=link) as federation:
            federation.run(job)
"""

import json
import select
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from fedsvd.errors import ConfigError
from fedsvd.service.processes import LOOPBACK, Wiring
from fedsvd_lab.network.namespaces import FAR
from fedsvd_lab.network.relay import Relay

METHODS = ("netem", "tun", "relay")
_LONGEST = 60.0


class Link(Wiring, Protocol):
    """A wiring with a rate (bit/s) and a round trip (s), and the method by which it has them."""

    method: str
    rate: float
    round_trip: float
    instead: str  # why no better method was used

    def close(self) -> None:
        """Nothing of it is left."""


@dataclass(frozen=True)
class Measured:
    """What a link does, as two processes at its ends see it: bit/s of TCP payload each way, seconds there and back."""

    rate_up: float
    rate_down: float
    round_trip: float


@contextmanager
def open_link(rate: float, round_trip: float, method: str | None = None) -> Iterator[Link]:
    """A link while the block lasts; by the best method there is, or by the one that is asked for."""
    if method not in (None, *METHODS):
        raise ConfigError(f"no method {method!r} for a slow link", f"one of {', '.join(METHODS)}")
    link = _made(rate, round_trip, METHODS if method is None else (method,))
    try:
        yield link
    finally:
        link.close()


def measure(link: Link, seconds: float = 3.0) -> Measured:
    """What the link does now, each way for so many seconds."""
    probe = [sys.executable, "-m", "fedsvd_lab.network.probe"]
    far = subprocess.Popen([*link.before("csp"), *probe, "listen", link.host], stdout=subprocess.PIPE, text=True)
    try:
        assert far.stdout is not None
        address = link.from_members(int(far.stdout.readline()))
        near = [*link.before("party"), *probe, "dial", address, str(seconds)]
        done = subprocess.run(near, capture_output=True, text=True, timeout=_LONGEST + 4 * seconds, check=False)
        if done.returncode:
            raise ConfigError(f"the link by {link.method} carries nothing", "choose another method")
        return Measured(**json.loads(done.stdout))
    finally:
        far.kill()
        far.communicate()


def _made(rate: float, round_trip: float, methods: tuple[str, ...]) -> Link:
    """The first that can be made."""
    reasons: list[str] = []
    for method in methods:
        if method == "relay":
            return RelayedLink(rate, round_trip, "; ".join(reasons))
        try:
            return NamespaceLink(rate, round_trip, method, "; ".join(reasons))
        except OSError as error:
            reasons.append(f"{method}: {error}")
    raise ConfigError(f"this machine offers no such link ({'; '.join(reasons)})", f"one of {', '.join(METHODS)}")


@dataclass
class RelayedLink:
    """All roles on 127.0.0.1; members dial a relay."""

    rate: float
    round_trip: float
    instead: str = ""
    method: str = "relay"
    _relays: dict[int, Relay] = field(default_factory=dict)

    @property
    def host(self) -> str:
        return LOOPBACK

    def before(self, role: str) -> tuple[str, ...]:
        return ()

    def from_members(self, port: int) -> str:
        if port not in self._relays:
            self._relays[port] = Relay((LOOPBACK, port), self.rate, self.round_trip)
        return self._relays[port].address

    def from_here(self, port: int) -> str:
        return self.from_members(port)

    def close(self) -> None:
        for relay in self._relays.values():
            relay.close()


class NamespaceLink:
    """The CSP in one network namespace, members in another, and a process that holds both."""

    def __init__(self, rate: float, round_trip: float, method: str, instead: str = "") -> None:
        self.rate, self.round_trip, self.method, self.instead = rate, round_trip, method, instead
        self._control, theirs = socket.socketpair()
        command = [sys.executable, "-m", "fedsvd_lab.network.namespaces", str(theirs.fileno()), method]
        self._holder = subprocess.Popen([*command, str(rate), str(round_trip)], pass_fds=[theirs.fileno()])
        theirs.close()
        self._asking = threading.Lock()
        self._entries: dict[int, _Entry] = {}
        line = b""
        while not line.endswith(b"\n") and (more := self._control.recv(1)):
            line += more
        made = json.loads(line or b'{"error": "no namespaces"}')
        if "error" in made:
            self.close()
            raise OSError(made["error"])
        self._made = made

    @property
    def host(self) -> str:
        return FAR

    def before(self, role: str) -> tuple[str, ...]:
        place = Path("/proc") / str(self._made["far" if role.startswith("csp") else "near"]) / "ns"
        user = (f"--user={place / 'user'}", "--preserve-credentials") if self._made["user"] else ()
        return ("nsenter", *user, f"--net={place / 'net'}", "--")

    def from_members(self, port: int) -> str:
        return f"{FAR}:{port}"

    def from_here(self, port: int) -> str:
        """An entry point on 127.0.0.1 whose other side is in the members' namespace: we go over the link as they do."""
        if port not in self._entries:
            self._entries[port] = _Entry(lambda: self._dial(port))
        return self._entries[port].address

    def _dial(self, port: int) -> socket.socket:
        with self._asking:
            self._control.sendall(struct.pack("<I", port))
            _, found, _, _ = socket.recv_fds(self._control, 1, 1)
        dialled = socket.socket(fileno=found[0])
        dialled.setblocking(True)
        select.select([], [dialled], [], _LONGEST)
        return dialled

    def close(self) -> None:
        for entry in self._entries.values():
            entry.close()
        self._control.close()
        self._holder.wait()


class _Entry:
    """Connections to 127.0.0.1 go on over sockets that were made elsewhere."""

    def __init__(self, dial: Callable[[], socket.socket]) -> None:
        self._dial = dial
        self._server = socket.create_server((LOOPBACK, 0))
        self.address = f"{LOOPBACK}:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True, name="entry").start()

    def close(self) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True, name="entry").start()

    def _serve(self, near: socket.socket) -> None:
        with near, suppress(OSError), self._dial() as far:
            back = threading.Thread(target=_pump, args=(far, near), daemon=True, name="entry")
            back.start()
            _pump(near, far)
            back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
