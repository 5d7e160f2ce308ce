"""A role that misbehaves on cue, in a process of its own, for chaos tests.

``python -m fedsvd.testing.unruly FAULT ROLE --kit DIR ...`` serves a kit like ``fedsvd ROLE start``, with one fault:

    dies:STATE      SIGKILL to itself when it receives something in this state: nothing is flushed or announced
    dies-after:STAGE the same when it has ended this stage of a job; the CSP: when all members have
    fills:BYTES     no file of its grows beyond so many bytes, as on a full disk
    stutters        every call is made twice, late and out of order, in the smallest frames
    plans-otherwise it takes part under a plan that no one agreed to
    clock:SECONDS   its clock is off by so much, for everything but TLS, which asks the system

Nothing here is reachable from the product: a fault must be asked for by name, in a command of its own.
"""

import argparse
import itertools
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from time import sleep
from typing import Any

from fedsvd.identity.names import KitRole
from fedsvd.protocol.machine import Effect, Machine
from fedsvd.protocol.messages import Message
from fedsvd.protocol.parties import Party
from fedsvd.protocol.plan import SessionPlan
from fedsvd.service import member_session
from fedsvd.service.client import CspClient
from fedsvd.service.jobs import Jobs
from fedsvd.service.records import Failure, JobRecord
from fedsvd.service.serve import serve
from fedsvd.service.site import Site
from fedsvd.transport.pinned_connection import Dialling, PinnedConnection
from fedsvd.transport.repeat import Landed
from fedsvd.wire.frame import SMALLEST_FRAME


def dies(state: str) -> None:
    """From now on, every machine of this process is fatal in this state."""
    receive: Callable[[Machine, Party, Message], tuple[Effect, ...]] = Machine.receive

    def fatal(machine: Machine, sender: Party, message: Message) -> tuple[Effect, ...]:
        if machine.state.name == state:
            os.kill(os.getpid(), signal.SIGKILL)
        return receive(machine, sender, message)

    Machine.receive = fatal  # type: ignore[method-assign, assignment]


def dies_after(stage: str) -> None:
    """From now on, the end of this stage is fatal: at a member once the CSP knows of it, at the CSP once all ended."""
    ended: Callable[..., JobRecord] = CspClient.ended
    end: Callable[..., tuple[JobRecord, bool]] = Jobs.end

    def fatal(client: CspClient, job: JobRecord, failure: Failure | None = None) -> JobRecord:
        found = ended(client, job, failure)
        if job.stage == stage and failure is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    def fatal_at_csp(jobs: Jobs, id: str, caller: str) -> tuple[JobRecord, bool]:
        before = jobs.get(id).stage
        found = end(jobs, id, caller)
        if before == stage and found[1]:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    CspClient.ended = fatal  # type: ignore[method-assign, assignment]
    Jobs.end = fatal_at_csp  # type: ignore[method-assign, assignment]


def fills(most: str) -> None:
    """From now on, the kernel refuses to let any file grow beyond so many bytes."""
    import resource  # not on every system

    resource.setrlimit(resource.RLIMIT_FSIZE, (int(most), int(most)))


def stutters(_: str = "") -> None:
    """From now on, every call is made twice, and some are late, so that those behind overtake them."""
    attempt, turn = PinnedConnection._attempt, itertools.count()
    made: Callable[..., Dialling] = Site.dialling

    def twice(line: PinnedConnection, method: str, body: bytes, failed_on: int, timeout: float) -> Landed:
        sleep(0.01 * (next(turn) % 3))
        attempt(line, method, body, failed_on, timeout)
        return attempt(line, method, body, failed_on, timeout)

    def in_small_frames(site: Site, *where: Any, **how: Any) -> Dialling:
        return replace(made(site, *where, **how), frame=SMALLEST_FRAME)

    PinnedConnection._attempt = twice  # type: ignore[method-assign, assignment]
    Site.dialling = in_small_frames  # type: ignore[method-assign, assignment]


def plans_otherwise(_: str = "") -> None:
    """From now on, a member agrees to every plan and plays another."""
    agreed: Callable[[JobRecord], SessionPlan] = vars(member_session)["expect_same_plan"]

    def other(record: JobRecord) -> SessionPlan:
        plan = agreed(record)
        return replace(plan, memory=2 * plan.memory)

    vars(member_session)["expect_same_plan"] = other


def clock(seconds: str) -> None:
    """From now on, it is so much later, or earlier, wherever fedsvd looks at the clock."""

    class Shifted(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "Shifted":
            return super().now(tz) + timedelta(seconds=float(seconds))

    for name, module in list(sys.modules.items()):
        if name.startswith("fedsvd.") and vars(module).get("datetime") is datetime:
            module.datetime = Shifted  # type: ignore[attr-defined]


FAULTS: dict[str, Callable[[str], None]] = {
    "dies": dies,
    "dies-after": dies_after,
    "fills": fills,
    "stutters": stutters,
    "plans-otherwise": plans_otherwise,
    "clock": clock,
}


def main() -> None:
    """Serve a kit with a fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fault")
    parser.add_argument("role", choices=list(KitRole))
    parser.add_argument("--kit", type=Path, required=True)
    parser.add_argument("--listen")
    parser.add_argument("--csp")
    parser.add_argument("--patience", type=float, default=120.0)
    asked = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    fault, _, value = asked.fault.partition(":")
    FAULTS[fault](value)
    where = {"listen": asked.listen, "csp": asked.csp, "patience": asked.patience}
    serve(Site.at(asked.kit, yes=True), KitRole(asked.role), threading.Event(), lambda facts: None, **where)


if __name__ == "__main__":
    main()
