"""``fedsvd table``: a site's own table, registered by the consortium's dictionary; what the site remembers of it."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedsvd.cli.dictionary import shortfall_record, show_shortfalls
from fedsvd.cli.group import FAILED, Group
from fedsvd.cli.options import FormatOption, KitOption
from fedsvd.cli.output import Format, Output, facts, listing

table = Group(help="A site's own table: register it by a dictionary, see its history.")


@table.command()
def register(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The table, as site.toml names it.")],
    dictionary: Annotated[Path, typer.Option("--dictionary", metavar="FILE", help="The consortium's dictionary.toml.")],
    kit: KitOption,
    replace: Annotated[
        bool, typer.Option("--replace", help="Take this dictionary for the one that the kit has.")
    ] = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """Compare the table, as site.toml maps it, with a dictionary, and take that for the site's own if it fits."""
    from fedsvd.service.registrations import register as registered
    from fedsvd.service.site import Site
    from fedsvd.tasks.surface import Surface

    site = Site.at(kit)
    found = registered(site, file, dictionary, replace)
    refused = any(each.refused for each in found.found)
    record: dict[str, Any] = {
        "registered": not refused,
        "dictionary": found.dictionary.digest,
        "records": found.records,
        **shortfall_record(found.found, Surface.SITE),
    }

    def show(console: Console) -> None:
        show_shortfalls(console, found.found, Surface.SITE)
        if not refused:
            console.print(facts({"registered": f"{found.records} records", "dictionary": found.dictionary.shown}))

    Output(format).answer(record, show)
    if refused:
        raise typer.Exit(FAILED)


@table.command()
def history(kit: KitOption, format: FormatOption = Format.TEXT) -> None:
    """List registrations, and the studies to which this site brought a table."""
    from fedsvd.service.registrations import history as listed
    from fedsvd.service.site import Site

    found = listed(Site.at(kit))
    rows = [(each["when"], each["event"], _about(each)) for each in found]
    Output(format).answer(
        {"history": found}, lambda console: console.print(listing(("when", "what", "of"), rows) if rows else "nothing")
    )


@table.command()
def forget(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="The id of a study in the history, or its beginning.")],
    kit: KitOption,
    format: FormatOption = Format.TEXT,
) -> None:
    """Forget a study that began 30 days ago or earlier: later ones are not compared with it. The audit log says so."""
    from fedsvd.service.registrations import forget as forgotten
    from fedsvd.service.site import Site

    run = forgotten(Site.at(kit), study)
    text = f"forgotten: {run}. What it released together with a later study is compared no more"
    Output(format).answer({"forgotten": run}, lambda console: console.print(text))


def _about(record: dict[str, Any]) -> str:
    if record["event"] == "registered":
        return f"{record['file']}, {record['records']} records, dictionary {record['dictionary'][:12]}"
    return str(record.get("run", ""))
