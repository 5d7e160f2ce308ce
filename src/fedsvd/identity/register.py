"""The operator's register: one line for every certificate issued or revoked, added and never changed.

What it refuses, it refuses so that a name means one key and a key means one name: an id has one role for ever, a key
serves one name, a revoked key is never certified again, and a name with a live certificate gets another for a new TLS
key on purpose only (renewal), for a new identity only after the old one was revoked.
"""

import dataclasses
import json
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from fedsvd.errors import ConfigError, NotAuthenticated, StorageError
from fedsvd.identity.claims import Claim
from fedsvd.identity.names import KitRole, key_fingerprint
from fedsvd.storage import private

REGISTER = "issued.jsonl"


@dataclass(frozen=True)
class Issued:
    """One certificate as the register remembers it; digests of public keys, no secrets."""

    role: KitRole
    party_id: str
    serial: int
    key: str  # the fingerprint of the identity
    request: str  # the fingerprint of the request, hence of both keys
    tls: str  # SHA-256 of the TLS key
    issued: datetime
    expires: datetime
    certificate: str
    revoked: datetime | None = None
    barred: bool = False  # the identity itself was revoked, not one certificate of it

    def live(self, now: datetime) -> bool:
        return self.revoked is None and now <= self.expires

    @property
    def name(self) -> str:
        return f"{self.role}/{self.party_id}"


def read_register(folder: Path) -> list[Issued]:
    """Every certificate there ever was, in order of issue."""
    path = folder / REGISTER
    content = private.read(path) if path.exists() else b""
    found: dict[int, Issued] = {}
    for number, line in enumerate(content[: content.rfind(b"\n") + 1].splitlines(), start=1):
        try:
            _replay(found, json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise StorageError(f"line {number} of {path} is damaged", "restore it from your backup") from None
    return list(found.values())


def add_issued(folder: Path, issued: Issued) -> None:
    """Remember a certificate, before it is handed out."""
    values = {name: value for name, value in asdict(issued).items() if name not in ("revoked", "barred")}
    _add(folder, {"event": "issued", **values})


def add_revoked(folder: Path, issued: Issued, now: datetime, barred: bool) -> None:
    """Remember that a certificate is worth nothing from now on, and its identity neither if ``barred``."""
    _add(folder, {"event": "revoked", "serial": issued.serial, "at": now, "barred": barred})


def expect_may_issue(register: list[Issued], claim: Claim, tls: str, now: datetime, renew: bool) -> None:
    """Raise unless a certificate for this claim leaves one key to a name and one name to a key."""
    identity, key = claim.identity, key_fingerprint(claim.identity.signing_public)
    for old in register:
        same_name = (old.role, old.party_id) == (identity.role, identity.party_id)
        same_key = old.key == key or old.tls == tls
        if old.party_id.lower() == identity.party_id.lower() and not same_name:
            raise ConfigError(f"the id is that of {old.name}, who is another holder", "choose another id")
        if same_key and not same_name:
            raise NotAuthenticated(f"this key is that of {old.name}: one key, one role", "make a kit for each role")
        if (old.key == key and old.barred) or (old.tls == tls and old.revoked is not None):
            raise NotAuthenticated(f"this key of {old.name} was revoked", "make a new kit, with new keys")
        if same_name and old.live(now) and old.key != key:
            raise NotAuthenticated(
                f"{old.name} has a certificate for another identity key",
                "revoke it first if that kit is lost; otherwise another person is posing as its holder",
            )
        if same_name and old.live(now) and old.tls != tls and not renew:
            raise NotAuthenticated(
                f"{old.name} has a certificate for another TLS key", "approve it as a renewal, if it is one"
            )


def _replay(found: dict[int, Issued], record: dict[str, object]) -> None:
    event = record.pop("event")
    if event == "issued":
        times = {name: datetime.fromisoformat(str(record.pop(name))) for name in ("issued", "expires")}
        serial = int(str(record.pop("serial")))
        role = KitRole(str(record.pop("role")))
        texts = {name: str(value) for name, value in record.items()}
        found[serial] = Issued(role=role, serial=serial, **times, **texts)  # type: ignore[arg-type]
    elif event == "revoked":
        old = found[int(str(record["serial"]))]
        when = datetime.fromisoformat(str(record["at"]))
        found[old.serial] = dataclasses.replace(old, revoked=when, barred=bool(record["barred"]))
    else:
        raise ValueError(event)


def _add(folder: Path, record: dict[str, object]) -> None:
    line = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in record.items()}
    # A serial number has more digits than a number in JSON is sure to preserve.
    private.append_line(folder / REGISTER, json.dumps({**line, "serial": str(line["serial"])}).encode())
