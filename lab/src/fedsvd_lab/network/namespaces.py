"""Two network namespaces with one slow link between them: real TCP over a real delay, and nothing on this machine's
own network is touched.

This is a program of its own: the namespaces last as long as it runs, and it runs as long as its parent holds the other
end of its control socket. Members live in the near namespace, the CSP in the far one. Where the kernel has netem, a
pair of veth devices is shaped by it; else packets go through two TUN devices and are carried here, in Python. Who is
not root gets a user namespace as well.

Control: one line of JSON says what was made or why not; then every request is a port, and its answer a socket that is
being connected to that port at the far end.
"""

import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections import deque
from contextlib import suppress
from time import monotonic

from fedsvd_lab.network.shaper import Shaper

NEAR, FAR = "10.77.0.1", "10.77.0.2"  # seen by no one outside the two namespaces
_MASK = "255.255.255.252"
_DEVICE = "fedsvd0"
_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_SET_FLAGS, _SET_ADDRESS, _SET_MASK, _SET_MTU = 0x8914, 0x8916, 0x891C, 0x8922
_SET_TUN, _TUN_WITHOUT_HEADER = 0x400454CA, 0x1001
_UP = 0x1 | 0x40
_BURST = 64  # packets taken from one side before the other is looked after


def main(control: socket.socket, method: str, rate: float, round_trip: float) -> None:
    """Make the link, say so, and hold it until the control socket closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        in_user = _unshare()
        child, far_end = _far_namespace()
        if method == "netem":
            _netem(child, rate, round_trip)
            ends = None
        else:
            mtu = packet_size(rate)
            far_end.sendall(struct.pack("<I", mtu))
            ends = _tun(NEAR, mtu), _received(far_end)
    except OSError as error:
        control.sendall(json.dumps({"error": str(error)}).encode() + b"\n")
        return
    made = {"near": os.getpid(), "far": child, "user": in_user}
    control.sendall(json.dumps(made).encode() + b"\n")
    _carry(control, ends, (Shaper(rate, round_trip / 2), Shaper(rate, round_trip / 2)))


def packet_size(rate: float) -> int:
    """The MTU: as on the Internet while Python can carry so many packets, jumbo frames beyond."""
    return 1500 if rate <= 200e6 else 9000


# --- making it --------------------------------------------------------------------------------------------------------


def _unshare() -> bool:
    """Enter a network namespace of our own; whether it took a user namespace."""
    user, group = os.getuid(), os.getgid()
    try:
        _call("unshare", _NEW_NET)
        in_user = False
    except OSError:
        _call("unshare", _NEW_USER | _NEW_NET)
        in_user = True
        for file, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            with open(f"/proc/self/{file}", "w") as written:
                written.write(text)
    _up("lo")
    return in_user


def _far_namespace() -> tuple[int, socket.socket]:
    """A child in a second namespace; it makes its end of a TUN pair when it receives the MTU, and dies with us."""
    ours, theirs = socket.socketpair()
    ready = ctypes.CDLL(None)
    child = os.fork()
    if child:
        theirs.close()
        if ours.recv(1) != b"r":
            raise OSError(errno.EPERM, "no second network namespace")
        return child, ours
    ours.close()
    try:
        ready.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: the namespace goes when the first one does
        _call("unshare", _NEW_NET)
        _up("lo")
        theirs.sendall(b"r")
        size = theirs.recv(4)
        if len(size) == 4:
            tun = _tun(FAR, struct.unpack("<I", size)[0])
            socket.send_fds(theirs, [b"t"], [tun])
            theirs.recv(1)
    finally:
        os._exit(0)


def _received(far_end: socket.socket) -> int:
    """The far namespace's TUN device."""
    _, found, _, _ = socket.recv_fds(far_end, 1, 1)
    if not found:
        raise OSError(errno.ENODEV, "no TUN device in the second namespace")
    return found[0]


def _tun(address: str, mtu: int) -> int:
    """A TUN device with this address, up; the file through which its packets are read and written."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _SET_TUN, struct.pack("16sH22x", _DEVICE.encode(), _TUN_WITHOUT_HEADER))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for what, value in ((_SET_ADDRESS, address), (_SET_MASK, _MASK)):
            place = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(value))
            fcntl.ioctl(any_socket, what, struct.pack("16s16s8x", _DEVICE.encode(), place))
        fcntl.ioctl(any_socket, _SET_MTU, struct.pack("16si20x", _DEVICE.encode(), mtu))
    _up(_DEVICE)
    return device


def _netem(child: int, rate: float, round_trip: float) -> None:
    """A veth pair into the child's namespace, shaped by the kernel at both ends; needs ``ip`` and ``tc``."""
    queue = Shaper(rate, round_trip / 2).queue + round(rate / 8 * round_trip)  # netem's own holds what is delayed, too
    shape = f"netem delay {round(round_trip * 5e5)}us rate {round(rate)}bit limit {queue // 1500 + 64}"
    there = f"nsenter --net=/proc/{child}/ns/net "
    for command in (
        f"tc qdisc add dev lo root {shape}",  # where netem is missing, nothing was made yet
        "tc qdisc del dev lo root",
        f"ip link add {_DEVICE} type veth peer name {_DEVICE} netns {child}",
        f"ip addr add {NEAR}/30 dev {_DEVICE}",
        f"ip link set {_DEVICE} up",
        f"{there}ip addr add {FAR}/30 dev {_DEVICE}",
        f"{there}ip link set {_DEVICE} up",
        f"tc qdisc add dev {_DEVICE} root {shape}",
        f"{there}tc qdisc add dev {_DEVICE} root {shape}",
    ):
        done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(errno.ENOTSUP, f"{command.split()[0]}: {done.stderr.strip()}")


def _up(device: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH22x", device.encode(), _UP))


def _call(function: str, *values: int) -> None:
    """A system call that Python 3.11 does not have yet."""
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, function)(*values):
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")


# --- holding it -------------------------------------------------------------------------------------------------------


class _Way:
    """Packets on their way in one direction: what comes out first went in first."""

    def __init__(self, source: int, sink: int, line: Shaper) -> None:
        self.source = source
        self._sink = sink
        self._line = line
        self._size = 65536
        self._coming: deque[tuple[float, bytes]] = deque()

    def take(self) -> None:
        """Packets that wait to be read; those for which the queue has no space are lost."""
        with suppress(BlockingIOError):
            for _ in range(_BURST):
                packet = os.read(self.source, self._size)
                due = self._line.offer(len(packet), monotonic())
                if due is not None:
                    self._coming.append((due, packet))

    def deliver(self) -> float | None:
        """Hand on what is due; seconds until the next is."""
        while self._coming:
            due, packet = self._coming[0]
            left = due - monotonic()
            if left > 0:
                return left
            self._coming.popleft()
            with suppress(OSError):  # a device that takes nothing now loses it, as devices do
                os.write(self._sink, packet)
        return None


def _carry(control: socket.socket, ends: tuple[int, int] | None, lines: tuple[Shaper, Shaper]) -> None:
    """Carry packets, if the kernel does not, and answer requests, until the parent is gone."""
    ways = [_Way(ends[0], ends[1], lines[0]), _Way(ends[1], ends[0], lines[1])] if ends else []
    while True:
        waits = [wait for way in ways if (wait := way.deliver()) is not None]
        watched = [control.fileno(), *(way.source for way in ways)]
        ready, _, _ = select.select(watched, [], [], min(waits, default=None))
        for way in ways:
            if way.source in ready:
                way.take()
        if watched[0] in ready and not _answer(control):
            return


def _answer(control: socket.socket) -> bool:
    """A socket of the near namespace, on its way to a port at the far end; False when no one asks any more."""
    request = control.recv(4)
    if len(request) < 4:
        return False
    with socket.socket() as dialled:
        dialled.setblocking(False)  # the caller waits for it; we have packets to carry
        with suppress(BlockingIOError):
            dialled.connect((FAR, struct.unpack("<I", request)[0]))
        socket.send_fds(control, [b"s"], [dialled.fileno()])
    return True


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
