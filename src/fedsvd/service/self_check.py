"""Whether a role that runs on this machine answers: what systemd, containers and ``fedsvd doctor --self`` ask.

A CSP looks at itself every few seconds: a TLS handshake through its own port, which must show its own certificate, and
a task for the threads that answer calls. What passed is a file's time of change; a look that fails for a minute ends
the process with an error, because a port that accepts and says nothing is worse than none. A member has no port: its
service thread must be alive.
"""

import os
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic, time

from cryptography.hazmat.primitives.serialization import Encoding

from fedsvd.errors import FedSVDError, OutOfResources, PeerLost, StorageError
from fedsvd.identity.names import KitRole
from fedsvd.service.site import Site

EVERY = 5.0  # seconds between looks
LONGEST = 60.0  # seconds for which looks may fail before the process ends
_SECONDS = 5.0  # of one look
_STALE = 45.0  # seconds after which the last look that passed says nothing any more
_ALIVE = ".alive"


def watch(state: Path, stop: threading.Event, look: Callable[[], None], every: float = EVERY) -> None:
    """Look again and again until ``stop``; looks that fail for too long end this with the last error."""
    passed = monotonic()
    while True:
        try:
            look()
            _note(state)
            passed = monotonic()
        except FedSVDError:
            if monotonic() - passed > LONGEST:
                raise
        if stop.wait(every):
            return


def expect_port(site: Site, address: str) -> None:
    """Raise unless the port at this address shows this kit's certificate, as a caller on this machine sees it."""
    host, _, port = address.rpartition(":")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host.strip("[]"), host.strip("[]"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Not verified by name or authority: it is compared with our own, byte by byte.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection((host, int(port)), _SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            shown = secured.getpeercert(binary_form=True)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise PeerLost(f"nothing answers at {host}:{port}: {why}", "restart the CSP") from None
    if shown != site.kit.certificate.public_bytes(Encoding.DER):
        raise PeerLost(f"another server answers at {host}:{port}", "stop it, or choose another port")


def expect_answering(answers: Callable[[float], bool]) -> None:
    """Raise unless the threads that answer calls do."""
    if not answers(_SECONDS):
        raise OutOfResources("no thread of this CSP has answered for some seconds", "restart the CSP")


def expect_well(site: Site, address: str) -> str:
    """Raise unless the role of this kit runs on this machine and answers; what was found."""
    state = site.state
    try:
        age = time() - (state / _ALIVE).stat().st_mtime
    except OSError:
        raise PeerLost(
            f"{site.caller} has not run here, or not looked at itself",
            f"start it: fedsvd {site.kit.identity.role} start",
        ) from None
    if age > _STALE:
        raise PeerLost(
            f"{site.caller} last found itself well {age:.0f} s ago",
            f"start it again: fedsvd {site.kit.identity.role} start",
        )
    if site.kit.identity.role is KitRole.CSP:
        expect_port(site, address)
    return f"{site.caller} found itself well {max(age, 0.0):.0f} s ago"


def _note(state: Path) -> None:
    with suppress(OSError, StorageError):  # a full disk is said elsewhere
        descriptor = os.open(state / _ALIVE, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.utime(descriptor)
        finally:
            os.close(descriptor)
