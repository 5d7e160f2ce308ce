"""Pins: which key is whose, as its owner said out of band.

A pin outranks every signature. The operator can sign a certificate in any name, and the CSP relays all members'
keys; neither can make an owner believe in a key that is not the pinned one. The file is ``pins.toml``, a line to each
id, and is read anew at every check, so that a pin counts from the moment it is made.
"""

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from fedsvd.errors import FedSVDError, NotAuthenticated, StorageError
from fedsvd.identity.names import expect_id, grouped, key_fingerprint, ungrouped
from fedsvd.storage import private

PINS = "pins.toml"
_HEAD = "# Fingerprints of other owners' keys, as they were read out in person or by telephone; see fedsvd join pin.\n"


def pin(kit_dir: Path, party_id: str, fingerprint: str, *, instead: bool = False) -> None:
    """This id's key has this fingerprint; a pin is changed only with ``instead``."""
    expect_id(party_id)
    pins, digits = read_pins(kit_dir), ungrouped(fingerprint)
    if pins.get(party_id, digits) != digits and not instead:
        raise NotAuthenticated(
            f"{party_id} is pinned to another key", "ask its owner whether the key was changed, then pin it again"
        )
    _write(kit_dir, {**pins, party_id: digits})


def read_pins(kit_dir: Path) -> dict[str, str]:
    """Id to fingerprint, without groups; a damaged file is an error, never an empty one."""
    path = kit_dir / PINS
    if not path.exists():
        return {}
    try:
        return dict(_parsed(private.read(path)))
    except (FedSVDError, ValueError):
        raise StorageError(f"{path} is damaged", 'a line is: "hospital-b" = "<64 hexadecimal digits>"') from None


# Read anew at every call of a peer, and nearly always the same bytes.
@lru_cache(maxsize=8)
def _parsed(content: bytes) -> Mapping[str, str]:
    pins = tomllib.loads(content.decode())
    for party_id in pins:
        expect_id(party_id)
    return {party_id: ungrouped(str(text)) for party_id, text in pins.items()}


def expect_pin(pins: Mapping[str, str], party_id: str, signing_public: bytes) -> None:
    """Raise ``NotAuthenticated`` unless this id is pinned, and to this key."""
    if party_id not in pins:
        raise NotAuthenticated(f"{party_id} is not pinned", "ask its owner for the key's fingerprint and pin it")
    if pins[party_id] != key_fingerprint(signing_public):
        raise NotAuthenticated(
            f"this is not the key that {party_id} is pinned to",
            "ask its owner out of band; if the key was not changed, another person is posing as that party",
        )


def _write(kit_dir: Path, pins: Mapping[str, str]) -> None:
    lines = (f'"{party_id}" = "{grouped(digits)}"\n' for party_id, digits in sorted(pins.items()))
    private.replace(kit_dir / PINS, (_HEAD + "".join(lines)).encode())
