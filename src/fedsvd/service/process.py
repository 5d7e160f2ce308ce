"""A role as a process: started with its kit, ready when it can be reached or has reached the CSP, stopped on request.

One kit runs once at a time: two processes with one ledger could open one session twice. Stopping ends what is under
way with a word to the others, never in the middle of a line; what was being computed is resumed by ``job resume``.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsvd.errors import NotAuthenticated, StorageError, TransportError
from fedsvd.identity.certificates import expect_valid
from fedsvd.identity.names import KitRole
from fedsvd.service.api import CspClient
from fedsvd.service.site import Site
from fedsvd.storage import private
from fedsvd.transport.grpc_client import Dialling, PinnedConnection

try:
    import fcntl
except ImportError:  # not POSIX: nothing keeps a second process from the kit
    fcntl = None  # type: ignore[assignment]
if TYPE_CHECKING:
    from fedsvd.engine.device import Engine
    from fedsvd.service.csp import CspNode

_log = logging.getLogger(__name__)
LISTEN = "0.0.0.0:7443"
SKEW = 60.0  # seconds that two clocks may differ before somebody is told
_GREETING_PATIENCE = 5.0


class Running(StorageError):
    """Another process has this kit's state folder."""


Ready = Callable[[dict[str, Any]], None]
Beside = Callable[["CspNode"], AbstractContextManager[dict[str, Any]]]
"""Something that runs while a CSP does, a dashboard say, and what others should be told of it."""


def nobody(node: "CspNode") -> AbstractContextManager[dict[str, Any]]:
    """Nothing runs beside the CSP."""
    return nullcontext({})


def serve(
    site: Site,
    role: KitRole,
    stop: threading.Event,
    ready: Ready,
    *,
    listen: str | None = None,
    csp: str | None = None,
    patience: float = 120.0,
    beside: Beside = nobody,
) -> None:
    """Play this kit's role until ``stop`` is set; ``ready`` is told once, when others can count on us."""
    if site.kit.identity.role is not role:
        raise NotAuthenticated(f"this is the kit of {site.kit.identity}, not of a {role}", f"use the {role}'s own kit")
    now = datetime.now(UTC)
    for warning in site.kit.warnings(now):
        _log.warning("role=%s %s", site.caller, warning)
    # Nobody would talk to us, and TLS would not say why: a service that waits for ever helps no one.
    expect_valid(site.kit.certificate, now, "this kit's certificate")
    expect_valid(site.kit.ca, now, "the operator's certificate")
    with only_one(site.state):
        engine = site.engine()  # a device that is not there is found out now, not in mid-study
        try:
            if role is KitRole.CSP:
                _serve_csp(site, engine, listen or site.listen(LISTEN), patience, stop, ready, beside)
            else:
                _serve_member(site, engine, site.dialling(csp, patience), stop, ready)
        finally:
            engine.close()


def _serve_csp(
    site: Site, engine: "Engine", address: str, patience: float, stop: threading.Event, ready: Ready, beside: Beside
) -> None:
    # Imported here and below: who only asks for a constant, or enlists, needs no role.
    from fedsvd.service.csp import CspNode

    node = CspNode(
        site.listening(address),
        site.authenticate,
        site.state,
        patience=patience,
        keep=site.keep_account,
        engine=engine,
        allow=site.expect_allowed,
        identity=site.kit.signing_key,
    )
    node.start()
    try:
        host = address.rpartition(":")[0]
        with beside(node) as more:
            ready({"role": site.caller, "port": node.port, "address": f"{host}:{node.port}", **more})
            stop.wait()
    finally:
        node.stop()


def _serve_member(site: Site, engine: "Engine", dialling: Dialling, stop: threading.Event, ready: Ready) -> None:
    from fedsvd.service.member_node import MemberNode

    node = MemberNode(site.caller, dialling, site.kit.signing_key, site.facts(), site, site.state, engine)
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
    ready({"role": site.caller, "csp": dialling.address})
    stop.wait()
    node.stop()
    thread.join(30.0)
    if failed:
        raise failed[0]


def enlist_now(site: Site, record: Mapping[str, Any], csp: str | None = None) -> bool:
    """Enlist for one approved job without staying: whoever deals can do so, and the party be started later.

    False where this kit is running: then it enlists by itself.
    """
    from fedsvd.service.member import Member

    dialling = site.dialling(csp)
    try:
        with only_one(site.state):
            member = Member(site.caller, dialling, site.kit.signing_key, site.facts(), site, site.state)
            desk = CspClient(PinnedConnection(dialling))
            try:
                member.enlist(desk, record)
            finally:
                desk.close()
    except Running:
        return False
    return True


def _greeted(site: Site, dialling: Dialling, stop: threading.Event) -> bool:
    """Whether the CSP has answered before we were stopped; one that refuses us ends the service."""
    while not stop.is_set():
        desk = CspClient(PinnedConnection(_hasty(dialling)))
        try:
            there = datetime.fromisoformat(desk.ask("now")["now"])
        except NotAuthenticated:
            raise
        except TransportError as error:
            _log.warning("role=%s waits for the CSP at %s: %s", site.caller, dialling.address, error)
        else:
            apart = abs((datetime.now(UTC) - there).total_seconds())
            if apart > SKEW:
                _log.warning("role=%s the clocks here and at the CSP are %.0f s apart", site.caller, apart)
            return True
        finally:
            desk.close()
    return False


def _hasty(dialling: Dialling) -> Dialling:
    """The same line with little patience, so that a stop does not wait for a CSP that is away."""
    patience = min(dialling.patience, _GREETING_PATIENCE)
    return replace(dialling, channels=1, patience=patience)


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
