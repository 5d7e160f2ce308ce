"""A role that misbehaves on cue, in a process of its own, for chaos tests.

``python -m fedsvd.testing.unruly FAULT ROLE --kit DIR ...`` serves a kit like ``fedsvd ROLE start``, with one fault:

    dies:STATE      SIGKILL to itself when something arrives, or was computed, in this state: nothing is announced
    dies-after:STAGE the same when it has ended this stage of a job; the CSP: when all members have
    dies-unsaid:N   the same when it has ended the job, before it says so; the CSP: before the N-th end is on its disk
    dies-planning   the CSP: when all members have enlisted, before a session is opened for them
    fills:BYTES     no file of its grows beyond BYTES, as on a full disk
    fills-ending:N  the same from the N-th end of a member on: the CSP can write nothing more
    stutters        every call is made twice, late and out of order, in the smallest frames
    enlists-slowly  it takes three seconds to open its data
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
from fedsvd.roles.service_provider.role import ServiceProvider
from fedsvd.service import member_session
from fedsvd.service.client import CspClient
from fedsvd.service.csp import CspNode
from fedsvd.service.jobs import Jobs
from fedsvd.service.member import Member
from fedsvd.service.records import Failure, JobRecord
from fedsvd.service.serve import serve
from fedsvd.service.site import Site
from fedsvd.transport.pinned_connection import Dialling, PinnedConnection
from fedsvd.transport.repeat import Landed
from fedsvd.types import SessionId
from fedsvd.wire.frame import SMALLEST_FRAME


def dies(state: str) -> None:
    """From now on, every machine of this process is fatal in this state."""
    receive: Callable[[Machine, Party, Message], tuple[Effect, ...]] = Machine.receive
    computed: Callable[[Machine, Any], tuple[Effect, ...]] = Machine.computed

    def die_in(machine: Machine) -> None:
        if machine.state.name == state:
            os.kill(os.getpid(), signal.SIGKILL)

    def fatal(machine: Machine, sender: Party, message: Message) -> tuple[Effect, ...]:
        die_in(machine)
        return receive(machine, sender, message)

    def fatal_value(machine: Machine, value: Any) -> tuple[Effect, ...]:
        die_in(machine)
        return computed(machine, value)

    Machine.receive = fatal  # type: ignore[method-assign, assignment]
    Machine.computed = fatal_value  # type: ignore[method-assign, assignment]


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


def dies_unsaid(number: str) -> None:
    """From now on, the end of a session is fatal before anyone else knows of it."""
    end: Callable[..., tuple[JobRecord, bool]] = Jobs.end
    turn = itertools.count(1)

    def fatal(client: CspClient, job: JobRecord, failure: Failure | None = None) -> JobRecord:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("gone")

    def fatal_at_csp(jobs: Jobs, id: str, caller: str) -> tuple[JobRecord, bool]:
        if next(turn) == int(number):
            os.kill(os.getpid(), signal.SIGKILL)
        return end(jobs, id, caller)

    CspClient.ended = fatal  # type: ignore[method-assign, assignment]
    Jobs.end = fatal_at_csp  # type: ignore[method-assign, assignment]


def dies_planning(_: str = "") -> None:
    """From now on, the plan of a session is fatal to the CSP that makes it."""

    def fatal(node: CspNode, job: JobRecord, session: SessionId) -> ServiceProvider:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("gone")

    CspNode._planned = fatal  # type: ignore[method-assign, assignment]


def fills(most: str) -> None:
    """From now on, the kernel refuses to let any file grow beyond this number of bytes."""
    import resource  # not on every system

    resource.setrlimit(resource.RLIMIT_FSIZE, (int(most), int(most)))


def fills_ending(number: str) -> None:
    """From now on, the N-th member that ends finds the CSP's disk full."""
    end: Callable[..., tuple[JobRecord, bool]] = Jobs.end
    turn = itertools.count(1)

    def full(jobs: Jobs, id: str, caller: str) -> tuple[JobRecord, bool]:
        if next(turn) == int(number):
            fills("1000")  # the ledger of a job that runs has more bytes than that, its log has fewer
        return end(jobs, id, caller)

    Jobs.end = full  # type: ignore[method-assign, assignment]


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


def enlists_slowly(_: str = "") -> None:
    """From now on, data takes its time to be opened."""
    opened: Callable[..., Any] = Member.open

    def slowly(member: Member, record: JobRecord) -> Any:
        sleep(3.0)
        return opened(member, record)

    Member.open = slowly  # type: ignore[method-assign, assignment]


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
    "dies-unsaid": dies_unsaid,
    "dies-planning": dies_planning,
    "fills": fills,
    "fills-ending": fills_ending,
    "stutters": stutters,
    "enlists-slowly": enlists_slowly,
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
