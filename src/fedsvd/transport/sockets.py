"""What the kernel knows of this server's own connections: their other ends, and how long each has said nothing.

gRPC shows neither, and closes no connection on request. A process may look at its own descriptors, though. What is read
here changes nothing; ``hang_up`` ends a connection as a cut line does, and gRPC cleans up. Linux only: elsewhere
nothing is known, and the callers of this do without.
"""

import ipaddress
import os
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
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
        told = seen.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_DATA_RECV + _U32.size)
        if end is None or len(told) < _LAST_DATA_RECV + _U32.size:
            return None
        return Connection(descriptor, end, _U32.unpack_from(told, _LAST_DATA_RECV)[0] / 1000)
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
