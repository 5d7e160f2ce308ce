"""Proxies between a member and the CSP that misbehave as networks do: they cut, stall, half-close, delay, refuse."""

import os
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic, sleep


def accepting(server: socket.socket, serve: Callable[[socket.socket], None]) -> None:
    """A thread for each connection, until the server is closed."""

    def loop() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=loop, daemon=True).start()


def stop_accepting(server: socket.socket) -> None:
    # A thread that waits in ``accept`` would keep the port alive.
    with suppress(OSError):
        server.shutdown(socket.SHUT_RDWR)
    server.close()


_THIN = 4096  # bytes in a receive buffer of a thin line
_PACKET = 512


class _Line:
    """A line of so many bytes a second, that all connections of a proxy share."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._free = 0.0  # when the line is free again
        self._lock = threading.Lock()

    def carry(self, size: int) -> None:
        """Wait until these bytes are through."""
        with self._lock:
            self._free = max(self._free, monotonic()) + size / self._rate
            wait = self._free - monotonic()
        sleep(max(0.0, wait))


class Proxy:
    """Forwards bytes between members and the CSP, as long and as well as a test wants."""

    def __init__(self, port: int, rate: float | None = None) -> None:
        self._target = ("127.0.0.1", port)
        self._server = socket.create_server(("127.0.0.1", 0))
        self._lines = (_Line(rate), _Line(rate)) if rate else None  # down and up, of all connections together
        if rate:
            self._server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _THIN)  # what is sent stays at the sender
        self.port = self._server.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.connections = 0
        self.carried = 0  # bytes towards the CSP
        self.flows = threading.Event()  # cleared: connections stay up and carry nothing
        self.flows.set()
        self.refuses = False
        self.delay = 0.0
        self._cut_at: int | None = None
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        accepting(self._server, self._serve)

    def cut(self) -> None:
        """Every connection breaks, without a farewell."""
        for pair in list(self._pairs):
            for end in pair:
                # A reset, not an orderly end.
                with suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
        self._pairs.clear()

    def cut_after(self, more: int) -> None:
        """Every connection breaks once this many more bytes were carried towards the CSP."""
        self._cut_at = self.carried + more

    def half_close(self) -> None:
        """Both ends are told that the other says nothing more, and stay open."""
        for pair in list(self._pairs):
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        stop_accepting(self._server)
        self.flows.set()
        self.cut()

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self, near: socket.socket) -> None:
        self.connections += 1
        if self.refuses:
            near.close()
            return
        try:
            far = self._connected()
        except OSError:
            near.close()
            return
        self._pairs.add((near, far))
        down = threading.Thread(target=self._pump, args=(far, near, False), daemon=True)
        down.start()
        self._pump(near, far, True)
        down.join()
        self._pairs.discard((near, far))
        near.close()
        far.close()

    def _connected(self) -> socket.socket:
        far = socket.socket()
        if self._lines:
            far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _THIN)
        far.connect(self._target)
        return far

    def _pump(self, source: socket.socket, sink: socket.socket, up: bool) -> None:
        with suppress(OSError):
            while data := source.recv(_PACKET if self._lines else 1 << 16):
                self.flows.wait()
                sleep(self.delay)
                if self._lines:
                    self._lines[up].carry(len(data))
                sink.sendall(data)
                self.carried += len(data) * up
                if self._cut_at is not None and self.carried >= self._cut_at:
                    self._cut_at = None
                    self.cut()
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


class ConnectProxy:
    """An HTTP proxy that knows CONNECT and nothing else; remembers what it was asked for."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self.asked: list[str] = []
        accepting(self._server, self._serve)

    def close(self) -> None:
        stop_accepting(self._server)

    def __enter__(self) -> "ConnectProxy":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self, near: socket.socket) -> None:
        with near, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                head += near.recv(4096)
            method, target, _ = head.split(b"\r\n")[0].decode().split(" ")
            self.asked.append(f"{method} {target}")
            host, _, port = target.rpartition(":")
            with socket.create_connection((host, int(port))) as far:
                near.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                self._forward(near, far)

    def _forward(self, near: socket.socket, far: socket.socket) -> None:
        other = {near: far, far: near}
        while True:
            for ready in select.select([near, far], [], [])[0]:
                data = ready.recv(1 << 16)
                if not data:
                    return
                other[ready].sendall(data)


def proxied_environment(url: str) -> dict[str, str]:
    """This process's environment, with a proxy for everything."""
    clean = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    return {**clean, "https_proxy": url, "GRPC_VERBOSITY": "NONE"}
