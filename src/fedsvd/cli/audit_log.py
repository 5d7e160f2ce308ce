"""``fedsvd audit-log``: whether a role's audit log is as it was written."""

from pathlib import Path
from typing import Annotated

import typer

from fedsvd.cli.group import Group
from fedsvd.cli.options import FormatOption
from fedsvd.cli.output import Format, Output
from fedsvd.storage.journal import verify_audit

audit_log = Group(help="A role's audit log: JSON lines, chained by hashes.")


@audit_log.callback()
def _group() -> None:
    """Makes ``verify`` a command of its own."""


@audit_log.command()
def verify(
    file: Annotated[Path, typer.Argument(help="The role's audit.jsonl, in its kit's state folder.")],
    format: FormatOption = Format.TEXT,
) -> None:
    """Check every line's place in the chain, and that the last is the one that audit.head names."""
    lines = verify_audit(file)
    record = {"file": str(file), "lines": lines, "intact": True}
    text = f"{lines} lines, none changed and none missing; a copy of audit.head elsewhere shows if both files are cut"
    Output(format).answer(record, lambda console: console.print(text))
