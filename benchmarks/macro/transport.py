"""The transport against a bare TLS socket, over loopback between two processes: speed, and memory of a long upload.

Both carry the same bytes to the same place, from an array at one end to memory of its own at the other, with the same
certificates. The rival is Python's ``ssl`` module with nothing on top: no frames, no checksums, no acknowledgements.
"""

import multiprocessing
import socket
import ssl
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np

from benchmarks.measure import Row, in_turns
from fedsvd.identity.temporary import temporary_federation
from fedsvd.protocol.messages import BatchRequest, PaddedBatch
from fedsvd.protocol.parties import CSP, user
from fedsvd.randomness.entropy import fresh_bytes
from fedsvd.service.site import Site
from fedsvd.transport.grpc_client import Dialled
from fedsvd.transport.grpc_server import Exchange, SessionLinks
from fedsvd.types import Digest, SessionId

_PLAN = Digest("0" * 64)
_BATCH = (4096, 2048)  # 64 MiB
_MIB = 1 << 20
_BAR = 0.6


def rows() -> Iterator[Row]:
    """Every bar of this file, measured as it is asked for."""
    with _two_processes() as (kits, far):
        yield upload(kits, far)
        yield download(kits, far)
    with _two_processes() as (kits, far):
        yield from memory(kits, far)


def upload(kits: dict[str, Path], far: "Far", batches: int = 4) -> Row:
    """A party's batches to the CSP: at least 60 % of the bare socket's rate."""
    payload = _payload()
    with _dialled(kits, far) as end, _socket(kits, far) as bare:

        def ours() -> None:
            far.start("hear", batches)
            for number in range(batches):
                end.send(CSP, PaddedBatch(_PLAN, number, payload))
            far.done()

        def rival() -> None:
            far.start("read", batches, payload.nbytes)
            for _ in range(batches):
                bare.sendall(payload.data.cast("B"))
            far.done()

        return _rate("upload", batches * payload.nbytes, *in_turns(ours, rival, 12))


def download(kits: dict[str, Path], far: "Far", batches: int = 4) -> Row:
    """The CSP's answers to a party: at least 60 % of the bare socket's rate."""
    size = int(np.prod(_BATCH)) * 8
    with _dialled(kits, far) as end, _socket(kits, far) as bare:

        def ours() -> None:
            far.start("say", batches)
            for _ in range(batches):
                assert end.receive(60.0) is not None
            far.done()

        def rival() -> None:
            far.start("write", batches)
            for _ in range(batches):
                _read_whole(bare, size)
            far.done()

        return _rate("download", batches * size, *in_turns(ours, rival, 12))


def memory(kits: dict[str, Path], far: "Far", batches: int = 32) -> Iterator[Row]:
    """2 GiB to a CSP that reads slowly: what both ends hold stays within what they may hold."""
    batch = int(np.prod(_BATCH)) * 8
    with _dialled(kits, far) as end:
        before = _forget_peak()
        far.start("hear", batches, 0.4)
        for number in range(batches):
            end.send(CSP, PaddedBatch(_PLAN, number, _payload()))
        theirs = far.done()
        ours = _resident("VmHWM") - before
    # At the party: the batch that is being made, and one on its way besides those that are queued.
    yield _bounded("memory of a party, 2 GiB upload", ours, (64 << 20) + 2 * batch + 32 * _MIB)
    yield _bounded("memory of the CSP, 2 GiB upload", theirs, (256 << 20) + batch + 32 * _MIB)


def _payload() -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.frombuffer(fresh_bytes(8 * _BATCH[1]) * _BATCH[0], np.uint64).reshape(_BATCH)


def _rate(what: str, size: int, ours: float, rival: float) -> Row:
    mine, theirs = size / ours / 1e6, size / rival / 1e6
    name = f"{what} over loopback TLS, {size >> 20} MiB"
    return Row(name, mine, theirs, "bare TLS socket", f">= {_BAR:g}x", mine / theirs, mine / theirs >= _BAR, "MB/s")


def _bounded(name: str, held: int, allowed: int) -> Row:
    ratio = allowed / max(held, 1)
    return Row(name, held / _MIB, allowed / _MIB, "what it may hold", ">= 1x", ratio, ratio >= 1, "MiB")


def _resident(which: str) -> int:
    """``VmRSS``, what is resident now, or ``VmHWM``, the most that was since it was last forgotten."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(which))
    return 1024 * int(line.split()[1])


def _forget_peak() -> int:
    """What is resident now; the peak counts from here."""
    Path("/proc/self/clear_refs").write_text("5")
    return _resident("VmRSS")


# --- the other process ------------------------------------------------------------------------------------------------


class Far:
    """The CSP's process, as seen from here."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def ask(self, *what: Any) -> Any:
        self.start(*what)
        return self.done()

    def start(self, *what: Any) -> None:
        self._pipe.send(what)

    def done(self) -> Any:
        if not self._pipe.poll(300.0):
            raise TimeoutError("the other process does not answer")
        return self._pipe.recv()


class _Csp:
    """What the CSP's process does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        site = Site.at(folder)
        self._exchange = Exchange(site.listening("127.0.0.1:0"), site.authenticate, lambda caller, body: b"")
        self._exchange.start()
        self._links: SessionLinks | None = None
        self._bare: ssl.SSLSocket | None = None

    def serve(self, pipe: Connection) -> None:
        verbs = {
            "open": self._open,
            "accept": self._accept,
            "hear": self._hear,
            "say": self._say,
            "read": self._read,
            "write": self._write,
        }
        while (what := pipe.recv()) != ("stop",):
            verb, *values = what
            pipe.send(verbs[verb](*values))
        self._exchange.stop(0.0)

    def _open(self, session: SessionId) -> int:
        self._links = self._exchange.open(session, {"party/a": user(1)})
        return self._exchange.port

    def _accept(self) -> int:
        """A port at which one connection is waited for, in the background."""
        server = socket.create_server(("127.0.0.1", 0))

        def accept() -> None:
            with server:
                connection, _ = server.accept()
            self._bare = _context(self._folder, ssl.PROTOCOL_TLS_SERVER).wrap_socket(connection, server_side=True)

        threading.Thread(target=accept, daemon=True).start()
        return int(server.getsockname()[1])

    def _hear(self, batches: int, pause: float = 0.0) -> int:
        assert self._links is not None
        before = _forget_peak()
        for _ in range(batches):
            sleep(pause)
            assert self._links.receive(60.0) is not None
        return _resident("VmHWM") - before

    def _say(self, batches: int) -> None:
        assert self._links is not None
        payload = _payload()
        for number in range(batches):
            self._links.send(user(1), PaddedBatch(_PLAN, number, payload))
        self._links.drain(60.0)

    def _read(self, batches: int, size: int) -> None:
        assert self._bare is not None
        for _ in range(batches):
            _read_whole(self._bare, size)

    def _write(self, batches: int) -> None:
        assert self._bare is not None
        payload = _payload()
        for _ in range(batches):
            self._bare.sendall(payload.data.cast("B"))


def _serve(pipe: Connection, folder: Path) -> None:
    _Csp(folder).serve(pipe)


@contextmanager
def _two_processes() -> Iterator[tuple[dict[str, Path], Far]]:
    with tempfile.TemporaryDirectory() as folder:
        kits = temporary_federation(Path(folder), ["a"], now=datetime.now(UTC))
        spawn = multiprocessing.get_context("spawn")
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=_serve, args=(theirs, kits["csp/csp"]), daemon=True)
        process.start()
        try:
            yield kits, Far(ours)
            ours.send(("stop",))
            process.join(30.0)
        finally:
            process.kill()


@contextmanager
def _dialled(kits: dict[str, Path], far: Far) -> Iterator[Dialled]:
    session = SessionId(fresh_bytes(16).hex())
    port = far.ask("open", session)
    end = Dialled(Site.at(kits["party/a"]).dialling(f"127.0.0.1:{port}"), session)
    end.send(CSP, BatchRequest(_PLAN, 0))
    far.ask("hear", 1)
    try:
        yield end
    finally:
        end.close()


@contextmanager
def _socket(kits: dict[str, Path], far: Far) -> Iterator[ssl.SSLSocket]:
    port = far.ask("accept")
    context = _context(kits["party/a"], ssl.PROTOCOL_TLS_CLIENT)
    with context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="127.0.0.1") as bare:
        bare.do_handshake()
        far.ask("hear", 0)  # and the other end is there
        yield bare


def _context(kit: Path, side: int) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.load_cert_chain(kit / "certificate.pem", kit / "tls-key.pem")
    context.load_verify_locations(kit / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def _read_whole(bare: ssl.SSLSocket, size: int) -> None:
    """A message into memory of its own."""
    view = memoryview(np.empty(size, np.uint8))
    while view:
        view = view[bare.recv_into(view) :]
