"""``fedsvd verify``: whether the certificate of a study holds."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fedsvd.cli.options import FormatOption
from fedsvd.cli.output import Format, Output, facts
from fedsvd.identity.kit import Kit
from fedsvd.identity.names import grouped
from fedsvd.results.signed_certificate import verify_certificate


def verify(
    file: Annotated[Path, typer.Argument(metavar="CERTIFICATE.JSON", help="The file in a results folder.")],
    kit: Annotated[
        Path | None,
        typer.Option("--kit", metavar="DIR", help="Also check that this kit pinned every signer."),
    ] = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Check every signature of a study's certificate; exit code 1 unless all hold."""
    signed = verify_certificate(file, None if kit is None else Kit.read(kit).pins())
    body = signed.body
    record: dict[str, Any] = {
        "file": str(file),
        "valid": True,
        "session": body["session"],
        "plan": body["plan"],
        "task": body["task"],
        "scheme": body["scheme"],
        "mode": body["mode"],
        "release": body["release"],
        "commitments": list(body["commitments"]),
        "signed_by": [
            {"party": party, "key": grouped(key), "name": signed.names.get(party)}
            for party, key in signed.signers.items()
        ],
        "pinned": kit is not None,
    }
    shown = {
        "certificate": "all signatures hold" + ("" if kit is None else ", and every key is pinned"),
        "session": body["session"],
        "task": f"{body['task']}, scheme {body['scheme']}" + ("" if body["mode"] is None else f", mode {body['mode']}"),
        "plan": body["plan"],
    }
    shown |= {each["name"] or each["party"]: each["key"] for each in record["signed_by"]}
    if kit is None:
        shown["note"] = "whose keys these are is what --kit DIR compares with the pinned ones"
    Output(format).answer(record, lambda console: console.print(facts(shown)))
