"""A throw-away federation: every kit at once in one folder, for the local rung and for tests.

The same calls as between institutions, one after the other, and every owner pins every other. What is given up is
the point of it all: one person holds all keys, the operator's too. It is for one machine and a short time.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from fedsvd.errors import ConfigError
from fedsvd.identity.authority import init_federation
from fedsvd.identity.kit import Kit, accept, accept_revocations
from fedsvd.identity.names import KitRole
from fedsvd.identity.pins import pin
from fedsvd.identity.request import make_request

OPERATOR = "operator"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
DAYS = 7


def temporary_federation(
    directory: Path,
    party_ids: Sequence[str],
    csp_addresses: Sequence[str] = LOOPBACK,
    with_authority: bool = False,
    *,
    now: datetime,
    csp: str = "csp",
    authority: str = "ta",
    researcher: str | None = None,
    name: str = "throw-away federation",
    rehearsal: bool = False,
    organisations: Mapping[str, str] | None = None,
) -> dict[str, Path]:
    """``party/<id>``, ``csp/<id>``, ``authority/<id>`` and ``researcher/<id>``, each with its kit's folder.

    The operator's own folder is ``directory/operator``. A rehearsal says so in every certificate; its kits are named as
    a person would name them, by their ids alone.
    """
    if rehearsal and OPERATOR in (csp, researcher, authority, *party_ids):
        raise ConfigError(f"{OPERATOR!r} is the name of the operator's folder", "give this member another name")
    operator = init_federation(directory / OPERATOR, name, now=now, days=DAYS, rehearsal=rehearsal)
    roles = [(KitRole.CSP, csp), *((KitRole.PARTY, party_id) for party_id in party_ids)]
    roles += [(KitRole.AUTHORITY, authority)] if with_authority else []
    roles += [(KitRole.RESEARCHER, researcher)] if researcher else []
    kits: dict[str, Kit] = {}
    for role, party_id in roles:
        folder = directory / (party_id if rehearsal else f"{role}-{party_id}")
        addresses = csp_addresses if role is KitRole.CSP else ()
        request = make_request(folder, operator.federation, role, party_id, addresses)
        pem = operator.approve(
            request.pem,
            role=role,
            party_id=party_id,
            fingerprint=request.fingerprint,
            now=now,
            days=DAYS,
            organisation=(organisations or {}).get(party_id),
        )
        kits[f"{role}/{party_id}"] = accept(folder, pem, operator.ca_pem, operator.fingerprint, now=now)
    revoked = operator.revocation_list(now=now)
    for kit in kits.values():
        accept_revocations(kit.directory, revoked)
        for other in kits.values():
            if other is not kit:
                pin(kit.directory, str(other.identity), other.identity.fingerprint)
    return {name: kit.directory for name, kit in kits.items()}
