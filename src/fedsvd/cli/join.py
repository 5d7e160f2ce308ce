"""``fedsvd join``: a site becomes a member. Keys are made here and stay here; only a request leaves.

Three fingerprints are read out, each out of band of the file it belongs to: the federation's by the operator, the
request's to the operator, and the key's to every other owner, who pins it.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedsvd.cli.group import Group
from fedsvd.cli.options import FormatOption, KitOption
from fedsvd.cli.output import Format, Output, facts
from fedsvd.errors import ConfigError
from fedsvd.identity import request as requests
from fedsvd.identity.certificates import REHEARSAL
from fedsvd.identity.kit import Kit, accept_revocations, request_of
from fedsvd.identity.kit import accept as accept_certificate
from fedsvd.identity.names import KitRole, grouped
from fedsvd.identity.pins import pin as pin_key
from fedsvd.identity.request import REQUEST, Request, make_request
from fedsvd.service.site_file import SITE, write_site
from fedsvd.storage import private

join = Group(help="Become a member: request, accept, renew, pin.")

Addresses = Annotated[
    list[str] | None,
    typer.Option("--address", metavar="HOST", help="CSP only: a name or address it is reached at; once for each."),
]


@join.command()
def request(
    kit: KitOption,
    role: Annotated[KitRole, typer.Option("--role", help="What you will be.")],
    name: Annotated[str, typer.Option("--name", help="Your id in job files, such as hospital-a.")],
    ca: Annotated[Path | None, typer.Option("--ca", help="The operator's own certificate, ca.pem.")] = None,
    fingerprint: Annotated[
        str | None, typer.Option(help="The federation's fingerprint, as the operator read it out; with --ca.")
    ] = None,
    federation: Annotated[
        str | None, typer.Option(help="The federation's id, where ca.pem is not here yet; accept takes it then.")
    ] = None,
    address: Addresses = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Make keys in a new kit, and the request for their certificate."""
    if (ca is None) == (federation is None):
        raise ConfigError("the federation is not named", "--ca FILE --fingerprint DIGITS, or --federation ID")
    if ca is not None:
        made = request_of(kit, private.read(ca), fingerprint, role, name, address or ())
    else:
        made = make_request(kit, str(federation), role, name, address or ())
    _show_request(kit, made, format)


@join.command()
def accept(
    kit: KitOption,
    certificate: Annotated[Path, typer.Option(help="The certificate that the operator sent.")],
    ca: Annotated[Path | None, typer.Option("--ca", help="The operator's own, where the request had none.")] = None,
    fingerprint: Annotated[
        str | None, typer.Option(help="The federation's fingerprint, as the operator read it out; with --ca.")
    ] = None,
    csp: Annotated[
        str | None, typer.Option("--csp", metavar="HOST:PORT", help="Where the CSP is, for a new site.toml.")
    ] = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Take the certificate into the kit, once it is what was asked for, from whom it was asked."""
    taken = accept_certificate(
        kit, private.read(certificate), None if ca is None else private.read(ca), fingerprint, now=_now()
    )
    if not (kit / SITE).exists():
        write_site(taken, csp)
    _show_kit(taken, format)


@join.command()
def renew(
    kit: KitOption,
    address: Addresses = None,
    keep_tls_key: Annotated[bool, typer.Option("--keep-tls-key", help="Ask for the old TLS key again.")] = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """Ask for this kit's next certificate; the identity stays, so no one has to pin it again."""
    _show_request(kit, requests.renew(kit, addresses=address or None, new_tls_key=not keep_tls_key), format)


@join.command()
def pin(
    kit: KitOption,
    name: Annotated[str, typer.Argument(metavar="ROLE/ID", help="The other member: party/hospital-b, csp/centre.")],
    fingerprint: Annotated[str, typer.Argument(help="The key's fingerprint, as its owner read it out.")],
    instead: Annotated[bool, typer.Option("--instead", help="The owner changed its key: replace the pin.")] = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """Trust this key, and no other, to be that owner's."""
    pin_key(kit, name, fingerprint, instead=instead)
    _show_kit(Kit.read(kit), format)


@join.command()
def revocations(
    kit: KitOption,
    file: Annotated[Path, typer.Argument(metavar="LIST", help="The operator's revoked.pem.")],
    format: FormatOption = Format.TEXT,
) -> None:
    """Take the operator's newest revocation list into the kit; it counts from the next connection on."""
    accept_revocations(kit, private.read(file))
    _show_kit(Kit.read(kit), format)


@join.command()
def show(kit: KitOption, format: FormatOption = Format.TEXT) -> None:
    """Who this kit is, whom it knows, and what its owner should see to."""
    _show_kit(Kit.read(kit), format)


def _show_request(kit: Path, made: Request, format: Format) -> None:
    record = {
        "role": str(made.claim.identity.role),
        "name": made.claim.identity.party_id,
        "request": str(kit / REQUEST),
        "fingerprint": made.fingerprint,
        "key_fingerprint": made.key_fingerprint,
    }

    def show(console: Console) -> None:
        console.print(f"Send {kit / REQUEST} to the operator. Send nothing else: keys never leave {kit}.")
        console.print(
            facts(
                {
                    "for the operator": f"{made.fingerprint}: read this out, by telephone say",
                    "for other owners": f"{made.key_fingerprint}: they pin this",
                }
            )
        )

    Output(format).answer(record, show)


def _show_kit(kit: Kit, format: Format) -> None:
    warnings, revoked = kit.warnings(_now()), kit.revocations()
    record: dict[str, Any] = {
        "role": str(kit.identity.role),
        "name": kit.identity.party_id,
        "federation": kit.identity.federation,
        "key_fingerprint": grouped(kit.identity.fingerprint),
        "expires": kit.certificate.not_valid_after_utc.isoformat(),
        "pins": {name: grouped(digits) for name, digits in kit.pins().items() if name != str(kit.identity)},
        "revoked": 0 if revoked is None else len(list(revoked)),
        "warnings": warnings,
        "rehearsal": kit.rehearsal,
    }

    def show(console: Console) -> None:
        console.print(
            facts(
                {
                    "kit": f"{kit.directory}, of {kit.identity}",
                    "federation": record["federation"],
                    "our key": f"{record['key_fingerprint']}: other owners pin this",
                    "certificate": f"good until {kit.certificate.not_valid_after_utc:%Y-%m-%d}",
                    **{f"pinned: {name}": digits for name, digits in record["pins"].items()},
                }
            )
        )
        if kit.rehearsal:
            console.print(REHEARSAL)
        for warning in warnings:
            console.print(f"Warning: {warning}")

    Output(format).answer(record, show)


def _now() -> datetime:
    return datetime.now(UTC)
