"""The connections of all callers: how many each may have, and from whom nothing has come for a while.

A caller is known by its first call. One that has more connections than its share loses those that were silent longest;
so do ends that have not called yet, when they are many or old: idle connections cannot take all descriptors.

gRPC pings a connection on which nothing comes, and the other end answers from threads of its own, whatever its process
computes. A process that stands still answers nothing, on any of its connections. A thin line carries a byte every few
seconds all the same.

The other ends of connections, and how long each has said nothing, gRPC does not show, and it closes no connection on
request. The kernel knows both, and a process may look at its own descriptors (``connections_to``). What is read there
changes nothing; ``hang_up`` ends a connection as a cut line does, and gRPC cleans up. Linux only: elsewhere nothing is
known, and the callers of this do without.
"""

import ipaddress
import os
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from urllib.parse import unquote

_DESCRIPTORS = "/proc/self/fd"
_LAST_DATA_RECV = 52  # where this field of the kernel's struct tcp_info is; it counts milliseconds
_U32 = struct.Struct("=I")

End = tuple[str, int]  # address and port of the other end


@dataclass(frozen=True)
class Connection:
    """One connection to a port of ours."""

    descriptor: int
    end: End
    silent: float  # seconds since a byte came


def connections_to(port: int) -> list[Connection] | None:
    """All connections that callers have to this port of this process; None where the system does not say."""
    if not hasattr(socket, "TCP_INFO"):
        return None
    try:
        descriptors = [int(name) for name in os.listdir(_DESCRIPTORS)]
    except OSError:
        return None
    found = (_connection(descriptor, port) for descriptor in descriptors)
    return [connection for connection in found if connection is not None]


def hang_up(connection: Connection) -> None:
    """End a connection; nothing happens where it has ended already, and its descriptor is another's."""
    with suppress(OSError), socket.socket(fileno=os.dup(connection.descriptor)) as held:
        # Compared once the descriptor is ours: the number alone may have gone to another connection meanwhile.
        if _end(held.getpeername()) == connection.end:
            held.shutdown(socket.SHUT_RDWR)


def end_of(peer: str) -> End | None:
    """The other end of a call, from what gRPC calls its peer: ``ipv4:10.0.0.7:41234``, ``ipv6:%5B::1%5D:41234``."""
    kind, _, rest = peer.partition(":")
    host, _, port = unquote(rest).rpartition(":")
    if kind not in ("ipv4", "ipv6") or not port.isdecimal():
        return None
    return _end((host.strip("[]"), int(port)))


def _connection(descriptor: int, port: int) -> Connection | None:
    try:
        seen = socket.socket(fileno=descriptor)
    except OSError:  # a file, or closed since it was listed
        return None
    try:
        if seen.family not in (socket.AF_INET, socket.AF_INET6) or seen.type is not socket.SOCK_STREAM:
            return None
        if seen.getsockname()[1] != port:
            return None
        end = _end(seen.getpeername())  # raises for the socket that listens
        info = seen.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_DATA_RECV + _U32.size)
        if end is None or len(info) < _LAST_DATA_RECV + _U32.size:
            return None
        return Connection(descriptor, end, _U32.unpack_from(info, _LAST_DATA_RECV)[0] / 1000)
    except OSError:
        return None
    finally:
        seen.detach()  # gRPC closes it


def _end(name: tuple[str, int] | tuple[str, int, int, int]) -> End | None:
    try:
        address = ipaddress.ip_address(name[0].partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address), name[1]


Caller = str
OnExcess = Callable[[Caller, int], None]  # takes who begins to have too many connections, and how many were closed
NAMELESS: Caller = "ends that made no call"

EVERY = 0.5  # seconds between looks
_STALLED = 2.0  # seconds between two looks after which we stood still ourselves, and pinged no one
_QUIET = 4.0  # seconds without a byte, of which two are gRPC's before it pings: the answer is late
_NAMELESS = 20.0  # seconds in which an end must have made its first call
_LEAST = 16  # connections that each caller may have in any case
_UNLIMITED = 1 << 16


class Connections:
    """Who is at the other ends of one port; ``most`` connections in all, or 0 where nothing limits them."""

    def __init__(
        self,
        port: int,
        most: int = 0,
        on_excess: OnExcess = lambda caller, closed: None,
        listed: Callable[[int], list[Connection] | None] = connections_to,
        close: Callable[[Connection], None] = hang_up,
    ) -> None:
        most = most or _UNLIMITED
        self.of_one, self.nameless = max(_LEAST, most // 16), max(_LEAST, most // 4)
        self._port, self._on_excess, self._listed, self._close = port, on_excess, listed, close
        self._lock = threading.Lock()
        self._callers: dict[End, tuple[float, Caller]] = {}  # when the caller of a connection became known, and who
        self._first: dict[End, float] = {}  # when a connection was first seen
        self._heard: dict[Caller, float] = {}  # when a byte came over any connection of a caller
        self._over: set[Caller] = set()  # who had too many at the last look
        self._last_look = self._since = monotonic()  # of the looks since we last stood still ourselves
        self._stopped = threading.Event()

    def called(self, peer: str, caller: Caller) -> None:
        """A call has come from this end."""
        end = end_of(peer)
        if end is not None:
            with self._lock:
                now = monotonic()
                self._callers[end] = now, caller
                # Not at the next look only: one that was frozen and calls again would be missed until then.
                self._heard[caller] = now

    def quiet_since(self, caller: Caller) -> float | None:
        """When the last byte of a caller came, over any connection; None where that is not long ago, or not known."""
        with self._lock:
            heard = self._heard.get(caller)
            since = None if heard is None else max(heard, self._since)
            return since if since is not None and self._last_look - since > _QUIET else None

    def watch(self) -> None:
        """Look again and again, until stopped."""
        while not self._stopped.wait(EVERY):
            self.look()

    def stop(self) -> None:
        self._stopped.set()

    def look(self) -> None:
        """Look at all connections once, and close those that are too many."""
        now = monotonic()
        listed = self._listed(self._port)
        if listed is None:
            return
        with self._lock:
            if now - self._last_look > _STALLED:
                self._since = now
            self._last_look = now
            self._remember(listed, now)
            excess = dict(self._excess(listed, now))
        for caller, connections in excess.items():
            for connection in connections:
                self._close(connection)
            if caller not in self._over:
                self._on_excess(caller, len(connections))
        self._over = set(excess)

    def _remember(self, listed: list[Connection], now: float) -> None:
        ends = {connection.end for connection in listed}
        self._first = {end: self._first.get(end, now) for end in ends}
        # What became known since we listed may not be in the list, and is there all the same.
        self._callers = {end: known for end, known in self._callers.items() if end in ends or known[0] >= now}
        heard: dict[Caller, float] = {}
        for connection in listed:
            if connection.end in self._callers:
                caller = self._callers[connection.end][1]
                heard[caller] = max(heard.get(caller, 0.0), now - connection.silent)
        self._heard = heard

    def _excess(self, listed: list[Connection], now: float) -> Iterable[tuple[Caller, list[Connection]]]:
        """Connections that are too many, by caller."""
        of: dict[Caller, list[Connection]] = {}
        for connection in listed:
            of.setdefault(self._callers.get(connection.end, (0.0, NAMELESS))[1], []).append(connection)
        nameless = of.pop(NAMELESS, [])
        for caller, theirs in of.items():
            if len(theirs) > self.of_one:
                yield caller, sorted(theirs, key=lambda each: each.silent)[self.of_one :]
        # Of those, the address with most of them loses first: other addresses get through meanwhile.
        many = Counter(each.end[0] for each in nameless)
        nameless.sort(key=lambda each: (many[each.end[0]], now - self._first[each.end]))
        late = [each for each in nameless[: self.nameless] if now - self._first[each.end] > _NAMELESS]
        if going := nameless[self.nameless :] + late:
            yield NAMELESS, going
