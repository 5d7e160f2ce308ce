"""Pins: which key is whose, and in which role, as its owner said out of band.

A pin outranks every signature. The operator can sign a certificate in any name and role, and the CSP relays all
members' keys; neither can make an owner believe in a key that is not the pinned one, nor give a pinned key or id a
second name or another role. The file is ``pins.toml``, a line to each member, ``"party/hospital-b" = "FINGERPRINT"``,
and is read anew at every check, so that a pin counts from the moment it is made.
"""

import tomllib
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from fedsvd.errors import ConfigError, FedSVDError, NotAuthenticated, StorageError
from fedsvd.identity.names import KitRole, expect_id, grouped, key_fingerprint, ungrouped
from fedsvd.storage import private

PINS = "pins.toml"
_HEAD = "# Fingerprints of other owners' keys, as they were read out in person or by telephone; see fedsvd join pin.\n"
_ROLES = ", ".join(f"{role}/ID" for role in KitRole)


def pin(kit_dir: Path, member: str, fingerprint: str, *, instead: bool = False) -> None:
    """This member's key has this fingerprint; a pin is changed only with ``instead``."""
    expect_member(member)
    pins, digits = read_pins(kit_dir), ungrouped(fingerprint)
    if pins.get(member, digits) != digits and not instead:
        raise NotAuthenticated(
            f"{member} is pinned to another key", "ask its owner whether the key was changed, then pin it again"
        )
    _expect_one_name({name: key for name, key in pins.items() if name != member}, member, digits)
    _write(kit_dir, {**pins, member: digits})


def read_pins(kit_dir: Path) -> dict[str, str]:
    """Member (``role/id``) to fingerprint, without groups; a damaged file is an error, never an empty one."""
    path = kit_dir / PINS
    if not path.exists():
        return {}
    try:
        return dict(_parsed(private.read(path)))
    except _WithoutRole as old:
        # Their roles are not in the file: who pinned them knows.
        lines = ", ".join(
            f'"{name}" becomes "party/{name}", or "csp/{name}" if it is the CSP, "researcher/{name}" if a researcher'
            for name in old.names
        )
        raise StorageError(
            f"{path} is of fedsvd 0.2: its lines do not say in which role a key is pinned", f"edit it: {lines}"
        ) from None
    except (FedSVDError, ValueError):
        raise StorageError(f"{path} is damaged", 'a line is: "party/hospital-b" = "<64 hexadecimal digits>"') from None


class _WithoutRole(Exception):
    """Lines of version 0.2, which pinned an id in any role."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__()
        self.names = names


# Read anew at every call of a peer, and nearly always the same bytes.
@lru_cache(maxsize=8)
def _parsed(content: bytes) -> Mapping[str, str]:
    pins = {name: ungrouped(str(text)) for name, text in tomllib.loads(content.decode()).items()}
    old = tuple(name for name in pins if "/" not in name)
    for name in old:
        expect_id(name)
    if old:
        raise _WithoutRole(old)
    for name in pins:
        expect_member(name)
    if max(Counter(pins.values()).values(), default=0) > 1:
        raise ValueError
    return pins


def expect_member(name: str) -> None:
    """Raise ``ConfigError`` unless this is a role and an id."""
    role, slash, party_id = name.partition("/")
    if not slash or role not in tuple(KitRole):
        raise ConfigError(f"{name[:80]!r} does not say whose key this is, and in which role", f"name it {_ROLES}")
    expect_id(party_id)


def expect_pin(pins: Mapping[str, str], member: str, signing_public: bytes) -> None:
    """Raise ``NotAuthenticated`` unless this member, a role and an id, is pinned, and to this key."""
    _expect_one_name(pins, member, key_fingerprint(signing_public))
    if member not in pins:
        raise NotAuthenticated(f"{member} is not pinned", "ask its owner for the key's fingerprint and pin it")
    if pins[member] != key_fingerprint(signing_public):
        raise NotAuthenticated(
            f"this is not the key that {member} is pinned to",
            "ask its owner out of band; if the key was not changed, another person is posing as that member",
        )


def expect_no_other_pin(pins: Mapping[str, str], member: str, signing_public: bytes) -> None:
    """Raise ``NotAuthenticated`` where this key is pinned to another member, or this member to another key."""
    if member in pins:
        expect_pin(pins, member, signing_public)
    _expect_one_name(pins, member, key_fingerprint(signing_public))


def _expect_one_name(pins: Mapping[str, str], member: str, fingerprint: str) -> None:
    others = [name for name, digits in pins.items() if digits == fingerprint and name != member]
    if others:
        raise NotAuthenticated(
            f"the key of {member} is pinned to {others[0]}, and no key has two names",
            "stop and ask both owners: one of them is shown with the other's key",
        )
    other_roles = [name for name in pins if name != member and name.partition("/")[2] == member.partition("/")[2]]
    if other_roles:
        raise NotAuthenticated(
            f"{other_roles[0]} is pinned, and {member} has the same id: an id belongs to one role",
            "stop and ask the operator of the federation, and the owner of the pinned key",
        )


def _write(kit_dir: Path, pins: Mapping[str, str]) -> None:
    lines = (f'"{member}" = "{grouped(digits)}"\n' for member, digits in sorted(pins.items()))
    private.replace(kit_dir / PINS, (_HEAD + "".join(lines)).encode())
