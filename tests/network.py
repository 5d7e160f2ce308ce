"""A CSP that listens on this machine, and members that dial it: over mutual TLS, on 127.0.0.1, at ports of the system.

A federation of throw-away kits is made once for a test file; every session has an id of its own.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from fedsvd.identity.temporary import temporary_federation
from fedsvd.protocol.parties import CSP, TA, Party, user
from fedsvd.randomness.entropy import fresh_bytes
from fedsvd.service.site import Site
from fedsvd.transport.grpc_client import Dialled, Dialling
from fedsvd.transport.grpc_server import Exchange, SessionLinks
from fedsvd.transport.metered import Transport
from fedsvd.types import SessionId

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # refused handshakes are what some tests are about

GENEROUS = 60.0  # seconds after which a test that hangs fails; no test that passes comes near
CALLERS = {TA: "authority/ta", user(1): "party/a", user(2): "party/b", user(3): "party/c"}


def unpin(kit: Path, member: str) -> None:
    """The owner of this kit takes a line out of its pins."""
    path = kit / "pins.toml"
    lines = path.read_text().splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(f'"{member}"')]
    assert len(kept) == len(lines) - 1, f"{member} is not pinned"
    path.write_text("".join(kept))


def new_session() -> SessionId:
    return SessionId(fresh_bytes(16).hex())


def until(true: Callable[[], Any], what: str = "it never came true") -> Any:
    """Wait for something that must happen."""
    deadline = monotonic() + GENEROUS
    while not (value := true()):
        assert monotonic() < deadline, what
        sleep(0.01)
    return value


def self_signed_pair() -> tuple[bytes, bytes]:
    """Key and certificate of nobody's."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = (
        builder.serial_number(1).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    )
    certificate = builder.sign(key, hashes.SHA256())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private, certificate.public_bytes(Encoding.PEM)


@dataclass
class Network:
    """A listening CSP and the kits of all who may dial it."""

    kits: Mapping[str, Path]
    exchange: Exchange
    site: Site
    patience: float = GENEROUS
    opened: list[Transport] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.exchange.port}"

    def dialling(self, party: Party, **changes: Any) -> Dialling:
        site = Site.at(self.kits[CALLERS[party]])
        given = {"patience": self.patience, **changes}
        return replace(site.dialling(given.pop("address", self.address)), **given)

    def open(self, parties: Sequence[Party], session: SessionId | None = None) -> SessionLinks:
        roster = {CALLERS[party]: party for party in parties if party != CSP}
        links = self.exchange.open(session or new_session(), roster)
        self.opened.append(links)
        return links

    def dial(self, party: Party, session: SessionId, **changes: Any) -> Dialled:
        end = Dialled(self.dialling(party, **changes), session)
        self.opened.append(end)
        return end

    def pair(self, **changes: Any) -> tuple[SessionLinks, Dialled]:
        """A session of the CSP and user 1."""
        links = self.open((user(1),))
        return links, self.dial(user(1), links.session, **changes)

    def close(self) -> None:
        """Hang up everything that was opened; members last, as they are told that the session is over."""
        for end in self.opened:
            end.close()
        self.opened.clear()


def make_kits(folder: Path, **how: Any) -> dict[str, Path]:
    """Kits of three parties, a CSP, an authority and a researcher."""
    now = datetime.now(UTC)
    return temporary_federation(folder, ["a", "b", "c"], with_authority=True, researcher="res", now=now, **how)


def no_answer(caller: str, body: bytes) -> bytes:
    return b"null"


@contextmanager
def listening(kits: Mapping[str, Path], address: str = "127.0.0.1:0", **how: Any) -> Iterator[Network]:
    """A CSP that listens until the end of the block."""
    site = Site.at(kits["csp/csp"])
    workers = how.pop("workers", 512)
    setting = replace(site.listening(address), workers=workers)
    exchange = Exchange(setting, site.authenticate, how.pop("answer", no_answer), **how)
    exchange.start()
    network = Network(kits, exchange, site)
    try:
        yield network
    finally:
        network.close()
        exchange.stop(0.0)
