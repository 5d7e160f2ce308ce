"""``fedsvd audit``: an owner attacks its own data under a job before it joins, and reads what others could learn.

Nothing is sent: all parties are played by the owner's own table. The page and the JSON hold scores,
never entries of the data, unless ``--include-data`` asks for them.
"""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedsvd.cli.options import FormatOption, Overwrite, Quiet, Scratch
from fedsvd.cli.output import Format, Output, duration, facts, listing
from fedsvd.errors import ConfigError
from fedsvd.protocol.parties import named
from fedsvd.storage import private


def audit(
    data: Annotated[Path, typer.Argument(help="Your own table; its rows or columns play all parties of the job.")],
    job: Annotated[Path, typer.Option("--job", help="The job file; the data it names is not opened.")],
    budget: Annotated[
        float | None, typer.Option(min=1.0, help="Seconds to spend, 240 where left out; large tables are thinned.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="The HTML page.")] = Path("audit.html"),
    overwrite: Overwrite = False,
    include_data: Annotated[
        bool, typer.Option("--include-data", help="Draw entries of your data on the page.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of thinning, simulated masks and attacks.")] = 0,
    scratch: Scratch = None,
    quiet: Quiet = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """Attack your own data as the CSP and the other parties of a job could, before you join it."""
    # Imported here: --help needs none of the attacks.
    from fedsvd.audit.audit import BUDGET
    from fedsvd.audit.audit import audit as run_audit
    from fedsvd.audit.page import render, template
    from fedsvd.data.open import open_source
    from fedsvd.studies.job_file import read_job

    output = Output(format, quiet)
    if out.exists() and not overwrite:
        raise ConfigError(f"{out} is there already", "name another page with --out, or give --overwrite")
    template()  # what is missing for the page is said before the work
    asked = read_job(job)
    source = open_source(data, scratch=scratch)
    found = run_audit(source, asked, budget=budget or BUDGET, include_data=include_data, seed=seed, report=output.line)
    names = tuple(party.name for party in asked.parties)
    record = _named(found.record(), names)
    private.replace(out, render(found, record, include_data).encode())
    record["out"] = str(out)
    output.answer(record, lambda console: _show(console, record))


def _named(record: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Parties called by the names in the job file."""
    record["learns"] = [named(line, names) for line in record["learns"]]
    return record


def _show(console: Console, record: dict[str, Any]) -> None:
    console.print(
        facts(
            {
                "job": f"{record['job']}: {record['task']}, {record['parties']} parties, {_scheme(record)}",
                "simulated": f"{record['samples']} samples x {record['features']} features of your table",
                "recommended": f"{record['recommended']}: {record['why']}",
                "page": record["out"],
                "time": duration(record["seconds"]),
            }
        )
    )
    rows = [(each["role"], each["attack"], each["verdict"], each["learned"]) for each in record["findings"]]
    console.print(listing(("who", "attack", "outcome", "what was learned"), rows))


def _scheme(record: dict[str, Any]) -> str:
    return f"scheme {record['scheme']}" + (f", mode {record['mode']}" if record["mode"] else "")
