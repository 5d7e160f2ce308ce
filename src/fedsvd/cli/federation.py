"""``fedsvd federation``: what the operator does. Certificates are signed here, and revoked; no study runs here.

The operator is not the CSP. Nothing is signed without the fingerprint that the applicant read out, out of band of its
request. A federation to try things out with is in ``rehearsal.py``.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from fedsvd.cli.group import Group
from fedsvd.cli.options import FormatOption
from fedsvd.cli.output import Format, Output, facts
from fedsvd.cli.rehearsal import rehearse, start
from fedsvd.errors import StorageError
from fedsvd.identity.authority import CA, CA_DAYS, DAYS, REVOKED, Authority, init_federation
from fedsvd.identity.names import KitRole
from fedsvd.storage import private

federation = Group(help="Found a federation, approve and revoke members; or rehearse one.")
federation.command()(rehearse)
federation.command()(start)

Folder = Annotated[Path, typer.Option("--dir", metavar="DIR", help="The operator's folder.")]
RoleOption = Annotated[KitRole, typer.Option("--role", help="What the certificate is good for.")]
NameOption = Annotated[str, typer.Option("--name", help="The id in job files, such as hospital-a.")]


@federation.command()
def init(
    directory: Annotated[Path, typer.Option("--dir", metavar="DIR", help="A new folder, of the operator alone.")],
    name: Annotated[str, typer.Option("--name", help="What people call this federation.")],
    days: Annotated[int, typer.Option(min=1, help="How long the operator's certificate is good for.")] = CA_DAYS,
    format: FormatOption = Format.TEXT,
) -> None:
    """Found a federation: its id, and the key that signs certificates."""
    operator = init_federation(directory, name, now=_now(), days=days)
    record = {
        "federation": operator.federation,
        "fingerprint": operator.fingerprint,
        "ca": str(directory / CA),
    }
    Output(format).answer(
        record,
        lambda console: console.print(
            facts(
                {
                    "federation": operator.federation,
                    "certificate": f"{directory / CA}: send it to every member",
                    "fingerprint": f"{operator.fingerprint}: read it out to them, by telephone say",
                }
            )
        ),
    )


@federation.command()
def approve(
    request: Annotated[Path, typer.Argument(help="The request.pem that the applicant sent.")],
    directory: Folder,
    role: RoleOption,
    name: NameOption,
    fingerprint: Annotated[str, typer.Option(help="The request's fingerprint, as the applicant read it out.")],
    out: Annotated[Path | None, typer.Option("--out", help="Where the certificate goes; ROLE-NAME.pem here.")] = None,
    days: Annotated[int, typer.Option(min=1, help="How long the certificate is good for.")] = DAYS,
    renew: Annotated[bool, typer.Option("--renew", help="The applicant has one, and asks for its next.")] = False,
    organisation: Annotated[
        str | None,
        typer.Option(help="Whose party this is, also when renewing: parties of one organisation count once."),
    ] = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Sign a certificate for the role and name that you mean, and the fingerprint that you received out of band."""
    target = _free(out or Path(f"{role}-{name}.pem"))
    operator = Authority(directory)
    pem = operator.approve(
        private.read(request),
        role=role,
        party_id=name,
        fingerprint=fingerprint,
        now=_now(),
        days=days,
        renew=renew,
        organisation=organisation,
    )
    private.create(target, pem)
    record = {"role": str(role), "name": name, "certificate": str(target), "ca": str(directory / CA)}
    Output(format).answer(record, lambda console: console.print(f"{target} is for {role}/{name}: send it"))


@federation.command()
def revoke(
    directory: Folder,
    role: RoleOption,
    name: NameOption,
    keep_newest: Annotated[
        bool, typer.Option("--keep-newest", help="A TLS key was lost and has been renewed: the identity stays good.")
    ] = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """Put every certificate of this name on the revocation list."""
    Authority(directory).revoke(role, name, now=_now(), keep_newest=keep_newest)
    _show_list(directory, format, f"{role}/{name} is revoked. ")


@federation.command()
def revocations(directory: Folder, format: FormatOption = Format.TEXT) -> None:
    """Sign the revocation list again; kits warn when theirs is old."""
    Authority(directory).revocation_list(now=_now())
    _show_list(directory, format, "")


def _show_list(directory: Path, format: Format, what: str) -> None:
    path = directory / REVOKED
    count = sum(issued.revoked is not None for issued in Authority(directory).register())
    text = f"{what}Send {path} ({count} revoked) to every member, to the CSP first: fedsvd join revocations"
    Output(format).answer({"revocations": str(path), "revoked": count}, lambda console: console.print(text))


def _free(path: Path) -> Path:
    if path.exists():  # before anything is signed, not after it
        raise StorageError(f"{path} is there already", "name another file: --out")
    return path


def _now() -> datetime:
    return datetime.now(UTC)
