"""``fedsvd doctor``: what would stop a job at this site, and how to put it right."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fedsvd.cli.group import FAILED
from fedsvd.cli.options import CspOption, FormatOption
from fedsvd.cli.output import Format, Output, listing
from fedsvd.errors import ConfigError


def doctor(
    kit: Annotated[
        Path | None,
        typer.Option("--kit", metavar="DIR", help="The folder with this role's kit; without one the machine alone."),
    ] = None,
    job: Annotated[Path | None, typer.Option("--job", help="A job file: check this site's data for it, too.")] = None,
    csp: CspOption = None,
    itself: Annotated[
        bool,
        typer.Option("--self", help="Only whether this kit's role runs here and answers, for systemd and containers."),
    ] = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """Check this machine, and with a kit keys, network, clock and data; exit code 1 when something is wrong."""
    # Imported here: --help needs neither the transport nor the roles.
    from fedsvd.service.doctor import examine, examine_itself
    from fedsvd.service.doctor_checks import examine_installation
    from fedsvd.studies.job_file import read_job

    if kit is None:
        if itself or job is not None or csp is not None:
            raise ConfigError(
                "--job, --csp and --self are of a site, and no kit is named", "--kit DIR; or leave them out"
            )
        checks = list(examine_installation(Path.cwd()))
    elif itself:
        checks = list(examine_itself(kit))
    else:
        checks = list(examine(kit, job=None if job is None else read_job(job), csp=csp))
    problems = [check for check in checks if not check.ok]
    record = {
        "checks": [{"name": each.name, "ok": each.ok, "text": each.text, "fix": each.fix} for each in checks],
        "problems": len(problems),
    }

    def show(console: Console) -> None:
        rows = [(each.name, "ok" if each.ok else "FAILED", each.text) for each in checks]
        console.print(listing(("check", "", "found"), rows))
        for each in problems:
            console.print(f"{each.name}: {each.text}. Fix: {each.fix}")
        console.print("Nothing is wrong." if not problems else f"{len(problems)} to put right.")

    Output(format).answer(record, show)
    if problems:
        raise typer.Exit(FAILED)
