"""Calls to the CSP over several TLS connections, repeated until they get through.

One connection cannot fill a fast path with a long delay, so calls go over several, each over the one with least to do.
Every call may be repeated; how, and for how long, is in ``repeat.py``.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import grpc

from fedsvd.errors import PeerLost
from fedsvd.transport.calls import ASK, DIALLING_OPTIONS, METHODS
from fedsvd.transport.repeat import Landed, Repeating
from fedsvd.wire.frame import FRAME

T = TypeVar("T")

_MOST_CALLS = 2  # at once, over each connection
_LONGEST_CALL = 60.0
_LONGEST_QUESTION = 20.0


@dataclass(frozen=True, repr=False)
class Dialling:
    """How to reach the CSP: address, our PEM key and certificate, the federation's CA."""

    address: str
    key: bytes
    certificate: bytes
    ca: bytes
    channels: int = 4
    patience: float = 120.0
    frame: int = FRAME
    held: int = 64 << 20  # bytes queued before ``send`` waits, and heard before no more are fetched


class Line:
    """Connections to the CSP."""

    def __init__(self, dialling: Dialling) -> None:
        self._patience = dialling.patience
        self._stopped = threading.Event()
        credentials = grpc.ssl_channel_credentials(dialling.ca, dialling.key, dialling.certificate)
        self._channels = [
            grpc.secure_channel(dialling.address, credentials, DIALLING_OPTIONS) for _ in range(dialling.channels)
        ]
        self._methods = [{name: channel.unary_unary(name) for name in METHODS} for channel in self._channels]
        self._busy = [0] * dialling.channels  # calls on their way
        self._lock = threading.Lock()

    def call(self, method: str, body: bytes, patience: float | None = None) -> bytes:
        """The answer to one call."""
        ((_, answer),) = self.stream(method, [body], lambda it: it, patience)
        return answer

    def stream(
        self, method: str, items: Iterable[T], body: Callable[[T], bytes], patience: float | None = None
    ) -> Iterator[tuple[T, bytes]]:
        """Every item with the answer to its call, as answers come in; a few calls are on their way at any time."""
        patience = self._patience if patience is None else patience
        # Twice within our patience, so that a call that is stuck is tried over another connection before we give up.
        timeout = max(min(_LONGEST_CALL, patience / 2), _LONGEST_QUESTION if method == ASK else 0.0)

        def attempt(body: bytes, failed_on: int) -> Landed:
            return self._attempt(method, body, failed_on, timeout)

        window = range(len(self._channels), _MOST_CALLS * len(self._channels) + 1)
        return Repeating(attempt, body, self.pause, patience, window).run(items)

    def _attempt(self, method: str, body: bytes, failed_on: int, timeout: float) -> Landed:
        """One call, not over the connection that it failed on before if there are others."""
        with self._lock:
            usable = [which for which in range(len(self._busy)) if which != failed_on] or [failed_on]
            channel = min(usable, key=self._busy.__getitem__)
            self._busy[channel] += 1
        try:
            self.expect_up()
            answer: bytes = self._methods[channel][method](body, timeout=timeout)
            return Landed(channel, grpc.StatusCode.OK, answer)
        except grpc.RpcError as error:
            self.expect_up()
            return Landed(channel, error.code(), text=str(error.details() or ""))
        except ValueError:  # the channel was closed a moment ago
            raise _hung_up() from None
        finally:
            with self._lock:
                self._busy[channel] -= 1

    @property
    def closed(self) -> bool:
        return self._stopped.is_set()

    def expect_up(self) -> None:
        if self.closed:
            raise _hung_up()

    def pause(self, seconds: float) -> None:
        """Wait, but not beyond the end of the line."""
        self._stopped.wait(seconds)
        self.expect_up()

    def close(self) -> None:
        """Hang up; calls on their way are given up."""
        self._stopped.set()
        for channel in self._channels:
            channel.close()


def _hung_up() -> PeerLost:
    return PeerLost("the line was hung up")
