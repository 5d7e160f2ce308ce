"""SIGTERM and SIGINT set an event, whichever thread the system gives them to, and the end comes in bounded time.

A signal handler of Python's runs in the main thread alone, when that thread comes back to Python. The system may give
the signal to any other thread, and does so under load; a main thread that waits for a lock is then not woken, and would
wait for ever. Therefore it is the byte which the signal leaves in a socket that counts, and a thread of its own that
reads it. Setting the event there also avoids a handler that takes a lock that the thread it interrupts is holding.

That is for services. A command that is interrupted says what it has written and what not (``Interrupted``).
"""

import faulthandler
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

HEEDED = (signal.SIGTERM, signal.SIGINT)
LONGEST_END = 45.0  # seconds; roles take less, and a supervisor should allow more


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with what the command leaves behind."""


@contextmanager
def if_interrupted(left: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C in this block ends the command with the text that ``left`` then has of what was written or discarded."""
    try:
        yield
    except Interrupted:
        raise
    except KeyboardInterrupt:
        raise Interrupted(left()) from None


def heed_signals(stop: threading.Event) -> None:
    """From now on SIGTERM and SIGINT set ``stop``; a second one ends the process at once."""
    near, far = socket.socketpair()
    far.setblocking(False)
    signal.set_wakeup_fd(far.detach(), warn_on_full_buffer=False)
    for number in HEEDED:
        signal.signal(number, _heard)
    threading.Thread(target=_listen, args=(near, stop), daemon=True, name="signals").start()


def end_in_time() -> None:
    """The process is gone in ``LONGEST_END`` seconds whatever it hangs in; where it hangs is written to stderr."""
    faulthandler.dump_traceback_later(LONGEST_END, exit=True)


def _listen(near: socket.socket, stop: threading.Event) -> None:
    while True:
        for number in near.recv(16):
            if number not in HEEDED:
                continue
            if stop.is_set():  # asked twice: the person means now
                os._exit(128 + number)
            end_in_time()
            stop.set()


def _heard(number: int, frame: FrameType | None) -> None:
    """Nothing: that there is a handler makes the system leave its byte in the socket."""
