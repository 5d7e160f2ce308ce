"""``fedsvd verify``: whether the certificate of a study holds, and the files next to it are those that were signed."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from fedsvd.cli.options import FormatOption
from fedsvd.cli.output import Format, Output, facts
from fedsvd.errors import NotAuthenticated
from fedsvd.identity.kit import Kit
from fedsvd.identity.names import grouped
from fedsvd.protocol.openings import in_bits
from fedsvd.protocol.parties import user
from fedsvd.results.signed_certificate import CERTIFICATE, verify_certificate
from fedsvd.results.signed_files import Files, verify_files


def verify(
    file: Annotated[Path, typer.Argument(metavar="FOLDER", help="A results folder, or certificate.json in one.")],
    kit: Annotated[
        Path | None,
        typer.Option("--kit", metavar="DIR", help="Also check that this kit pinned every signer."),
    ] = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Check every signature of a study's certificate, and every file next to it; exit code 1 unless all hold."""
    file = file / CERTIFICATE if file.is_dir() else file
    signed = verify_certificate(file, None if kit is None else Kit.read(kit).pins())
    files, body = verify_files(file), signed.body
    _expect_named(files, signed.names)
    record: dict[str, Any] = {
        "file": str(file),
        "valid": True,
        "session": body["session"],
        "plan": body["plan"],
        "task": body["task"],
        "scheme": body["scheme"],
        "mode": body["mode"],
        "release": body["release"],
        "bits": body["bits"],
        "order": body["order"],
        "commitments": list(body["commitments"]),
        "signed_by": [
            {"party": party, "key": grouped(key), "name": signed.names.get(party)}
            for party, key in signed.signers.items()
        ],
        "pinned": kit is not None,
        "files": None if files is None else {**asdict(files), "same_at": list(files.same_at)},
        "not_signed": [*(files.unsigned if files is not None else ()), _OWN_ACCOUNT],
    }
    shown = {
        "certificate": "all signatures hold" + ("" if kit is None else ", and every key is pinned in its role"),
        "files": _of_files(files, signed.names),
        "not signed": "; ".join(record["not_signed"]),
        "session": body["session"],
        "task": f"{body['task']}, scheme {body['scheme']}" + ("" if body["mode"] is None else f", mode {body['mode']}"),
        "plan": body["plan"],
        "opened": in_bits(body["bits"]),
        **({"proved": body["order"]} if body["order"] else {}),
    }
    shown |= {each["name"] or each["party"]: each["key"] for each in record["signed_by"]}
    if kit is None:
        shown["note"] = "whose keys these are is what --kit DIR compares with the pinned ones"
    Output(format).answer(record, lambda console: console.print(facts(shown)))


def _of_files(files: Files | None, names: Mapping[str, str]) -> str:
    if files is None:
        return "none were signed in this session: nothing is said of any file"
    whose = "hold what all parties share, as" if files.shared else "are as"
    others = [names.get(party, party) for party in files.same_at]
    same = f"; what all share is the same, bit for bit, at {', '.join(others)}" if others else ""
    of = names.get(files.of, files.of)
    return f"{files.count} files {whose} {of} made them and all users signed{same}"


def _expect_named(files: Files | None, names: Mapping[str, str]) -> None:
    """The parties in a signed manifest are called what this kit has pinned their keys under."""
    called = [] if files is None or not names else enumerate(files.parties, start=1)
    wrong = [f"{names[user(i).name]} is called {name}" for i, name in called if names[user(i).name] != f"party/{name}"]
    if wrong:
        raise NotAuthenticated(
            f"manifest.json has other names for the parties than this kit: {'; '.join(wrong)}",
            "it is not from an honest study: ask the other parties for theirs",
        )


_OWN_ACCOUNT = "dates, bytes, seconds and memory, which are the account of the party that wrote them"
