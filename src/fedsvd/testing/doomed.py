"""A role that dies by its own hand, with SIGKILL, when it hears something in a state of one's choice.

For chaos tests: ``python -m fedsvd.testing.doomed STATE ROLE --kit DIR ...`` serves a kit like ``fedsvd ROLE start``,
until the moment comes. No flush, no goodbye: what is on disk then is all that a restart can know.
"""

import argparse
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from fedsvd.identity.names import KitRole
from fedsvd.protocol.effects import Effect
from fedsvd.protocol.machine import Machine
from fedsvd.protocol.messages import Message
from fedsvd.protocol.parties import Party
from fedsvd.runtime.service import serve
from fedsvd.runtime.site import Site


def doom(state: str) -> None:
    """From now on, every machine of this process is fatal in this state."""
    receive: Callable[[Machine, Party, Message], tuple[Effect, ...]] = Machine.receive

    def fatal(machine: Machine, sender: Party, message: Message) -> tuple[Effect, ...]:
        if machine.state.name == state:
            os.kill(os.getpid(), signal.SIGKILL)
        return receive(machine, sender, message)

    Machine.receive = fatal  # type: ignore[method-assign, assignment]


def main() -> None:
    """Serve a kit until the state is reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("state")
    parser.add_argument("role", choices=list(KitRole))
    parser.add_argument("--kit", type=Path, required=True)
    parser.add_argument("--listen")
    parser.add_argument("--csp")
    parser.add_argument("--patience", type=float, default=120.0)
    asked = parser.parse_args()
    doom(asked.state)
    site = Site.at(asked.kit, yes=True)
    stop = threading.Event()
    serve(
        site,
        KitRole(asked.role),
        stop,
        lambda facts: None,
        listen=asked.listen,
        csp=asked.csp,
        patience=asked.patience,
    )


if __name__ == "__main__":
    main()
