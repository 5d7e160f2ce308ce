"""What a link truly does: its rate each way and its round trip, by two processes at its ends that talk plain TCP.

``python -m fedsvd_lab.network.probe listen HOST`` says its port and serves every caller; ``... dial HOST:PORT S`` says
what it has measured in S seconds, over several connections, since one alone may not fill a long line.
"""

import json
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

_PINGS = 8
_CONNECTIONS = 4
_CHUNK = 1 << 16
Place = tuple[str, int]
Window = tuple[float, float]  # on the clock, without TCP's first moments
_WARM_UP = 0.3  # of the time, which is TCP's to find the rate


def listen(host: str) -> None:
    """Serve every caller: echo, take in, or give out; until our parent kills us."""
    with socket.create_server((host, 0)) as server:
        print(server.getsockname()[1], flush=True)  # noqa: T201
        while True:
            caller, _ = server.accept()
            threading.Thread(target=_serve, args=(caller,), daemon=True).start()


def dial(address: str, seconds: float) -> dict[str, float]:
    """The shortest of a few round trips, and bit/s each way over the later part of so many seconds."""
    host, _, port = address.rpartition(":")
    place = host, int(port)
    return {
        "round_trip": _pinged(place),
        "rate_up": _several(lambda window: _sent(place, window), seconds),
        "rate_down": _several(lambda window: _heard(place, window), seconds),
    }


def _pinged(place: Place) -> float:
    with _called(place, {"do": "echo"}) as line:
        times = []
        for _ in range(_PINGS):
            started = monotonic()
            line.sendall(b"x")
            line.recv(1)
            times.append(monotonic() - started)
    return min(times)


def _sent(place: Place, window: Window) -> float:
    with _called(place, {"do": "take", "window": window}) as line:
        _give(line, window)
        return float(json.loads(line.recv(1000)))


def _heard(place: Place, window: Window) -> float:
    with _called(place, {"do": "give", "window": window}) as line:
        return _take(line, window)


def _several(carried: Callable[[Window], float], seconds: float) -> float:
    """Bit/s that the connections carry together, within one window of time."""
    # Both ends are on one machine, whose processes share this clock.
    now = monotonic()
    window = now + _WARM_UP * seconds, now + seconds
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        heard = sum(pool.map(carried, [window] * _CONNECTIONS))
    return 8 * heard / (window[1] - window[0])


def _serve(caller: socket.socket) -> None:
    with caller:
        _answer(caller)


def _answer(caller: socket.socket) -> None:
    caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    asked: dict[str, Any] = json.loads(caller.recv(1000))
    caller.sendall(b"!")
    if asked["do"] == "echo":
        while said := caller.recv(_CHUNK):
            caller.sendall(said)
    elif asked["do"] == "take":
        caller.sendall(json.dumps(_take(caller, asked["window"])).encode())
    else:
        _give(caller, asked["window"])


def _called(place: Place, what: dict[str, Any]) -> socket.socket:
    line = socket.create_connection(place, timeout=60.0)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line.sendall(json.dumps(what).encode())
    line.recv(1)
    return line


def _give(line: socket.socket, window: Window) -> None:
    nothing = bytes(_CHUNK)
    while monotonic() < window[1]:
        line.sendall(nothing)
    line.shutdown(socket.SHUT_WR)


def _take(line: socket.socket, window: Window) -> float:
    """Bytes within the window: what is heard, not what was handed to the kernel."""
    place, heard = memoryview(bytearray(_CHUNK)), 0.0
    while came := line.recv_into(place):
        if window[0] <= monotonic() < window[1]:
            heard += came
    return heard


if __name__ == "__main__":
    if sys.argv[1] == "listen":
        listen(sys.argv[2])
    else:
        print(json.dumps(dial(sys.argv[2], float(sys.argv[3]))))  # noqa: T201
