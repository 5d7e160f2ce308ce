"""A role as a process: started with its kit, ready when it can be reached or has reached the CSP, stopped on request.

One kit runs once at a time: two processes with one journal could open one session twice. Stopping ends what is under
way and informs the others, never in the middle of a line; what was being computed is resumed by ``job resume``.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fedsvd.errors import NotAuthenticated, StorageError, TransportError
from fedsvd.identity.certificates import expect_valid
from fedsvd.identity.names import KitRole
from fedsvd.service.client import CspClient
from fedsvd.service.records import JobRecord, JobState, WatchedJob
from fedsvd.service.self_check import expect_answering, expect_port, watch
from fedsvd.service.site import Site
from fedsvd.storage import private
from fedsvd.transport.grpc_client import Dialling, PinnedConnection

try:
    import fcntl
    import resource
except ImportError:  # not POSIX: nothing stops a second process from using the kit
    fcntl = resource = None  # type: ignore[assignment]
if TYPE_CHECKING:
    from fedsvd.engine.device import Engine
    from fedsvd.service.csp import CspNode

_log = logging.getLogger(__name__)
LISTEN = "0.0.0.0:7443"
SKEW = 60.0  # seconds that two clocks may differ without a warning
_GREETING_PATIENCE = 5.0
GREETING_PAUSE = 2.0  # seconds after an answer that is no greeting
_MOST_DESCRIPTORS = 1 << 16
_RESERVED = 256  # descriptors that no caller's connection takes: journals, results, scratch files


class Running(StorageError):
    """Another process has this kit's state folder."""


@dataclass(frozen=True)
class Started:
    """A role that others can count on: a CSP with its port and address, a member with the CSP that it has reached."""

    role: str
    port: int | None = None
    address: str | None = None
    csp: str | None = None
    dashboard: str | None = None

    def shown(self) -> dict[str, str | int]:
        """What is shown, for JSON."""
        return {key: value for key, value in asdict(self).items() if value is not None}


Ready = Callable[[Started], None]
Dashboard = Callable[["CspNode"], AbstractContextManager[str | None]]
"""A dashboard that is served while a CSP runs; the address of its page."""


def no_dashboard(node: "CspNode") -> AbstractContextManager[str | None]:
    """No page is served."""
    return nullcontext(None)


def serve(
    site: Site,
    role: KitRole,
    stop: threading.Event,
    ready: Ready,
    *,
    listen: str | None = None,
    csp: str | None = None,
    patience: float = 120.0,
    dashboard: Dashboard = no_dashboard,
) -> None:
    """Play this kit's role until ``stop`` is set; ``ready`` is called once, when others can count on us."""
    if site.kit.identity.role is not role:
        raise NotAuthenticated(f"this is the kit of {site.kit.identity}, not of a {role}", f"use the {role}'s own kit")
    now = datetime.now(UTC)
    for warning in site.kit.warnings(now):
        _log.warning("role=%s %s", site.caller, warning)
    # No peer would accept us, and TLS would not say why: a service that waits for ever helps no one.
    expect_valid(site.kit.certificate, now, "this kit's certificate")
    expect_valid(site.kit.ca, now, "the operator's certificate")
    with only_one(site.state):
        engine = site.engine()  # a device that is not there is found out now, not during a study
        try:
            if role is KitRole.CSP:
                _serve_csp(site, engine, listen or site.listen(LISTEN), patience, stop, ready, dashboard)
            else:
                _serve_member(site, engine, site.dialling(csp, patience), stop, ready)
        finally:
            engine.close()


def _serve_csp(
    site: Site,
    engine: "Engine",
    address: str,
    patience: float,
    stop: threading.Event,
    ready: Ready,
    dashboard: Dashboard,
) -> None:
    # Imported here and below: a caller that only enlists needs no role.
    from fedsvd.service.callers import SETTLED, Callers
    from fedsvd.service.csp import CspNode
    from fedsvd.service.csp_account import write_account

    descriptors = raise_descriptors()
    node = CspNode(
        replace(site.listening(address), connections=max(descriptors - _RESERVED, descriptors // 2)),
        site.authenticate,
        site.state,
        patience=patience,
        write_account=partial(write_account, site),
        engine=engine,
        allow=site.expect_allowed,
        identity=site.kit.signing_key,
        sessions=site.settings().sessions,
        open_jobs=site.settings().open_jobs,
        callers=Callers(site.state / "callers.jsonl", SETTLED),
    )
    node.start()
    try:
        host = address.rpartition(":")[0]
        with dashboard(node) as page:
            ready(Started(site.caller, port=node.port, address=f"{host}:{node.port}", dashboard=page))

            def look() -> None:
                expect_answering(node.answers)
                expect_port(site, f"{host}:{node.port}")

            watch(site.state, stop, look)
    finally:
        node.stop()


def _serve_member(site: Site, engine: "Engine", dialling: Dialling, stop: threading.Event, ready: Ready) -> None:
    from fedsvd.service.member import Member
    from fedsvd.service.member_node import MemberNode

    node = MemberNode(Member.of(site, dialling, engine))
    if not _greeted(site, dialling, stop):
        return
    failed: list[BaseException] = []

    def run() -> None:
        try:
            node.run()
        except BaseException as error:
            failed.append(error)
            stop.set()

    thread = threading.Thread(target=run, daemon=True, name=site.caller)
    thread.start()
    ready(Started(site.caller, csp=dialling.address))
    watch(site.state, stop, lambda: None)  # the thread sets ``stop`` at its end
    node.stop()
    thread.join(30.0)
    if failed:
        raise failed[0]


def enlist_now(site: Site, record: JobRecord, csp: str | None = None) -> bool:
    """Enlist for one approved job without staying: an authority can deal then, and the party be started later.

    False where this kit is running: then it enlists by itself.
    """
    from fedsvd.service.member import Member

    dialling = site.dialling(csp)
    try:
        with only_one(site.state):
            member = Member.of(site, dialling)
            client = CspClient(PinnedConnection(dialling))
            try:
                member.enlist(client, record)
            finally:
                client.close()
    except Running:
        return False
    return True


def take_part(
    site: Site, id: str, stop: threading.Event, csp: str | None = None, patience: float = 120.0
) -> WatchedJob | None:
    """Take part in one approved job, in all its sessions, until it has ended or ``stop`` is set; how it stands then.

    None where this kit is running: then it takes part by itself.
    """
    from fedsvd.service.member import Member
    from fedsvd.service.member_node import MemberNode

    dialling = site.dialling(csp, patience)
    try:
        with only_one(site.state):
            engine = site.engine()
            client, ended = CspClient(PinnedConnection(_hasty(dialling))), [False]

            def over() -> bool:
                """Whether the job was at its end at the last look too: in between, results are marked."""
                with suppress(TransportError):  # a CSP that is away is waited for
                    ended.append(client.job(id).state in (JobState.DONE, JobState.BROKEN, JobState.STOPPED))
                return stop.is_set() or all(ended[-2:])

            try:
                MemberNode(Member.of(site, dialling, engine), only=id).run(over)
                return client.job(id)
            finally:
                client.close()
                engine.close()
    except Running:
        return None


def _greeted(site: Site, dialling: Dialling, stop: threading.Event) -> bool:
    """Whether the CSP has answered before we were stopped; one that refuses us ends the service."""
    said = ""
    while not stop.is_set():
        client = CspClient(PinnedConnection(_hasty(dialling)))
        try:
            there = datetime.fromisoformat(client.now().now)
        except NotAuthenticated:
            raise
        except TransportError as error:
            if str(error) != said:  # once, however long it takes
                _log.warning("role=%s waits for the CSP at %s: %s", site.caller, dialling.address, error)
            said = str(error)
            stop.wait(GREETING_PAUSE)
        else:
            apart = abs((datetime.now(UTC) - there).total_seconds())
            if apart > SKEW:
                _log.warning("role=%s the clocks here and at the CSP are %.0f s apart", site.caller, apart)
            return True
        finally:
            client.close()
    return False


def _hasty(dialling: Dialling) -> Dialling:
    """The same connection with little patience, so that a stop does not wait for a CSP that is away."""
    patience = min(dialling.patience, _GREETING_PATIENCE)
    return replace(dialling, channels=1, patience=patience)


def raise_descriptors() -> int:
    """How many files and connections this process may have open: as many as the system lets it."""
    if resource is None:
        return _RESERVED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most


@contextmanager
def only_one(state: Path) -> Iterator[None]:
    """This process alone has the state folder; a second one is refused at once."""
    private.private_folder(state)
    descriptor = os.open(state / ".running", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if fcntl is not None:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Running("this kit is running already", "stop the other process first") from None
        yield
    finally:
        os.close(descriptor)
