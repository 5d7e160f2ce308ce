"""``fedsvd dictionary``: a consortium's codebook, proposed from a table and checked."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedsvd.cli.group import FAILED, Group
from fedsvd.cli.options import FormatOption, Scratch
from fedsvd.cli.output import Format, Output, facts, listing

dictionary = Group(help="A consortium's codebook: propose one, check one.")

MapOption = Annotated[
    Path | None, typer.Option("--map", metavar="FILE", help="How the table is mapped: a file with the keys of [table].")
]


@dictionary.command()
def propose(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A table, as a job names it.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Where the dictionary goes; standard output otherwise.")
    ] = None,
    name: Annotated[str, typer.Option("--name", help="The consortium's name for it.")] = "",
    least_count: Annotated[
        int, typer.Option("--least-count", min=2, help="Fewest records that anything is said of.")
    ] = 5,
    map: MapOption = None,
    scratch: Scratch = None,
) -> None:
    """Write a first dictionary from a table; what it leaves out is said here, to its owner alone."""
    # Imported here, as in every command: --help needs no reader of files.
    from fedsvd.errors import StorageError
    from fedsvd.prepare.mapped import open_mapped
    from fedsvd.prepare.propose import propose as proposed
    from fedsvd.prepare.table_map import NOTHING, read_map
    from fedsvd.tasks.surface import Surface, spelt

    if out is not None and out.exists():
        raise StorageError(f"{out} is there already, and is left as it is", "name another file")
    found = proposed(open_mapped(file, NOTHING if map is None else read_map(map), scratch), name, least_count)
    if out is None:
        typer.echo(found.text, nl=False)
    else:
        out.write_text(found.text, encoding="utf-8")
        typer.echo(f"written to {out}: {len(found.dictionary.columns)} columns; read it before anyone else does")
    for note in found.notes:
        typer.echo(f"for you alone: {spelt(note, Surface.OPTIONS)}", err=True)


@dictionary.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="DICTIONARY", help="A dictionary.toml.")],
    table: Annotated[str | None, typer.Argument(metavar="FILE", help="A table to compare with it.")] = None,
    map: MapOption = None,
    scratch: Scratch = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Check a dictionary, and where a table is named whether it fits; exit code 1 when it does not."""
    from fedsvd.prepare.described import shortfalls
    from fedsvd.prepare.dictionary import read_dictionary
    from fedsvd.prepare.mapped import open_mapped
    from fedsvd.prepare.table_map import NOTHING, read_map
    from fedsvd.tasks.surface import Surface

    found = read_dictionary(file)
    short = []
    if table is not None:
        short = shortfalls(open_mapped(table, NOTHING if map is None else read_map(map), scratch), found, by_name=True)
    kinds = [column.holds for column in found.described.values()]
    record: dict[str, Any] = {
        "name": found.name,
        "digest": found.digest,
        "columns": len(kinds),
        "numbers": kinds.count("number"),
        "categories": kinds.count("category"),
        "groups": list(found.groups),
        "views": {view: len(names) for view, names in found.views.items()},
        **shortfall_record(short, Surface.OPTIONS),
    }

    def show(console: Console) -> None:
        columns = "any columns of numbers" if found.takes_any else f"{len(kinds)}: {kinds.count('number')} numbers, "
        columns += "" if found.takes_any else f"{kinds.count('category')} categories, {kinds.count('text')} of text"
        about = {"dictionary": found.name or "without a name", "digest": found.digest, "columns": columns}
        console.print(facts(about | ({"groups": ", ".join(found.groups)} if found.groups else {})))
        if table is not None:
            show_shortfalls(console, short, Surface.OPTIONS)

    Output(format).answer(record, show)
    if any(each.refused for each in short):
        raise typer.Exit(FAILED)


def shortfall_record(found: Any, surface: Any) -> dict[str, Any]:
    """What of a table falls short, as JSON, in the words of a surface."""
    from fedsvd.tasks.surface import spelt

    keys = ("column", "text", "refused")
    return {
        "shortfalls": [{key: getattr(each, key) for key in keys} | {"fix": spelt(each.fix, surface)} for each in found]
    }


def show_shortfalls(console: Console, found: Any, surface: Any) -> None:
    """The same for a person: what a study would refuse first."""
    from fedsvd.tasks.surface import spelt

    refused, other = [each for each in found if each.refused], [each for each in found if not each.refused]
    for each in refused:
        console.print(f"A study would refuse: {spelt(str(each), surface)}.")
    if other:
        console.print(listing(("column", "to know"), [(each.column, each.text) for each in other]))
    console.print("The table fits the dictionary." if not refused else f"{len(refused)} to put right before a study.")
