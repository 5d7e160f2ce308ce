"""A slow line within this process: a TCP relay that carries bytes at a rate and with a delay.

All connections share the line, each direction its own. It stands in where the kernel offers nothing better. Both TCP
connections are short, so what TCP itself does over a long line (slow start, loss) is not seen; that a connection takes
one round trip to open is.
"""

import queue
import socket
import threading
from contextlib import suppress
from time import monotonic, sleep

from fedsvd_lab.network.shaper import Shaper

_CHUNK = 1 << 14
_HOST = "127.0.0.1"

_MOST_CARRIED = 1024  # chunks on their way to one who does not read

Carried = queue.Queue[tuple[float, bytes]]


class Relay:
    """Listens at ``address`` and carries to ``target`` until it is closed."""

    def __init__(self, target: tuple[str, int], rate: float, round_trip: float) -> None:
        self._target = target
        self._round_trip = round_trip
        self._lines = Shaper(rate, round_trip / 2), Shaper(rate, round_trip / 2)  # towards the target, and back
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._server = socket.create_server((_HOST, 0))
        self.address = f"{_HOST}:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True, name="relay").start()

    def close(self) -> None:
        """Every connection breaks."""
        for end in (self._server, *self._open):
            # A thread that waits in ``accept`` or ``recv`` is not woken by ``close`` alone.
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True, name="relay").start()

    def _serve(self, near: socket.socket) -> None:
        sleep(self._round_trip)  # the first packet goes there and back before anything is said
        try:
            far = socket.create_connection(self._target)
        except OSError:
            near.close()
            return
        ends = near, far
        self._open.update(ends)
        for end in ends:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ways = [(near, far, self._lines[0]), (far, near, self._lines[1])]
        threads = [threading.Thread(target=self._carry, args=way, daemon=True, name="relay") for way in ways]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._open.difference_update(ends)
        for end in ends:
            end.close()

    def _carry(self, source: socket.socket, sink: socket.socket, line: Shaper) -> None:
        """Take in what comes as long as the line's queue has space for it; deliver when it is due."""
        carried: Carried = queue.Queue(_MOST_CARRIED)
        deliver = threading.Thread(target=_deliver, args=(carried, source, sink), daemon=True, name="relay")
        deliver.start()
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                with self._lock:
                    due, wait = line.admit(len(data), monotonic()), line.wait_for_space(monotonic())
                carried.put((due, data))
                sleep(wait)
        carried.put((monotonic() + line.delay, b""))
        deliver.join()


def _deliver(carried: Carried, source: socket.socket, sink: socket.socket) -> None:
    data, broken = b"", False
    while True:
        due, data = carried.get()
        if broken and data:
            continue  # the other thread must not wait for space in a queue that no one empties
        sleep(max(due - monotonic(), 0.0))
        try:
            if not data:
                sink.shutdown(socket.SHUT_WR)
                return
            sink.sendall(data)
        except OSError:
            if not data:
                return
            broken = True
            with suppress(OSError):
                source.shutdown(socket.SHUT_RD)
