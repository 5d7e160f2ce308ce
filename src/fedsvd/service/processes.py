"""Roles as child processes of this one: started, read until they are ready, stopped whatever happens.

A child's standard input is a pipe that we hold: when we are gone, however we went, it ends, and the child with it. At
most one line is written to it, the CSP's address, for a child that was started before the CSP listened. Children are no
part of our terminal's group, so that Ctrl-C reaches us alone and they end in order.

How they reach each other is their *wiring*: where the CSP listens, and which address the others dial. The lab puts slow
links in between (``lab.network``); here is the wiring of all other runs.
"""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Protocol

from fedsvd.engine.device import cores
from fedsvd.errors import PeerLost, TimedOut
from fedsvd.identity.names import KitRole
from fedsvd.service.serve import Started

LOOPBACK = "127.0.0.1"
READY_WITHIN = 120.0  # a loaded machine takes its time to import
STOP_WITHIN = 20.0
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


class RoleProcess:
    """One role in a process of its own; its log goes to a file."""

    def __init__(
        self, name: str, words: Sequence[str], log: Path, environment: Mapping[str, str], before: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.log = log
        self._said: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        command = [*before, sys.executable, "-m", "fedsvd", *words, "--with-parent", "--format", "json"]
        with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=dict(environment),
                start_new_session=True,
            )
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ready(self) -> Started:
        """What the role prints when it is ready."""
        deadline = monotonic() + READY_WITHIN
        while True:
            try:
                line = self._said.get(timeout=max(deadline - monotonic(), 0.01))
            except queue.Empty:
                raise TimedOut(f"the process of {self.name} was not ready after {READY_WITHIN:.0f} s") from None
            if line is None:
                raise self.ended()
            facts = json.loads(line)
            if "error" in facts:
                raise PeerLost(f"{self.name} did not start: {facts['error']['fault']}", facts["error"]["fix"])
            if "ready" in facts:
                return Started(**facts["ready"])

    def reach(self, csp: str) -> None:
        """Where the CSP is, for a member that was started with ``--csp -``."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # that it has ended is found out when it should be ready
            self._process.stdin.write(f"{csp}\n".encode())
            self._process.stdin.flush()

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def ended(self) -> PeerLost:
        """That this process ended, with its code, for raising."""
        code = self._process.wait()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        return PeerLost(f"the process of {self.name} {how}", "run it again")

    def ask_to_stop(self) -> None:
        if self.running:
            self._process.terminate()

    def stop(self, within: float = STOP_WITHIN) -> None:
        """Gone when this returns, by force after ``within`` seconds."""
        self.ask_to_stop()
        try:
            self._process.wait(max(within, 0.0))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # what was written for it, and not read
                    pipe.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                self._said.put(line.decode())
        except ValueError:
            return  # closed under us, at the end
        self._said.put(None)


def environment_for(role: str, members: Sequence[str], host: str = "localhost") -> dict[str, str]:
    """Our environment for one of several processes on this machine: its BLAS threads, no proxy between neighbours.

    The parties compute at the same time and share the threads; while the CSP computes, they wait, so it has them all.
    The authority only deals seeds, and has one. A number of threads that is set already is that of all together.
    """
    environment = dict(os.environ)
    for name in _THREADS:
        given = environment.get(name, "")
        threads = min(cores(), int(given)) if given.isdigit() else cores()
        environment[name] = str(_share(role, members, threads))
    for name in ("no_grpc_proxy", "no_proxy", "NO_PROXY"):
        environment[name] = ",".join(filter(None, (environment.get(name), "127.0.0.1,localhost", host)))
    environment["PYTHONUNBUFFERED"] = "1"
    return environment


def _share(role: str, members: Sequence[str], threads: int) -> int:
    """How many of the threads a role has, one at least; the first parties have those that do not go round."""
    kind = role.partition("/")[0]
    if kind != KitRole.PARTY:
        return max(1, threads) if kind == KitRole.CSP else 1
    parties = [member for member in members if member.startswith(f"{KitRole.PARTY}/")]
    each, more = divmod(threads, len(parties))
    return max(1, each + (parties.index(role) < more))


def stop_all(processes: Sequence[RoleProcess], within: float = STOP_WITHIN) -> None:
    """Ask all of them at once; whatever still runs after ``within`` seconds is ended by force."""
    for process in processes:
        process.ask_to_stop()
    until = monotonic() + within
    for process in processes:
        process.stop(until - monotonic())


class Wiring(Protocol):
    """Places for the CSP and for members, and the addresses between them."""

    @property
    def host(self) -> str:
        """Where the CSP listens; its certificate is made out for this address."""

    def before(self, role: str) -> tuple[str, ...]:
        """What stands before a role's command, such as what enters a network namespace."""

    def from_members(self, port: int) -> str:
        """The address at which members reach the CSP."""

    def from_here(self, port: int) -> str:
        """The address at which this process reaches the CSP."""


class Loopback:
    """All roles on this machine, with nothing in between."""

    host = LOOPBACK

    def before(self, role: str) -> tuple[str, ...]:
        return ()

    def from_members(self, port: int) -> str:
        return f"{LOOPBACK}:{port}"

    def from_here(self, port: int) -> str:
        return f"{LOOPBACK}:{port}"
